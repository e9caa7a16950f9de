// The doctor's report on a service: one that supports everything that reads need, one that does not, and each kind of
// failure; in time, and without a secret.
#include "system/remote_probe.h"

#include <gtest/gtest.h>
#include <headrace/system.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/http_server.h"
#include "support/temp_dir.h"
#include "tools/headrace/doctor_report.h"

namespace headrace::system {
namespace {

using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::ObjectService;
using testing::ObjectStyle;

store::Bytes bytes_of(const std::string& text) {
  store::Bytes bytes(text.size());
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), bytes.begin());
  return bytes;
}

const char* const kArray = R"({"zarr_format":3,"node_type":"array","shape":[4,4],
  "chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}}})";

testing::Objects objects(const std::string& below) {
  return {{below + "zarr.json", bytes_of(kArray)}, {below + "c/0/0", bytes_of(std::string(3 << 20, 'x'))}};
}

class RemoteProbe : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!http::make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
    for (const char* name : {"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_NO_SIGN_REQUEST", "AWS_ROLE_ARN", "AWS_REGION",
                             "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE", "SSL_CERT_FILE",
                             "HEADRACE_CACHE_DIR"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.path().c_str(), 1);
    ::setenv("AWS_ACCESS_KEY_ID", "geheim-id", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "geheim-secret", 1);
  }
  void TearDown() override {
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"}) ::unsetenv(name);
  }

  // Also checks that the probe ends in time and that its report contains no secret.
  static RemoteReport probe(const std::string& url, bool measure = false, std::vector<StorageOption> storage = {}) {
    const auto began = std::chrono::steady_clock::now();
    RemoteReport report = probe_remote(url, {.measure = measure, .storage = storage});
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
    EXPECT_FALSE(report.verdict.empty());
    EXPECT_EQ(report.status.ok(), report.problem == RemoteProblem::kNone) << report.status.to_string();
    EXPECT_EQ(report.what_to_do.empty(), report.problem == RemoteProblem::kNone) << report.verdict;
    SystemReport all;
    all.remotes = {report};
    const std::string text = cli::doctor_text(all), json = cli::doctor_json(all).dump();
    for (const std::string& said : {text, json}) {
      EXPECT_EQ(said.find("geheim"), std::string::npos) << said;
      EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
    }
    return report;
  }
  // Probes a bucket whose server gives this answer to every request.
  static RemoteReport probe_answer(const std::string& status, const std::string& headers, const std::string& body) {
    HttpServer server([&](HttpWire& wire, const HttpRequest&) { wire.reply(status, headers, body); });
    ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
    return probe("s3://bucket/a");
  }
  static std::string error(const std::string& code) {
    return "<Error><Code>" + code + "</Code><Message>geheim-secret \x1b[31m</Message></Error>";
  }

  support::TempDir folder_;
};

