// A store that counts what is asked of the one behind it.
#pragma once

#include <atomic>

#include "support/forwarding_store.h"

namespace headrace::testing {

class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  Status open(std::string_view key, store::Object& out) override {
    ++opens;
    return ForwardingStore::open(key, out);
  }
  Result<int> open_direct(std::string_view key, const store::Object& object) override {
    ++opens;
    return ForwardingStore::open_direct(key, object);
  }
  Result<store::Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge) override {
    ++gets;
    return ForwardingStore::get(key, limit, charge);
  }
  Result<std::vector<store::Entry>> list(std::string_view prefix, base::Charge* charge) override {
    ++lists;
    return ForwardingStore::list(prefix, charge);
  }

  int all() const { return opens + gets + lists; }
  std::atomic<int> opens{0}, gets{0}, lists{0};
};

}  // namespace headrace::testing
