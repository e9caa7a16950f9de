#include "store/store.h"

#include <libdeflate.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <new>

#include "base/descriptors.h"
#include "base/file_read.h"

// clang-format off: needs what is declared above
#include "builtin_store.inc"
// clang-format on

namespace headrace::store {

void Object::close_own() noexcept {
  if (fd >= 0 && !fd_is_stores) {
    base::close_descriptor(fd);
    base::Descriptors::of_process().closed();
  }
  fd = -1;
  fd_is_stores = false;
}

void Object::close() noexcept {
  close_own();
  memory = nullptr;
  size_bytes = 0;
  base = 0;
  packed = kNotPacked;
  crc32.reset();
}

void Object::own_descriptor(int descriptor) noexcept {
  fd = descriptor;
  base::Descriptors::of_process().opened();
}

void Object::replace_descriptor(int other) noexcept {
  base::Descriptors::of_process().opened();  // first: nobody is to take the place
  close_own();
  fd = other;
}

Status Object::check_range(std::uint64_t offset, std::uint64_t length) const {
  if (offset <= size_bytes && length <= size_bytes - offset) return {};
  return Status(Code::kShort, Layer::kStore, "the object ends at byte " + std::to_string(size_bytes))
      .with_range(offset, length);
}

Result<std::span<const std::byte>> Object::view(std::uint64_t offset, std::uint64_t length) const {
  HEADRACE_TRY(check_range(offset, length));
  return std::span<const std::byte>(memory + offset, static_cast<std::size_t>(length));
}

Status Object::read(std::uint64_t offset, std::span<std::byte> out) const {
  HEADRACE_TRY(check_range(offset, out.size()));
  if (memory != nullptr) {
    if (!out.empty()) std::memcpy(out.data(), memory + offset, out.size());
    return {};
  }
  return base::read_exactly(fd, offset, out, base);
}

Status Object::check_whole(std::span<const std::byte> whole) const {
  if (!crc32) return {};
  const std::uint32_t found = libdeflate_crc32(0, whole.data(), whole.size());
  if (found == *crc32) return {};
  char text[96];
  std::snprintf(text, sizeof text, "the object's CRC-32 is %08x, its store says %08x", found, *crc32);
  return Status(Code::kCorrupt, Layer::kStore, text).with_range(0, whole.size());
}

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

Status read_checked(Store& store, const Object& object, std::uint64_t offset, std::span<std::byte> out,
                    base::PageBuffer& scratch) {
  if (object.is_packed()) return store.unpack(object, out, scratch);
  HEADRACE_TRY(object.read(offset, out));
  return offset == 0 && out.size() == object.size_bytes ? object.check_whole(out) : Status();
}

Result<Bytes> get_opened(Store& store, std::string_view key, std::uint64_t limit, base::Charge* charge) {
  HEADRACE_TRY(check_key(key));
  try {
    const std::string terminated(key);
    Object object;
    HEADRACE_TRY(store.open(terminated, object).with_key(key));
    if (object.size_bytes > limit) {
      return Status(Code::kResourceExhausted, Layer::kStore,
                    "object of " + std::to_string(object.size_bytes) + " bytes is above the limit of " +
                        std::to_string(limit))
          .with_key(key);
    }
    if (charge != nullptr) HEADRACE_TRY(charge->take(object.size_bytes, "an object").with_key(key));
    Bytes bytes(static_cast<std::size_t>(object.size_bytes));
    base::Charge unpacking(charge != nullptr ? charge->budget() : nullptr);
    if (object.is_packed()) {
      HEADRACE_TRY(unpacking.take(Store::most_packed_bytes(object.size_bytes), "unpacking an object").with_key(key));
    }
    base::PageBuffer scratch;
    HEADRACE_TRY(read_checked(store, object, 0, bytes, scratch).with_key(key));
    return bytes;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

std::span<const StoreRow> stores() {
  static constexpr std::initializer_list<StoreRow> kRows = {HEADRACE_BUILTIN_ROWS};
  return {kRows.begin(), kRows.size()};
}

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
    if (scheme == row.scheme) return row.open(location, options);
    known += std::string(known.empty() ? "" : ", ") + row.scheme;
  }
  return Status(Code::kUnsupported, Layer::kStore,
                "no store for the scheme '" + std::string(scheme) + "'; this build has " + known);
}

}  // namespace headrace::store
