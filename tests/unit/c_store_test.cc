// User-supplied stores through the C API.
#include <gtest/gtest.h>
#include <headrace/headrace.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

// A user-supplied store: functions over a map, which answer from within start().
struct MapStore {
  std::map<std::string, std::string> objects;
  hr_code refuses = HR_OK;
  hr_code fails = HR_OK;
  uint64_t told = HR_UNKNOWN_BYTES;  // reported instead of the object's size
  int started = 0, freed = 0, puts = 0;
};

hr_code map_start(void* user, hr_range_read* const* reads, size_t count) {
  auto& store = *static_cast<MapStore*>(user);
  if (store.refuses != HR_OK) return store.refuses;
  for (size_t i = 0; i < count; ++i) {
    ++store.started;
    hr_range_read* const read = reads[i];
    const auto found = store.objects.find(hr_range_key(read));
    if (found == store.objects.end()) {
      hr_range_done(read, HR_NOT_FOUND, nullptr, 0, HR_UNKNOWN_BYTES, nullptr);
      continue;
    }
    const std::string& bytes = found->second;
    const size_t room = hr_range_bytes(read);
    const size_t from = hr_range_from_end(read) != 0 ? bytes.size() - std::min(bytes.size(), room)
                                                     : std::min<size_t>(hr_range_offset(read), bytes.size());
    const size_t there = std::min(bytes.size() - from, room);
    std::memcpy(hr_range_out(read), bytes.data() + from, there);
    const bool chunk = found->first != ".zarray" && found->first != "zarr.json";
    hr_range_done(read, chunk ? store.fails : HR_OK, "planted", there, chunk ? store.told : bytes.size(), "v1");
  }
  return HR_OK;
}

hr_code map_list(void* user, const char* prefix, hr_listing* listing) {
  if (*prefix != '\0') return HR_NOT_FOUND;
  for (const auto& [key, bytes] : static_cast<MapStore*>(user)->objects) hr_listing_add(listing, key.c_str(), 0);
  return HR_OK;
}

hr_code map_put(void* user, const char* key, const void* bytes, size_t count) {
  auto& store = *static_cast<MapStore*>(user);
  ++store.puts;
  store.objects[key] = std::string(static_cast<const char*>(bytes), count);
  return HR_OK;
}

class CStore : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(hr_context_create(nullptr, &context_, &error_), HR_OK) << message();
    ASSERT_EQ(hr_device_open("host", &device_, &error_), HR_OK) << message();
    map_.objects[".zarray"] =
        R"({"zarr_format": 2, "shape": [4, 6], "chunks": [2, 6], "dtype": "<u2", "compressor": null,)"
        R"( "fill_value": 7, "filters": null, "order": "C"})";
    map_.objects["0.0"] = std::string(24, '\x01');
    functions_.user = &map_;
    functions_.url = "map://";
    functions_.start = map_start;
    functions_.list = map_list;
    functions_.put = map_put;
    functions_.free = [](void* user) { ++static_cast<MapStore*>(user)->freed; };
  }
  void TearDown() override {
    hr_error_free(error_);
    hr_device_free(device_);
    hr_context_free(context_);
  }
  std::string message() const { return hr_error_message(error_); }
  // Expects `code` in both the result and the error; frees the error.
  void expect(hr_code result, hr_code code) {
    EXPECT_EQ(result, code) << message();
    EXPECT_EQ(hr_error_code(error_), code);
    hr_error_free(error_);
    error_ = nullptr;
  }
  hr_code read(std::vector<uint16_t>& elements) {
    hr_store* store = nullptr;
    hr_array* array = nullptr;
    EXPECT_EQ(hr_store_open_functions(context_, &functions_, &store, &error_), HR_OK) << message();
    EXPECT_EQ(hr_array_open(store, nullptr, &array, &error_), HR_OK) << message();
    hr_store_free(store);
    elements.assign(24, 0);
    hr_read_options options = HR_READ_OPTIONS_INIT;
    options.data = elements.data();
    options.data_bytes = 48;
    const hr_code code = hr_array_read(array, device_, &options, &error_);
    hr_stored_chunks* chunks = nullptr;
    EXPECT_EQ(hr_array_stored_chunks(array, &chunks, nullptr), HR_OK);
    EXPECT_EQ(hr_stored_chunks_count(chunks), 1u);
    hr_stored_chunks_free(chunks);
    EXPECT_EQ(map_.freed, frees_) << "the array keeps it";
    hr_array_free(array);
    EXPECT_EQ(map_.freed, ++frees_);
    return code;
  }

  hr_error* error_ = nullptr;
  hr_context* context_ = nullptr;
  hr_device* device_ = nullptr;
  MapStore map_;
  hr_store_functions functions_ = HR_STORE_FUNCTIONS_INIT;
  int frees_ = 0;
};

