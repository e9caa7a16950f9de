// Arrays of strings are read on every path: many ranges of a user-supplied store at a time, cold files through the
// engine, long objects by the workers themselves. Whatever a store answers and however little memory there is, reads
// end.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/json.h"
#include "support/ranges_in_memory.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "support/variable_model.h"
#include "support/variable_read_testing.h"

namespace headrace {
namespace {

using base::Json;
using std::chrono::milliseconds;
using testing::elements_of;
using testing::RangeHabits;
using testing::RangeStoreInMemory;
using testing::Strings;
using testing::v3_strings;

class VariableWays : public testing::VariableRead {
 protected:
  static Context context_of(unsigned threads, std::size_t host_budget, const char* engine = "auto") {
    ContextOptions options;
    options.threads = threads;
    options.host_budget_bytes = host_budget;
    options.engine = engine;
    return Context::create(options).value();
  }
  // An array whose chunks are in a user-supplied store, and the store.
  struct OfRanges {
    std::shared_ptr<RangeStoreInMemory> store;
    Array array;
  };
  static OfRanges of_ranges(const Context& context, const Json& document, const Strings& elements,
                            const RangeHabits& habits) {
    const Store written = make_store(document, context);
    testing::store_chunks(*Access::impl(written), document, elements, "");
    auto store = std::make_shared<RangeStoreInMemory>(testing::objects_of(*Access::impl(written)), habits);
    Array array =
        Array::from_document(Store::open(context, store).value(), "", 3, document.dump()).value();  // makes no request
    return {std::move(store), std::move(array)};
  }
  static Json one_a_chunk(std::size_t count, const Json& codecs = nullptr) { return v3_strings({count}, {1}, codecs); }
};

TEST_F(VariableWays, ManyRangesOfAUsersStoreAreInFlight) {
  constexpr std::size_t kChunks = 1000;
  constexpr milliseconds kDelay(20);
  const Strings elements = words(kChunks * 2);
  for (const bool tells_size : {true, false}) {
    RangeHabits habits;
    habits.delay = kDelay;
    habits.tells_size = tells_size;
    const OfRanges of =
        of_ranges(context_of(2, std::size_t{64} << 20), v3_strings({kChunks * 2}, {2}), elements, habits);
    const auto start = std::chrono::steady_clock::now();
    const auto result = of.array.read_variable({});
    const auto took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(elements_of(*result), elements);
    EXPECT_LT(took, kDelay * kChunks / 8);
    EXPECT_GE(of.store->max_in_flight, 64u);
    EXPECT_EQ(result->stats.store_bytes, result->stats.read_bytes);
    EXPECT_EQ(result->stats.requests, kChunks) << "one request per chunk, without a request for its size";
    EXPECT_EQ(result->stats.path, "store");
  }
}

TEST_F(VariableWays, CancellingEndsRangesInFlight) {
  const Strings elements(400, "x");
  for (const bool ignores : {false, true}) {
    RangeHabits habits;
    habits.delay = ignores ? milliseconds(300) : milliseconds(60'000);
    const OfRanges of = of_ranges(context_of(2, std::size_t{64} << 20), one_a_chunk(400), elements, habits);
    of.store->ignores_cancel = ignores;
    VariableReadOptions options;
    options.cancel.emplace();
    std::thread asking([&of, token = *options.cancel] {
      while (of.store->started < 100) std::this_thread::sleep_for(milliseconds(1));
      token.ask();
    });
    const auto start = std::chrono::steady_clock::now();
    const auto result = of.array.read_variable({}, options);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(result.status().code(), Code::kCancelled);
    asking.join();
    EXPECT_GE(of.store->cancelled, 1u);
    EXPECT_EQ(of.store->in_flight, 0u);
  }
}

// A named engine reads everything, as if from a cold disk.
TEST_F(VariableWays, ColdBytesAreCountedAsTheEngines) {
  const support::TempDir dir;
  const Context context = context_of(2, std::size_t{64} << 20, "threads");
  for (const char* name : {"chunks", "shards"}) {
    const bool sharded = std::string_view(name) == "shards";
    const Json document =
        sharded ? v3_strings({600}, {60}, Json::array({shard({6}, chain({kZstd}))})) : v3_strings({600}, {6});
    std::filesystem::create_directory(dir / name);
    const Store store = Store::open(context, dir / name).value();
    ASSERT_TRUE(Access::impl(store)->put("zarr.json", testing::to_bytes(document.dump())).ok());
    const Strings elements = words(600);
    testing::store_chunks(*Access::impl(store), document, elements, "");
    const auto result = open(store).read_variable({});
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(elements_of(*result), elements);
    EXPECT_GT(result->stats.engine_bytes + result->stats.direct_bytes, 0u);
    EXPECT_EQ(result->stats.buffered_bytes > 0, sharded) << "the indexes, which a plan reads itself";
    EXPECT_EQ(result->stats.engine, "threads");
    EXPECT_EQ(result->stats.path.find("page cache"), std::string::npos) << result->stats.path;
  }
}

// Objects that do not fit into the I/O service's slab are read into the halves of the budget; those that do not fit
// there are refused.
TEST_F(VariableWays, LongObjectsAreReadByTheWorkers) {
  const Context context = context_of(3, std::size_t{1} << 20);
  Strings elements;
  for (std::size_t i = 0; i < 24; ++i) elements.push_back(std::string(20'000 * (i % 12) + i, 'z'));
  for (const auto& [tells_size, sharded] : {std::pair{true, false}, {false, false}, {true, true}}) {
    RangeHabits habits;
    habits.tells_size = tells_size;
    const Json document = sharded ? v3_strings({24}, {2}, Json::array({shard({1}, chain({}))})) : one_a_chunk(24);
    const OfRanges of = of_ranges(context, document, elements, habits);
    const auto result = of.array.read_variable({});
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(elements_of(*result), elements);
  }
  elements[7] = std::string(600'000, 'z');
  for (const bool in_files : {false, true}) {
    const support::TempDir dir;
    std::optional<Array> array;
    if (in_files) {
      const Store store = Store::open(context, dir.path()).value();
      ASSERT_TRUE(Access::impl(store)->put("zarr.json", testing::to_bytes(one_a_chunk(24).dump())).ok());
      testing::store_chunks(*Access::impl(store), one_a_chunk(24), elements, "");
      array = open(store);
    } else {
      array = of_ranges(context, one_a_chunk(24), elements, {}).array;
    }
    const Status status = read_status(*array);
    expect_status(status, Code::kResourceExhausted, "host_budget_bytes");
    EXPECT_EQ(status.key(), "c/7");
    VariableReadOptions options;
    options.collect_errors = true;
    const auto others = array->read_variable({}, options);
    ASSERT_TRUE(others.ok()) << others.status().to_string();
    ASSERT_EQ(others->errors.size(), 1u);
    EXPECT_EQ(others->errors[0].key, "c/7");
    Strings without = elements;
    without[7].clear();
    EXPECT_EQ(elements_of(*others), without);
  }
}

// A store that lies about an object's length costs no memory, and causes no endless requests.
TEST_F(VariableWays, WrongLengthsCauseNoEndlessRequests) {
  const Context context = context_of(3, std::size_t{1} << 20);
  const Strings elements(6, std::string(70'000, 'q'));
  for (const std::uint64_t told : {std::uint64_t{1} << 39, std::uint64_t{1} << 50, RangeRead::kUnknown}) {
    RangeHabits habits;
    habits.change = [told](RangeRead& read) {
      if (read.key != "c/3") return;
      read.bytes = read.out.size();  // however much is requested
      read.status = {};
      read.object_bytes = told;
    };
    const OfRanges of = of_ranges(context, one_a_chunk(6), elements, habits);
    VariableReadOptions options;
    options.collect_errors = true;
    const auto result = of.array.read_variable({}, options);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    ASSERT_EQ(result->errors.size(), 1u);
    EXPECT_EQ(result->errors[0].key, "c/3") << result->errors[0].status.to_string();
    EXPECT_LT(of.store->started, 200u);
    EXPECT_EQ(of.store->in_flight, 0u);
  }
}

// Sparse files that are longer than any memory.
TEST_F(VariableWays, SparseFilesCostNoMemory) {
  const Context context = context_of(3, std::size_t{1} << 20);
  const support::TempDir dir;
  const Store store = Store::open(context, dir.path()).value();
  ASSERT_TRUE(Access::impl(store)->put("zarr.json", testing::to_bytes(one_a_chunk(6).dump())).ok());
  const Strings elements(6, "element");
  testing::store_chunks(*Access::impl(store), one_a_chunk(6), elements, "");
  for (const auto& [bytes, code] : {std::pair{std::uint64_t{1} << 39, Code::kResourceExhausted},
                                    {(std::uint64_t{1} << 40) + 1, Code::kCorrupt},
                                    {std::uint64_t{70'000}, Code::kCorrupt}}) {
    std::filesystem::resize_file(dir / "c/2", bytes);
    VariableReadOptions options;
    options.collect_errors = true;
    const auto result = open(store).read_variable({}, options);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    ASSERT_EQ(result->errors.size(), 1u);
    EXPECT_EQ(result->errors[0].key, "c/2");
    EXPECT_EQ(result->errors[0].status.code(), code) << result->errors[0].status.to_string();
    EXPECT_EQ((*result)[3], "element");
  }
}

// An object that is removed after its first bytes were read counts as absent.
TEST_F(VariableWays, DeletedObjectsAreFilled) {
  const Context context = context_of(2, std::size_t{1} << 20);
  RangeHabits habits;
  std::atomic<int> asked{0};
  habits.tells_size = false;
  habits.change = [&asked](RangeRead& read) {
    if (read.key == "c/1" && asked++ > 0) {
      read.status = Status(Code::kNotFound, Layer::kStore, "gone");
      read.bytes = 0;
    }
  };
  const OfRanges of = of_ranges(context, one_a_chunk(3), Strings(3, std::string(200'000, 'q')), habits);
  const auto result = of.array.read_variable({});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ((*result)[1], "");
  EXPECT_EQ((*result)[2].size(), 200'000u);
  EXPECT_EQ(result->stats.missing_chunks, 1u);
}

// Many workers of two concurrent reads: their chunks each need the second half of a tiny budget, while others wait for
// a place in the service's slab.
TEST_F(VariableWays, ManyWorkersShareATinyBudget) {
  const Context context = context_of(16, std::size_t{1} << 20);
  Strings elements;
  // A few times the number of workers. Fewer under ThreadSanitizer, which checks each byte moved.
  const std::size_t count = support::kThreadSanitizer ? 64 : 150;
  for (std::size_t i = 0; i < count; ++i) elements.push_back(std::string(300'000 - i, static_cast<char>('a' + i % 26)));
  // Short when stored and long when decoded; and long when stored as well.
  const OfRanges packed = of_ranges(context, one_a_chunk(count, chain({kZstd})), elements, {});
  const OfRanges plain = of_ranges(context, one_a_chunk(count), elements, {});
  const Array in_memory = write(context, one_a_chunk(count, chain({kZstd})), elements);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const Array* array : {&packed.array, &plain.array, &in_memory, &packed.array}) {
    threads.emplace_back([&, array] {
      for (int round = 0; round < 2; ++round) {
        const auto result = array->read_variable({});
        if (!result.ok() || elements_of(*result) != elements) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  // Cancelled at any moment.
  for (int i = 0; i < 40; ++i) {
    VariableReadOptions options;
    options.cancel.emplace();
    std::thread asking([&, token = *options.cancel] {
      std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
      token.ask();
    });
    const Array& array = i % 2 == 0 ? packed.array : plain.array;
    const auto result = array.read_variable({}, options);
    EXPECT_TRUE(result.ok() || result.status().code() == Code::kCancelled) << result.status().to_string();
    asking.join();
  }
  EXPECT_EQ(packed.store->in_flight + plain.store->in_flight, 0u);
}

// Several workers do the final copying, which is cancelled as well.
TEST_F(VariableWays, ManyElementsAreCopiedTogether) {
  const Context context = context_of(4, std::size_t{256} << 20);
  const Strings elements = words(400'000);
  const Array array = write(context, v3_strings({400'000}, {9'000}), elements);
  for (int i = 0; i < 30; ++i) {
    VariableReadOptions options;
    options.cancel.emplace();
    std::thread asking([&, token = *options.cancel] {
      std::this_thread::sleep_for(std::chrono::microseconds(1000 * i));
      token.ask();
    });
    const auto result = array.read_variable({}, options);
    asking.join();
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), Code::kCancelled) << result.status().to_string();
    }
  }
  const auto result = array.read_variable({});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_TRUE(elements_of(*result) == elements);
}

}  // namespace
}  // namespace headrace
