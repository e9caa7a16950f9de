// Order: which sample is at which position of an epoch.
//
// A pure function of (order, seed, epoch): every rank computes it independently, positions can be queried in any order,
// and nothing is shuffled in memory. The order differs from epoch to epoch. Only lists and weights use memory
// proportional to the number of samples.
//
// Threads: immutable values; copies share their data. Every call from any thread.
// Fails:   kInvalidArgument names the parameter. Functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>
#include <headrace/loader_schema.h>
#include <headrace/status.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace headrace {

// Keeps samples that share chunks near each other, so that a chunk is read once and held only briefly.
//
// The grid of samples is divided into groups, and the groups are permuted. Then the samples of each buffer, which is
// `groups_in_buffer` consecutive groups, are permuted. A loader that keeps the chunks of one buffer (two, if it reads
// the next one ahead) reads each chunk once. Larger buffers mix better; docs/design/loader.md has figures. In a
// one-dimensional grid groups are exact. In others, if the samples along a dimension are not a multiple of the group,
// groups keep their size but some contain samples of two neighbouring groups.
//
// With `partitions`, the groups are first divided into that many parts, which depend on the seed but not on the epoch,
// and each part is shuffled on its own. Positions take turns: `partition_run` of the first part, as many of the second,
// and so on, as long as every part has so many left; the rest follows, part by part. So if there are as many reader
// groups as partitions, and runs are as long as batches, each reader group reads the same groups in every epoch, and
// the caches of all of them together hold each chunk once. Any other number of ranks can still resume the order.
struct BlockShuffle {
  std::vector<std::uint64_t> grid;   // Windows::sample_grid() or Crops::sample_grid(); slowest first, at most 33
  std::vector<std::uint64_t> group;  // samples along each dimension that share chunks: Windows::samples_per_chunk(),
                                     // with per_frame appended for Crops
  std::uint64_t groups_in_buffer = 16;
  std::uint64_t partitions = 1;     // at most the number of groups
  std::uint64_t partition_run = 1;  // positions: SplitOptions::batch_size
};

struct WeightOptions {
  std::uint64_t draws = 0;                 // positions of an epoch; 0: one per weight
  std::uint64_t table_bytes = 1ull << 30;  // maximum memory for the table: 16 bytes per sample
};

class HEADRACE_API EpochOrder;

class HEADRACE_API Order {
 public:
  // 0, 1, 2, ... for any seed. `samples`: 1 to 2^63, here and below.
  static Result<Order> sequential(std::uint64_t samples);
  // Every sample once, in a full permutation.
  static Result<Order> full_shuffle(std::uint64_t samples);
  static Result<Order> block_shuffle(const BlockShuffle& options);
  // The given samples only, each below `samples`, with repetitions allowed; fully shuffled or in the order given.
  static Result<Order> list(std::vector<std::uint64_t> ids, std::uint64_t samples, bool shuffle);
  // Draws with replacement: sample i has probability weights[i] / sum. At most 2^31 weights, finite, not negative, not
  // all 0. They are rounded to multiples of 2^-31 of the largest or finer, never to 0. kResourceExhausted: the table
  // would exceed WeightOptions::table_bytes.
  static Result<Order> weighted(const std::vector<double>& weights, const WeightOptions& options = {});

  std::uint64_t positions() const noexcept;  // in an epoch
  std::uint64_t samples() const noexcept;    // sample numbers are below this
  // Positions of one buffer of a block shuffle, times the partitions. The samples of a buffer share chunks with each
  // other and hardly with others. The last buffer, and one with a smaller group, has fewer positions. 1 for other
  // orders.
  std::uint64_t buffer_positions() const noexcept;
  EpochOrder epoch(std::uint64_t seed, std::uint64_t epoch) const noexcept;
  LoaderSchema schema() const;

  class Impl;

 private:
  friend struct Access;
  explicit Order(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// The order of one epoch.
class HEADRACE_API EpochOrder {
 public:
  // The sample at `position`, in less than a microsecond. REQUIRES: position < positions().
  std::uint64_t sample(std::uint64_t position) const noexcept;
  std::uint64_t positions() const noexcept;

 private:
  friend class Order;
  EpochOrder(std::shared_ptr<const Order::Impl> impl, std::uint64_t seed, std::uint64_t epoch) noexcept;
  std::shared_ptr<const Order::Impl> impl_;
  std::array<std::uint64_t, 8> keys_, buffer_keys_;
  std::array<std::uint64_t, 8> partition_keys_{};
  std::uint64_t draw_key_ = 0;
  std::uint64_t short_rank_ = 0, short_partition_ = 0;  // of the group that has fewer samples
};

}  // namespace headrace
