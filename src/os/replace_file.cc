#include "os/replace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "os/file_handle.h"

namespace headrace::os {

Status replace_file(const std::string& path, std::span<const std::byte> bytes, FileAccess access) {
  static std::atomic<unsigned> counter{0};
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, ".%d-%u-%llx", static_cast<int>(::getpid()), counter.fetch_add(1),
                static_cast<unsigned long long>(base::now_ns()));
  const std::string temporary = path + suffix;
  FileHandle file;
  HEADRACE_TRY(FileHandle::open(temporary, {.write = true, .create = true, .exclusive = true}, file));
  std::uint64_t calls = 0;
  Status status;
  if (access == FileAccess::kPrivate && ::fchmod(file.fd(), S_IRUSR | S_IWUSR) != 0) {
    status = Status(Code::kIo, Layer::kBase, "cannot set a file's mode").with_key(temporary).with_errno(errno);
  }
  if (status.ok()) status = write_exactly(file.fd(), 0, bytes.data(), bytes.size(), calls);
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(temporary, path, error);
    if (error) {
      status = Status(Code::kIo, Layer::kBase, "cannot rename the new file").with_key(path).with_errno(error.value());
    }
  }
  if (!status.ok()) std::filesystem::remove(temporary, error);
  return status;
}

}  // namespace headrace::os
