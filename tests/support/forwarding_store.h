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
  explicit ForwardingStore(std::shared_ptr<store::Store> wrapped) : wrapped_(std::move(wrapped)) {}

  std::string url() const override { return wrapped_->url(); }
  Status open(std::string_view key, store::ByteSource& out) override { return wrapped_->open(key, out); }
  Status open_for_reuse(std::string_view key, store::ByteSource& out) override {
    return wrapped_->open_for_reuse(key, out);
  }
  bool packs() const override { return wrapped_->packs(); }
  Status unpack(const store::ByteSource& object, std::span<std::byte> out, os::PageBuffer& scratch) override {
    return wrapped_->unpack(object, out, scratch);
  }
  Status check_unchanged() const override { return wrapped_->check_unchanged(); }
  store::FileOffers* files() noexcept override { return wrapped_->files(); }
  Result<store::Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge) override {
    return wrapped_->get(key, limit, charge);
  }
  Result<std::vector<store::Entry>> list(std::string_view prefix, base::Charge* charge) override {
    return wrapped_->list(prefix, charge);
  }
  Status put(std::string_view key, std::span<const std::byte> bytes) override { return wrapped_->put(key, bytes); }

 private:
  const std::shared_ptr<store::Store> wrapped_;
};

}  // namespace headrace::testing
