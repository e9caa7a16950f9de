// The disk cache of remote stores through the C API: what a read left in it is reported, checked and removed, and wrong
// calls return their codes.
#include <gtest/gtest.h>
#include <headrace/headrace.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "http/transport.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace {

using headrace::testing::HttpServer;
using headrace::testing::ObjectService;

headrace::store::Bytes text_bytes(const std::string& text) {
  headrace::store::Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

class CCache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!headrace::http::make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
  }

  // Reads an array of two chunks of 4 bytes over HTTP, into the cache.
  void fill() const {
    const char* const document = R"({"zarr_format":2,"shape":[8],"chunks":[4],"dtype":"|u1","order":"C","fill_value":0,
      "compressor":null,"filters":null})";
    HttpServer server(
        ObjectService({{"a/.zarray", text_bytes(document)}, {"a/0", text_bytes("abcd")}, {"a/1", text_bytes("efgh")}}));
    hr_context* context = nullptr;
    hr_store* store = nullptr;
    hr_array* array = nullptr;
    hr_device* device = nullptr;
    ASSERT_EQ(hr_context_create(nullptr, &context, nullptr), HR_OK);
    const hr_storage_option options[] = {{"cache_dir", directory_.c_str()}};
    ASSERT_EQ(hr_store_open_with(context, (server.url() + "/a").c_str(), options, 1, &store, nullptr), HR_OK);
    ASSERT_EQ(hr_array_open(store, "", &array, nullptr), HR_OK);
    ASSERT_EQ(hr_device_open("host", &device, nullptr), HR_OK);
    hr_read_options read = HR_READ_OPTIONS_INIT;
    char bytes[8] = {};
    read.data = bytes;
    read.data_bytes = sizeof bytes;
    ASSERT_EQ(hr_array_read(array, device, &read, nullptr), HR_OK);
    EXPECT_EQ(std::string(bytes, 8), "abcdefgh");
    hr_device_free(device);
    hr_array_free(array);
    hr_store_free(store);
    hr_context_free(context);
  }

  headrace::support::TempDir folder_;
  const std::string directory_ = folder_.path() + "/cache";
};

hr_cache_totals totals_of(const hr_cache_report* report) {
  hr_cache_totals totals = HR_CACHE_TOTALS_INIT;
  EXPECT_EQ(hr_cache_total(report, &totals, nullptr), HR_OK);
  return totals;
}

TEST_F(CCache, CachedRecordsAreReportedCheckedAndRemoved) {
  fill();
  hr_cache_report* report = nullptr;
  ASSERT_EQ(hr_cache_inspect(directory_.c_str(), 1, &report, nullptr), HR_OK);
  hr_cache_totals totals = totals_of(report);
  EXPECT_EQ(totals.size, sizeof totals);
  EXPECT_EQ(totals.segments, 1u);
  EXPECT_EQ(totals.records, 2u);
  EXPECT_EQ(totals.data_bytes, 8u);
  EXPECT_EQ(totals.damaged_records, 0u);
  EXPECT_GT(totals.file_bytes, 8u);
  EXPECT_GT(totals.disk_free_bytes, 0u);
  EXPECT_EQ(totals.in_use, 0);
  EXPECT_STREQ(hr_cache_problem(report), "");
  EXPECT_EQ(std::filesystem::canonical(directory_).string(), hr_cache_directory(report));
  hr_cache_segment segment = HR_CACHE_SEGMENT_INIT;
  ASSERT_EQ(hr_cache_segment_at(report, 0, &segment, nullptr), HR_OK);
  EXPECT_EQ(segment.records, 2u);
  EXPECT_EQ(segment.data_bytes, 8u);
  EXPECT_EQ(segment.file_bytes, totals.file_bytes);
  EXPECT_EQ(segment.growing + segment.foreign, 0);
  const std::string file = directory_ + "/" + segment.name;
  ASSERT_TRUE(std::filesystem::exists(file));
  hr_error* error = nullptr;
  EXPECT_EQ(hr_cache_segment_at(report, 1, &segment, &error), HR_NOT_FOUND);
  EXPECT_STRNE(hr_error_message(error), "");
  hr_error_free(error);
  hr_cache_free(report);

  // A changed byte of the data is detected, but only by a check that reads the data.
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    std::string all{std::istreambuf_iterator<char>(bytes), {}};
    const std::size_t at = all.find("abcd");
    ASSERT_NE(at, std::string::npos);
    bytes.clear();
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put('X');
  }
  for (const int verify : {0, 1}) {
    ASSERT_EQ(hr_cache_inspect(directory_.c_str(), verify, &report, nullptr), HR_OK);
    EXPECT_EQ(totals_of(report).damaged_records, static_cast<std::uint64_t>(verify));
    hr_cache_free(report);
  }

  std::uint64_t freed = 0;
  EXPECT_EQ(hr_cache_clear(directory_.c_str(), &freed, nullptr), HR_OK);
  EXPECT_EQ(freed, totals.file_bytes);
  ASSERT_EQ(hr_cache_inspect(directory_.c_str(), 0, &report, nullptr), HR_OK);
  EXPECT_EQ(totals_of(report).segments, 0u);
  hr_cache_free(report);
  EXPECT_EQ(hr_cache_clear(directory_.c_str(), nullptr, nullptr), HR_OK);
}