TEST_F(RemoteProbe, ABucketWithEveryFeature) {
  HttpServer server(ObjectService(objects("a/"), ObjectStyle::kS3));
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  const RemoteReport report = probe("s3://bucket/a", true);
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_EQ(report.service, "s3");
  EXPECT_EQ(report.origin, server.url());
  EXPECT_EQ(report.credentials, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(report.http_version, "1.1");
  EXPECT_EQ(report.sample, "c/0/0");
  EXPECT_EQ(report.sample_bytes, std::uint64_t{3} << 20);
  for (const auto& has : {report.lists, report.ranges, report.suffix_ranges, report.tells_version, report.if_match,
                          report.keeps_connections}) {
    EXPECT_EQ(has, true);
  }
  EXPECT_EQ(report.latency_requests, 12u);
  EXPECT_GT(report.first_byte_min_seconds.value_or(0), 0);
  EXPECT_GE(report.first_byte_median_seconds.value_or(0), *report.first_byte_min_seconds);
  EXPECT_GT(report.one_connection_bytes_per_second.value_or(0), 0);
  EXPECT_GT(report.all_connections_bytes_per_second.value_or(0), 0);
  EXPECT_LE(report.measured_bytes, std::uint64_t{640} << 20);
  EXPECT_NE(report.bound, RemoteBound::kUnknown);
  EXPECT_FALSE(report.bound_sentence.empty());
  EXPECT_EQ(report.warnings, std::vector<std::string>());
}

TEST_F(RemoteProbe, MeasuresOnlyOnRequest) {
  HttpServer server(ObjectService(objects("a/"), ObjectStyle::kS3));
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  const RemoteReport report = probe("s3://bucket/a");
  EXPECT_EQ(report.latency_requests, 0u);
  EXPECT_EQ(report.measured_bytes, 0u);
  EXPECT_LT(server.requests().size(), 20u);
}

TEST_F(RemoteProbe, ASlowServerIsNotWaitedForLong) {
  const ObjectService service(objects("a/"), ObjectStyle::kS3);
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    const std::string range = request.header("range");
    if (!request.path.ends_with("/c/0/0") || range == "bytes=0-0" || range == "bytes=1-1" || range == "bytes=-1") {
      return service.answer(wire, request);
    }
    const std::size_t first = std::stoul(range.substr(6)), last = std::stoul(range.substr(range.find('-') + 1));
    wire.send("HTTP/1.1 206 Partial Content\r\nContent-Length: " + std::to_string(last - first + 1) +
              "\r\nContent-Range: bytes " + range.substr(6) + "/" + std::to_string(3 << 20) + "\r\n\r\n");
    for (std::size_t sent = 0; sent <= last - first && wire.is_open(); sent += 100) {  // 10 kB/s
      wire.send(std::string(std::min<std::size_t>(100, last - first + 1 - sent), 'x'));
      wire.pause(10);
    }
  });
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  const auto began = std::chrono::steady_clock::now();
  const RemoteReport report = probe("s3://bucket/a", true);
  // Waiting for all 4 MiB would take seven minutes; the limit allows for slow sanitizer builds.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_EQ(report.bound, RemoteBound::kUnknown);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("no range arrived in time"), std::string::npos);
}

TEST_F(RemoteProbe, AWebServerIsProbedWithItsDocumentsChunks) {
  HttpServer server(ObjectService(objects("a/"), ObjectStyle::kPlain));
  const RemoteReport report = probe(server.url() + "/a?token=geheim", true);
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_EQ(report.url, server.url() + "/a");
  EXPECT_EQ(report.credentials, "the query of the URL");
  EXPECT_EQ(report.sample, "c/0/0");
  EXPECT_EQ(report.lists, std::nullopt);
  EXPECT_GT(report.all_connections_bytes_per_second.value_or(0), 0);
}

TEST_F(RemoteProbe, TheUrlMayBeAnObject) {
  HttpServer server(ObjectService({{"a/x y", bytes_of(std::string(2 << 20, 'x'))}}, ObjectStyle::kPlain));
  const RemoteReport report = probe(server.url() + "/a/x%20y", true);
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_EQ(report.sample, "");
  EXPECT_EQ(report.sample_bytes, std::uint64_t{2} << 20);
  EXPECT_GT(report.all_connections_bytes_per_second.value_or(0), 0);
}

TEST_F(RemoteProbe, TlsIsNamedAndItsCertificateChecked) {
  const std::string certificate = folder_.path() + "/ca.pem";
  HttpServer server(ObjectService(objects("a/"), ObjectStyle::kPlain), certificate);
  EXPECT_EQ(probe(server.url() + "/a").problem, RemoteProblem::kCertificate);
  const RemoteReport report = probe(server.url() + "/a", false, {{"verify", certificate}});
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_TRUE(report.tls_version.starts_with("TLSv1.")) << report.tls_version;
  EXPECT_GT(report.tls_seconds.value_or(0), 0);
}

