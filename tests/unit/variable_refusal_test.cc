// A chunk of strings that violates its format is named and never yields elements, impossible requests are refused, and
// memory stays within its limits.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/device.h>

#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/json.h"
#include "store/store.h"
#include "support/temp_dir.h"
#include "support/variable_model.h"
#include "support/variable_read_testing.h"
#include "support/zip_writer.h"
#include "transfer/context/context_impl.h"

namespace headrace {
namespace {

using base::Json;
using testing::elements_of;
using testing::Strings;
using testing::v2_strings;
using testing::v3_strings;
using testing::VariableRead;

TEST_F(VariableRead, TensorsAndDevicesHoldNone) {
  const Context context = make_context();
  const Array array = write(context, v3_strings({4}, {2}), words(4));
  std::byte room[64];
  for (const char* name : {"host", "host-staged"}) {
    const Device device = Device::open(name).value();
    const Status status = array.read({}, {room, array.info().dtype, {4}}, device);
    expect_status(status, Code::kUnsupported, "Array::read_variable");
  }
  Json numbers = v3_strings({4}, {2}, Json::array({{{"name", "bytes"}}}));
  numbers["data_type"] = "uint8";
  numbers["fill_value"] = 0;
  expect_status(read_status(open(make_store(numbers, context))), Code::kInvalidArgument, "Array::read");
}

TEST_F(VariableRead, ChainsThatCannotBe) {
  expect_status(open_status(v3_strings({4}, {2}, Json::array({{{"name", "bytes"}}}))), Code::kCorrupt, "vlen-utf8");
  expect_status(open_status(v3_strings({4}, {2}, Json::array({{{"name", "vlen-bytes"}}}))), Code::kCorrupt,
                "byte strings");
  const Json two = Json::array({{{"name", "vlen-utf8"}}, {{"name", "vlen-utf8"}}});
  expect_status(open_status(v3_strings({4}, {2}, two)), Code::kCorrupt, "exactly one array->bytes codec");
  const Json scaled = Json::array(
      {{{"name", "scale_offset"}, {"configuration", {{"scale", 2}, {"offset", 1}}}}, {{"name", "vlen-utf8"}}});
  expect_status(open_status(v3_strings({4}, {2}, scaled)), Code::kUnsupported, "scale_offset");
  Json numbers = v3_strings({4}, {2});
  numbers["data_type"] = "uint8";
  numbers["fill_value"] = 0;
  expect_status(open_status(numbers), Code::kCorrupt, "not elements of type 'uint8'");
  Json twice = v2_strings({4}, {2});
  twice["filters"] = Json::array({{{"id", "vlen-utf8"}}, {{"id", "json2"}}});
  expect_status(open_status(twice), Code::kCorrupt, "exactly one array->bytes codec or none");
}

TEST_F(VariableRead, BadChunksAreNamedAndTheOthersExact) {
  const Context context = make_context();
  struct Bad {
    const char* why;
    std::string bytes;
  };
  using namespace std::string_literals;
  const std::vector<Bad> chunks = {{"count wrong", testing::encode_vlen({"a", "b"})},
                                   {"count asks for gigabytes", "\xff\xff\xff\xff"s},
                                   {"length past the end", "\3\0\0\0\1\0\0\0a\xff\0\0\0b\0\0\0\0"s},
                                   {"trailing", testing::encode_vlen({"a", "b", "c"}) + "\0"s},
                                   {"not UTF-8", testing::encode_vlen({"a", "\xff", "c"})},
                                   {"cut", testing::encode_vlen({"a", "b", "c"}).substr(0, 14)},
                                   {"empty", ""}};
  for (const Bad& bad : chunks) {
    SCOPED_TRACE(bad.why);
    const Store store = make_store(v3_strings({9}, {3}), context);
    put(store, "c/0", testing::encode_vlen({"p", "q", "r"}));
    put(store, "c/1", bad.bytes);
    put(store, "c/2", testing::encode_vlen({"x", "y", "z"}));
    const Array array = open(store);
    const Status status = read_status(array);
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
    EXPECT_EQ(status.key(), "c/1");
    VariableReadOptions options;
    options.collect_errors = true;
    const auto result = array.read_variable({}, options);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    ASSERT_EQ(result->errors.size(), 1u);
    EXPECT_EQ(result->errors[0].key, "c/1");
    EXPECT_EQ(result->errors[0].status.code(), Code::kCorrupt);
    EXPECT_EQ(elements_of(*result), (Strings{"p", "q", "r", "", "", "", "x", "y", "z"}));
    options.check_only = true;
    const auto checked = array.read_variable({}, options);
    ASSERT_TRUE(checked.ok());
    EXPECT_EQ(checked->errors.size(), 1u);
    EXPECT_EQ(checked->size(), 0u);
    // Chunks that are not selected are not read.
    expect_elements(array, {"p", "q", "r", "", "", "", "x", "y", "z"}, {9}, "6:");
  }
}

TEST_F(VariableRead, BadChunksOfAShardHaveTheirPlace) {
  const Context context = make_context();
  const Json document = v3_strings({6}, {6}, Json::array({shard({2}, chain({}))}));
  const Store store = make_store(document, context);
  const std::string good = testing::encode_vlen({"a", "b"});
  std::string object, index;
  for (const std::string& chunk : {good, good.substr(0, 9), good}) {
    testing::append_number(index, object.size(), 8);
    testing::append_number(index, chunk.size(), 8);
    object += chunk;
  }
  put(store, "c/0", object + testing::encode_by(kCrc, index, 3));
  VariableReadOptions options;
  options.collect_errors = true;
  const auto result = open(store).read_variable({}, options);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  ASSERT_EQ(result->errors.size(), 1u);
  EXPECT_EQ(result->errors[0].key, "c/0");
  EXPECT_EQ(result->errors[0].offset, good.size());
  EXPECT_EQ(result->errors[0].length, 9u);
  EXPECT_EQ(elements_of(*result), (Strings{"a", "b", "", "", "a", "b"}));
}

TEST_F(VariableRead, Json2OfStrings) {
  const Context context = make_context();
  Json document = v2_strings({5}, {2});
  document["filters"] = Json::array({{{"id", "json2"}, {"encoding", "utf-8"}}});
  document["fill_value"] = 0;
  const Store store = make_store(document, context);
  put(store, "0", R"(["a","\u00e9","|O",[2]])");
  put(store, "2", R"(["z",0,"|O",[2]])");  // the 0 is beyond the array's edge
  expect_elements(open(store), {"a", "\xc3\xa9", "", "", "z"}, {5});
  put(store, "2", R"([null,0,"|O",[2]])");
  expect_status(read_status(open(store)), Code::kUnsupported, "may contain only strings: element 0");
  VariableReadOptions options;
  options.check_only = true;
  expect_status(read_status(open(store), options), Code::kUnsupported, "may contain only strings: element 0");
}

// --- limits ---

TEST_F(VariableRead, MaxBytesBoundsTheResult) {
  const Context context = make_context();
  const Array array = write(context, v3_strings({1000}, {100}), Strings(1000, std::string(100, 'x')));
  VariableReadOptions options;
  options.max_bytes = 1000 * 24 + 1000 * 100;
  EXPECT_TRUE(array.read_variable({}, options).ok());
  --options.max_bytes;
  expect_status(read_status(array, options), Code::kResourceExhausted, "max_bytes");
  options.max_bytes = 1000 * 24 - 1;
  expect_status(read_status(array, options), Code::kResourceExhausted, "1000 elements");
  options.check_only = true;
  EXPECT_TRUE(array.read_variable({}, options).ok());
}

TEST_F(VariableRead, HugeArraysAndFillValuesAreRefusedBeforeAllocation) {
  const Context context = make_context();
  const std::uint64_t huge = std::uint64_t{1} << 40;
  const Array array = open(make_store(v3_strings({huge}, {1000}), context));
  expect_status(read_status(array), Code::kResourceExhausted, "max_bytes");
  expect_elements(array, {"", ""}, {2}, "0:2");
  // So many that a fill value of 1 MiB exceeds the limit.
  const Array filled = open(make_store(v3_strings({100000}, {100000}, nullptr, std::string(1 << 20, 'f')), context));
  expect_status(read_status(filled), Code::kResourceExhausted, "max_bytes");
}

TEST_F(VariableRead, ChunksBeyondTheHostBudgetAreRefused) {
  const Context context = make_context(std::size_t{8} << 20);
  // The slots alone exceed the budget.
  const Store slots = make_store(v3_strings({1000000}, {1000000}), context);
  put(slots, "c/0", testing::encode_vlen({"a"}));
  expect_status(read_status(open(slots)), Code::kResourceExhausted, "host_budget_bytes");
  // A bomb: 24 MiB in a few kilobytes.
  for (const Json& codec : {kZstd, kGzip, kBlosc}) {
    const Array bomb = write(context, v3_strings({1}, {1}, chain({codec})), {std::string(std::size_t{24} << 20, 'x')});
    expect_status(read_status(bomb), Code::kResourceExhausted, "host_budget_bytes");
    VariableReadOptions options;
    options.collect_errors = true;
    const auto result = bomb.read_variable({}, options);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->errors.size(), 1u);
  }
}

// Each chunk fits, but not one per worker: the workers take turns, and none fails.
TEST_F(VariableRead, ChunksThatOnlyFitOneAtATimeAreRead) {
  const Context context = make_context(std::size_t{8} << 20);
  const Strings elements(12, std::string(std::size_t{2} << 20, 'y'));
  expect_elements(write(context, v3_strings({12}, {1}, chain({kZstd})), elements), elements, {12});
}

// An archive with an array of strings, one per chunk, whose chunks are deflated.
Array open_zipped(const Context& context, const std::string& path, const Strings& elements) {
  const Json document = v3_strings({elements.size()}, {1});
  testing::ZipWriter zip;
  zip.add_text("zarr.json", document.dump());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::string chunk = testing::encode_vlen({elements[i]});
    zip.add("c/" + std::to_string(i), std::as_bytes(std::span(chunk)), {.deflate = true});
  }
  EXPECT_TRUE(support::write_file(path, zip.finish()));
  return Array::open(Store::open(context, path).value()).value();
}

