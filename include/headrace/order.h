// Order: which sample comes at which position of an epoch.
//
// A pure function of (order, seed, epoch): every rank computes it for itself, any position can be asked for at any
// time, and nothing is shuffled in memory. Each epoch has another order. Only lists and weights take memory that grows
// with the number of samples.
//
// Threads: immutable values; copies share what they hold. Every call from any thread.
// Fails:   kInvalidArgument naming the parameter. Functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>
#include <headrace/loader_schema.h>
#include <headrace/status.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace headrace {

// Samples that share chunks stay near each other, so that a chunk is read once and kept a short time.
//
// The samples' grid is divided into groups. The groups are permuted; then the samples of each buffer, which is
// `groups_in_buffer` consecutive groups, are permuted. A loader that keeps the chunks of one buffer reads each chunk
// once (of two, if it reads the next one ahead). Larger buffers mix better: docs/design/loader.md has figures. In a
// grid of one dimension groups are exact; in others, where a dimension's samples are no multiple of its group, the
// groups are as large but some have samples of two neighbours.
struct BlockShuffle {
  std::vector<std::uint64_t> grid;   // Windows::sample_grid() or Crops::sample_grid(); slowest first, at most 33
  std::vector<std::uint64_t> group;  // samples along each dimension that share chunks: Windows::samples_per_chunk(),
                                     // for Crops with per_frame at its end
  std::uint64_t groups_in_buffer = 16;
};

struct WeightOptions {
  std::uint64_t draws = 0;                 // positions of an epoch. 0: as many as weights
  std::uint64_t table_bytes = 1ull << 30;  // most memory for the table, which takes 16 bytes a sample
};

class HEADRACE_API EpochOrder;

class HEADRACE_API Order {
 public:
  // 0, 1, 2, ... whatever the seed. `samples`: 1 to 2^63, here and below.
  static Result<Order> sequential(std::uint64_t samples);
  // Each sample once, everything with everything.
  static Result<Order> full_shuffle(std::uint64_t samples);
  static Result<Order> block_shuffle(const BlockShuffle& options);
  // These samples only, each below `samples`, any number of times each; shuffled as a whole, or in the order given.
  static Result<Order> list(std::vector<std::uint64_t> ids, std::uint64_t samples, bool shuffle);
  // Draws with replacement, sample i with probability weights[i] / sum. Weights are finite, not negative, not all 0; at
  // most 2^31. They are rounded to multiples of 2^-31 of the largest or finer, never to 0. kResourceExhausted: the
  // table would be larger than WeightOptions::table_bytes.
  static Result<Order> weighted(const std::vector<double>& weights, const WeightOptions& options = {});

  std::uint64_t positions() const noexcept;  // of an epoch
  std::uint64_t samples() const noexcept;    // every sample is below
  // Positions of one buffer of a block shuffle, whose samples share chunks with each other and hardly with others; the
  // last buffer, and one that has the group of fewer samples, have less. Of other orders 1.
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
  std::uint64_t draw_key_ = 0;
  std::uint64_t short_rank_ = 0;  // where the group that has fewer samples comes
};

}  // namespace headrace
