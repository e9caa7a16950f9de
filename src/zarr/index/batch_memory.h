// BatchMemory: what a DecodeBatch takes from the account of memory whose size stored bytes decide.
//
// Who loads a batch asks for a result of some size, and for about as much memory of each kind as that takes; how long
// chunks are, decoded or as stored, the store says. So of each kind the account is charged with what is beyond the
// result's size, and a large batch of ordinary chunks is charged with little. What chunks are read through comes out of
// the budgets that every read has.
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

  // REQUIRES: called before as much is allocated; `bytes` are all of that kind.
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
