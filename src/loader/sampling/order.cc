#include <headrace/order.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "loader/sampling/alias_table.h"
#include "loader/sampling/block_grid.h"
#include "loader/sampling/permutation.h"
#include "loader/sampling/sampling_parts.h"

namespace headrace {

using loader::Digest;
using loader::Permutation;
using loader::refuse;

class Order::Impl {
 public:
  enum class Kind : std::uint8_t { kSequential, kFull, kBlock, kList, kShuffledList, kWeighted };

  Kind kind = Kind::kSequential;
  std::uint64_t positions = 0, samples = 0;
  loader::BlockGrid grid;          // kBlock
  std::vector<std::uint64_t> ids;  // kList, kShuffledList
  loader::AliasTable table;        // kWeighted
  std::uint64_t digest = 0;        // of ids or weights
};

namespace {

// States depend on which sample a position means under a seed. If that changes, this must change too.
constexpr std::uint64_t kOrderVersion = 1;

Status check_count(std::string_view parameter, std::uint64_t samples) {
  if (samples == 0) return refuse(std::string(parameter) + ": there are none");
  if (samples > loader::kMaxSamples) return refuse(std::string(parameter) + ": more than 2^63");
  return {};
}

}  // namespace

Result<Order> Order::sequential(std::uint64_t samples) {
  HEADRACE_TRY(check_count("samples", samples));
  auto impl = std::make_shared<Impl>();
  impl->positions = impl->samples = samples;
  return Order(std::move(impl));
}

Result<Order> Order::full_shuffle(std::uint64_t samples) {
  HEADRACE_TRY(check_count("samples", samples));
  auto impl = std::make_shared<Impl>();
  impl->kind = Impl::Kind::kFull;
  impl->positions = impl->samples = samples;
  return Order(std::move(impl));
}

Result<Order> Order::block_shuffle(const BlockShuffle& options) {
  HEADRACE_TRY_ASSIGN(auto grid, loader::BlockGrid::create(options));
  auto impl = std::make_shared<Impl>();
  impl->kind = Impl::Kind::kBlock;
  impl->positions = impl->samples = grid.samples();
  impl->grid = std::move(grid);
  return Order(std::move(impl));
}

Result<Order> Order::list(std::vector<std::uint64_t> ids, std::uint64_t samples, bool shuffle) {
  HEADRACE_TRY(check_count("samples", samples));
  HEADRACE_TRY(check_count("ids", ids.size()));
  Digest digest;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= samples) {
      return refuse("ids: number " + std::to_string(i) + " is sample " + std::to_string(ids[i]) + " of " +
                    std::to_string(samples));
    }
    digest.add(ids[i]);
  }
  auto impl = std::make_shared<Impl>();
  impl->kind = shuffle ? Impl::Kind::kShuffledList : Impl::Kind::kList;
  impl->positions = ids.size();
  impl->samples = samples;
  impl->ids = std::move(ids);
  impl->digest = digest.value();
  return Order(std::move(impl));
}

Result<Order> Order::weighted(const std::vector<double>& weights, const WeightOptions& options) {
  auto budget = std::make_shared<base::MemoryBudget>(options.table_bytes, "WeightOptions::table_bytes");
  auto impl = std::make_shared<Impl>();
  HEADRACE_TRY_ASSIGN(impl->table, loader::AliasTable::create(weights, std::move(budget)));
  impl->kind = Impl::Kind::kWeighted;
  impl->samples = weights.size();
  impl->positions = options.draws != 0 ? options.draws : weights.size();
  HEADRACE_TRY(check_count("draws", impl->positions));
  impl->digest = impl->table.digest();
  return Order(std::move(impl));
}

std::uint64_t Order::positions() const noexcept { return impl_->positions; }
std::uint64_t Order::samples() const noexcept { return impl_->samples; }
std::uint64_t Order::buffer_positions() const noexcept {
  if (impl_->kind != Impl::Kind::kBlock) return 1;
  const loader::BlockGrid& grid = impl_->grid;
  const std::uint64_t groups = std::min(grid.groups(), grid.groups_in_buffer() * grid.partitions());
  return std::min(grid.group_size() * groups, impl_->positions);
}

EpochOrder Order::epoch(std::uint64_t seed, std::uint64_t epoch) const noexcept {
  return EpochOrder(impl_, seed, epoch);
}

LoaderSchema Order::schema() const {
  LoaderSchema schema;
  Digest digest;
  digest.add(kOrderVersion).add(static_cast<std::uint64_t>(impl_->kind)).add(impl_->digest);
  if (impl_->kind == Impl::Kind::kBlock) impl_->grid.add_to(digest);
  schema.set("order", digest.value());
  schema.set("samples", Digest().add(impl_->samples).value());
  schema.set("positions", Digest().add(impl_->positions).value());
  return schema;
}

EpochOrder::EpochOrder(std::shared_ptr<const Order::Impl> impl, std::uint64_t seed, std::uint64_t epoch) noexcept
    : impl_(std::move(impl)),
      keys_(loader::round_keys(loader::derive_key(seed, loader::Purpose::kOrder, epoch))),
      buffer_keys_(loader::round_keys(loader::derive_key(seed, loader::Purpose::kBuffers, epoch))),
      draw_key_(loader::derive_key(seed, loader::Purpose::kWeights, epoch)) {
  if (impl_->kind != Order::Impl::Kind::kBlock) return;
  const loader::BlockGrid& grid = impl_->grid;
  const std::uint64_t last = grid.groups() - 1;
  if (grid.partitions() == 1) {
    short_rank_ = Permutation(grid.groups(), keys_).inverse(last);
    return;
  }
  partition_keys_ = loader::round_keys(loader::derive_key(seed, loader::Purpose::kPartitions, 0));
  const std::uint64_t place = Permutation(grid.groups(), partition_keys_).inverse(last);
  short_partition_ = grid.partition_of(place);
  const auto [first, groups] = grid.partition(short_partition_);
  short_rank_ = Permutation(groups, loader::keys_of(keys_, short_partition_)).inverse(place - first);
}

std::uint64_t EpochOrder::positions() const noexcept { return impl_->positions; }

std::uint64_t EpochOrder::sample(std::uint64_t position) const noexcept {
  using Kind = Order::Impl::Kind;
  const Order::Impl& order = *impl_;
  switch (order.kind) {
    case Kind::kSequential:
      return position;
    case Kind::kFull:
      return Permutation(order.positions, keys_)(position);
    case Kind::kBlock: {
      const loader::BlockGrid& grid = order.grid;
      if (grid.partitions() == 1) {
        const auto [rank, place] = grid.shuffled_place(position, {grid.groups(), short_rank_}, buffer_keys_);
        return grid.sample(Permutation(grid.groups(), keys_)(rank), place);
      }
      const auto [number, within] = grid.partition_place(position, short_partition_);
      const auto [first, groups] = grid.partition(number);
      const auto [rank, place] = grid.shuffled_place(
          within, {groups, number == short_partition_ ? short_rank_ : groups}, loader::keys_of(buffer_keys_, number));
      const std::uint64_t in_partition = Permutation(groups, loader::keys_of(keys_, number))(rank);
      return grid.sample(Permutation(grid.groups(), partition_keys_)(first + in_partition), place);
    }
    case Kind::kList:
      return order.ids[position];
    case Kind::kShuffledList:
      return order.ids[Permutation(order.positions, keys_)(position)];
    case Kind::kWeighted: {
      const auto random = loader::random_at(draw_key_, position, 0);
      return order.table.draw(random[0], random[1]);
    }
  }
  return 0;
}

}  // namespace headrace
