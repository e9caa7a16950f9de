#include "http/surroundings.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string_view>

#include "http/cloud_signs.h"
#include "http/program_output.h"
#include "os/file_handle.h"
#include "os/file_read.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

// Reads until EOF: st_size of a procfs or sysfs file is not its content length.
std::optional<std::string> text_of(const std::string& path) {
  os::FileHandle file;
  if (!os::FileHandle::open(path, {}, file).ok() || !file.is_regular()) return std::nullopt;
  std::string text;
  char block[4096];
  unsigned interrupted = 0;
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = ::pread(file.fd(), block, sizeof block, static_cast<off_t>(text.size()));
    if (got == 0) return text;
    if (got > 0) {
      text.append(block, static_cast<std::size_t>(got));
    } else if (errno != EINTR || ++interrupted > os::kMaxInterruptions) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string Surroundings::first_of(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (std::string value = secure_getenv(name); !value.empty()) return value;
  }
  return {};
}

std::string Surroundings::home_file(const char* variable, const char* default_path) const {
  std::string path = secure_getenv(variable);
  const std::string home = secure_getenv("HOME");
  if (path.empty() && !home.empty()) path = home + default_path;
  if (path.starts_with("~/")) path.replace(0, 1, home);
  return path.empty() ? std::string() : file(path).value_or("");
}

Surroundings Surroundings::of_process(std::shared_ptr<const std::atomic<bool>> stop) {
  auto variables = std::make_shared<std::map<std::string, std::string, std::less<>>>();
  auto environment = std::make_shared<std::vector<std::string>>();
  // As secure_getenv(): the environment is ignored if the program has elevated privileges.
  if (::getauxval(AT_SECURE) == 0 && ::environ != nullptr) {
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      environment->emplace_back(text);
      const std::size_t equal = text.find('=');
      if (equal == std::string_view::npos) continue;
      for (const std::string_view prefix :
           {"AWS_", "AZURE_", "GOOGLE_", "GCE_", "GS_", "STORAGE_", "IDENTITY_", "CLOUDSDK_", "HOME="}) {
        if (!text.starts_with(prefix)) continue;
        (*variables)[std::string(text.substr(0, equal))] = text.substr(equal + 1);
        break;
      }
    }
  }
  if (stop == nullptr) stop = std::make_shared<const std::atomic<bool>>(false);
  return {[variables](const char* name) {
            const auto found = variables->find(std::string_view(name));
            return found == variables->end() ? std::string() : found->second;
          },
          &text_of, &SilentServices::of_process(),
          [environment, stop = std::move(stop)](const std::vector<std::string>& words) {
            return run_program({words, *environment}, *stop);
          }};
}

}  // namespace headrace::http
