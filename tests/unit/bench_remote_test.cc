// `headrace bench` of URLs: its report matches what the server was asked for, options that make no sense there are
// refused by name, failures name the object, and no secret is printed.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "http/transport.h"
#include "store/range_read.h"
#include "support/http_server.h"
#include "tools/headrace/bench/bench_runner.h"
#include "tools/headrace/bench/bench_text.h"
#include "tools/headrace/bench/fio_json.h"
#include "tools/headrace/bench/job_file.h"
#include "tools/headrace/remote_options.h"

namespace headrace::bench {
namespace {

using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::ObjectService;
using testing::ObjectStyle;
using Pairs = std::vector<std::pair<std::string, std::string>>;

store::Bytes filled(std::size_t count) { return store::Bytes(count, std::byte{7}); }

class BenchRemote : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!http::make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
    ::setenv("AWS_ACCESS_KEY_ID", "geheim-id", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "geheim-secret", 1);
    ::setenv("HEADRACE_HTTP_ATTEMPTS", "1", 1);
  }
  void TearDown() override {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "HEADRACE_HTTP_ATTEMPTS"}) {
      ::unsetenv(name);
    }
  }

  // Also checks that nothing in the result contains a secret.
  static Result<BenchOutcome> run(const Pairs& arguments) {
    auto jobs = jobs_from_arguments(arguments, {});
    if (!jobs.ok()) return std::move(jobs).status();
    for (const JobOptions& job : *jobs) HEADRACE_TRY(check_options(job));
    auto outcome = run_jobs(*jobs, {.show_progress = false});
    const std::string said =
        outcome.ok() ? bench_text(*outcome) + fio_json(*outcome, true) : outcome.status().to_string();
    EXPECT_EQ(said.find("geheim"), std::string::npos) << said;
    return outcome;
  }
  static JobResult result(const Pairs& arguments) {
    auto outcome = run(arguments);
    EXPECT_TRUE(outcome.ok()) << outcome.status().to_string();
    if (!outcome.ok()) return {};
    EXPECT_TRUE(outcome->results[0].status.ok()) << outcome->results[0].status.to_string();
    return outcome->results[0];
  }
  // The message with which the arguments are refused.
  static std::string refusal(const Pairs& arguments) {
    const auto outcome = run(arguments);
    if (!outcome.ok()) return outcome.status().to_string();
    return outcome->results[0].status.to_string();
  }
};

// The requested ranges, except those of one byte, which only determine sizes.
std::map<std::string, int> ranges_of(const HttpServer& server) {
  std::map<std::string, int> out;
  for (const HttpRequest& request : server.requests()) {
    const std::string range = request.header("range");
    if (!range.empty() && range != "bytes=0-0") ++out[request.path + " " + range.substr(6)];
  }
  return out;
}

TEST_F(BenchRemote, APassReadsEachBlockOnceInWhateverOrder) {
  for (const char* rw : {"read", "randread"}) {
    HttpServer server(ObjectService({{"a/x", filled(64 << 10)}}, ObjectStyle::kPlain));
    const JobResult found = result(
        {{"filename", server.url() + "/a/x?sig=geheim"}, {"rw", rw}, {"bs", "8k"}, {"iodepth", "3"}, {"loops", "2"}});
    EXPECT_EQ(found.read.requests, 16u);
    EXPECT_EQ(found.read.bytes, 128u << 10);
    EXPECT_EQ(found.read.total.count(), 16u);
    EXPECT_GT(found.seconds, 0);
    EXPECT_TRUE(found.remote);
    EXPECT_EQ(found.file, server.url() + "/a/x");
    ASSERT_EQ(found.passes.size(), 2u);
    EXPECT_EQ(found.passes[0].bytes, 64u << 10);
    EXPECT_EQ(found.passes[1].bytes, 64u << 10);
    const auto ranges = ranges_of(server);
    EXPECT_EQ(ranges.size(), 8u) << rw;
    for (const auto& [range, times] : ranges) EXPECT_EQ(times, 2) << range;
    EXPECT_TRUE(ranges.contains("/a/x 8192-16383"));
  }
}

