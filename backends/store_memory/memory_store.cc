// MemoryStore: named objects in this process's memory, for tests and for programs that embed their data.
//
// "memory://name" opens the same objects for everyone; they are freed with the last handle.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>

#include "base/fork.h"
#include "store/store.h"

namespace headrace::store {
namespace {

using Blob = std::unique_ptr<const Bytes>;

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::string name) : name_(std::move(name)) {}

  std::string url() const override { return "memory://" + name_; }

  Status open(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return not_found_;
    out.offer_memory(*found->second);
    return {};
  }

  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    std::string start(prefix);
    if (!start.empty()) start += '/';
    std::vector<Entry> entries;
    std::shared_lock lock(mutex_);
    for (auto it = objects_.lower_bound(start); it != objects_.end(); ++it) {
      const std::string_view key = it->first;
      if (key.substr(0, start.size()) != start) break;
      const std::string_view rest = key.substr(start.size());
      const std::size_t slash = rest.find('/');
      const std::string_view name = rest.substr(0, slash);
      if (entries.empty() || entries.back().name != name) {
        if (charge != nullptr) HEADRACE_TRY(charge->take(listed_bytes(name), "a listing").with_key(prefix));
        entries.push_back({std::string(name), slash != std::string_view::npos});
      }
    }
    if (entries.empty() && !prefix.empty()) {
      return Status(Code::kNotFound, Layer::kStore, "no such directory").with_key(prefix);
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  Status put(std::string_view key, std::span<const std::byte> bytes) override {
    HEADRACE_TRY(check_key(key));
    try {
      Blob blob = std::make_unique<const Bytes>(bytes.begin(), bytes.end());
      std::unique_lock lock(mutex_);
      // As in a directory tree, a name is either an object or a directory.
      for (std::size_t slash = key.find('/'); slash != std::string_view::npos; slash = key.find('/', slash + 1)) {
        if (objects_.contains(key.substr(0, slash))) return clash(key, "an object exists where a directory is needed");
      }
      const std::string below = std::string(key) + '/';
      const auto next = objects_.lower_bound(below);
      if (next != objects_.end() && std::string_view(next->first).substr(0, below.size()) == below) {
        return clash(key, "the key is a directory");
      }
      const auto found = objects_.find(key);
      if (found == objects_.end()) {
        objects_.emplace(std::string(key), std::move(blob));
      } else {
        // Open objects keep their bytes: replaced ones are kept until the store ends.
        retired_.push_back(nullptr);
        retired_.back() = std::exchange(found->second, std::move(blob));
      }
      return {};
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }

 private:
  static Status clash(std::string_view key, const char* what) {
    return Status(Code::kIo, Layer::kStore, what).with_key(key);
  }

  std::string name_;
  std::shared_mutex mutex_;
  std::map<std::string, Blob, std::less<>> objects_;  // guarded by mutex_
  std::vector<Blob> retired_;                         // guarded by mutex_
  Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
};

}  // namespace

Result<std::shared_ptr<Store>> open_memory_store(std::string_view location, const StoreOptions&) {
  struct Opened {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<MemoryStore>, std::less<>> stores;  // guarded by mutex
  };
  static base::PerProcess<Opened> opened;
  try {
    Opened& open = opened.get();
    std::lock_guard lock(open.mutex);
    std::erase_if(open.stores, [](const auto& item) { return item.second.expired(); });
    auto& slot = open.stores[std::string(location)];
    auto store = slot.lock();
    if (store == nullptr) {
      store = std::make_shared<MemoryStore>(std::string(location));
      slot = store;
    }
    return std::shared_ptr<Store>(std::move(store));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