TEST_F(RemoteProbe, EachWayToFailHasItsName) {
  const std::string date = "Date: Fri, 02 Jan 1970 00:00:00 GMT\r\n";
  const auto problem = [&](const std::string& status, const std::string& headers, const std::string& body) {
    return probe_answer(status, headers, body).problem;
  };
  EXPECT_EQ(problem("404 Not Found", "", error("NoSuchBucket")), RemoteProblem::kNoBucket);
  EXPECT_EQ(problem("404 Not Found", "", error("NoSuchKey")), RemoteProblem::kNothingThere);
  EXPECT_EQ(problem("403 Forbidden", "", error("AccessDenied")), RemoteProblem::kDenied);
  EXPECT_EQ(problem("403 Forbidden", "", error("InvalidAccessKeyId")), RemoteProblem::kBadCredentials);
  EXPECT_EQ(problem("403 Forbidden", "", error("SignatureDoesNotMatch")), RemoteProblem::kBadCredentials);
  EXPECT_EQ(problem("400 Bad Request", "", error("ExpiredToken")), RemoteProblem::kExpired);
  EXPECT_EQ(problem("403 Forbidden", date, error("RequestTimeTooSkewed")), RemoteProblem::kClock);
  EXPECT_EQ(problem("301 Moved", "x-amz-bucket-region: eu-west-1\r\n", error("PermanentRedirect")),
            RemoteProblem::kRegion);
  EXPECT_EQ(problem("503 Slow Down", "", error("SlowDown")), RemoteProblem::kBusy);
  EXPECT_EQ(problem("500 No", "", "<html>geheim"), RemoteProblem::kBusy);
  EXPECT_EQ(problem("200 OK", "", "<html>geheim: log in"), RemoteProblem::kOther);
  EXPECT_EQ(problem("206 Partial", "Content-Range: bytes 7-9/10\r\n", "abc"), RemoteProblem::kOther);
  EXPECT_EQ(problem("302 Found", "Location: file:///geheim\r\n", ""), RemoteProblem::kOther);
  EXPECT_EQ(problem("418 Teapot", "", ""), RemoteProblem::kOther);
  EXPECT_EQ(problem("501 Not Implemented", "", ""), RemoteProblem::kOther);
  EXPECT_EQ(problem("200 OK", "Content-Encoding: gzip\r\n", "{}"), RemoteProblem::kOther);
}