TEST_F(BenchRemote, IodepthIsTheNumberOfRequestsInFlight) {
  const ObjectService service({{"a/x", filled(64 << 10)}}, ObjectStyle::kPlain);
  std::atomic<int> now{0}, most{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const int here = ++now;
    for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
    }
    wire.pause(50);
    --now;
    service.answer(wire, request);
  });
  EXPECT_EQ(result({{"filename", server.url() + "/a/x"}, {"bs", "4k"}, {"iodepth", "5"}}).read.requests, 16u);
  EXPECT_EQ(most, 5);
  most = 0;
  EXPECT_EQ(result({{"filename", server.url() + "/a/x"},
                    {"bs", "4k"},
                    {"iodepth", "2"},
                    {"numjobs", "3"},
                    {"group_reporting", "1"}})
                .read.requests,
            48u);
  EXPECT_GE(most, 3);
  EXPECT_LE(most, 6);
}

TEST_F(BenchRemote, SizeOffsetAndLimitsMatchFio) {
  HttpServer server(ObjectService({{"a/x", filled(64 << 10)}}, ObjectStyle::kPlain));
  const std::string url = server.url() + "/a/x";
  EXPECT_EQ(result({{"filename", url}, {"bs", "4k"}, {"offset", "50%"}, {"size", "16k"}}).read.requests, 4u);
  EXPECT_TRUE(ranges_of(server).contains("/a/x 32768-36863"));
  EXPECT_EQ(result({{"filename", url}, {"bs", "4k"}, {"number_ios", "3"}}).read.requests, 3u);
  EXPECT_EQ(result({{"filename", url}, {"bs", "4k"}, {"io_size", "200k"}}).read.requests, 50u);
  EXPECT_GT(result({{"filename", url}, {"bs", "4k"}, {"runtime", "1"}, {"time_based", "1"}}).seconds, 0.9);
  EXPECT_NE(refusal({{"filename", url}, {"bs", "4k"}, {"size", "1m"}}).find("larger than the object"),
            std::string::npos);
  EXPECT_NE(refusal({{"filename", url}, {"bs", "4k"}, {"offset", "1m"}}).find("ends before"), std::string::npos);
  EXPECT_NE(refusal({{"filename", url}, {"bs", "1m"}}).find("bs=1MiB is larger"), std::string::npos);
}

TEST_F(BenchRemote, FoldersAndSeveralUrls) {
  testing::Objects objects = {
      {"a/zarr.json", filled(10)}, {"a/c/0", filled(32 << 10)}, {"a/c/1", filled(16 << 10)}, {"b", filled(8 << 10)}};
  HttpServer server(ObjectService(objects, ObjectStyle::kS3));
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  // Metadata documents are smaller than a block.
  EXPECT_EQ(result({{"filename", "s3://bucket/a/"}, {"bs", "8k"}}).read.requests, 6u);
  EXPECT_EQ(result({{"filename", "s3://bucket/a/c/1:s3://bucket/b"}, {"bs", "8k"}}).read.requests, 3u);
  EXPECT_NE(refusal({{"filename", "s3://bucket/none/"}, {"bs", "8k"}}).find("no object below"), std::string::npos);
}

TEST_F(BenchRemote, InvalidOptionsAreRefusedByName) {
  const Pairs url = {{"filename", "http://127.0.0.1:1/x?geheim"}};
  for (const auto& [key, value] : Pairs{{"rw", "write"},
                                        {"rw", "randrw"},
                                        {"device", "host-staged"},
                                        {"direct", "1"},
                                        {"path", "mapped"},
                                        {"ioengine", "threads"},
                                        {"list", "2"},
                                        {"no_io", "1"},
                                        {"no_copy", "1"},
                                        {"cache", "cold"},
                                        {"verify", "crc32c"},
                                        {"directory", "d"},
                                        {"filesize", "1m"},
                                        {"rate", "1m"},
                                        {"thinktime", "5"},
                                        {"max_latency", "5"},
                                        {"write_lat_log", "l"},
                                        {"iodepth_low", "1"},
                                        {"startdelay", "1"}}) {
    Pairs all = url;
    all.emplace_back(key, value);
    const std::string said = refusal(all);
    EXPECT_NE(said.find("filename is a URL: "), std::string::npos) << key << ": " << said;
    const std::string word = key == "rw" ? "only read" : key;
    EXPECT_NE(said.find(word), std::string::npos) << said;
  }
  EXPECT_NE(refusal({{"zarr", "s3://bucket/a"}, {"cache", "cold"}}).find("page cache"), std::string::npos);
}

