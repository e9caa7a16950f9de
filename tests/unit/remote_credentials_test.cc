// Credentials of stores, obtained over HTTP: roles, containers, instances. They are renewed once for all waiting
// requests. Services that misbehave or do not answer cause a named error in time, and reveal no secret.
#include <gtest/gtest.h>
#include <headrace/byte_store.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "http/transport.h"
#include "store/store.h"
#include "support/http_server.h"
#include "support/temp_dir.h"
#include "support/utc_time.h"

namespace headrace::http {
namespace {

using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::ObjectService;
using testing::ObjectStyle;
using testing::utc_time;

constexpr const char* kFolder = "/latest/meta-data/iam/security-credentials/";

store::Bytes bytes_of(const std::string& text) {
  store::Bytes bytes(text.size());
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), bytes.begin());
  return bytes;
}

const ObjectService& objects() {
  static const ObjectService service({{"a/x", bytes_of("content")}, {"a/y", bytes_of("more")}}, ObjectStyle::kS3);
  return service;
}

// An EC2 instance and a bucket at one address. Keys are numbered; the bucket accepts those from `oldest` on.
struct Cloud {
  std::atomic<int> oldest{0}, given{0}, seconds{3600}, fetch_ms{0}, asked{0};
  std::atomic<bool> fails{false};
  std::string json(const std::string& extra = "") {
    const int number = ++given;
    return "{\"Code\":\"Success\",\"AccessKeyId\":\"ID" + std::to_string(number) +
           "\",\"SecretAccessKey\":\"geheim-secret\",\"Token\":\"geheim-token-" + std::to_string(number) +
           "\",\"Expiration\":\"" + utc_time(seconds) + "\"" + extra + "}";
  }
  void answer(HttpWire& wire, const HttpRequest& request) {
    if (request.path == "/latest/api/token") {
      if (request.method != "PUT" || request.header("x-aws-ec2-metadata-token-ttl-seconds").empty()) {
        return wire.reply("405 Method Not Allowed", "", "");
      }
      wire.pause(fetch_ms);
      return fails ? wire.reply("500 No", "", "geheim") : wire.reply("200 OK", "", "geheim-imds");
    }
    if (request.path.starts_with("/latest/")) {
      if (request.header("x-aws-ec2-metadata-token") != "geheim-imds") return wire.reply("401 No", "", "");
      return wire.reply("200 OK", "", request.path == kFolder ? "role" : json());
    }
    ++asked;
    const std::string token = request.header("x-amz-security-token");
    const std::size_t dash = token.rfind('-');
    if (dash == std::string::npos || std::stoi(token.substr(dash + 1)) < oldest) {
      return wire.reply(
          "400 Bad Request", "",
          "<Error><Code>ExpiredToken</Code><Message>geheim</Message><Token-0>" + token + "</Token-0></Error>");
    }
    objects().answer(wire, request);
  }
};

class RemoteCredentials : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_NO_SIGN_REQUEST",
          "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL_STS",
          "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_EC2_METADATA_DISABLED", "AWS_ENDPOINT_URL_S3"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.path().c_str(), 1);
    ::setenv("HEADRACE_HTTP_ATTEMPTS", "2", 1);
    ::setenv("AWS_METADATA_SERVICE_TIMEOUT", "10", 1);  // the machine may be busy
  }
  void TearDown() override { ::unsetenv("HEADRACE_HTTP_ATTEMPTS"); }

  static void use(const HttpServer& server) {
    ::setenv("AWS_ENDPOINT_URL", server.url().c_str(), 1);
    ::setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url().c_str(), 1);
  }
  static Result<std::shared_ptr<store::Store>> open() { return store::open_store("s3://bucket/a"); }
  static std::string read(store::Store& store, const char* key = "x") {
    const auto bytes = store.get(key, 1000);
    if (bytes.ok()) return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
    EXPECT_EQ(bytes.status().to_string().find("geheim"), std::string::npos) << bytes.status().to_string();
    return bytes.status().to_string();
  }
  // Returns the error of opening a store, which must not take longer than allowed.
  static std::string refusal() {
    const auto began = std::chrono::steady_clock::now();
    const auto store = open();
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
    EXPECT_EQ(store.status().code() == Code::kOk, false);
    EXPECT_EQ(store.status().to_string().find("geheim"), std::string::npos) << store.status().to_string();
    return store.status().to_string();
  }

  support::TempDir folder_;
};

