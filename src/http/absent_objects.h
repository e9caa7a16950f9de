// AbsentObjects: a short-lived negative cache of keys that the server recently reported missing. Sparse arrays consist
// mostly of missing chunks and are read repeatedly.
//
// Threads: every call from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/document_name.h"

namespace headrace::http {

class AbsentObjects {
 public:
  // Entries expire after `age_ns`; 0 disables the cache.
  explicit AbsentObjects(std::uint64_t age_ns) noexcept : age_ns_(age_ns) {}

  void note(std::string_view key, std::uint64_t now_ns) noexcept {
    if (age_ns_ == 0 || base::is_zarr_document(key)) return;
    try {
      std::lock_guard lock(mutex_);
      if (noted_ns_.size() >= kMax) noted_ns_.clear();
      noted_ns_.insert_or_assign(std::string(key), now_ns);
      any_.store(true, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {  // the key is simply requested again
    }
  }
  bool has(std::string_view key, std::uint64_t now_ns) noexcept {
    if (!any_.load(std::memory_order_relaxed)) return false;
    std::lock_guard lock(mutex_);
    const auto found = noted_ns_.find(key);
    if (found == noted_ns_.end()) return false;
    if (now_ns < found->second + age_ns_) return true;
    noted_ns_.erase(found);
    return false;
  }

 private:
  static constexpr std::size_t kMax = 16384;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  const std::uint64_t age_ns_;
  std::atomic<bool> any_{false};  // spares has() the lock while the cache is empty
  std::mutex mutex_;
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> noted_ns_;  // guarded by mutex_
};

}  // namespace headrace::http