TEST_F(BenchRemote, FailuresNameTheObjectAndTheCause) {
  const ObjectService service({{"a/x", filled(64 << 10)}}, ObjectStyle::kPlain);
  std::atomic<int> left{5};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (--left < 0) return wire.reply("403 Forbidden", "", "geheim");
    service.answer(wire, request);
  });
  const std::string url = server.url() + "/a/x";
  std::string said = refusal({{"filename", url + "?geheim"}, {"bs", "4k"}, {"iodepth", "4"}});
  EXPECT_NE(said.find(url), std::string::npos) << said;
  EXPECT_NE(said.find("HTTP 403"), std::string::npos) << said;
  said = refusal({{"filename", server.url() + "/a/none"}, {"bs", "4k"}});
  EXPECT_NE(said.find("/a/none"), std::string::npos) << said;
  EXPECT_NE(refusal({{"filename", "http://127.0.0.1:1/x"}, {"bs", "4k"}}).find("no connection"), std::string::npos);
  EXPECT_NE(refusal({{"filename", "http://127.0.0.1:1"}, {"bs", "4k"}}).find("names no object"), std::string::npos);
  EXPECT_NE(refusal({{"filename", "s3://bucket"}, {"bs", "4k"}}).find("names no object"), std::string::npos);
  EXPECT_NE(refusal({{"filename", "http://geheim:geheim@127.0.0.1/x"}, {"bs", "4k"}}).find("passwords"),
            std::string::npos);
}

TEST_F(BenchRemote, RangesCanBeReadAfterTheirStoreIsDestroyed) {
  HttpServer server(ObjectService({{"a/x", filled(100)}}, ObjectStyle::kPlain));
  std::shared_ptr<ByteStore> ranges;
  {
    const Context context = Context::create({}).value();
    EXPECT_EQ(Store::open(context, "memory://ranges")->ranges(), nullptr);
    EXPECT_EQ(Store::open(context, "/")->ranges(), nullptr);
    ranges = Store::open(context, server.url() + "/a")->ranges();
  }
  ASSERT_NE(ranges, nullptr);
  std::byte memory[8] = {};
  RangeRead read;
  read.key = "x";
  read.offset = 96;
  read.out = memory;
  ASSERT_TRUE(store::read_range(*ranges, read).ok());
  EXPECT_EQ(read.bytes, 4u);
  EXPECT_EQ(memory[3], std::byte{7});
}

TEST(ObjectUrls, AreAStoreAndAKey) {
  const auto split = [](const char* url) {
    const auto place = split_object_url(url);
    return place.ok() ? place->store_url + " " + place->key : std::string("refused");
  };
  EXPECT_EQ(split("s3://bucket/a/b"), "s3://bucket/a b");
  EXPECT_EQ(split("s3://bucket/a%20b"), "s3://bucket a%20b");
  EXPECT_EQ(split("https://host:8080/a/b%20c+d?sig=x/y"), "https://host:8080/a?sig=x/y b c+d");
  for (const char* url : {"", "a/b", "s3://bucket", "s3://bucket/", "s3:///x", "http://host", "http://host/a%2Fb",
                          "http://host/%zz", "http://host?x/y"}) {
    EXPECT_EQ(split(url), "refused") << url;
  }
}

TEST(ObjectUrls, SeveralAreSplitAtTheirSchemes) {
  using Urls = std::vector<std::string>;
  EXPECT_EQ(cli::split_urls("http://h:80/x:s3://b/y"), (Urls{"http://h:80/x", "s3://b/y"}));
  EXPECT_EQ(cli::split_urls("s3://b/x:y"), Urls{"s3://b/x:y"});
  EXPECT_EQ(cli::shown_urls("s3://b/x:https://u:geheim@h/y?geheim"), "s3://b/x:https://h/y");
  EXPECT_EQ(cli::shown_urls("a:b"), "a:b");
}

}  // namespace
}  // namespace headrace::bench
