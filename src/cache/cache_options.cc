#include "cache/cache_options.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/checked.h"

namespace headrace::cache {
namespace {

Status refuse(std::string what) { return Status(Code::kInvalidArgument, Layer::kStore, std::move(what)); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// The option's value, otherwise the variable's; `source` names it in messages.
std::string value_of(std::span<const StorageOption> given, const char* name, const char* variable,
                     std::string& source) {
  source = std::string("the storage option '") + name + "'";
  for (const StorageOption& option : given) {
    if (!option.value.empty() && lower(option.name) == name) return option.value;
  }
  const char* const text = variable != nullptr ? ::secure_getenv(variable) : nullptr;
  if (text == nullptr || text[0] == '\0') return {};
  source = variable;
  return text;
}

}  // namespace

std::optional<std::uint64_t> parse_cache_size(std::string_view text) noexcept {
  std::uint64_t count = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, count);
  if (error != std::errc() || text_end - end > 1) return std::nullopt;
  if (end == text_end) return count;
  const std::string_view units = "KMGT";
  const char unit = *end >= 'a' && *end <= 'z' ? static_cast<char>(*end - 'a' + 'A') : *end;
  const std::size_t power = units.find(unit);
  if (power == std::string_view::npos) return std::nullopt;
  return base::checked_mul(count, std::uint64_t{1024} << (10 * power));
}

Result<std::optional<CacheOptions>> find_cache_options(std::span<const StorageOption> given) {
  CacheOptions options;
  std::string source;
  const std::string directory = value_of(given, "cache_dir", "HEADRACE_CACHE_DIR", source);
  if (directory.empty() || directory == "off") return std::optional<CacheOptions>();
  if (directory.find("://") != std::string::npos)
    return refuse(source + " must be a directory of this machine, not a URL");
  std::error_code error;
  options.directory = std::filesystem::absolute(directory, error).lexically_normal().string();
  if (error) return refuse(source + " is relative to a directory that no longer exists: give an absolute path");
  if (const std::string text = value_of(given, "cache_bytes", "HEADRACE_CACHE_BYTES", source); !text.empty()) {
    const auto bytes = parse_cache_size(text);
    if (!bytes || *bytes == 0) {
      return refuse(source +
                    " must be a number of bytes above 0, such as 500000000, or 64G with K, M, G or T of 1,024");
    }
    options.most_bytes = *bytes;
  }
  if (const std::string text = value_of(given, "cache_trust", nullptr, source); !text.empty()) {
    if (text != "object" && text != "store") return refuse(source + " must be 'object' or 'store'");
    options.trust = text == "store" ? CacheTrust::kStore : CacheTrust::kObject;
  }
  if (const std::string text = value_of(given, "cache_policy", nullptr, source); !text.empty()) {
    if (text != "keep" && text != "recent") return refuse(source + " must be 'keep' or 'recent'");
    options.policy = text == "recent" ? CachePolicy::kRecent : CachePolicy::kKeep;
  }
  if (const std::string text = value_of(given, "cache_max_age", nullptr, source); !text.empty()) {
    double seconds = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (failed != std::errc() || end != text.data() + text.size() || !(seconds > 0) || seconds > 1e9) {
      return refuse(source + " must be a time in seconds above 0");
    }
    options.max_age_ns = static_cast<std::uint64_t>(seconds * 1e9) + 1;
  }
  return std::optional(std::move(options));
}

}  // namespace headrace::cache
