// ChunkDecoder: decodes a chain of codecs on the device, for all chunks of a wave in one call.
//
// The encoded bytes are already in device memory, and nothing returns to the host between stages. Each chunk's outcome
// is a word in pinned memory, valid once the event recorded after the call is done. A bad chunk does not affect the
// others. Scratch is sized before the launch from metadata, never from stored bytes.
//
// Threads: decode() from any thread; the calls of one stream by one thread at a time. One decoder may
//          serve many streams.
// Owns:    nothing of the caller's; items, scratch and outcomes must stay valid until the event is done.
#pragma once

#include <headrace/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace headrace::device {

class Stream;

// Why decoding a chunk failed. decode_reason_text() has the text.
enum class DecodeReason : std::uint8_t {
  kNone,
  kHeader,     // a field of the stream's own header contradicts the format or the metadata
  kTruncated,  // the stream ends prematurely
  kWrongSize,  // it decodes to another size than the metadata promises
  kOffset,     // a match reaches back beyond the start of its output
  kLength,     // a run or match is longer than the output that is left
  kTrailing,   // extra bytes after the end
  kChecksum,
  kHostOnly,  // may be well-formed, but must be decoded by the CPU
};

// The outcome for one chunk: all ones is success, otherwise stage, position and reason, ordered so that the smallest
// word is the first error.
struct DecodeOutcome {
  std::uint64_t word = kOk;

  static constexpr std::uint64_t kOk = ~std::uint64_t{0};
  static constexpr std::uint64_t kPositionMask = (std::uint64_t{1} << 44) - 1;
  // `position` is in bytes from the start of the stage's input, or of the faulty inner stream.
  static constexpr std::uint64_t pack(unsigned stage, std::uint64_t position, DecodeReason reason) {
    return static_cast<std::uint64_t>(stage & 15) << 52 | (position < kPositionMask ? position : kPositionMask) << 8 |
           static_cast<std::uint64_t>(reason);
  }
  bool ok() const noexcept { return word == kOk; }
  unsigned stage() const noexcept { return static_cast<unsigned>(word >> 52) & 15; }
  std::uint64_t position() const noexcept { return word >> 8 & kPositionMask; }
  DecodeReason reason() const noexcept { return static_cast<DecodeReason>(word & 255); }
  // Must be decoded by the CPU.
  bool host_only() const noexcept { return !ok() && reason() == DecodeReason::kHostOnly; }
};
static_assert(sizeof(DecodeOutcome) == 8);

const char* decode_reason_text(DecodeReason reason) noexcept;

// One codec of a chain, as a device sees it.
struct DecodeStage {
  std::string codec;                          // name of its row (folder): "lz4"
  std::array<std::uint64_t, 8> parameters{};  // codec-specific, see its *_stage.h
  std::uint64_t capacity_bytes = 0;           // maximum size of its output
  bool exact = true;                          // the output has exactly that size
};

inline constexpr std::size_t kMaxDecodeStages = 8;

// Decode index: what the first decode of a chunk records so that later ones can start in parallel. Only the codec knows
// its content. It is verified during use: with a wrong index, whatever its origin, a chunk still decodes to the same
// bytes, only slower, and is reported as kIndexBad.
//
// Input of a batch per item: the size of its index, or one of these.
inline constexpr std::uint32_t kIndexNone = 0;                     // there is no index, and none is wanted
inline constexpr std::uint32_t kIndexCollect = ~std::uint32_t{0};  // there is no index yet; collect one
// Output per item: the size of the collected index, or one of these. Valid only if the item decoded.
inline constexpr std::uint32_t kIndexNothing = 0;                      // nothing to report
inline constexpr std::uint32_t kIndexBad = ~std::uint32_t{0};          // the given index is unusable
inline constexpr std::uint32_t kIndexUseless = ~std::uint32_t{0} - 1;  // such a chunk needs no index

// Device memory. dst has room for the last stage's capacity, or for `dst_bytes`, and overlaps no other item's dst.
struct DecodeItem {
  const std::byte* src = nullptr;
  std::uint64_t src_bytes = 0;
  std::byte* dst = nullptr;
  // For a decoder with one stage: the size the item decodes to, at most that stage's capacity; 0: the capacity.
  std::uint64_t dst_bytes = 0;
  // For a decoder that ends_early(): only this many leading bytes are needed. It may decode more; dst has room for all.
  // 0: all are needed.
  std::uint64_t enough = 0;
};

