// ChunkDecoder: a chain of codecs undone on the device, for all chunks of a wave in one call.
//
// The compressed bytes are in device memory already; nothing returns to the host between the stages. What every chunk
// came to is a word of pinned memory that is valid with the event recorded behind the call: one bad chunk leaves the
// others exact. Scratch is sized before the launch from what metadata promises, never from stored bytes.
//
// Threads: decode() from any thread; one stream's calls by one thread at a time. A decoder may serve many streams.
// Owns:    nothing of the caller's; items, scratch and outcomes are lent until the event.
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

// Why a chunk was given up. The text is in decode_reason_text().
enum class DecodeReason : std::uint8_t {
  kNone,
  kHeader,     // a field of the stream's own header contradicts the format or the metadata
  kTruncated,  // the stream ends inside something
  kWrongSize,  // it decodes to another size than the metadata promises
  kOffset,     // a match reaches back beyond the start of its output
  kLength,     // a run or match is longer than the output that is left
  kTrailing,   // bytes are left behind the end
  kChecksum,
  kHostOnly,  // may be well-formed, but is not decoded here: to be decoded by the CPU
};

// What one chunk came to: all ones is success, else stage, position and reason, so that the smallest is the first
// error.
struct DecodeOutcome {
  std::uint64_t word = kOk;

  static constexpr std::uint64_t kOk = ~std::uint64_t{0};
  static constexpr std::uint64_t kPositionMask = (std::uint64_t{1} << 44) - 1;
  // `position` is in bytes from the start of the stage's input, or of the inner stream that is at fault.
  static constexpr std::uint64_t pack(unsigned stage, std::uint64_t position, DecodeReason reason) {
    return static_cast<std::uint64_t>(stage & 15) << 52 | (position < kPositionMask ? position : kPositionMask) << 8 |
           static_cast<std::uint64_t>(reason);
  }
  bool ok() const noexcept { return word == kOk; }
  unsigned stage() const noexcept { return static_cast<unsigned>(word >> 52) & 15; }
  std::uint64_t position() const noexcept { return word >> 8 & kPositionMask; }
  DecodeReason reason() const noexcept { return static_cast<DecodeReason>(word & 255); }
  // To be decoded by the CPU instead.
  bool host_only() const noexcept { return !ok() && reason() == DecodeReason::kHostOnly; }
};
static_assert(sizeof(DecodeOutcome) == 8);

const char* decode_reason_text(DecodeReason reason) noexcept;

// One codec of a chain, as a device needs to know it.
struct DecodeStage {
  std::string codec;                          // name of its row (folder): "lz4"
  std::array<std::uint64_t, 8> parameters{};  // the codec's own, see its *_stage.h
  std::uint64_t capacity_bytes = 0;           // most bytes its output may have
  bool exact = true;                          // and not fewer
};

inline constexpr std::size_t kMaxDecodeStages = 8;

// Decode index: what the first decode of a chunk notes, so that later ones need not find it out one after the other.
// Only the codec knows what is in it, and it is verified as it is used: with a wrong one, however it came about, a
// chunk decodes to the same bytes, slower, and is reported as kIndexBad.
//
// What a batch says of each item: bytes of its index, or one of these.
inline constexpr std::uint32_t kIndexNone = 0;                     // there is none, and none is wanted
inline constexpr std::uint32_t kIndexCollect = ~std::uint32_t{0};  // there is none yet
// What comes back for each: bytes that were collected, or one of these. It holds only where the item is good.
inline constexpr std::uint32_t kIndexNothing = 0;                      // nothing to say
inline constexpr std::uint32_t kIndexBad = ~std::uint32_t{0};          // what was given is of no use
inline constexpr std::uint32_t kIndexUseless = ~std::uint32_t{0} - 1;  // such a chunk needs none

// Device memory; dst has room for the last stage's capacity, or for `dst_bytes`. Neither overlaps another item's dst.
struct DecodeItem {
  const std::byte* src = nullptr;
  std::uint64_t src_bytes = 0;
  std::byte* dst = nullptr;
  // Of a decoder of one stage: what the item decodes to, at most that stage's capacity; 0: as much as that.
  std::uint64_t dst_bytes = 0;
  // Of a decoder that ends_early(): so many of the first bytes are wanted, of which it may decode more; dst has room
  // for all. 0: all are.
  std::uint64_t enough = 0;
};

// Bounds of every batch that will come.
struct DecodeLimits {
  std::uint32_t items = 0;
  std::uint64_t src_bytes = 0;          // of all items together
  std::uint64_t largest_src_bytes = 0;  // of one
  std::uint64_t dst_bytes = 0;          // that all together decode to; 0: as much as so many items may

  bool operator==(const DecodeLimits&) const noexcept = default;
};

// The indices of a batch: memory of the caller's, pinned and on the device, until the event. Both hold, one behind the
// other, what is said of each item (one of the words above), what comes back for each, and `stride` bytes for each.
struct DecodeIndices {
  std::byte* pinned = nullptr;     // null: a batch without
  std::byte* on_device = nullptr;  // aligned to 256 bytes
  std::uint64_t stride = 0;        // ChunkDecoder::index_stride()
  std::uint32_t items = 0;         // of the batch

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

// Told of each step of a decode once it is queued, before the next one is: for measuring where the time goes.
class DecodeMarks {
 public:
  virtual ~DecodeMarks() = default;
  // `step` is one of the device's own words, such as "lz4" or "unshuffle"; it stays valid.
  virtual void queued(const char* step, Stream& stream) noexcept = 0;
};

class ChunkDecoder {
 public:
  virtual ~ChunkDecoder() = default;
  // Device memory that is enough for every batch within the limits, which may have fewer items and bytes.
  virtual std::uint64_t scratch_bytes(const DecodeLimits& limits) const noexcept = 0;
  // Room that a chunk's index takes at most, a multiple of 16; 0: this decoder has no use for any.
  virtual std::uint64_t index_stride() const noexcept { return 0; }
  // Much of a batch's time is its longest chain of steps that follow each other, whatever else it holds: the same bytes
  // in fewer batches take less time.
  virtual bool wants_large_batches() const noexcept { return false; }
  // Whether it makes use of DecodeItem::enough. Others decode all.
  virtual bool ends_early() const noexcept { return false; }
  // Makes ready what the first decode within these limits would otherwise wait for, where that takes long: up to some
  // ten milliseconds once in a process. Other calls may be made at the same time.
  virtual void load(const DecodeLimits& limits) const noexcept { (void)limits; }
  // outcomes: pinned memory, one for each item, written by the device.
  // REQUIRES: scratch is aligned to 256 bytes and used by nothing else until the work is done. With indices: a word is
  // set for each item, and no more than `stride`; those that are bytes stand for the item's index in `entries`.
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