TEST_F(RemoteCredentials, AnInstanceReadsByItsRole) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  const auto store = open();
  ::unsetenv("http_proxy");
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ(read(**store), "content");
  EXPECT_EQ((*store)->list("")->size(), 2u);
  EXPECT_EQ(cloud.given, 1);
}

TEST_F(RemoteCredentials, ExpiredOnesAreFetchedOnceForAllWaiters) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  const auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ(read(**store), "content");
  cloud.oldest = 2;
  cloud.fetch_ms = 200;
  std::vector<std::thread> readers;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) readers.emplace_back([&] { good += read(**store) == "content"; });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(cloud.given, 2) << "one fetch for all";
  EXPECT_EQ((*store)->list("")->size(), 2u);
}

TEST_F(RemoteCredentials, AreReplacedBeforeTheyExpire) {
  Cloud cloud;
  cloud.seconds = 4;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  const auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (cloud.given < 3 && std::chrono::steady_clock::now() < until) {
    ASSERT_EQ(read(**store), "content");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_GE(cloud.given, 3);
}

TEST_F(RemoteCredentials, ARejectingServerIsNotRetriedForever) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  const auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  cloud.oldest = 1'000'000;
  EXPECT_NE(read(**store).find("session token has expired"), std::string::npos);
  EXPECT_LE(cloud.asked, 3);
  EXPECT_LE(cloud.given, 3);
}

TEST_F(RemoteCredentials, AFailedFetchIsReportedToAllWaiters) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  const auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  cloud.oldest = 2;
  cloud.fails = true;
  std::vector<std::thread> readers;
  std::atomic<int> told{0};
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&] { told += read(**store).find("no AWS credentials") != std::string::npos; });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(told, 8);
  cloud.fails = false;
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(read(**store), "content") << "and tried again later";
}

