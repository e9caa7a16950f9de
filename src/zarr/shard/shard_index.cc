#include "zarr/shard/shard_index.h"

#include <bit>
#include <cstring>

#include "codec/chain_encoder.h"

namespace headrace::zarr {
namespace {

constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // offset and length of an inner chunk that is not there

}  // namespace

ShardIndexFormat::ShardIndexFormat(codec::Chain index_chain, std::uint64_t entry_count, bool at_end)
    : chain_(std::move(index_chain)), entry_count_(entry_count), at_end_(at_end) {}

Result<std::uint64_t> ShardIndexFormat::position(std::uint64_t shard_bytes) const {
  if (shard_bytes < encoded_bytes()) {
    return Status(Code::kShort, Layer::kZarr,
                  "shard of " + std::to_string(shard_bytes) + " bytes is shorter than its index of " +
                      std::to_string(encoded_bytes()) + " bytes");
  }
  return at_end_ ? shard_bytes - encoded_bytes() : 0;
}

Status ShardIndexFormat::parse(std::span<const std::byte> encoded, std::uint64_t shard_bytes,
                               std::vector<ShardEntry>& entries) const {
  static_assert(std::endian::native == std::endian::little);
  entries.resize(static_cast<std::size_t>(entry_count_));
  std::vector<std::uint64_t> raw(static_cast<std::size_t>(entry_count_) * 2);
  codec::Chain::Workspace workspace = chain_.make_workspace();
  std::vector<std::byte> temporary[2];
  for (int i = 0; i < 2 && chain_.temporary_bytes() > 0; ++i) {
    temporary[i].resize(static_cast<std::size_t>(chain_.temporary_bytes()));
    workspace.temporary[i] = temporary[i];
  }
  HEADRACE_TRY(chain_.decode(encoded, std::as_writable_bytes(std::span(raw)), workspace));
  const bool swapped = chain_.layout().byte_swapped;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::uint64_t offset = raw[2 * i], length = raw[2 * i + 1];
    if (swapped) {
      offset = __builtin_bswap64(offset);
      length = __builtin_bswap64(length);
    }
    const auto bad = [&](std::string_view what) {
      return Status(Code::kCorrupt, Layer::kZarr,
                    "shard index entry " + std::to_string(i) + " " + std::string(what) + ": offset " +
                        std::to_string(offset) + ", length " + std::to_string(length) + ", shard has " +
                        std::to_string(shard_bytes) + " bytes");
    };
    if (offset == kEmpty && length == kEmpty) {
      entries[i] = {0, 0};
      continue;
    }
    if (offset == kEmpty || length == kEmpty) return bad("is half empty");
    if (length == 0) return bad("has no bytes");
    if (offset > shard_bytes || length > shard_bytes - offset) return bad("lies outside the shard");
    entries[i] = {offset, length};
  }
  return {};
}

Result<std::vector<std::byte>> ShardIndexFormat::encode(std::span<const ShardEntry> entries) const {
  std::vector<std::uint64_t> raw;
  raw.reserve(2 * entries.size());
  for (const ShardEntry& entry : entries) {
    raw.push_back(entry.length == 0 ? kEmpty : entry.offset);
    raw.push_back(entry.length == 0 ? kEmpty : entry.length);
  }
  if (chain_.layout().byte_swapped) {
    for (std::uint64_t& word : raw) word = __builtin_bswap64(word);
  }
  HEADRACE_TRY_ASSIGN(codec::ChainEncoder encoder, codec::ChainEncoder::make(chain_));
  HEADRACE_TRY_ASSIGN(const std::span<const std::byte> bytes, encoder.encode(std::as_bytes(std::span(raw))));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace headrace::zarr
