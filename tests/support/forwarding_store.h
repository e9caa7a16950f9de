// A store that forwards every call to another store; tests override the calls they change.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"

namespace headrace::testing {

class ForwardingStore : public store::Store {
 public:
  explicit ForwardingStore(std::shared_ptr<store::Store> behind) : behind_(std::move(behind)) {}

  std::string url() const override { return behind_->url(); }
  Status open(std::string_view key, store::ByteSource& out) override { return behind_->open(key, out); }
  Status open_again(std::string_view key, store::ByteSource& out) override { return behind_->open_again(key, out); }
  bool packs() const override { return behind_->packs(); }
  Status unpack(const store::ByteSource& object, std::span<std::byte> out, os::PageBuffer& scratch) override {
    return behind_->unpack(object, out, scratch);
  }
  Status check_unchanged() const override { return behind_->check_unchanged(); }
  store::FileOffers* files() noexcept override { return behind_->files(); }
  Result<store::Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge) override {
    return behind_->get(key, limit, charge);
  }
  Result<std::vector<store::Entry>> list(std::string_view prefix, base::Charge* charge) override {
    return behind_->list(prefix, charge);
  }
  Status put(std::string_view key, std::span<const std::byte> bytes) override { return behind_->put(key, bytes); }

 private:
  const std::shared_ptr<store::Store> behind_;
};

}  // namespace headrace::testing
