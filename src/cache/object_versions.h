// ObjectVersions: what a store's server has reported about objects since the store was opened: their versions, or that
// they do not exist.
//
// Threads: one at a time.
// Owns:    a charge per object against the given budget; objects without room are not remembered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/memory_budget.h"
#include "cache/keyed_hash.h"

namespace headrace::cache {

struct ObjectVersion {
  std::string text;  // empty: the object does not exist
  std::uint64_t object_bytes = 0;
  std::uint64_t noted_ns = 0;
};

class ObjectVersions {
 public:
  // `max_age_ns` 0: entries never expire.
  ObjectVersions(std::shared_ptr<base::MemoryBudget> memory, std::uint64_t max_age_ns) noexcept
      : charge_(std::move(memory)), max_age_ns_(max_age_ns) {}

  // Null: unknown, or too old. Valid until the next note().
  const ObjectVersion* find(const CacheKey& object, std::uint64_t now_ns) const noexcept {
    const auto found = versions_.find(object);
    if (found == versions_.end() || (max_age_ns_ != 0 && now_ns > found->second.noted_ns + max_age_ns_)) return nullptr;
    return &found->second;
  }
  // Throws std::bad_alloc.
  void note(const CacheKey& object, std::string_view version, std::uint64_t object_bytes, std::uint64_t now_ns) {
    auto found = versions_.find(object);
    if (found == versions_.end()) {
      if (!charge_.take(kEachBytes, "versions of cached objects").ok()) return;
      found = versions_.try_emplace(object).first;
    }
    if (found->second.text != version) found->second.text.assign(version);
    found->second.object_bytes = object_bytes;
    found->second.noted_ns = now_ns;
  }
  void clear() noexcept {
    versions_.clear();
    charge_.give_all();
  }
  void forget(const CacheKey& object) noexcept {
    if (versions_.erase(object) != 0) charge_.shrink_to(charge_.bytes() - (charge_.bytes() != 0 ? kEachBytes : 0));
  }

 private:
  static constexpr std::uint64_t kEachBytes = 224;  // including the text of an ETag
  struct HashOfKey {
    std::size_t operator()(const CacheKey& key) const noexcept { return key.low; }
  };
  std::unordered_map<CacheKey, ObjectVersion, HashOfKey> versions_;
  base::Charge charge_;
  const std::uint64_t max_age_ns_;
};

}  // namespace headrace::cache
