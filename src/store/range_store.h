// RangeStore: a ByteStore as a Store. Its objects offer only ranges; opening one sends no request.
#pragma once

#include <headrace/byte_store.h>

#include <atomic>
#include <memory>

#include "cache/local_range.h"
#include "store/store.h"

namespace headrace::store {

class RangeStore final : public Store {
 public:
  // `wrapped` is not null. `shaper` decides how it is read; null: its own advice(). `steady`: see ReadShaper; always
  // on with a cache.
  explicit RangeStore(std::shared_ptr<ByteStore> wrapped, std::shared_ptr<const base::ReadShaper> shaper = nullptr,
                      bool steady = false) noexcept;

  std::string url() const override;
  Status open(std::string_view key, ByteSource& out) override;
  ByteStore* ranges() noexcept override { return wrapped_.get(); }
  bool open_local(std::string_view key, std::string_view version, std::uint64_t offset, std::uint64_t length,
                  ByteSource& out) noexcept override;
  bool keeps_range(std::string_view key, std::uint64_t offset, std::uint64_t length) const noexcept override {
    return local_ != nullptr && local_->keeps_range(key, offset, length);
  }
  bool tells_versions() const noexcept override { return tells_versions_.load(std::memory_order_relaxed); }
  base::ReadShape read_shape() const noexcept override;
  Result<Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge) override;
  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override;
  Status put(std::string_view key, std::span<const std::byte> bytes) override;

 private:
  Result<Bytes> get_checked(const std::string& key, std::uint64_t limit, base::Charge* charge);
  const std::shared_ptr<ByteStore> wrapped_;
  cache::LocalRanges* const local_;  // wrapped_ as a cache; null: it is not one
  const std::shared_ptr<const base::ReadShaper> shaper_;
  const bool steady_;
  std::atomic<bool> tells_versions_{false};  // learned from documents
};

// The store of a remote service, with the disk cache that the options or the environment ask for. `identity` names its
// objects for that cache, including endpoint and prefix; it may contain secrets, as only its hash is kept. If `wrapped`
// is also a base::ReadShaper, that decides how ranges are requested. With a cache, which identifies ranges by offset
// and length, requests are split the same way each time.
Result<std::shared_ptr<Store>> make_remote_store(std::shared_ptr<ByteStore> wrapped, std::string_view identity,
                                                 const StoreOptions& options);

}  // namespace headrace::store