TEST_F(RemoteCredentials, AStoreIsDestroyedWhileItsServiceIsSilent) {
  Cloud cloud;
  cloud.seconds = 40;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  cloud.oldest = 2;
  cloud.fetch_ms = 900;
  std::thread reader([&] { read(**store); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  reader.join();
  const auto began = std::chrono::steady_clock::now();
  *store = nullptr;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

// Records when reads end.
struct Ends final : RangeListener {
  void done(std::span<RangeRead* const> reads) noexcept override {
    std::lock_guard lock(mutex);
    count += reads.size();
    changed.notify_all();
  }
  bool wait(std::size_t wanted, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [&] { return count >= wanted; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t count = 0;  // guarded by mutex
};

TEST_F(RemoteCredentials, AReadThatWaitsForThemIsCancelledAtOnce) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  const auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  cloud.oldest = 2;
  cloud.fetch_ms = 900;
  const auto requests = server.requests().size();
  Ends ends;
  std::array<std::byte, 16> memory[3];
  RangeRead reads[3];
  RangeRead* all[3];
  for (int i = 0; i < 3; ++i) {
    reads[i].key = "x";
    reads[i].out = memory[i];
    reads[i].listener = &ends;
    all[i] = &reads[i];
  }
  ASSERT_TRUE((*store)->ranges()->start(all).ok());
  // All were refused, and the service is being asked for new credentials.
  for (int i = 0; i < 500 && server.requests().size() < requests + 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  (*store)->ranges()->cancel({all, 2});
  EXPECT_TRUE(ends.wait(2, std::chrono::milliseconds(600))) << "they waited for the service";
  EXPECT_TRUE(ends.wait(3, std::chrono::seconds(20)));
  EXPECT_EQ(reads[0].status.code(), Code::kCancelled);
  EXPECT_EQ(reads[1].status.code(), Code::kCancelled);
  EXPECT_TRUE(reads[2].status.ok()) << reads[2].status.to_string();
  EXPECT_EQ(reads[2].bytes, 7u);
}

TEST_F(RemoteCredentials, AForkedChildLeavesTheirThreadAlone) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) { cloud.answer(wire, request); });
  use(server);
  auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  cloud.oldest = 2;
  ASSERT_EQ(read(**store), "content");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool said = (*store)->get("x", 1000).status().code() == Code::kForked;
    *store = nullptr;
    ::_exit(said ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(read(**store), "content");
}

TEST_F(RemoteCredentials, MisbehavingServices) {
  ::setenv("AWS_METADATA_SERVICE_TIMEOUT", "1", 1);
  std::atomic<int> led{0};
  HttpServer elsewhere([&](HttpWire& wire, const HttpRequest&) {
    ++led;
    wire.reply("200 OK", "", "geheim-imds");
  });
  struct {
    const char* what;
    HttpServer::Answer answer;
  } const cases[] = {
      {"an endless token",
       [](HttpWire& wire, const HttpRequest&) {
         wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
         for (int i = 0; i < 100'000 && wire.is_open(); ++i) wire.send("400\r\n" + std::string(1024, 'x') + "\r\n");
         wire.close();
       }},
      {"endless lines",
       [](HttpWire& wire, const HttpRequest&) {
         wire.send("HTTP/1.1 200 OK\r\n");
         for (int i = 0; i < 100'000 && wire.is_open(); ++i) wire.send("X-Geheim: y\r\n");
         wire.close();
       }},
      {"nothing",
       [](HttpWire& wire, const HttpRequest&) {
         wire.pause(5000);
         wire.close();
       }},
      {"a byte now and then",
       [](HttpWire& wire, const HttpRequest&) {
         wire.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
         for (int i = 0; i < 50 && wire.is_open(); ++i) {
           wire.send("x");
           wire.pause(100);
         }
         wire.close();
       }},
      {"a redirect",
       [&](HttpWire& wire, const HttpRequest&) {
         wire.reply("307 Elsewhere", "Location: " + elsewhere.url() + "/latest/api/token\r\n", "");
       }},
      {"no HTTP",
       [](HttpWire& wire, const HttpRequest&) {
         wire.send("geheim\r\n\r\n");
         wire.close();
       }},
      {"a reset", [](HttpWire& wire, const HttpRequest&) { wire.reset(); }},
      {"a token that is another header",
       [](HttpWire& wire, const HttpRequest&) { wire.reply("200 OK", "", "a\r\nb: geheim"); }},
      {"a token, and a role that leads elsewhere",
       [](HttpWire& wire, const HttpRequest& request) {
         wire.reply("200 OK", "", request.method == "PUT" ? "t" : "../../../geheim");
       }},
      {"keys that are no JSON",
       [](HttpWire& wire, const HttpRequest& request) {
         wire.reply("200 OK", "", request.method == "PUT" ? "t" : request.path == kFolder ? "role" : "{\"geheim\":");
       }},
      {"keys without an end",
       [](HttpWire& wire, const HttpRequest& request) {
         wire.reply("200 OK", "",
                    request.method == "PUT"   ? "t"
                    : request.path == kFolder ? "role"
                                              : R"({"AccessKeyId":"A","SecretAccessKey":"geheim","Token":"geheim"})");
       }},
  };
  for (const auto& row : cases) {
    HttpServer server(row.answer);
    ::setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url().c_str(), 1);
    EXPECT_NE(refusal().find("no AWS credentials"), std::string::npos) << row.what;
  }
  EXPECT_EQ(led, 0) << "a redirect was followed";
}

TEST_F(RemoteCredentials, OfAContainerAndOfAWebIdentity) {
  Cloud cloud;
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.path == "/container") {
      if (request.header("authorization") != "geheim-container") return wire.reply("403 No", "", "geheim");
      return wire.reply("200 OK", "", cloud.json());
    }
    if (request.method == "POST") {
      const std::string keys =
          "<AccessKeyId>WEB</AccessKeyId><SecretAccessKey>geheim</SecretAccessKey><SessionToken>geheim-9"
          "</SessionToken><Expiration>" +
          utc_time(3600) + "</Expiration>";
      return wire.reply("200 OK", "Content-Type: text/xml\r\n",
                        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>" + keys +
                            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>");
    }
    cloud.answer(wire, request);
  });
  use(server);
  ::setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", (server.url() + "/container").c_str(), 1);
  EXPECT_NE(refusal().find("HTTP 403"), std::string::npos);
  ::setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "geheim-container", 1);
  auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ(read(**store), "content");
  std::ofstream(folder_.path() + "/token") << "geheim.web\n";
  ::setenv("AWS_WEB_IDENTITY_TOKEN_FILE", (folder_.path() + "/token").c_str(), 1);
  ::setenv("AWS_ROLE_ARN", "arn:x", 1);
  store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ(read(**store), "content");
  bool proved = false;
  for (const HttpRequest& request : server.requests()) {
    proved = proved || request.body.find("&WebIdentityToken=geheim.web") != std::string::npos;
  }
  EXPECT_TRUE(proved);
}

// Tokens of Google's machines, and requests that must not use plain http.
TEST_F(RemoteCredentials, OfGooglesMachines) {
  std::atomic<int> tokens{0}, asked{0};
  HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (request.path.starts_with("/computeMetadata/")) {
      if (request.header("metadata-flavor") != "Google") return wire.reply("403 No", "", "");
      return wire.reply("200 OK", "",
                        "{\"access_token\":\"geheim-" + std::to_string(++tokens) + "\",\"expires_in\":3599}");
    }
    if (++asked > 1 && request.header("authorization") == "Bearer geheim-1") {
      return wire.reply("401 No", "", "<Error><Code>AuthenticationRequired</Code></Error>");
    }
    HttpRequest signed_one = request;
    signed_one.headers["authorization"] = "yes";
    objects().answer(wire, signed_one);
  });
  const auto who = [&] { return server.requests().back().header("authorization"); };
  const auto open_gs = [&](std::vector<StorageOption> options) {
    options.push_back({"endpoint_url", server.url()});
    return store::open_store("gs://bucket/a", {nullptr, options});
  };
  ::unsetenv("GOOGLE_OAUTH_ACCESS_TOKEN");
  ::setenv("GCE_METADATA_HOST", server.host().c_str(), 1);
  auto store = open_gs({});
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ(read(**store), "content");
  EXPECT_EQ(who(), "Bearer geheim-1");
  EXPECT_EQ(read(**store), "content") << "after 401 with the next token";
  EXPECT_EQ(who(), "Bearer geheim-2");
  store = open_gs({{"token", "anon"}});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(read(**store), "content");
  EXPECT_EQ(who(), "");
  store = open_gs({{"key", "GOOG1"}, {"secret", "geheim"}});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(read(**store), "content");
  EXPECT_TRUE(who().starts_with("AWS4-HMAC-SHA256 Credential=GOOG1/")) << who();
  EXPECT_NE(who().find("/auto/s3/aws4_request"), std::string::npos);
  for (const auto& [options, said] : std::vector<std::pair<std::vector<StorageOption>, const char*>>{
           {{{"token", "geheim"}, {"endpoint", "http://example.org"}}, "by plain http"},
           {{{"token", "geheim"}, {"key", "a"}, {"secret", "geheim"}}, "give one"},
           {{{"token", "/geheim.json"}}, "the file of the storage option 'token' cannot be read"},
           {{{"key", "geheim"}}, "belong together"}}) {
    const auto refused = store::open_store("gs://bucket/a", {nullptr, options});
    EXPECT_NE(refused.status().to_string().find(said), std::string::npos) << refused.status().to_string();
    EXPECT_EQ(refused.status().to_string().find("geheim"), std::string::npos) << refused.status().to_string();
  }
}

}  // namespace
}  // namespace headrace::http
