// BatchMemory: charges the memory of a DecodeBatch to the stored budget (memory whose size stored bytes decide).
//
// The caller that loads a batch chooses the size of its result, and so accepts about as much memory of each kind. But
// the store decides how long the chunks are, encoded and decoded. So for each kind only what exceeds the result's size
// is charged; a large batch of ordinary chunks costs little. Buffers for reading the chunks come out of the budgets of
// every read.
//
// Threads: one at a time.
// Fails:   kResourceExhausted, naming the kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/memory_budget.h"

namespace headrace::zarr {

class BatchMemory {
 public:
  enum class Kind : std::uint8_t { kLists, kEncoded, kWorking, kDeviceEncoded, kDeviceDecoded };

  explicit BatchMemory(const std::shared_ptr<base::MemoryBudget>& account) {
    for (base::Charge& charge : charges_) charge = base::Charge(account);
  }
  void set_result_bytes(std::uint64_t bytes) noexcept { result_bytes_ = bytes; }
  std::uint64_t result_bytes() const noexcept { return result_bytes_; }

  // REQUIRES: called before the allocation; `bytes` is the new total of that kind.
  Status hold(Kind kind, std::uint64_t bytes) noexcept {
    constexpr const char* kNames[] = {"the list of a batch's chunks", "the encoded chunks of a batch",
                                      "the buffers that a batch's chunks are decoded in",
                                      "the encoded chunks of a batch on the device", "the decoded chunks of a batch"};
    const auto at = static_cast<std::size_t>(kind);
    return charges_[at].grow_to(bytes - std::min(bytes, result_bytes_), kNames[at]);
  }
  void give(Kind kind) noexcept { charges_[static_cast<std::size_t>(kind)].give_all(); }

 private:
  std::uint64_t result_bytes_ = 0;
  std::array<base::Charge, 5> charges_;
};

}  // namespace headrace::zarr
