#include "http/surroundings.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "os/file_handle.h"
#include "os/file_read.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kMostFileBytes = 1 << 20;

std::optional<std::string> text_of(const std::string& path) {
  os::FileHandle file;
  std::uint64_t bytes = 0;
  if (!os::FileHandle::open(path, {}, file).ok() || !file.size(bytes).ok() || bytes > kMostFileBytes) {
    return std::nullopt;
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (!os::read_exactly(file.fd(), 0, std::as_writable_bytes(std::span(text))).ok()) return std::nullopt;
  return text;
}

}  // namespace

std::string Surroundings::first_of(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (std::string value = secure_getenv(name); !value.empty()) return value;
  }
  return {};
}

std::string Surroundings::home_file(const char* variable, const char* usual) const {
  std::string path = secure_getenv(variable);
  const std::string home = secure_getenv("HOME");
  if (path.empty() && !home.empty()) path = home + usual;
  if (path.starts_with("~/")) path.replace(0, 1, home);
  return path.empty() ? std::string() : file(path).value_or("");
}

Surroundings Surroundings::of_process() {
  auto variables = std::make_shared<std::map<std::string, std::string, std::less<>>>();
  // As secure_getenv(): none where the program has more rights than whoever started it.
  if (::getauxval(AT_SECURE) == 0 && ::environ != nullptr) {
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t equal = text.find('=');
      if (equal == std::string_view::npos) continue;
      for (const std::string_view prefix : {"AWS_", "AZURE_", "GOOGLE_", "GCE_", "GS_", "STORAGE_", "HOME="}) {
        if (!text.starts_with(prefix)) continue;
        (*variables)[std::string(text.substr(0, equal))] = text.substr(equal + 1);
        break;
      }
    }
  }
  return {[variables](const char* name) {
            const auto found = variables->find(std::string_view(name));
            return found == variables->end() ? std::string() : found->second;
          },
          &text_of};
}

}  // namespace headrace::http
