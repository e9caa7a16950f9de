#include "loader/loader_caches.h"

#include <algorithm>
#include <cstdint>

#include "zarr/kept_read.h"

namespace headrace::loader {
namespace {

using transfer::ChunkCache;

// The limits of an array's share of a cache; the arrays that share it have `all` decoded bytes. `encoded`: the cache
// keeps chunks as stored.
ChunkCache::Limits limits_of(const ArrayInfo& info, double all, std::uint64_t cache_bytes, bool encoded,
                             std::uint64_t leave_free_bytes) {
  const double share = static_cast<double>(info.decoded_bytes) / all;
  const auto bytes = static_cast<std::uint64_t>(static_cast<double>(cache_bytes) * share);
  // Stored chunks may be much smaller; how much is not known here.
  constexpr std::uint64_t kMaxRatio = 64;
  const std::uint64_t chunk_bytes = std::max<std::uint64_t>(
      info.decoded_bytes / std::max<std::uint64_t>(info.chunk_count, 1) / (encoded ? kMaxRatio : 1), 1);
  return {bytes, std::min(info.chunk_count, bytes / chunk_bytes + 1), leave_free_bytes};
}

}  // namespace

Status Caches::make(const std::shared_ptr<device::Device>& device, std::span<const LoaderArray> arrays,
                    const LoaderOptions& options) {
  on_device_.resize(arrays.size());
  stored_.resize(arrays.size());
  double all = 0, distant = 0;
  for (const LoaderArray& array : arrays) {
    const auto bytes = static_cast<double>(array.array.info().decoded_bytes);
    all += bytes;
    if (zarr::has_no_files(array.array)) distant += bytes;
  }
  if (options.cache_bytes != 0 && all != 0 && !device->info().host_addressable) {
    const bool encoded = options.cache_form == CacheForm::kEncoded;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      on_device_[i] = std::make_shared<ChunkCache>(
          device, encoded ? ChunkCache::Form::kEncoded : ChunkCache::Form::kDecoded,
          limits_of(arrays[i].array.info(), all, options.cache_bytes, encoded, options.leave_free_bytes));
      all_made_.emplace_back(on_device_[i]);
    }
  }
  if (options.host_cache_bytes == 0 || distant == 0) return {};
  HEADRACE_TRY_ASSIGN(const auto host, device::open_device("host"));
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!zarr::has_no_files(arrays[i].array)) continue;
    stored_[i] =
        std::make_shared<ChunkCache>(host, ChunkCache::Form::kEncoded,
                                     limits_of(arrays[i].array.info(), distant, options.host_cache_bytes, true, 0));
  }
  return {};
}

transfer::KeptChunks Caches::of(std::size_t array) const {
  std::lock_guard lock(*mutex_);
  return {on_device_[array], stored_[array]};
}

void Caches::release() noexcept {
  if (mutex_.inherited()) return;
  for (std::shared_ptr<ChunkCache>& kept : on_device_) {
    std::shared_ptr<ChunkCache> cache;  // freed without the lock, since that takes milliseconds
    std::lock_guard lock(*mutex_);
    cache.swap(kept);
    released_ = released_ || cache != nullptr;
  }
}

bool Caches::has_device_memory() const noexcept {
  return std::any_of(all_made_.begin(), all_made_.end(), [](const auto& cache) { return !cache.expired(); });
}

void Caches::note(LoaderStats& stats) const noexcept {
  const auto used_bytes = [](const Each& caches) {
    std::uint64_t bytes = 0;
    for (const auto& cache : caches) bytes += cache == nullptr ? 0 : cache->used_bytes();
    return bytes;
  };
  std::lock_guard lock(*mutex_);
  stats.kept_bytes = used_bytes(on_device_);
  stats.cache_released = released_;
  stats.host_kept_bytes = used_bytes(stored_);
}

}  // namespace headrace::loader
