// RangeStore: a ByteStore as a Store. Its objects offer ranges and nothing else; opening one asks nobody.
#pragma once

#include <headrace/byte_store.h>

#include <atomic>
#include <memory>

#include "cache/local_range.h"
#include "store/store.h"

namespace headrace::store {

class RangeStore final : public Store {
 public:
  // `behind` is not null. `shaper`: what says how it is asked; null: its own advice(). `steady`: as ReadShaper has it;
  // of a cache always.
  explicit RangeStore(std::shared_ptr<ByteStore> behind, std::shared_ptr<const base::ReadShaper> shaper = nullptr,
                      bool steady = false) noexcept;

  std::string url() const override;
  Status open(std::string_view key, ByteSource& out) override;
  ByteStore* ranges() noexcept override { return behind_.get(); }
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
  const std::shared_ptr<ByteStore> behind_;
  cache::LocalRanges* const local_;  // behind_ as a cache; null: it is none
  const std::shared_ptr<const base::ReadShaper> shaper_;
  const bool steady_;
  std::atomic<bool> tells_versions_{false};  // as documents showed
};

// The store of a remote service, with the cache on disk that the options or the environment ask for. `identity`: of its
// objects, endpoint and prefix included, for that cache; may hold secrets, as only its hash is kept. Where `behind` is
// a base::ReadShaper as well, that says how ranges are asked for; with a cache, which knows ranges by where they begin
// and how long they are, the same way each time.
Result<std::shared_ptr<Store>> make_remote_store(std::shared_ptr<ByteStore> behind, std::string_view identity,
                                                 const StoreOptions& options);

}  // namespace headrace::store
