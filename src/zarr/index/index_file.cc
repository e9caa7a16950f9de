#include "zarr/index/index_file.h"

#include <algorithm>
#include <cstring>

namespace headrace::zarr {
namespace {

constexpr char kMagic[8] = "hrindex";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 64, kRecordBytes = 32, kCodecAt = 32, kCodecBytes = 24, kChecksumAt = 56;

std::uint64_t load(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}
void store(std::span<std::byte> bytes, std::size_t at, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

// FNV-1a over words of 8 bytes, without the checksum field.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 14695981039346656037u;
  const auto add = [&](std::uint64_t word) {
    sum = (sum ^ word) * 1099511628211u;
    sum ^= sum >> 32;
  };
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    if (at != kChecksumAt) add(load(bytes, at, std::min<std::size_t>(8, bytes.size() - at)));
  }
  add(bytes.size());
  return sum;
}

Status corrupt(const char* what) {
  return Status(Code::kCorrupt, Layer::kZarr, std::string("the file of decode indices ") + what);
}

}  // namespace

std::vector<std::byte> write_index_file(std::string_view codec, std::span<const IndexRecord> records,
                                        std::span<const std::byte> indices) {
  std::vector<std::byte> out(kHeaderBytes + records.size() * kRecordBytes + indices.size());
  std::memcpy(out.data(), kMagic, sizeof(kMagic));
  store(out, 8, kVersion, 4);
  store(out, 16, records.size(), 8);
  store(out, 24, indices.size(), 8);
  std::memcpy(out.data() + kCodecAt, codec.data(), std::min(codec.size(), kCodecBytes - 1));
  std::size_t at = kHeaderBytes;
  for (const IndexRecord& record : records) {
    store(out, at, record.object, 8);
    store(out, at + 8, record.offset, 8);
    store(out, at + 16, record.encoded_bytes, 8);
    store(out, at + 24, record.bytes, 4);
    at += kRecordBytes;
  }
  if (!indices.empty()) std::memcpy(out.data() + at, indices.data(), indices.size());
  store(out, kChecksumAt, checksum(out), 8);
  return out;
}

Result<IndexFile> parse_index_file(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    return corrupt("is not one (bad magic)");
  }
  if (load(bytes, 8, 4) != kVersion) {
    return Status(Code::kUnsupported, Layer::kZarr,
                  "the file of decode indices is of version " + std::to_string(load(bytes, 8, 4)));
  }
  const std::uint64_t count = load(bytes, 16, 8), index_bytes = load(bytes, 24, 8);
  const std::uint64_t room = bytes.size() - kHeaderBytes;
  if (count > room / kRecordBytes || index_bytes != room - count * kRecordBytes)
    return corrupt("has an unexpected length");
  if (load(bytes, kChecksumAt, 8) != checksum(bytes)) return corrupt("is damaged: checksum mismatch");
  IndexFile out;
  const auto* const name = reinterpret_cast<const char*>(bytes.data()) + kCodecAt;
  out.codec.assign(name, std::find(name, name + kCodecBytes, '\0'));
  out.indices = bytes.subspan(bytes.size() - static_cast<std::size_t>(index_bytes));
  out.records.resize(static_cast<std::size_t>(count));
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < out.records.size(); ++i) {
    const std::size_t from = kHeaderBytes + i * kRecordBytes;
    IndexRecord& record = out.records[i];
    record.object = load(bytes, from, 8);
    record.offset = load(bytes, from + 8, 8);
    record.encoded_bytes = load(bytes, from + 16, 8);
    record.bytes = static_cast<std::uint32_t>(load(bytes, from + 24, 4));
    record.at = at;
    if (record.bytes > index_bytes - at) return corrupt("has records that are longer than it");
    at += record.bytes;
  }
  if (at != index_bytes) return corrupt("has trailing bytes that belong to no record");
  return out;
}

}  // namespace headrace::zarr
