// The C API refuses misuse with a code and a message instead of crashing: null arguments, struct sizes, buffers that
// are too small, names that do not exist.
#include <gtest/gtest.h>
#include <headrace/headrace.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace {

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(testing::TempDir()) / ("c_api_" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ / ".zarray")
        << R"({"zarr_format": 2, "shape": [4, 6], "chunks": [2, 6], "dtype": "<u2", "compressor": null,)"
        << R"( "fill_value": 7, "filters": null, "order": "C"})";
    ASSERT_EQ(hr_context_create(nullptr, &context_, &error_), HR_OK) << message();
    ASSERT_EQ(hr_store_open(context_, directory_.c_str(), &store_, &error_), HR_OK) << message();
    ASSERT_EQ(hr_array_open(store_, nullptr, &array_, &error_), HR_OK) << message();
    ASSERT_EQ(hr_device_open("host", &device_, &error_), HR_OK) << message();
  }
  void TearDown() override {
    hr_error_free(error_);
    hr_device_free(device_);
    hr_array_free(array_);
    hr_store_free(store_);
    hr_context_free(context_);
    std::filesystem::remove_all(directory_);
  }
  std::string message() const { return hr_error_message(error_); }
  // Expects `code` in both the result and the error, and a message of one line; frees the error.
  void expect(hr_code result, hr_code code) {
    EXPECT_EQ(result, code) << message();
    EXPECT_EQ(hr_error_code(error_), code);
    EXPECT_EQ(message().empty(), code == HR_OK);
    EXPECT_EQ(message().find('\n'), std::string::npos);
    hr_error_free(error_);
    error_ = nullptr;
  }

  std::filesystem::path directory_;
  hr_error* error_ = nullptr;
  hr_context* context_ = nullptr;
  hr_store* store_ = nullptr;
  hr_array* array_ = nullptr;
  hr_device* device_ = nullptr;
};

