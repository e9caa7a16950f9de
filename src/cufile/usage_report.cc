#include "cufile/usage_report.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cufile/driver.h"

namespace headrace::cufile {
namespace {

void write_file(const char* folder, const char* suffix, std::string_view text) noexcept {
  try {
    const std::string path = std::string(folder) + "/" + std::to_string(::getpid()) + suffix;
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
    ::close(fd);
  } catch (...) {  // no report
  }
}

// Not in set-user-id programs, whose environment is controlled by another user.
const char* report_folder() noexcept {
  const char* folder = ::secure_getenv("HEADRACE_CUFILE_REPORT");
  return folder != nullptr && folder[0] == '/' ? folder : nullptr;
}

std::string program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

__attribute__((constructor)) void note_loaded() {
  const char* folder = report_folder();
  if (folder == nullptr) return;
  try {
    write_file(folder, ".loaded", own_library());
  } catch (...) {
  }
}

// Other threads may still be in calls, so only atomics are read here.
__attribute__((destructor)) void note_usage() {
  const char* folder = report_folder();
  if (folder == nullptr) return;
  try {
    std::string text = "program " + program() + "\n";
    if (const std::string other = other_library(); !other.empty()) text += "other_library " + other + "\n";
    write_file(folder, ".report", text + Driver::get().statistics.report());
  } catch (...) {
  }
}

}  // namespace

std::string own_library() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&own_library), &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::string other_library() {
  struct Found {
    std::string own, other;
  } found{own_library(), {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& into = *static_cast<Found*>(data);
        const std::string_view name = info->dlpi_name != nullptr ? info->dlpi_name : "";
        const auto slash = name.rfind('/');
        const std::string_view file = slash == std::string_view::npos ? name : name.substr(slash + 1);
        if (file.substr(0, 12) == "libcufile.so" && name != into.own) into.other = name;
        return 0;
      },
      &found);
  return found.other;
}

}  // namespace headrace::cufile
