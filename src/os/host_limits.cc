#include "os/host_limits.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/resource.h>
#if __has_include(<sys/single_threaded.h>)  // glibc 2.32
#include <sys/single_threaded.h>
#endif
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "os/proc_text.h"

namespace headrace::os {
namespace {

std::optional<std::uint64_t> soft_limit(decltype(RLIMIT_NOFILE) which) noexcept {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

std::string kernel_name() {
  utsname name{};
  if (::uname(&name) != 0) return "unknown";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

unsigned online_cpus() noexcept { return static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

unsigned numa_node_count() {
  const auto text = read_first_line("/sys/devices/system/node/online");
  const auto nodes = text ? parse_cpu_list(*text) : std::nullopt;
  return nodes ? std::max(1u, static_cast<unsigned>(nodes->size())) : 1u;
}

MemoryAmount host_memory() {
  const auto text = read_text_file("/proc/meminfo");
  if (!text) return {};
  return {1024 * labelled_number(*text, "MemTotal").value_or(0),
          1024 * labelled_number(*text, "MemAvailable").value_or(0)};
}

std::uint64_t machine_memory_bytes() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t pinned_bytes() {
  const auto text = read_text_file("/proc/vmstat");
  if (!text) return 0;
  const std::uint64_t acquired = labelled_number(*text, "nr_foll_pin_acquired").value_or(0);
  const std::uint64_t released = labelled_number(*text, "nr_foll_pin_released").value_or(0);
  return (acquired - std::min(acquired, released)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<std::uint64_t> memlock_limit_bytes() noexcept { return soft_limit(RLIMIT_MEMLOCK); }
std::optional<std::uint64_t> open_files_limit() noexcept { return soft_limit(RLIMIT_NOFILE); }

void reserve_open_files(std::uint64_t most) noexcept {
  const std::uint64_t count = std::min({most, open_files_limit().value_or(most), std::uint64_t{INT_MAX}});
  if (count == 0) return;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  // Duplicating a descriptor to this number enlarges the table.
  const int last = ::fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(count - 1));
  if (last >= 0) ::close(last);
  ::close(fd);
}

bool has_one_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

std::optional<unsigned> io_uring_disabled() {
  const auto value = read_number("/proc/sys/kernel/io_uring_disabled");
  if (!value || *value > 2) return std::nullopt;
  return static_cast<unsigned>(*value);
}

std::string shared_library_path(const char* name) {
  void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  std::string path = name;
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) path = map->l_name;
  ::dlclose(library);
  return path;
}

std::string_view parse_nvidia_driver(std::string_view text) noexcept {
  std::string_view line;
  if (!next_line(text, line)) return {};
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep ...": takes the first word of
  // digits and points.
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (word.find('.') != std::string_view::npos && word.find_first_not_of("0123456789.") == std::string_view::npos) {
      return word;
    }
  }
  return {};
}

std::string nvidia_driver_version() {
  if (auto version = read_first_line("/sys/module/nvidia/version")) return std::move(*version);
  const auto text = read_text_file("/proc/driver/nvidia/version");
  return text ? std::string(parse_nvidia_driver(*text)) : std::string();
}

bool module_listed(std::string_view proc_modules, std::string_view name) noexcept {
  std::string_view line;
  while (next_line(proc_modules, line)) {
    if (next_word(line) == name) return true;
  }
  return false;
}

}  // namespace headrace::os
