// Split: which positions of an epoch each rank takes; and samples divided into training and validation.
//
// Positions are handed out in global batches: the next batch_size positions for each group of ranks. So what has been
// consumed is one number, whatever the number of ranks, and another number of ranks can go on from there. Every rank
// has the same number of batches of the same size.
//
// Threads: values. Every call from any thread.
// Fails:   kInvalidArgument naming the parameter. Functions that allocate throw std::bad_alloc.
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
  kDrop,  // they are left out of this epoch
  kPad,   // they are divided evenly over the ranks; batches are filled up with repetitions that do not count
  kWrap,  // the last batch is filled up with positions from the epoch's beginning, which count again
};

struct SplitOptions {
  std::uint32_t rank = 0, world = 1;
  // Ranks that get the same samples and divide their space, as model-parallel training does: ranks [0, n), [n, 2n), ...
  // Divides `world`.
  std::uint32_t reader_group = 1;
  std::uint64_t batch_size = 1;  // samples of one batch of one reader group
  Tail tail = Tail::kDrop;
};

// One batch of one rank: places 0 to size - 1, each with a position of the epoch's order.
struct RankBatch {
  std::uint64_t size = 0;
  std::uint64_t valid = 0;  // the first so many places count; the others (kPad) are repetitions to be masked out
  // REQUIRES: place < size. Always below the epoch's positions.
  std::uint64_t position(std::uint64_t place) const noexcept {
    if (place >= valid) return valid > 0 ? (first + valid - 1) % positions : positions - 1;
    return (first + place) % positions;
  }
  std::uint64_t first = 0, positions = 1;
};

// Where a loader is, for LoaderState.
struct LoaderPosition {
  std::uint64_t epoch = 0;
  std::uint64_t consumed = 0;  // positions of that epoch that all ranks together have been given; less than it has
  bool operator==(const LoaderPosition&) const = default;
};

class HEADRACE_API Split {
 public:
  // `positions`: of an epoch, 1 to 2^63. `consumed`: how many were handed out before; only the others are divided.
  // Also fails: consumed > positions; a global batch above 2^63; kDrop where not even a whole epoch fills a batch.
  static Result<Split> create(const SplitOptions& options, std::uint64_t positions, std::uint64_t consumed = 0);

  std::uint64_t batches() const noexcept;               // that are left of the epoch; for every rank the same
  RankBatch batch(std::uint64_t index) const noexcept;  // REQUIRES: index < batches()
  std::uint64_t global_batch_size() const noexcept { return global_batch_; }
  std::uint32_t group() const noexcept { return rank_ / reader_group_; }
  std::uint32_t member() const noexcept { return rank_ % reader_group_; }  // of its reader group

  // Where a loader is that was in `epoch` and has given `done` batches of this Split. After the last one that is the
  // beginning of the next epoch. REQUIRES: done <= batches().
  LoaderPosition after(std::uint64_t done, std::uint64_t epoch) const noexcept;

  // This rank's share of `extent` elements of a dimension that its reader group divides: in order of members, their
  // sizes as equal as multiples of `align` allow. Fails: align is 0, or there is not one multiple for each member.
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
  // Of each part: samples that share elements with a sample of another part. Such samples leak from training to
  // validation: windows that overlap must not be divided at random, and here they are at the parts' borders only.
  std::vector<std::uint64_t> leaking;
  std::vector<std::uint64_t> dropped;  // of each part: samples left out so that none leaks
};
// `weights`: of the parts, in order; finite and above 0. drop_leaking: windows at the end of a part that reach into the
// next one are left out, and `leaking` is all 0.
// Fails: `dim` has no windows or several in a sample; a part would have no window.
HEADRACE_API Result<WindowParts> divide_windows(const Windows& windows, std::string_view dim,
                                                const std::vector<double>& weights, bool drop_leaking = false);

}  // namespace headrace
