#include "support/stores_under_test.h"

#include <cstdlib>

#include "cache/cached_ranges.h"
#include "store/range_store.h"
#include "stores_under_test.inc"
#include "support/ranges_in_memory.h"

namespace headrace::testing {
namespace {

constexpr std::string_view kRangesScheme = "filled-ranges://";

// The stores filled last: as many as one test opens at a time.
std::map<std::string, std::shared_ptr<ByteStore>>& filled_ranges() {
  static std::map<std::string, std::shared_ptr<ByteStore>> filled;
  return filled;
}

template <int habits>
std::string fill_ranges(const std::string& dir, const Objects& objects) {
  using Answers = RangeHabits::Answers;
  static constexpr Answers kAnswers[] = {Answers::kOnThread, Answers::kReversed, Answers::kInStart,
                                         Answers::kInOneBatch};
  RangeHabits how;
  how.answers = kAnswers[habits];
  how.tells_size = habits != 1;
  how.tells_version = habits == 3;
  how.writes = false;
  Objects valid;  // only valid keys; others are not objects
  for (const auto& [key, bytes] : objects) {
    if (store::valid_key(key)) valid[key] = bytes;
  }
  std::string url = std::string(kRangesScheme) + dir;
  filled_ranges().clear();
  filled_ranges()[url] = std::make_shared<RangeStoreInMemory>(std::move(valid), how);
  return url;
}

// Fills a store behind a disk cache.
std::string fill_cached(const std::string& dir, const Objects& objects) {
  std::string url = fill_ranges<3>(dir, objects);
  cache::CacheOptions options;
  options.directory = dir + "/cache-of-ranges";
  auto cached = cache::make_cached_ranges(filled_ranges()[url], url, options, nullptr);
  if (!cached.ok()) return {};
  filled_ranges()[url] = *cached;
  return url;
}

}  // namespace

namespace {

std::vector<StoreUnderTest> of_the_table(bool remote) {
  struct Row {
    const char* folder;
    std::span<const StoreUnderTest> (*stores)();
  };
  std::vector<StoreUnderTest> out;
  for (const Row& row : std::initializer_list<Row>{HEADRACE_UNDER_TEST_ROWS}) {
    for (const StoreUnderTest& store : row.stores()) {
      if (store.remote == remote) out.push_back(store);
    }
  }
  return out;
}

}  // namespace

std::span<const StoreUnderTest> stores_under_test() {
  static const std::vector<StoreUnderTest> local = of_the_table(false);
  return local;
}

std::vector<StoreUnderTest> remote_stores_under_test() {
  // Without libcurl's headers, such a URL is unsupported.
  if (store::open_store("http://127.0.0.1:1/x").status().code() == Code::kUnsupported) return {};
  return of_the_table(true);
}

std::span<const StoreUnderTest> range_stores_under_test() {
  static constexpr StoreUnderTest kStores[] = {{"ranges", false, true, &fill_ranges<0>},
                                               {"ranges_untold", false, true, &fill_ranges<1>},
                                               {"ranges_in_start", false, true, &fill_ranges<2>},
                                               {"ranges_in_one_batch", false, true, &fill_ranges<3>},
                                               {"ranges_cached", false, true, &fill_cached}};
  return kStores;
}

std::vector<StoreUnderTest> all_stores_under_test() {
  std::vector<StoreUnderTest> all(stores_under_test().begin(), stores_under_test().end());
  const std::vector<StoreUnderTest> remote = remote_stores_under_test();
  all.insert(all.end(), remote.begin(), remote.end());
  all.insert(all.end(), range_stores_under_test().begin(), range_stores_under_test().end());
  return all;
}

Result<std::shared_ptr<store::Store>> open_filled(const std::string& url) {
  if (!url.starts_with(kRangesScheme)) return store::open_store(url);
  return std::shared_ptr<store::Store>(std::make_shared<store::RangeStore>(filled_ranges().at(url)));
}

Result<Store> open_filled(const Context& context, const std::string& url) {
  if (!url.starts_with(kRangesScheme)) return Store::open(context, url);
  return Store::open(context, filled_ranges().at(url));
}

const StoreUnderTest& store_under_test(std::string_view name) {
  for (const auto rows : {stores_under_test(), range_stores_under_test()}) {
    for (const StoreUnderTest& row : rows) {
      if (name == row.name) return row;
    }
  }
  // Last, because detecting them loads libcurl.
  static const std::vector<StoreUnderTest> remote = remote_stores_under_test();
  for (const StoreUnderTest& row : remote) {
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