// The memory for unpacking a chunk is charged to the stored budget, and released.
TEST_F(VariableRead, UnpackingStaysWithinTheStoredBudget) {
  ContextOptions options;
  options.threads = 3;
  options.stored_budget_bytes = std::size_t{4} << 20;
  const Context context = Context::create(options).value();
  const support::TempDir dir;
  const std::uint64_t size = (std::uint64_t{8} << 20) + 8;
  const Array array = open_zipped(context, dir / "large.zip", {"a", std::string(std::size_t{8} << 20, 'x'), "b"});
  const auto& budget = Access::impl(context)->resources->stored_memory();
  const std::uint64_t before = budget->used_bytes();
  const Status status = read_status(array);
  expect_status(status, Code::kResourceExhausted, "unpacking a chunk");
  expect_status(status, Code::kResourceExhausted, std::to_string(store::Store::max_packed_bytes(size)));
  expect_status(status, Code::kResourceExhausted, "stored_budget_bytes");
  EXPECT_EQ(status.key(), "c/1");
  EXPECT_EQ(budget->used_bytes(), before);
  VariableReadOptions collect;
  collect.collect_errors = true;
  const auto others = array.read_variable({}, collect);
  ASSERT_TRUE(others.ok()) << others.status().to_string();
  EXPECT_EQ(elements_of(*others), (Strings{"a", "", "b"}));
  EXPECT_EQ(others->errors.size(), 1u);

  // Each chunk fits, but not one per worker: the workers take turns, and none fails.
  Strings elements;
  for (std::size_t i = 0; i < 24; ++i) elements.push_back(std::string((std::size_t{3} << 20) - i, 'y'));
  expect_elements(open_zipped(context, dir / "many.zip", elements), elements, {24});
  EXPECT_LE(budget->used_bytes(), before + (std::uint64_t{1} << 20)) << "only the second archive's directory";
}

TEST_F(VariableRead, CancelledReadsEnd) {
  const Context context = make_context();
  const Array array = write(context, v3_strings({1000}, {1}), Strings(1000, "x"));
  VariableReadOptions options;
  options.cancel.emplace();
  EXPECT_TRUE(array.read_variable({}, options).ok());
  options.cancel->ask();
  expect_status(read_status(array, options), Code::kCancelled, "cancelled");
}

TEST_F(VariableRead, SeveralAtATime) {
  const Context context = make_context();
  const Strings elements = words(5000);
  const Array array = write(context, v3_strings({5000}, {70}, chain({kZstd})), elements);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const auto result = array.read_variable({});
        if (!result.ok() || elements_of(*result) != elements) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace headrace