TEST_F(CApi, NullArgumentsAreRefused) {
  hr_store* store = nullptr;
  hr_array* array = nullptr;
  hr_device* device = nullptr;
  hr_buffer* buffer = nullptr;
  hr_completion* completion = nullptr;
  hr_read_options options = HR_READ_OPTIONS_INIT;
  expect(hr_context_create(nullptr, nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open(nullptr, "x", &store, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open(context_, nullptr, &store, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open(context_, "x", nullptr, &error_), HR_INVALID_ARGUMENT);
  const hr_storage_option unknown[] = {{"no_such_option", "geheim"}}, nameless[] = {{nullptr, "x"}},
                          empty[] = {{"key", nullptr}};
  for (const hr_storage_option* const given : {unknown, nameless, empty}) {
    expect(hr_store_open_with(context_, "s3://bucket/x", given, 1, &store, &error_), HR_INVALID_ARGUMENT);
    EXPECT_EQ(store, nullptr);
  }
  expect(hr_store_open_with(context_, "s3://bucket/x", nullptr, 1, &store, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open_with(context_, directory_.c_str(), unknown, 1, &store, &error_), HR_INVALID_ARGUMENT);
  expect(hr_store_open_with(context_, directory_.c_str(), nullptr, 0, &store, &error_), HR_OK);
  hr_store_free(store);
  store = nullptr;
  expect(hr_array_open(nullptr, "", &array, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_open(store_, "", nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_device_open(nullptr, &device, &error_), HR_INVALID_ARGUMENT);
  expect(hr_device_open("host", nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_buffer_allocate(nullptr, 1, &buffer, &error_), HR_INVALID_ARGUMENT);
  expect(hr_buffer_allocate(device_, 1, nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_buffer_copy_to_host(nullptr, 0, nullptr, 0, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read(nullptr, device_, &options, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read(array_, nullptr, &options, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read(array_, device_, nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);  // data is null
  expect(hr_array_read_async(array_, device_, &options, nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read_async(array_, device_, &options, &completion, &error_), HR_INVALID_ARGUMENT);
  expect(hr_completion_wait(nullptr, &error_), HR_INVALID_ARGUMENT);
  hr_stored_chunks* chunks = nullptr;
  expect(hr_array_stored_chunks(nullptr, &chunks, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_stored_chunks(array_, nullptr, &error_), HR_INVALID_ARGUMENT);
  EXPECT_EQ(store, nullptr);
  EXPECT_EQ(array, nullptr);
  EXPECT_EQ(completion, nullptr);
}

TEST_F(CApi, StoredChunksAreListed) {
  hr_stored_chunks* chunks = nullptr;
  expect(hr_array_stored_chunks(array_, &chunks, &error_), HR_OK);
  ASSERT_NE(chunks, nullptr);
  EXPECT_EQ(hr_stored_chunks_count(chunks), 0u);
  EXPECT_EQ(hr_stored_chunks_rank(chunks), 2u);
  EXPECT_EQ(hr_stored_chunks_indices(chunks), nullptr);
  hr_stored_chunks_free(chunks);
  for (const char* key : {"0.0", "1.0", "2.0" /* beyond the grid */}) std::ofstream(directory_ / key) << "x";
  expect(hr_array_stored_chunks(array_, &chunks, &error_), HR_OK);
  ASSERT_EQ(hr_stored_chunks_count(chunks), 2u);
  const std::uint64_t* const indices = hr_stored_chunks_indices(chunks);
  EXPECT_EQ(std::vector<std::uint64_t>(indices, indices + 4), (std::vector<std::uint64_t>{0, 0, 1, 0}));
  hr_stored_chunks_free(chunks);
}

TEST_F(CApi, OpenReportsTheKindOfNode) {
  std::filesystem::create_directories(directory_ / "group");
  std::ofstream(directory_ / "group/.zgroup") << R"({"zarr_format": 2})";
  hr_node node{};
  hr_array* array = nullptr;
  expect(hr_open(store_, "", nullptr, &node, &array, &error_), HR_OK);
  EXPECT_EQ(node, HR_NODE_ARRAY);
  EXPECT_EQ(hr_array_rank(array), 2u);
  hr_array_free(array);
  expect(hr_open(store_, "group", nullptr, &node, &array, &error_), HR_OK);
  EXPECT_EQ(node, HR_NODE_GROUP);
  EXPECT_EQ(array, nullptr);
  expect(hr_open(store_, "nothing", nullptr, &node, &array, &error_), HR_NOT_FOUND);
  expect(hr_open(store_, "", nullptr, nullptr, &array, &error_), HR_INVALID_ARGUMENT);
  expect(hr_open(store_, "", nullptr, &node, nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_open(nullptr, "", nullptr, &node, &array, &error_), HR_INVALID_ARGUMENT);
}

TEST_F(CApi, DeviceNamesAreThoseThatCanBeOpened) {
  hr_names* names = nullptr;
  expect(hr_device_names(&names, &error_), HR_OK);
  ASSERT_GE(hr_names_count(names), 2u);
  EXPECT_STREQ(hr_names_get(names, 0), "host");
  for (std::uint32_t i = 0; i < hr_names_count(names); ++i) {
    hr_device* device = nullptr;
    expect(hr_device_open(hr_names_get(names, i), &device, &error_), HR_OK);
    EXPECT_STREQ(hr_device_name(device), hr_names_get(names, i));
    hr_device_free(device);
  }
  EXPECT_EQ(hr_names_get(names, hr_names_count(names)), nullptr);
  hr_names_free(names);
  hr_names_free(nullptr);
  EXPECT_EQ(hr_names_count(nullptr), 0u);
  EXPECT_EQ(hr_names_get(nullptr, 0), nullptr);
  expect(hr_device_names(nullptr, &error_), HR_INVALID_ARGUMENT);
}

TEST_F(CApi, ATokenStopsReads) {
  hr_cancel* cancel = nullptr;
  expect(hr_cancel_create(&cancel, &error_), HR_OK);
  EXPECT_EQ(hr_cancel_asked(cancel), 0);
  std::uint16_t data[24];
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = data;
  options.data_bytes = sizeof(data);
  options.cancel = cancel;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  hr_cancel_ask(cancel);
  EXPECT_EQ(hr_cancel_asked(cancel), 1);
  expect(hr_array_read(array_, device_, &options, &error_), HR_CANCELLED);
  hr_cancel_free(cancel);
  hr_cancel_free(nullptr);
  hr_cancel_ask(nullptr);
  EXPECT_EQ(hr_cancel_asked(nullptr), 0);
  expect(hr_cancel_create(nullptr, &error_), HR_INVALID_ARGUMENT);
}

TEST_F(CApi, AListOfStoredChunksIsWithinTheBudget) {
  for (int i = 0; i < 6000; ++i) std::ofstream(directory_ / (std::to_string(i) + "." + std::string(200, 'x')));
  hr_context_options options = HR_CONTEXT_OPTIONS_INIT;
  options.stored_budget_bytes = 1 << 20;
  hr_context* context = nullptr;
  hr_store* store = nullptr;
  hr_array* array = nullptr;
  ASSERT_EQ(hr_context_create(&options, &context, nullptr), HR_OK);
  ASSERT_EQ(hr_store_open(context, directory_.c_str(), &store, nullptr), HR_OK);
  ASSERT_EQ(hr_array_open(store, "", &array, nullptr), HR_OK);
  hr_stored_chunks* chunks = nullptr;
  EXPECT_EQ(hr_array_stored_chunks(array, &chunks, &error_), HR_RESOURCE_EXHAUSTED);
  EXPECT_EQ(chunks, nullptr);
  EXPECT_NE(message().find("stored_budget_bytes"), std::string::npos) << message();
  hr_array_free(array);
  hr_store_free(store);
  hr_context_free(context);
}

TEST_F(CApi, NullHandlesAreHarmless) {
  hr_error_free(nullptr);
  hr_context_free(nullptr);
  hr_store_free(nullptr);
  hr_array_free(nullptr);
  hr_device_free(nullptr);
  hr_buffer_free(nullptr);
  hr_completion_free(nullptr);
  hr_completion_cancel(nullptr);
  hr_stored_chunks_free(nullptr);
  EXPECT_EQ(hr_stored_chunks_count(nullptr), 0u);
  EXPECT_EQ(hr_stored_chunks_rank(nullptr), 0u);
  EXPECT_EQ(hr_stored_chunks_indices(nullptr), nullptr);
  EXPECT_EQ(hr_completion_done(nullptr), 1);
  EXPECT_EQ(hr_error_code(nullptr), HR_OK);
  EXPECT_STREQ(hr_error_message(nullptr), "");
  EXPECT_EQ(hr_array_rank(nullptr), 0u);
  EXPECT_EQ(hr_array_shape(nullptr), nullptr);
  EXPECT_EQ(hr_array_chunk_shape(nullptr), nullptr);
  EXPECT_EQ(hr_array_item_bytes(nullptr), 0u);
  EXPECT_STREQ(hr_array_dtype(nullptr), "");
  EXPECT_STREQ(hr_device_name(nullptr), "");
  EXPECT_EQ(hr_buffer_data(nullptr), nullptr);
  // Without a place for the error, the code is still returned.
  EXPECT_EQ(hr_store_open(nullptr, nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
}

TEST_F(CApi, StructSizes) {
  hr_context* context = nullptr;
  hr_context_options options{};  // size is not set
  expect(hr_context_create(&options, &context, &error_), HR_INVALID_ARGUMENT);
  options.size = sizeof(options) - 3;  // in the middle of a field
  expect(hr_context_create(&options, &context, &error_), HR_INVALID_ARGUMENT);
  options.size = ~std::size_t{0};
  expect(hr_context_create(&options, &context, &error_), HR_INVALID_ARGUMENT);
  options.size = sizeof(options);
  options.reserved = 1;
  expect(hr_context_create(&options, &context, &error_), HR_INVALID_ARGUMENT);

  // A caller with an older, shorter struct: the missing fields have their defaults, whatever lies behind it.
  std::memset(&options, 0xAB, sizeof(options));
  options.size = offsetof(hr_context_options, threads);
  options.engine = "auto";
  expect(hr_context_create(&options, &context, &error_), HR_OK);
  hr_context_free(context);

  // A caller with a newer, longer struct.
  struct Longer {
    hr_context_options known;
    std::uint64_t later;
  } longer{HR_CONTEXT_OPTIONS_INIT, 0};
  longer.known.size = sizeof(longer);
  context = nullptr;
  expect(hr_context_create(&longer.known, &context, &error_), HR_OK);
  hr_context_free(context);
  longer.later = 1;
  context = nullptr;
  expect(hr_context_create(&longer.known, &context, &error_), HR_INVALID_ARGUMENT);
  EXPECT_EQ(context, nullptr);
}

TEST_F(CApi, BuffersThatAreTooSmall) {
  unsigned char data[48];
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = data;
  options.data_bytes = 47;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.data_bytes = 48;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  options.data_bytes = 0;
  options.data = nullptr;
  options.selection = "0:0";  // nothing is written, so data may be null
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);

  hr_buffer* buffer = nullptr;
  expect(hr_buffer_allocate(device_, 16, &buffer, &error_), HR_OK);
  expect(hr_buffer_copy_to_host(buffer, 17, data, 0, &error_), HR_INVALID_ARGUMENT);
  expect(hr_buffer_copy_to_host(buffer, 8, data, 9, &error_), HR_INVALID_ARGUMENT);
  expect(hr_buffer_copy_to_host(buffer, 8, data, ~std::size_t{0}, &error_), HR_INVALID_ARGUMENT);
  expect(hr_buffer_copy_to_host(buffer, 16, nullptr, 0, &error_), HR_OK);
  hr_buffer_free(buffer);
}

// Strides are checked against the buffer too, from the lowest element on.
TEST_F(CApi, StridesThatLeadOutOfTheBuffer) {
  std::uint16_t data[24];
  std::int64_t strides[2] = {12, 2};
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = data;
  options.strides_bytes = strides;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{47}}) {
    options.data_bytes = bytes;
    expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  }
  options.data_bytes = 48;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  strides[0] = 14;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  strides[0] = -12;
  options.data = data + 18;  // the last row
  std::memset(data, 0, sizeof(data));
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  for (const std::uint16_t value : data) EXPECT_EQ(value, 7);
  options.data_bytes = 47;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  strides[0] = std::numeric_limits<std::int64_t>::min();
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  strides[0] = std::numeric_limits<std::int64_t>::max();
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
}

TEST_F(CApi, ReadsWithAConversion) {
  // Every chunk is missing: the fill value, 7, converted.
  float data[24];
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = data;
  options.data_bytes = 48;
  options.dtype = "float32";
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);  // 48 bytes suffice for uint16 only
  options.data_bytes = sizeof(data);
  options.scale = 0.5;
  options.offset = -1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  for (float v : data) EXPECT_EQ(v, 2.5f);
  options.fill_as_nan = 1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  for (float v : data) EXPECT_NE(v, v);
  options.damage_as_nan = 1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  options.fill_as_nan = 0;
  options.dtype = "int32";
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.damage_as_nan = 0;
  options.fill_as_nan = 1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.dtype = "complex64";
  expect(hr_array_read(array_, device_, &options, &error_), HR_UNSUPPORTED);
  options.dtype = "float32";
  options.verify = HR_VERIFY_WHOLE + 1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.verify = HR_VERIFY_WHOLE;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);

  // A caller with a struct from before conversions.
  std::uint16_t stored[24];
  std::memset(&options, 0xAB, sizeof(options));
  options.size = offsetof(hr_read_options, placement);
  options.selection = nullptr;
  options.data = stored;
  options.data_bytes = sizeof(stored);
  options.strides_bytes = nullptr;
  options.native_stream = nullptr;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  EXPECT_EQ(stored[0], 7);
}

// The chunk of rows 0 and 1 is stored: elements 0 to 11.
TEST_F(CApi, ReadsPoints) {
  std::uint16_t stored[12];
  for (std::size_t i = 0; i < 12; ++i) stored[i] = static_cast<std::uint16_t>(i);
  std::ofstream(directory_ / "0.0", std::ios::binary).write(reinterpret_cast<const char*>(stored), sizeof(stored));
  const std::int64_t points[] = {1, 5, 0, 2, -1, 0, 1, -6, 0, 2};
  std::uint16_t data[6] = {99, 99, 99, 99, 99, 99};
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = data;
  options.data_bytes = 5 * sizeof(data[0]);
  options.points = points;
  options.point_count = 5;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  const std::uint16_t wanted[] = {11, 2, 7, 6, 2, 99};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(data[i], wanted[i]) << i;
  options.point_count = 0;  // no points
  options.data_bytes = 0;
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  options.point_count = 5;
  options.data_bytes = 5 * sizeof(data[0]) - 1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.data_bytes = sizeof(data);
  const std::int64_t outside[] = {4, 0}, before[] = {0, -7};
  options.point_count = 1;
  options.points = outside;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.points = before;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.point_count = (std::uint64_t{1} << 48) + 1;
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  options.point_count = 1;
  options.points = points;
  options.selection = "0";
  EXPECT_EQ(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);
  EXPECT_NE(message().find("only one of"), std::string::npos) << message();
  hr_error_free(error_);
  error_ = nullptr;
  options.selection = "";
  options.blocks = "0";
  expect(hr_array_read(array_, device_, &options, &error_), HR_INVALID_ARGUMENT);

  // Block 0 is rows 0 and 1.
  std::uint16_t rows[12] = {};
  options.points = nullptr;
  options.data = rows;
  options.data_bytes = sizeof(rows);
  expect(hr_array_read(array_, device_, &options, &error_), HR_OK);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(rows[i], i);
}

TEST_F(CApi, PointsNeedADimension) {
  std::filesystem::create_directory(directory_ / "scalar");
  std::ofstream(directory_ / "scalar/.zarray")
      << R"({"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<u2", "compressor": null,)"
      << R"( "fill_value": 7, "filters": null, "order": "C"})";
  hr_array* scalar = nullptr;
  expect(hr_array_open(store_, "scalar", &scalar, &error_), HR_OK);
  const std::int64_t none = 0;
  std::uint16_t data = 0;
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = &data;
  options.data_bytes = sizeof(data);
  options.points = &none;
  options.point_count = 1;
  expect(hr_array_read(scalar, device_, &options, &error_), HR_INVALID_ARGUMENT);
  hr_array_free(scalar);
}

TEST_F(CApi, OpensLenientlyOnRequest) {
  std::filesystem::create_directory(directory_ / "loose");
  // "zlib" as a bare string, and no "filters".
  std::ofstream(directory_ / "loose/.zarray") << R"({"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<u2",)"
                                              << R"( "compressor": "zlib", "fill_value": 7, "order": "C"})";
  hr_array* array = nullptr;
  expect(hr_array_open(store_, "loose", &array, &error_), HR_CORRUPT);
  EXPECT_EQ(array, nullptr);
  expect(hr_array_open_with(store_, "loose", nullptr, &array, &error_), HR_CORRUPT);
  hr_open_options options = HR_OPEN_OPTIONS_INIT;
  expect(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_CORRUPT);
  options.lenient = "codec-as-string";  // both are needed
  expect(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_CORRUPT);
  EXPECT_EQ(array, nullptr);
  options.lenient = "no-such-rule";
  EXPECT_EQ(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_INVALID_ARGUMENT);
  EXPECT_NE(message().find("no-such-rule"), std::string::npos) << message();
  hr_error_free(error_);
  error_ = nullptr;

  options.lenient = "codec-as-string,missing-members";
  expect(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_OK);
  ASSERT_NE(array, nullptr);
  std::string uses;
  for (std::uint32_t i = 0; hr_array_lenient_use(array, i) != nullptr; ++i) {
    uses += std::string(hr_array_lenient_use(array, i)) + "\n";
  }
  EXPECT_NE(uses.find("codec-as-string: "), std::string::npos) << uses;
  EXPECT_NE(uses.find("missing-members: "), std::string::npos) << uses;
  EXPECT_EQ(hr_array_lenient_use(array, 1000), nullptr);
  EXPECT_EQ(hr_array_lenient_use(nullptr, 0), nullptr);
  EXPECT_EQ(hr_array_lenient_use(array_, 0), nullptr);  // the array needed no leniency
  hr_array_free(array);
  array = nullptr;

  options.lenient = "all";
  expect(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_OK);
  hr_array_free(array);
  array = nullptr;
  expect(hr_array_open_with(nullptr, "loose", &options, &array, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_open_with(store_, "loose", &options, nullptr, &error_), HR_INVALID_ARGUMENT);
  options.size = 0;
  expect(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_INVALID_ARGUMENT);
  options.size = sizeof(options) - 3;
  expect(hr_array_open_with(store_, "loose", &options, &array, &error_), HR_INVALID_ARGUMENT);
  EXPECT_EQ(array, nullptr);
}

TEST_F(CApi, NamesThatDoNotExist) {
  hr_context_options options = HR_CONTEXT_OPTIONS_INIT;
  options.engine = "steam";
  hr_context* context = nullptr;
  expect(hr_context_create(&options, &context, &error_), HR_INVALID_ARGUMENT);
  hr_device* device = nullptr;
  expect(hr_device_open("abacus", &device, &error_), HR_INVALID_ARGUMENT);
  hr_array* array = nullptr;
  expect(hr_array_open(store_, "nowhere", &array, &error_), HR_NOT_FOUND);
  hr_read_options read = HR_READ_OPTIONS_INIT;
  unsigned char data[48];
  read.data = data;
  read.data_bytes = sizeof(data);
  read.selection = "0:1:";
  expect(hr_array_read(array_, device_, &read, &error_), HR_OK);  // as in NumPy
  read.selection = "zero";
  expect(hr_array_read(array_, device_, &read, &error_), HR_INVALID_ARGUMENT);
  read.selection = "4";
  expect(hr_array_read(array_, device_, &read, &error_), HR_INVALID_ARGUMENT);
}

// Handles keep alive what they need, in whatever order a garbage collector frees them.
TEST_F(CApi, FreedInTheWrongOrder) {
  hr_context_free(context_);
  hr_store_free(store_);
  context_ = nullptr;
  store_ = nullptr;
  unsigned char data[48];
  hr_read_options options = HR_READ_OPTIONS_INIT;
  options.data = data;
  options.data_bytes = sizeof(data);
  hr_completion* completion = nullptr;
  expect(hr_array_read_async(array_, device_, &options, &completion, &error_), HR_OK);
  hr_array_free(array_);
  array_ = nullptr;
  expect(hr_completion_wait(completion, &error_), HR_OK);
  expect(hr_completion_wait(completion, &error_), HR_OK);  // waiting again returns the same
  hr_completion_free(completion);
  EXPECT_EQ(data[0], 7);
  EXPECT_EQ(data[47], 0);
}

TEST_F(CApi, ReadsStrings) {
  // ["ab", "", "c"] and a missing chunk, filled with "f".
  const std::filesystem::path path = directory_ / "strings";
  std::filesystem::create_directories(path);
  std::ofstream(path / ".zarray")
      << R"({"zarr_format": 2, "shape": [5], "chunks": [3], "dtype": "|O", "compressor": null,)"
      << R"( "fill_value": "f", "filters": [{"id": "vlen-utf8"}], "order": "C"})";
  const char chunk[] = "\3\0\0\0\2\0\0\0ab\0\0\0\0\1\0\0\0c";
  std::ofstream(path / "0", std::ios::binary).write(chunk, sizeof(chunk) - 1);
  hr_array* strings = nullptr;
  ASSERT_EQ(hr_array_open(store_, "strings", &strings, &error_), HR_OK) << message();
  EXPECT_EQ(hr_array_item_bytes(strings), 0u);
  EXPECT_STREQ(hr_array_dtype(strings), "string");

  hr_variable* result = nullptr;
  expect(hr_array_read_variable(strings, nullptr, &result, &error_), HR_OK);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(hr_variable_rank(result), 1u);
  EXPECT_EQ(hr_variable_shape(result)[0], 5u);
  ASSERT_EQ(hr_variable_count(result), 5u);
  const std::int64_t* offsets = hr_variable_offsets(result);
  EXPECT_EQ(std::string(static_cast<const char*>(hr_variable_data(result)), static_cast<std::size_t>(offsets[5])),
            "abcff");
  EXPECT_EQ(offsets[1], 2);
  EXPECT_EQ(offsets[2], 2);
  EXPECT_EQ(hr_variable_is_utf8(result), 1);
  hr_variable_free(result);

  hr_variable_options options = HR_VARIABLE_OPTIONS_INIT;
  options.selection = "4, 1";
  expect(hr_array_read_variable(strings, &options, &result, &error_), HR_INVALID_ARGUMENT);
  EXPECT_EQ(result, nullptr);
  options.selection = "1:3";
  options.max_bytes = 2;
  expect(hr_array_read_variable(strings, &options, &result, &error_), HR_RESOURCE_EXHAUSTED);
  options.size = 3;
  expect(hr_array_read_variable(strings, &options, &result, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read_variable(strings, nullptr, nullptr, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read_variable(nullptr, nullptr, &result, &error_), HR_INVALID_ARGUMENT);
  expect(hr_array_read_variable(array_, nullptr, &result, &error_), HR_INVALID_ARGUMENT);  // numbers

  char room[64];
  hr_read_options read = HR_READ_OPTIONS_INIT;
  read.data = room;
  read.data_bytes = sizeof(room);
  EXPECT_EQ(hr_array_read(strings, device_, &read, &error_), HR_UNSUPPORTED);
  EXPECT_NE(message().find("hr_array_read_variable"), std::string::npos) << message();
  hr_error_free(error_);
  error_ = nullptr;
  hr_array_free(strings);

  EXPECT_EQ(hr_variable_rank(nullptr), 0u);
  EXPECT_EQ(hr_variable_count(nullptr), 0u);
  EXPECT_EQ(hr_variable_shape(nullptr), nullptr);
  EXPECT_EQ(hr_variable_offsets(nullptr), nullptr);
  EXPECT_EQ(hr_variable_data(nullptr), nullptr);
  EXPECT_EQ(hr_variable_is_utf8(nullptr), 0);
  hr_variable_free(nullptr);
}

TEST(CApiVersion, IsThatOfTheHeaders) {
  EXPECT_EQ(hr_version(), std::to_string(HEADRACE_VERSION_MAJOR) + "." + std::to_string(HEADRACE_VERSION_MINOR) + "." +
                              std::to_string(HEADRACE_VERSION_PATCH));
  EXPECT_EQ(HEADRACE_VERSION, HEADRACE_VERSION_MAJOR * 10000 + HEADRACE_VERSION_MINOR * 100 + HEADRACE_VERSION_PATCH);
}

}  // namespace