TEST_F(CCache, MisuseReturnsErrorCodes) {
  hr_cache_report* report = reinterpret_cast<hr_cache_report*>(1);
  hr_error* error = nullptr;
  EXPECT_EQ(hr_cache_inspect((folder_.path() + "/none").c_str(), 0, &report, &error), HR_NOT_FOUND);
  EXPECT_EQ(report, nullptr);
  EXPECT_NE(std::string(hr_error_message(error)), "");
  hr_error_free(error);
  EXPECT_EQ(hr_cache_inspect(nullptr, 0, &report, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_cache_inspect("x", 0, nullptr, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_cache_clear(nullptr, nullptr, nullptr), HR_INVALID_ARGUMENT);
  std::uint64_t freed = 7;
  EXPECT_EQ(hr_cache_clear((folder_.path() + "/none").c_str(), &freed, nullptr), HR_NOT_FOUND);
  EXPECT_EQ(freed, 0u);
  hr_cache_totals totals = HR_CACHE_TOTALS_INIT;
  EXPECT_EQ(hr_cache_total(nullptr, &totals, nullptr), HR_INVALID_ARGUMENT);
  EXPECT_EQ(hr_cache_directory(nullptr), nullptr);
  EXPECT_EQ(hr_cache_problem(nullptr), nullptr);
  hr_cache_free(nullptr);
  // A folder that others can write to.
  const std::string open = folder_.path() + "/open";
  std::filesystem::create_directory(open);
  std::filesystem::permissions(open, std::filesystem::perms::all);
  EXPECT_EQ(hr_cache_inspect(open.c_str(), 0, &report, nullptr), HR_PERMISSION);
}

TEST_F(CCache, StructsOfOtherVersionsAreFilledUpToTheirSize) {
  fill();
  hr_cache_report* report = nullptr;
  ASSERT_EQ(hr_cache_inspect(directory_.c_str(), 0, &report, nullptr), HR_OK);
  struct {
    hr_cache_totals totals = HR_CACHE_TOTALS_INIT;
    std::uint64_t later = 7;
  } longer;
  longer.totals.size = sizeof longer;
  EXPECT_EQ(hr_cache_total(report, &longer.totals, nullptr), HR_OK);
  EXPECT_EQ(longer.totals.records, 2u);
  EXPECT_EQ(longer.later, 0u);
  longer.totals.size = 0;
  EXPECT_EQ(hr_cache_total(report, &longer.totals, nullptr), HR_INVALID_ARGUMENT);
  hr_cache_segment segment = HR_CACHE_SEGMENT_INIT;
  segment.size = 12;
  EXPECT_EQ(hr_cache_segment_at(report, 0, &segment, nullptr), HR_INVALID_ARGUMENT);
  hr_cache_free(report);
}

}  // namespace
