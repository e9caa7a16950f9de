#include "support/stores_under_test.h"

#include <cstdlib>

#include "stores_under_test.inc"

namespace headrace::testing {

std::span<const StoreUnderTest> stores_under_test() {
  struct Row {
    const char* folder;
    std::span<const StoreUnderTest> (*stores)();
  };
  static const std::vector<StoreUnderTest> all = [] {
    std::vector<StoreUnderTest> out;
    for (const Row& row : std::initializer_list<Row>{HEADRACE_UNDER_TEST_ROWS}) {
      for (const StoreUnderTest& store : row.stores()) out.push_back(store);
    }
    return out;
  }();
  return all;
}

const StoreUnderTest& store_under_test(std::string_view name) {
  for (const StoreUnderTest& row : stores_under_test()) {
    if (name == row.name) return row;
  }
  std::abort();
}

std::shared_ptr<store::Store> fill_by_put(const std::string& url, const Objects& objects) {
  auto store = store::open_store(url);
  if (!store.ok()) return nullptr;
  for (const auto& [key, bytes] : objects) {
    if (!(*store)->put(key, bytes).ok()) return nullptr;
  }
  return *store;
}

Objects objects_of(store::Store& store, const std::string& prefix) {
  Objects objects;
  auto entries = store.list(prefix);
  if (!entries.ok()) return objects;
  for (const store::Entry& entry : *entries) {
    const std::string key = prefix.empty() ? entry.name : prefix + "/" + entry.name;
    if (entry.is_directory) {
      objects.merge(objects_of(store, key));
    } else if (auto bytes = store.get(key, std::uint64_t{1} << 32); bytes.ok()) {
      objects[key] = std::move(*bytes);
    }
  }
  return objects;
}

}  // namespace headrace::testing
