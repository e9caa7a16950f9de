#include "store/store.h"

#include <algorithm>
#include <initializer_list>
#include <new>

// clang-format off: needs what is declared above
#include "builtin_store.inc"
// clang-format on

namespace headrace::store {

bool valid_key(std::string_view key) noexcept {
  if (key.empty() || key.size() > 4096) return false;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= key.size(); ++i) {
    if (i < key.size() && key[i] != '/') {
      if (key[i] == '\0' || key[i] == '\\') return false;
      continue;
    }
    const std::string_view part = key.substr(start, i - start);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    start = i + 1;
  }
  return true;
}

Status check_key(std::string_view key) {
  if (valid_key(key)) return {};
  return Status(Code::kInvalidArgument, Layer::kStore,
                "not a valid key: components must be non-empty, not '.' or '..', without backslash or NUL")
      .with_key(key.substr(0, 200));
}

Status read_checked(Store& store, const ByteSource& object, std::uint64_t offset, std::span<std::byte> out,
                    os::PageBuffer& scratch) {
  if (object.offers(Offer::kWhole)) return store.unpack(object, out, scratch);
  HEADRACE_TRY(object.read(offset, out));
  return object.check_read(offset, out);
}

Result<Bytes> Store::get(std::string_view key, std::uint64_t limit, base::Charge* charge) {
  HEADRACE_TRY(check_key(key));
  try {
    const std::string terminated(key);
    ByteSource object;
    HEADRACE_TRY(open(terminated, object).with_key(key));
    if (object.size_bytes() > limit) {
      return Status(Code::kResourceExhausted, Layer::kStore,
                    "object of " + std::to_string(object.size_bytes()) + " bytes is above the limit of " +
                        std::to_string(limit))
          .with_key(key);
    }
    if (charge != nullptr) HEADRACE_TRY(charge->take(object.size_bytes(), "an object").with_key(key));
    Bytes bytes(static_cast<std::size_t>(object.size_bytes()));
    base::Charge unpacking(charge != nullptr ? charge->budget() : nullptr);
    if (object.offers(Offer::kWhole)) {
      HEADRACE_TRY(unpacking.take(max_packed_bytes(object.size_bytes()), "unpacking an object").with_key(key));
    }
    os::PageBuffer scratch;
    HEADRACE_TRY(read_checked(*this, object, 0, bytes, scratch).with_key(key));
    return bytes;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void sort_listed(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.name != b.name ? a.name < b.name : a.is_directory > b.is_directory;
  });
  entries.erase(
      std::unique(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name == b.name; }),
      entries.end());
}

bool has_object(Store& store, const std::string& key) {
  ByteSource object;
  if (!store.open(key, object).ok()) return false;
  std::byte first;
  return !object.offers(Offer::kRanges) || object.read_some(0, {&first, 1}).ok();
}

std::span<const StoreRow> stores() {
  static constexpr std::initializer_list<StoreRow> kRows = {HEADRACE_BUILTIN_ROWS};
  return {kRows.begin(), kRows.size()};
}

Status refuse_storage_options(std::string_view scheme, const StoreOptions& options) {
  if (options.storage.empty()) return {};
  return Status(Code::kInvalidArgument, Layer::kStore,
                "a store of the scheme '" + std::string(scheme) + "' takes no storage options");
}

bool is_url(std::string_view location) noexcept {
  const std::size_t mark = location.find("://");
  return mark != 0 && mark != std::string_view::npos && location.find('/') > mark;
}

std::size_t end_of_component(std::string_view url, std::string_view ending) noexcept {
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos) return mark;
  const std::size_t path_end = std::min(url.find_first_of("?#"), url.size());
  // The first component is a host or a bucket.
  for (std::size_t begin = url.find('/', mark + 3); begin < path_end;) {
    const std::size_t end = std::min(url.find('/', begin + 1), path_end);
    const std::string_view component = url.substr(begin + 1, end - begin - 1);
    if (component.size() > ending.size() && component.ends_with(ending)) return end;
    begin = end;
  }
  return std::string_view::npos;
}

namespace {

bool has_store(std::string_view scheme) {
  return std::ranges::any_of(stores(), [&](const StoreRow& row) { return scheme == row.scheme; });
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(std::string_view url, const StoreOptions& options) {
  std::string_view scheme = "file";
  std::string_view location = url;
  if (auto mark = url.find("://"); mark != std::string_view::npos) {
    scheme = url.substr(0, mark);
    location = url.substr(mark + 3);
  }
  if (location.empty()) return Status(Code::kInvalidArgument, Layer::kStore, "the store's path or URL is empty");
  std::string known;
  for (const StoreRow& row : stores()) {
    if (scheme == row.scheme) {
      if (!row.takes_storage_options) HEADRACE_TRY(refuse_storage_options(scheme, options));
      if (row.remote && options.opens_archives && end_of_component(url, ".zip") != std::string_view::npos &&
          has_store("zip")) {
        return open_store("zip://" + std::string(url), options);
      }
      return row.open(location, options);
    }
    known += std::string(known.empty() ? "" : ", ") + row.scheme;
  }
  return Status(Code::kUnsupported, Layer::kStore,
                "no store for the scheme '" + std::string(scheme) + "'; this build has " + known);
}

}  // namespace headrace::store