// Upper bounds for all batches of a decoder.
struct DecodeLimits {
  std::uint32_t items = 0;
  std::uint64_t src_bytes = 0;          // over all items
  std::uint64_t largest_src_bytes = 0;  // of one item
  std::uint64_t dst_bytes = 0;          // decoded bytes over all items; 0: the maximum for that many items

  bool operator==(const DecodeLimits&) const noexcept = default;
};

// The indices of a batch, in pinned and device memory of the caller, valid until the event is done. Both hold, in this
// order: the input word of each item, the output word of each item, and `stride` bytes of index per item.
struct DecodeIndices {
  std::byte* pinned = nullptr;     // null: a batch without indices
  std::byte* on_device = nullptr;  // aligned to 256 bytes
  std::uint64_t stride = 0;        // ChunkDecoder::index_stride()
  std::uint32_t items = 0;         // in the batch

  static constexpr std::uint64_t kAlignment = 256;
  static constexpr std::uint64_t words_bytes(std::uint64_t items) {
    return (items * sizeof(std::uint32_t) + kAlignment - 1) / kAlignment * kAlignment;
  }
  static constexpr std::uint64_t bytes(std::uint64_t items, std::uint64_t stride) {
    return 2 * words_bytes(items) + items * stride;
  }
  std::uint64_t made_at() const noexcept { return words_bytes(items); }
  std::uint64_t entries_at() const noexcept { return 2 * words_bytes(items); }
  std::uint32_t& given(std::size_t i) const noexcept { return reinterpret_cast<std::uint32_t*>(pinned)[i]; }
  std::uint32_t made(std::size_t i) const noexcept {
    return reinterpret_cast<const std::uint32_t*>(pinned + made_at())[i];
  }
  std::byte* entries(std::size_t i) const noexcept { return pinned + entries_at() + i * stride; }
};

// Notified of each step of a decode once it is queued and before the next one is, to measure where the time goes.
class DecodeMarks {
 public:
  virtual ~DecodeMarks() = default;
  // `step` is a static string such as "lz4" or "unshuffle".
  virtual void queued(const char* step, Stream& stream) noexcept = 0;
};

class ChunkDecoder {
 public:
  virtual ~ChunkDecoder() = default;
  // Device memory that suffices for every batch within the limits.
  virtual std::uint64_t scratch_bytes(const DecodeLimits& limits) const noexcept = 0;
  // Maximum index size of a chunk, a multiple of 16; 0: this decoder uses no indices.
  virtual std::uint64_t index_stride() const noexcept { return 0; }
  // Whether the longest chain of sequential steps dominates the time of a batch, so that fewer, larger
  // batches are faster.
  virtual bool wants_large_batches() const noexcept { return false; }
  // Whether it honours DecodeItem::enough. Otherwise it decodes everything.
  virtual bool ends_early() const noexcept { return false; }
  // Performs slow one-time set-up that the first decode within these limits would otherwise wait for, up to some ten
  // milliseconds per process. Other calls may run at the same time.
  virtual void load(const DecodeLimits& limits) const noexcept { (void)limits; }
  // outcomes: pinned memory, one per item, written by the device. REQUIRES: scratch is aligned to 256 bytes and used by
  // nothing else until the work is done. With indices: each item's input word is set and at most `stride`; if it is a
  // size, `entries` has the item's index.
  Status decode(std::span<const DecodeItem> items, std::span<std::byte> scratch, std::span<DecodeOutcome> outcomes,
                Stream& stream, DecodeMarks* marks = nullptr, const DecodeIndices& indices = {}) {
    return do_decode(items, scratch, outcomes, stream, marks, indices);
  }

 protected:
  virtual Status do_decode(std::span<const DecodeItem> items, std::span<std::byte> scratch,
                           std::span<DecodeOutcome> outcomes, Stream& stream, DecodeMarks* marks,
                           const DecodeIndices& indices) = 0;
};

}  // namespace headrace::device
