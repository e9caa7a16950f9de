// GraphTable: which decodes recur, and the graphs of those that have one, within a budget of memory.
//
// A graph contains addresses, so it serves only batches at the same addresses: those of a wave's slab. It is created
// once a shape has recurred often enough to repay the cost (0.3 ms). The least recently used graphs are dropped when
// all of them together would exceed the budget, and shapes when there are too many.
//
// Needs no CUDA header, so that it is tested without a GPU. `Graph` is held by shared pointers: users may hold a graph
// that the table has dropped.
//
// Threads: one at a time.
// Owns:    the graphs that it keeps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/decode.h"

namespace headrace::device::cuda {

// Everything that the launches of a decode depend on, except the bytes in memory.
struct DecodeShape {
  std::uint32_t decoder = 0;  // DecodeGraphs::decoder()
  DecodeLimits limits;
  const void* scratch = nullptr;
  std::uint64_t scratch_bytes = 0;
  const void* indices = nullptr;  // on the device
  bool indices_given = false;

  bool operator==(const DecodeShape&) const noexcept = default;
};

template <class Graph>
class GraphTable {
 public:
  static constexpr std::size_t kMaxShapes = 256;    // remembered, with a graph or without
  static constexpr std::uint32_t kSeenOften = 3;    // occurrences before a shape gets a graph
  static constexpr std::uint64_t kDecodesEach = 8;  // after kFewGraphs, at most one graph per this many decodes
  static constexpr std::uint64_t kFewGraphs = 64;
  // What a node is counted as, and the budget of all graphs of a device. docs/design/device.md has the reasons.
  static constexpr std::uint64_t kNodeBytes = 8 << 10;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

  struct Use {
    std::shared_ptr<Graph> graph;  // null: queue the launches
    bool makes = false;            // the caller should create a graph and keep() it
  };
  // Counts a decode of the shape. makes_any: graphs can be created. Throws std::bad_alloc.
  Use use(const DecodeShape& shape, bool makes_any) {
    entries_.reserve(kMaxShapes);
    Entry& entry = entry_of(shape);
    entry.last = ++decodes_;
    Use out{entry.graph, false};
    if (out.graph != nullptr || ++entry.seen < kSeenOften || !makes_any) return out;
    out.makes = made_ < kFewGraphs || made_ * kDecodesEach < decodes_;
    if (out.makes) ++made_;
    return out;
  }
  // Keeps the graph of a shape, and drops others if it needs their room. One that exceeds the budget alone is not kept.
  void keep(const DecodeShape& shape, std::shared_ptr<Graph> graph, std::uint64_t nodes) {
    const std::uint64_t bytes = nodes > kMaxBytes / kNodeBytes ? kMaxBytes + 1 : nodes * kNodeBytes;
    if (bytes > kMaxBytes) return;
    Entry& entry = entry_of(shape);
    entry.last = std::max(entry.last, decodes_);  // it may have been displaced meanwhile
    release(entry);
    while (bytes_ > kMaxBytes - bytes) release(*oldest(true));
    entry.graph = std::move(graph);
    entry.bytes = bytes;
    bytes_ += bytes;
  }
  // The shape's graph is of no use any more.
  void drop(const DecodeShape& shape) {
    for (Entry& entry : entries_) {
      if (entry.shape == shape) release(entry);
    }
  }
  // `memory` is about to be freed: forgets all shapes that use it.
  void forget(const std::byte* memory, std::size_t bytes) noexcept {
    const auto within = [&](const void* address) {
      const auto* const at = static_cast<const std::byte*>(address);
      return !std::less<>()(at, memory) && std::less<>()(at, memory + bytes);
    };
    std::erase_if(entries_, [&](Entry& entry) {
      if (!within(entry.shape.scratch) && !within(entry.shape.indices)) return false;
      release(entry);
      return true;
    });
  }
  void clear() noexcept {
    entries_.clear();
    bytes_ = 0;
  }
  // What the graphs are counted as.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    DecodeShape shape;
    std::uint32_t seen = 0;
    std::uint64_t last = 0;  // number of the decode that used it last
    std::shared_ptr<Graph> graph;
    std::uint64_t bytes = 0;
  };

  // A dropped graph is created again only after its shape has recurred as often as a new one.
  void release(Entry& entry) noexcept {
    bytes_ -= entry.bytes;
    entry.bytes = 0;
    entry.seen = 0;
    entry.graph.reset();
  }
  Entry* oldest(bool with_graph) noexcept {
    Entry* found = nullptr;
    for (Entry& entry : entries_) {
      if (with_graph && entry.graph == nullptr) continue;
      if (found == nullptr || entry.last < found->last) found = &entry;
    }
    return found;
  }
  Entry& entry_of(const DecodeShape& shape) {
    for (Entry& entry : entries_) {
      if (entry.shape == shape) return entry;
    }
    if (entries_.size() < kMaxShapes) return entries_.emplace_back(Entry{shape, 0, 0, nullptr, 0});
    Entry& old = *oldest(false);
    release(old);
    old = Entry{shape, 0, 0, nullptr, 0};
    return old;
  }

  std::vector<Entry> entries_;
  std::uint64_t decodes_ = 0, made_ = 0, bytes_ = 0;
};

}  // namespace headrace::device::cuda
