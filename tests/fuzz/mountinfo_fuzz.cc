// A mount table: whatever its text, each mount found has a type and a mount point, and malformed lines do not hide
// well-formed ones. Also the short texts of /proc and /sys: the result is part of the text, or a number within bounds.
#include <string>

#include "os/filesystem.h"
#include "os/host_limits.h"
#include "os/proc_text.h"
#include "os/sys_devices.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace::os;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto mounts = parse_mountinfo(text);
  std::size_t lines = 0;
  for (const char c : text) lines += c == '\n';
  FUZZ_CHECK(mounts.size() <= lines + 1);
  for (const Mount& mount : mounts) FUZZ_CHECK(!mount.type.empty() && !mount.mount_point.empty());

  const auto more = parse_mountinfo(std::string(text) + "\n27 1 254:0 / /sys\\040x rw - ext4 /dev/vda rw\n");
  FUZZ_CHECK(more.size() == mounts.size() + 1 && more.back().mount_point == "/sys x");

  (void)labelled_number(text, "mnt_id");
  (void)module_listed(text, "nvidia_fs");
  FUZZ_CHECK(active_scheduler(text).size() <= text.size());
  FUZZ_CHECK(parse_nvidia_driver(text).size() <= text.size());
  const double speed = parse_link_speed(text);
  FUZZ_CHECK(speed >= 0 && speed < 1000);
  return 0;
}
