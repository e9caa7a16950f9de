#include "zip_unpack.h"

#include <libdeflate.h>

#include <cstring>
#include <string>

namespace headrace::store {
namespace {

struct Inflater {
  Inflater() : state(libdeflate_alloc_decompressor()) {}
  ~Inflater() { libdeflate_free_decompressor(state); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  libdeflate_decompressor* const state;
};

Status damaged(const ZipEntry& entry, const std::string& what) {
  const char* const kind = entry.method == ZipEntry::kDeflated ? "deflated" : "stored";
  return Status(Code::kCorrupt, Layer::kStore, std::string("ZIP: the ") + kind + " entry " + what);
}

Status inflate(const ZipEntry& entry, std::span<const std::byte> packed, std::span<std::byte> out) {
  static thread_local Inflater inflater;
  if (inflater.state == nullptr) return Status::out_of_memory();
  std::size_t in = 0, made = 0;
  std::byte nothing{};  // libdeflate needs an address even for no bytes
  const libdeflate_result result = libdeflate_deflate_decompress_ex(
      inflater.state, packed.data(), packed.size(), out.empty() ? &nothing : out.data(), out.size(), &in, &made);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
    return damaged(entry, "unpacks to more than its " + std::to_string(out.size()) + " bytes");
  }
  if (result != LIBDEFLATE_SUCCESS) return damaged(entry, "is not a deflate stream");
  if (made != out.size()) {
    return damaged(entry,
                   "unpacks to " + std::to_string(made) + " instead of " + std::to_string(out.size()) + " bytes");
  }
  if (in != packed.size()) return damaged(entry, "has bytes after its deflate stream");
  return {};
}

}  // namespace

Status unpack_zip_entry(const ZipEntry& entry, std::span<const std::byte> packed, std::span<std::byte> out) {
  if (entry.method == ZipEntry::kDeflated) {
    HEADRACE_TRY(inflate(entry, packed, out));
  } else if (packed.size() != out.size()) {
    return damaged(entry, "has two sizes");
  } else if (!out.empty()) {
    std::memcpy(out.data(), packed.data(), out.size());
  }
  return check_zip_sum(entry, out);
}

Status check_zip_sum(const ZipEntry& entry, std::span<const std::byte> bytes) {
  if (libdeflate_crc32(0, bytes.data(), bytes.size()) == entry.crc32) return {};
  return damaged(entry, "does not match its CRC-32");
}

}  // namespace headrace::store
