// Split: which positions of an epoch each rank takes. divide_windows(): samples divided into training and validation.
//
// Positions are handed out in global batches: the next batch_size positions for each reader group. So progress is a
// single number, whatever the number of ranks, and a different number of ranks can resume from it. Every rank has the
// same number of batches of the same size.
//
// Threads: plain values. Every call from any thread.
// Fails:   kInvalidArgument names the parameter. Functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>
#include <headrace/windows.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace headrace {

// What happens to positions at the end of an epoch that do not fill a global batch.
enum class Tail : std::uint8_t {
  kDrop,  // left out of this epoch
  kPad,   // divided evenly over the ranks; batches are filled with repetitions that do not count
  kWrap,  // the last batch is filled with positions from the start of the epoch, which count again
};

struct SplitOptions {
  std::uint32_t rank = 0, world = 1;
  // Size of a reader group: ranks that get the same samples and divide their space, as in model-parallel training. The
  // groups are ranks [0, n), [n, 2n), ... Must divide `world`.
  std::uint32_t reader_group = 1;
  std::uint64_t batch_size = 1;  // samples in one batch of one reader group
  Tail tail = Tail::kDrop;
};

// One batch of one rank: places 0 to size - 1, each with a position of the epoch's order.
struct RankBatch {
  std::uint64_t size = 0;
  std::uint64_t valid = 0;  // number of leading places that count; the others (kPad) are repetitions to be masked out
  // REQUIRES: place < size. The result is always below the epoch's number of positions.
  std::uint64_t position(std::uint64_t place) const noexcept {
    if (place >= valid) return valid > 0 ? (first + valid - 1) % positions : positions - 1;
    return (first + place) % positions;
  }
  std::uint64_t first = 0, positions = 1;
};

// The position of a loader, for LoaderState.
struct LoaderPosition {
  std::uint64_t epoch = 0;
  std::uint64_t consumed = 0;  // positions of the epoch handed out to all ranks together; less than the epoch has
  bool operator==(const LoaderPosition&) const = default;
};

class HEADRACE_API Split {
 public:
  // `positions`: in an epoch, 1 to 2^63. `consumed`: how many were handed out before; only the rest is divided. Also
  // fails: consumed > positions; a global batch above 2^63; kDrop if a whole epoch does not fill one batch.
  static Result<Split> create(const SplitOptions& options, std::uint64_t positions, std::uint64_t consumed = 0);

  std::uint64_t batches() const noexcept;               // left in the epoch; the same for every rank
  RankBatch batch(std::uint64_t index) const noexcept;  // REQUIRES: index < batches()
  std::uint64_t global_batch_size() const noexcept { return global_batch_; }
  std::uint32_t group() const noexcept { return rank_ / reader_group_; }
  std::uint32_t member() const noexcept { return rank_ % reader_group_; }  // index in its reader group

  // The position of a loader that is in `epoch` and has delivered `done` batches of this Split. After the last batch it
  // is the start of the next epoch. REQUIRES: done <= batches().
  LoaderPosition after(std::uint64_t done, std::uint64_t epoch) const noexcept;

  // This rank's share of `extent` elements of a dimension that its reader group divides. Shares are in order of members
  // and as equal as multiples of `align` allow. Fails: align is 0, or there are fewer multiples than members.
  struct Share {
    std::uint64_t begin = 0, count = 0;
  };
  Result<Share> share(std::uint64_t extent, std::uint64_t align = 1) const;

 private:
  Split() = default;
  std::uint32_t rank_ = 0, groups_ = 1, reader_group_ = 1;
  std::uint64_t batch_ = 1, global_batch_ = 1, positions_ = 1, consumed_ = 0;
  Tail tail_ = Tail::kDrop;
};

// Windows divided along one dimension into contiguous parts, such as training and validation.
struct WindowParts {
  std::vector<Windows> parts;
  // Per part: samples that share elements with a sample of another part, and so leak from training to validation. Parts
  // are contiguous, so that happens only at their borders; dividing overlapping windows at random leaks everywhere.
  std::vector<std::uint64_t> leaking;
  std::vector<std::uint64_t> dropped;  // per part: samples left out so that none leaks
};
// `weights`: relative sizes of the parts, in order; finite and above 0. drop_leaking: leave out windows at the end of a
// part that reach into the next part; `leaking` is then all 0. Fails: `dim` has no windows, or several per sample; a
// part would have no window.
HEADRACE_API Result<WindowParts> divide_windows(const Windows& windows, std::string_view dim,
                                                const std::vector<double>& weights, bool drop_leaking = false);

}  // namespace headrace
