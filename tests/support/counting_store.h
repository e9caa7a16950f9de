// A store that counts what is asked of the one behind it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"

namespace headrace::testing {

class CountingStore final : public store::Store {
 public:
  explicit CountingStore(std::shared_ptr<store::Store> behind) : behind_(std::move(behind)) {}

  std::string url() const override { return behind_->url(); }
  Status open(std::string_view key, store::Object& out) override {
    ++opens;
    return behind_->open(key, out);
  }
  Result<int> open_direct(std::string_view key, const store::Object& object) override {
    ++opens;
    return behind_->open_direct(key, object);
  }
  Result<store::Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge) override {
    ++gets;
    return behind_->get(key, limit, charge);
  }
  Result<std::vector<store::Entry>> list(std::string_view prefix, base::Charge* charge) override {
    ++lists;
    return behind_->list(prefix, charge);
  }
  std::optional<store::DirectoryId> identify_directory(std::string_view prefix) override {
    return behind_->identify_directory(prefix);
  }
  Status put(std::string_view key, std::span<const std::byte> bytes) override { return behind_->put(key, bytes); }

  int all() const { return opens + gets + lists; }
  std::atomic<int> opens{0}, gets{0}, lists{0};

 private:
  std::shared_ptr<store::Store> behind_;
};

}  // namespace headrace::testing