TEST_F(RemoteProbe, NonHttpAnswersAreReported) {
  for (const std::string said : {"geheim geheim\r\n\r\n", "HTTP/1.1 99999 No\r\n\r\n",
                                 "HTTP/1.1 200 OK\r\nA\x01: b\r\n", "SSH-2.0-OpenSSH\r\n"}) {
    HttpServer server([&](HttpWire& wire, const HttpRequest&) {
      wire.send(said);
      wire.close();
    });
    const RemoteReport report = probe(server.url() + "/a");
    EXPECT_NE(report.problem, RemoteProblem::kNone) << said;
    EXPECT_NE(report.problem, RemoteProblem::kNothingThere) << said;
  }
  HttpServer silent([&](HttpWire& wire, const HttpRequest&) { wire.pause(10'000); });
  EXPECT_EQ(probe(silent.url() + "/a", false, {{"read_timeout", "1"}, {"connect_timeout", "1"}}).problem,
            RemoteProblem::kTimeout);
  HttpServer endless([&](HttpWire& wire, const HttpRequest&) {
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "10000\r\n" + std::string(0x10000, '{') + "\r\n";
    while (wire.is_open()) {
      wire.send(chunk);
      wire.pause(1);
    }
  });
  EXPECT_NE(probe(endless.url() + "/a").problem, RemoteProblem::kNone);
}

TEST_F(RemoteProbe, NoServerAndNoName) {
  int port = 0;
  {
    HttpServer server([](HttpWire&, const HttpRequest&) {});
    port = server.port();
  }
  EXPECT_EQ(probe("http://127.0.0.1:" + std::to_string(port) + "/a").problem, RemoteProblem::kNoConnection);
  EXPECT_EQ(probe("http://no-such-host.invalid/a").problem, RemoteProblem::kNoSuchHost);
}

TEST_F(RemoteProbe, BadUrlsAndMissingCredentials) {
  for (const char* url : {"s3://", "s3://bucket/a?geheim", "http://geheim:geheim@127.0.0.1/", "s3://bucket/a/../b",
                          "s3://B", "ftp://127.0.0.1/a", "nothing", "http://[::1", "az://c/x"}) {
    EXPECT_EQ(probe(url).problem, RemoteProblem::kUrl) << url;
  }
  EXPECT_EQ(probe("s3://bucket", false, {{"no_such_option", "geheim"}}).problem, RemoteProblem::kUrl);
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  EXPECT_EQ(probe("s3://bucket").problem, RemoteProblem::kNoCredentials);
  ::unsetenv("AWS_EC2_METADATA_DISABLED");
}

TEST_F(RemoteProbe, MissingFeaturesAreReported) {
  const ObjectService plain(objects("a/"), ObjectStyle::kPlain);
  // No ETag; If-Match ignored; ranges ignored.
  for (const std::string lack : {"etag", "match", "range", "suffix"}) {
    HttpServer server([&](HttpWire& wire, HttpRequest request) {
      if (lack == "match") request.headers.erase("if-match");
      if (lack == "range") request.headers.erase("range");
      if (lack == "suffix" && request.header("range").starts_with("bytes=-")) request.headers.erase("range");
      if (lack != "etag") return plain.answer(wire, request);
      const std::string body = request.path == "/a/zarr.json" ? kArray : std::string(100, 'x');
      const std::string range = request.header("range");
      const bool end = range.starts_with("bytes=-");
      const std::size_t first = end ? body.size() - std::stoul(range.substr(7)) : std::stoul(range.substr(6));
      std::size_t last = end ? body.size() - 1 : std::stoul(range.substr(range.find('-') + 1));
      last = std::min(last, body.size() - 1);
      if (request.path != "/a/zarr.json" && request.path != "/a/c/0/0") return wire.reply("404 No", "", "");
      wire.reply("206 Partial Content",
                 "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" +
                     std::to_string(body.size()) + "\r\n",
                 body.substr(first, last - first + 1));
    });
    const RemoteReport report = probe(server.url() + "/a");
    EXPECT_EQ(report.problem, lack == "range" ? RemoteProblem::kNoRanges : RemoteProblem::kNone)
        << lack << ": " << report.status.to_string();
    if (lack == "range") continue;
    EXPECT_EQ(report.tells_version, lack != "etag") << lack;
    EXPECT_EQ(report.if_match, lack == "etag" ? std::nullopt : std::optional(lack != "match")) << lack;
    EXPECT_EQ(report.suffix_ranges, lack != "suffix") << lack;
    EXPECT_EQ(report.warnings.size(), lack == "suffix" ? 0u : 1u) << lack;
  }
}

TEST_F(RemoteProbe, NamesThatMayNotBeListedAreNoProblem) {
  const ObjectService service(objects("a/"), ObjectStyle::kS3);
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.query.find("list-type") != std::string::npos) {
      return wire.reply("403 Forbidden", "", error("AccessDenied"));
    }
    service.answer(wire, request);
  });
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  const RemoteReport report = probe("s3://bucket/a");
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_EQ(report.lists, false);
  EXPECT_EQ(report.sample, "c/0/0");
}

TEST_F(RemoteProbe, UnreadableChunksAreReported) {
  const ObjectService service(objects("a/"), ObjectStyle::kS3);
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.path.ends_with("/c/0/0")) return wire.reply("403 Forbidden", "", error("AccessDenied"));
    service.answer(wire, request);
  });
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  const RemoteReport report = probe("s3://bucket/a");
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("some requests were denied"), std::string::npos);
}

TEST_F(RemoteProbe, RegionAndClockAreLearnedAndReported) {
  const ObjectService service(objects("a/"), ObjectStyle::kS3);
  std::atomic<bool> wrong_clock{false};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.header("authorization").find("/eu-central-1/") == std::string::npos) {
      return wire.reply("400 Bad Request", "x-amz-bucket-region: eu-central-1\r\n",
                        error("AuthorizationHeaderMalformed"));
    }
    if (wrong_clock && request.header("x-amz-date").substr(0, 4) != "2001") {
      return wire.reply("403 Forbidden", "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\n", error("RequestTimeTooSkewed"));
    }
    service.answer(wire, request);
  });
  ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
  RemoteReport report = probe("s3://bucket/a");
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
  EXPECT_EQ(report.region, "eu-central-1");
  EXPECT_TRUE(report.region_was_wrong);
  wrong_clock = true;
  report = probe("s3://bucket/a");
  EXPECT_EQ(report.problem, RemoteProblem::kNone) << report.status.to_string();
}

