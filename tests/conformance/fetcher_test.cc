// Property: for an object in any store, the Fetcher delivers its bytes, reports missing bytes by their offset in the
// object, and counts each open and each byte read once, under the right path.
#include "transfer/fetch/fetcher.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "os/page_buffer.h"
#include "support/stats_ways.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace::transfer {
namespace {

using store::Bytes;
using store::ByteSource;
using store::Offer;
using support::pattern;
using testing::StoreUnderTest;

constexpr std::size_t kBytes = 100'000;

class FetcherTest : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  void SetUp() override {
    const std::string url = GetParam().fill(directory_.path(), {{"a/x", pattern(kBytes, 1)}, {"a/empty", Bytes()}});
    ASSERT_FALSE(url.empty());
    store_ = testing::open_filled(url).value();
  }
  Fetcher fetcher() const { return Fetcher(*store_); }
  Status open_measured(const char* key, ByteSource& out) {
    HEADRACE_TRY(fetcher().open(key, out, stats_));
    return out.offers(Offer::kRanges) ? out.measure() : Status();
  }
  Bytes read(const StoredRange& range, Status& status) {
    Bytes out(static_cast<std::size_t>(range.length));
    os::PageBuffer scratch;
    status = fetcher().read(range, out, scratch, stats_);
    return out;
  }

  support::TempDir directory_;
  std::shared_ptr<store::Store> store_;
  Stats stats_;
};

TEST_P(FetcherTest, OpensAndReadsAWholeObject) {
  ByteSource own;
  ASSERT_TRUE(open_measured("a/x", own).ok());
  const StoredRange range{&own, 0, own.size_bytes()};
  EXPECT_EQ(range.length, kBytes);
  EXPECT_EQ(stats_.objects_opened, 1u);
  Status status;
  EXPECT_EQ(read(range, status), pattern(kBytes, 1));
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(stats_.requests, 1u);
  const std::uint64_t read_bytes = own.offers(Offer::kWhole) ? own.packed_bytes() : kBytes;
  EXPECT_EQ(stats_.read_bytes, read_bytes);
  EXPECT_GT(read_bytes, 0u);
  EXPECT_EQ(own.offers(Offer::kFile)     ? stats_.buffered_bytes
            : own.offers(Offer::kRanges) ? stats_.store_bytes
            : own.offers(Offer::kWhole)  ? stats_.packed_bytes
                                         : stats_.memory_bytes,
            read_bytes);
  EXPECT_EQ(testing::bytes_by_all_ways(stats_), read_bytes);
}

TEST_P(FetcherTest, MissingObjectsAreNotCounted) {
  ByteSource own;
  EXPECT_EQ(open_measured("a/nothing", own).code(), Code::kNotFound);
  EXPECT_EQ(own.is_open(), own.offers(Offer::kRanges)) << "opening one of a user's store asks nobody";
  EXPECT_EQ(stats_.objects_opened, own.is_open() ? 1u : 0u);
}

TEST_P(FetcherTest, ARangeOfASharedObjectIsReadWhereItLies) {
  ByteSource shared;
  ASSERT_TRUE(fetcher().open("a/x", shared, stats_).ok());
  if (shared.offers(Offer::kWhole)) return;  // plans unpack such objects first
  const StoredRange range{&shared, 777, 5000};
  const Bytes whole = pattern(kBytes, 1);
  const Bytes part(whole.begin() + 777, whole.begin() + 5777);
  Status status;
  EXPECT_EQ(read(range, status), part);
  EXPECT_TRUE(status.ok()) << status.to_string();
  if (shared.offers(Offer::kMemory)) {
    const auto view = fetcher().view(range, stats_);
    ASSERT_TRUE(view.ok());
    EXPECT_EQ(Bytes(view->begin(), view->end()), part);
    EXPECT_EQ(stats_.memory_bytes, 2 * part.size());
  } else if (shared.offers(Offer::kFile)) {
    Bytes out(part.size());
    ASSERT_EQ(fetcher().read_cached(range, out, status, stats_), Fetcher::Cached::kRead) << "read just now";
    EXPECT_EQ(out, part);
    EXPECT_EQ(stats_.buffered_bytes, 2 * part.size());
  }
}

TEST_P(FetcherTest, MissingBytesAreNamedInTheObject) {
  ByteSource object;
  ASSERT_TRUE(fetcher().open("a/x", object, stats_).ok());
  if (object.offers(Offer::kWhole)) return;
  if (object.offers(Offer::kRanges)) {
    ASSERT_TRUE(object.measure().ok());
  }
  Status status;
  (void)read({&object, kBytes - 10, 20}, status);
  EXPECT_EQ(status.code(), Code::kShort);
  EXPECT_EQ(status.offset(), kBytes - 10);
  EXPECT_EQ(status.length(), 20u);
  EXPECT_EQ(stats_.requests + stats_.read_bytes, 0u) << "nothing was asked of the store";
  if (!object.offers(Offer::kMemory)) return;
  EXPECT_EQ(fetcher().view({&object, kBytes, 1}, stats_).status().code(), Code::kShort);
}

// Where the store knows a checksum of the whole object, both ways in which a thread reads a file compare it.
TEST_P(FetcherTest, AChecksumIsCompared) {
  ByteSource object;
  ASSERT_TRUE(fetcher().open("a/x", object, stats_).ok());
  if (!object.offers(Offer::kFile)) return;
  object.set_checksum(12345);
  const StoredRange whole{&object, 0, kBytes};
  Status status;
  (void)read(whole, status);
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
  Bytes out(kBytes);
  ASSERT_EQ(fetcher().read_cached(whole, out, status, stats_), Fetcher::Cached::kFailed);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  ReadJob job;
  job.offset = object.file().begin;
  job.length = kBytes;
  job.data = out;
  EXPECT_EQ(fetcher().finish(object, job, stats_).code(), Code::kCorrupt);
  (void)read({&object, 0, kBytes - 1}, status);
  EXPECT_TRUE(status.ok()) << "of a part nothing is known";
}

// Engines report file offsets; the Fetcher translates them to offsets in the object.
TEST_P(FetcherTest, AnEnginesErrorIsNamedInTheObject) {
  ByteSource object;
  ASSERT_TRUE(fetcher().open("a/x", object, stats_).ok());
  if (!object.offers(Offer::kFile)) return;
  ReadJob job;
  job.offset = object.file().begin + 500;
  job.length = 100;
  job.status = Status(Code::kIo, Layer::kIo, "planted").with_range(job.offset, job.length);
  const Status status = fetcher().finish(object, job, stats_);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.offset(), 500u);
  EXPECT_EQ(status.length(), 100u);
}

INSTANTIATE_TEST_SUITE_P(Stores, FetcherTest, ::testing::ValuesIn(testing::all_stores_under_test()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace headrace::transfer