TEST_F(CStore, GivesItsChunksAndFillValues) {
  std::vector<uint16_t> elements, expected(24, 7);
  std::fill_n(expected.begin(), 12, 0x0101);
  EXPECT_EQ(read(elements), HR_OK) << message();
  EXPECT_EQ(elements, expected);
  map_.told = 24;
  EXPECT_EQ(read(elements), HR_OK) << message();
  EXPECT_EQ(elements, expected);
  EXPECT_GT(map_.started, 4);
}

TEST_F(CStore, FailuresKeepTheirText) {
  std::vector<uint16_t> elements;
  map_.fails = HR_PERMISSION;
  hr_code code = read(elements);
  EXPECT_NE(message().find("planted"), std::string::npos) << message();
  EXPECT_NE(message().find("0.0"), std::string::npos) << message();
  expect(code, HR_PERMISSION);
  map_.fails = static_cast<hr_code>(HR_INTERNAL + 1);
  code = read(elements);
  expect(code, HR_IO);
  map_.fails = HR_OK;
  map_.told = 5;  // less than it delivered
  code = read(elements);
  expect(code, HR_SHORT);
  map_.refuses = HR_TIMEOUT;
  hr_store* store = nullptr;
  hr_array* array = nullptr;
  ASSERT_EQ(hr_store_open_functions(context_, &functions_, &store, &error_), HR_OK);
  expect(hr_array_open(store, nullptr, &array, &error_), HR_TIMEOUT);
  hr_store_free(store);
}

// Four chunks of a shard, 100,000 bytes apart: read with four requests, two, or one.
TEST_F(CStore, RangesFollowTheAdvice) {
  constexpr uint64_t kApart = 100'000;
  std::string shard(4 * kApart, 'x');
  for (uint64_t chunk = 0; chunk < 4; ++chunk) {
    shard.replace(chunk * kApart, 4, 4, static_cast<char>(chunk + 1));
  }
  for (uint64_t chunk = 0; chunk < 4; ++chunk) {
    const uint64_t place[] = {chunk * kApart, 4};
    shard.append(reinterpret_cast<const char*>(place), sizeof(place));
  }
  map_.objects = {
      {"c/0", shard},
      {"zarr.json", R"({"zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint16", "fill_value": 0,)"
                    R"( "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8]}},)"
                    R"( "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "sharding_indexed",)"
                    R"( "configuration": {"chunk_shape": [2], "index_location": "end",)"
                    R"( "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],)"
                    R"( "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]})"}};
  map_.told = shard.size();
  const auto reads_with = [&](uint64_t gap, uint64_t group) {
    functions_.gap_bytes = gap;
    functions_.group_bytes = group;
    functions_.window_bytes = gap;
    hr_store* store = nullptr;
    hr_array* array = nullptr;
    EXPECT_EQ(hr_store_open_functions(context_, &functions_, &store, &error_), HR_OK) << message();
    EXPECT_EQ(hr_array_open(store, nullptr, &array, &error_), HR_OK) << message();
    const int before = map_.started;
    uint16_t elements[8] = {};
    hr_read_options options = HR_READ_OPTIONS_INIT;
    options.data = elements;
    options.data_bytes = sizeof(elements);
    EXPECT_EQ(hr_array_read(array, device_, &options, &error_), HR_OK) << message();
    for (uint16_t i = 0; i < 8; ++i) EXPECT_EQ(elements[i], 0x0101 * (i / 2 + 1)) << i;
    const int reads = map_.started - before;
    hr_array_free(array);
    hr_store_free(store);
    return reads - 1;  // without that for the index
  };
  EXPECT_EQ(reads_with(0, 0), 4);
  EXPECT_EQ(reads_with(kApart - 5, 0), 4);
  EXPECT_EQ(reads_with(kApart, 0), 1);
  EXPECT_EQ(reads_with(kApart, 2 * kApart), 2);
}

TEST_F(CStore, MisuseIsRefusedAndFreesNothing) {
  hr_store* store = nullptr;
  expect(hr_store_open_functions(nullptr, &functions_, &store, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open_functions(context_, nullptr, &store, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open_functions(context_, &functions_, nullptr, &error_), HR_INVALID_ARGUMENT);
  hr_store_functions wrong = functions_;
  wrong.start = nullptr;
  expect(hr_store_open_functions(context_, &wrong, &store, &error_), HR_INVALID_ARGUMENT);
  wrong = functions_;
  wrong.url = nullptr;
  expect(hr_store_open_functions(context_, &wrong, &store, &error_), HR_INVALID_ARGUMENT);
  wrong = functions_;
  wrong.size = 7;
  expect(hr_store_open_functions(context_, &wrong, &store, &error_), HR_INVALID_ARGUMENT);
  EXPECT_EQ(store, nullptr);
  EXPECT_EQ(map_.freed, 0);
}

}  // namespace
