#include "transfer/placement/placement_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/json.h"
#include "os/file_handle.h"
#include "os/file_read.h"
#include "os/proc_text.h"
#include "os/replace_file.h"

namespace headrace::transfer {
namespace {

constexpr int kVersion = 1;
constexpr double kMaxRate = 1e15;  // bytes a second

Status not_such_a_file(const char* why) {
  return Status(Code::kCorrupt, Layer::kTransfer, std::string("not a placement file: ") + why);
}

bool usable(double rate) { return rate >= 1 && rate < kMaxRate; }

bool is_rate(const base::Json& value) { return value.is_number() && usable(value.get<double>()); }

// A variable's value if it is an absolute path, else "".
std::string absolute(const char* value) { return value != nullptr && value[0] == '/' ? value : ""; }

std::string cpu_model() {
#if defined(__x86_64__)
  // The brand string: 48 bytes from three leaves.
  unsigned words[12] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* w = words + std::size_t{4} * leaf;
    if (::__get_cpuid(0x80000002u + leaf, w, w + 1, w + 2, w + 3) == 0) return "";
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  return std::string(os::trimmed(text));
#else
  return os::read_first_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1").value_or("");
#endif
}

}  // namespace

Result<KnownRates> PlacementFile::parse(std::string_view text) {
  base::JsonLimits limits;
  limits.max_bytes = kMaxFileBytes;
  limits.max_depth = 4;
  HEADRACE_TRY_ASSIGN(const base::Json json, base::parse_json(text, limits));
  if (!json.is_object() || !json.contains("version") || !json.contains("kinds") || json.size() != 2) {
    return not_such_a_file("it must be an object of version and kinds");
  }
  if (json["version"] != kVersion) {
    return Status(Code::kUnsupported, Layer::kTransfer, "a placement file of an unsupported version");
  }
  const base::Json& kinds = json["kinds"];
  if (!kinds.is_object()) return not_such_a_file("kinds must be an object");
  if (kinds.size() > kMaxKinds) return not_such_a_file("it names too many kinds");
  KnownRates rates;
  for (const auto& [kind, pair] : kinds.items()) {
    if (kind.size() > kMaxKindBytes) return not_such_a_file("a kind's name is too long");
    if (!pair.is_array() || pair.size() != 2 || !is_rate(pair[0]) || !is_rate(pair[1])) {
      return not_such_a_file("a kind must have two rates of at least 1");
    }
    rates.emplace(kind, PlacementRates{pair[0].get<double>(), pair[1].get<double>()});
  }
  return rates;
}

std::string PlacementFile::text_of(const KnownRates& rates) {
  base::Json kinds = base::Json::object();
  for (const auto& [kind, pair] : rates) kinds[kind] = {std::round(pair[0]), std::round(pair[1])};
  const base::Json json = {{"version", kVersion}, {"kinds", std::move(kinds)}};
  // A name that is not UTF-8 does not survive the file, and is learnt again.
  return json.dump(1, ' ', false, base::Json::error_handler_t::replace) + '\n';
}

KnownRates PlacementFile::read() const {
  if (path_.empty()) return {};
  os::FileHandle file;
  if (!os::FileHandle::open(path_, {}, file).ok() || !file.is_regular()) return {};
  struct stat about;
  if (::fstat(file.fd(), &about) != 0 || about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return {};
  }
  if (about.st_size <= 0 || static_cast<std::uint64_t>(about.st_size) > kMaxFileBytes) return {};
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  if (!os::read_exactly(file.fd(), 0, std::as_writable_bytes(std::span(text))).ok()) return {};
  Result<KnownRates> rates = parse(text);
  return rates.ok() ? std::move(rates).value() : KnownRates();
}

Status PlacementFile::add(const KnownRates& learnt) const {
  if (path_.empty() || learnt.empty()) return {};
  KnownRates all;
  for (const auto& [kind, pair] : learnt) {
    const bool fits = kind.size() <= kMaxKindBytes && all.size() < kMaxKinds;
    if (fits && usable(pair[0]) && usable(pair[1])) all.emplace(kind, pair);
  }
  // Kinds that do not fit any more are learnt again when needed.
  for (const auto& [kind, pair] : read()) {
    if (all.size() < kMaxKinds) all.emplace(kind, pair);
  }
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  const std::string text = text_of(all);
  return os::replace_file(path_, std::as_bytes(std::span(text)), os::FileAccess::kPrivate);
}

std::string placement_file_path(const std::string& option) {
  if (option != "auto") return option;
  if (const char* named = ::secure_getenv("HEADRACE_PLACEMENT_FILE"); named != nullptr && named[0] != '\0') {
    return absolute(named);
  }
  std::string folder = absolute(::secure_getenv("XDG_CACHE_HOME"));
  if (folder.empty()) {
    const std::string home = absolute(::secure_getenv("HOME"));
    if (home.empty()) return "";
    folder = home + "/.cache";
  }
  return folder + "/headrace/placement.json";
}

std::string placement_machine(unsigned threads) {
  return cpu_model() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

}  // namespace headrace::transfer