TEST(FirstChunks, AreNamedByDocumentsOfEachForm) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(first_chunks("zarr.json", kArray), Names{"c/0/0"});
  EXPECT_EQ(first_chunks("zarr.json", R"({"node_type":"array","shape":[]})"), Names{"c"});
  EXPECT_EQ(first_chunks("zarr.json", R"({"node_type":"array","shape":[1,2],"chunk_key_encoding":{"name":"v2"}})"),
            Names{"0.0"});
  EXPECT_EQ(first_chunks(".zarray", R"({"shape":[1,2,3]})"), Names{"0.0.0"});
  EXPECT_EQ(first_chunks(".zarray", R"({"shape":[1,2],"dimension_separator":"/"})"), Names{"0/0"});
  EXPECT_EQ(first_chunks(".zmetadata", R"({"metadata":{"x/.zarray":{"shape":[1]},"x/.zattrs":{"shape":[1]}}})"),
            Names{"x/0"});
  EXPECT_EQ(first_chunks("zarr.json", R"({"node_type":"group","consolidated_metadata":{"metadata":{
    "g":{"node_type":"group"},"g/x":{"node_type":"array","shape":[9]}}}})"),
            Names{"g/x/c/0"});
}

TEST(FirstChunks, AnyDocumentIsTaken) {
  const std::string v3[] = {
      R"({"node_type":7,"shape":[1]})", R"({"node_type":"array","shape":[1],"chunk_key_encoding":7})",
      R"({"node_type":"array","shape":[1],"chunk_key_encoding":{"name":"default","configuration":{"separator":7}}})",
      R"({"node_type":"array","shape":[1],"chunk_key_encoding":{"configuration":{"separator":"/../"}}})"};
  for (const std::string& text : v3) EXPECT_EQ(first_chunks("zarr.json", text), std::vector<std::string>()) << text;
  for (const char* name : {"zarr.json", ".zarray", ".zmetadata"}) {
    for (const char* text :
         {"", "{", "[]", "7", R"({"shape":7})", R"({"shape":[1],"dimension_separator":7})", R"({"metadata":[]})",
          R"({"metadata":{"../../x/.zarray":{"shape":[1]}}})", R"({"consolidated_metadata":{"metadata":{"/x":
          {"node_type":"array","shape":[1]}}}})"}) {
      EXPECT_EQ(first_chunks(name, text), std::vector<std::string>()) << name << " " << text;
    }
    std::string many = R"({"node_type":"array","shape":[1)";
    for (int i = 0; i < 100'000; ++i) many += ",1";
    EXPECT_EQ(first_chunks(name, many + "]}"), std::vector<std::string>());
  }
}

TEST(RateBound, IsTheLimitingFactor) {
  const auto bound = [](double one, double all, double cores, double wait) {
    RemoteReport report;
    report.first_byte_median_seconds = wait;
    find_bound({.one = one, .all = all, .range_bytes = 4'000'000, .connections = 10, .cores = cores}, report);
    return report.bound;
  };
  EXPECT_EQ(bound(50e6, 480e6, 0.2, 0.01), RemoteBound::kConnections);
  EXPECT_EQ(bound(50e6, 480e6, 0.2, 0.06), RemoteBound::kLatency);
  EXPECT_EQ(bound(50e6, 200e6, 0.2, 0.01), RemoteBound::kNetwork);
  EXPECT_EQ(bound(50e6, 480e6, 0.95, 0.01), RemoteBound::kProcessor);
  EXPECT_EQ(bound(0, 0, 0, 0), RemoteBound::kUnknown);
  RemoteReport report;
  find_bound({.throttled = true}, report);
  EXPECT_EQ(report.bound, RemoteBound::kThrottled);
}

}  // namespace
}  // namespace headrace::system
