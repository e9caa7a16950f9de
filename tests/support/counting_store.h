// A store that counts the calls it forwards to another store.
#pragma once

#include <atomic>

#include "store/file_offers.h"
#include "support/forwarding_store.h"

namespace headrace::testing {

class CountingStore final : public ForwardingStore, public store::FileOffers {
 public:
  using ForwardingStore::ForwardingStore;

  Status open(std::string_view key, store::ByteSource& out) override {
    ++opens;
    return ForwardingStore::open(key, out);
  }
  Status open_for_reuse(std::string_view key, store::ByteSource& out) override {
    ++opens;
    return ForwardingStore::open_for_reuse(key, out);
  }
  store::FileOffers* files() noexcept override { return ForwardingStore::files() != nullptr ? this : nullptr; }
  Result<int> open_direct(std::string_view key, const store::ByteSource& object) override {
    ++opens;
    return ForwardingStore::files()->open_direct(key, object);
  }
  bool local_path(std::string_view key, std::string& out) override {
    return ForwardingStore::files()->local_path(key, out);
  }
  bool at_hand(std::string_view key, std::uint64_t limit) override {
    return ForwardingStore::files()->at_hand(key, limit);
  }
  std::optional<store::DirectoryId> identify_directory(std::string_view prefix) override {
    return ForwardingStore::files()->identify_directory(prefix);
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
