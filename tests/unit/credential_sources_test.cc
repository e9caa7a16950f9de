// Every source of credentials that is a file, a program or a local service, from opening a store to reading bytes:
// credentials are renewed before they expire, the doctor names the source, and no message contains a secret, even if
// the source is replaced by something else.
#include <gtest/gtest.h>
#include <headrace/system.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "http/rsa_signature.h"
#include "http/sha1.h"
#include "http/transport.h"
#include "store/store.h"
#include "support/http_server.h"
#include "support/rsa_test_key.h"
#include "support/temp_dir.h"
#include "support/utc_time.h"
#include "system/remote_probe.h"
#include "tools/headrace/doctor_report.h"

namespace headrace::http {
namespace {

using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::utc_time;

void write_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  // Atomic, since it may be read at the same time.
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

// All services at one address. Tokens are numbered, so that a store's requests show how often it was renewed.
struct Services {
  std::atomic<int> given{0}, seconds{3600}, status{200};
  std::mutex mutex;
  std::string asked_by;    // guarded by mutex; sent with the last request for a token
  std::string last_shown;  // guarded by mutex; sent with the last request for an object

  std::string token() {
    return R"({"token_type":"Bearer","access_token":"geheim-token-)" + std::to_string(++given) + R"(","expires_in":)" +
           std::to_string(seconds) + "}";
  }
  void note(std::string& where, const std::string& what) {
    const std::lock_guard lock(mutex);
    where = what;
  }
  void answer(HttpWire& wire, const HttpRequest& request) {
    const std::string code = std::to_string(status) + " Said";
    if (request.path == "/federation/credentials") {
      note(asked_by, request.header("x-amz-sso_bearer_token") + "?" + request.query);
      const std::string keys = R"({"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"geheim","sessionToken":)"
                               R"("geheim-token-)" +
                               std::to_string(++given) + R"(","expiration":)" +
                               std::to_string((::time(nullptr) + seconds) * 1000) + "}}";
      return wire.reply(code, "", keys);
    }
    if (request.path == "/token" || request.path == "/tenant/oauth2/v2.0/token") {
      note(asked_by, request.body);
      return wire.reply(code, "", token());
    }
    if (request.path == "/msi" || request.path == "/metadata/identity/oauth2/token") {
      note(asked_by, request.header("x-identity-header") + request.header("metadata") + "?" + request.query);
      return wire.reply(code, "", token());
    }
    const std::string bearer = request.header("authorization");
    const std::string shown = request.header("x-amz-security-token") + (bearer.starts_with("Bearer ") ? bearer : "");
    note(last_shown, shown);
    if (shown.find("geheim-token-") == std::string::npos) {
      return wire.reply("403 No", "", "<Error><Code>AccessDenied</Code><Message>geheim</Message></Error>");
    }
    wire.reply("200 OK", "ETag: \"1\"\r\n", "content");
  }
  std::string shown() {
    const std::lock_guard lock(mutex);
    return last_shown;
  }
  std::string by() {
    const std::lock_guard lock(mutex);
    return asked_by;
  }
};

class CredentialSources : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
    std::vector<std::string> names;
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      for (const char* prefix : {"AWS_", "AZURE_", "GOOGLE_", "GCE_", "GS_", "STORAGE_", "IDENTITY_", "CLOUDSDK_"}) {
        if (text.starts_with(prefix)) names.push_back(text.substr(0, text.find('=')));
      }
    }
    for (const std::string& name : names) ::unsetenv(name.c_str());
    set("HOME", folder_.path());
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("HEADRACE_HTTP_ATTEMPTS", "1");
    set("AWS_ENDPOINT_URL_S3", server_.url());
    set("AWS_PROFILE", "p");
    set("STORAGE_EMULATOR_HOST", server_.url());
    set("AZURE_STORAGE_ACCOUNT", "acc");
    set("AZURE_STORAGE_ENDPOINT", server_.url() + "/acc");
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  static std::string clean(const std::string& said) {
    EXPECT_EQ(said.find("geheim"), std::string::npos) << said;
    EXPECT_EQ(said.find("PRIVATE"), std::string::npos) << said;
    return said;
  }
  // Returns the error of opening a store, which must not take longer than allowed.
  static std::string refused(const std::string& url) {
    const auto began = std::chrono::steady_clock::now();
    const auto store = store::open_store(url);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
    EXPECT_FALSE(store.ok());
    clean(system::probe_remote(url, {}).status.to_string());
    return clean(store.status().to_string());
  }
  // Opens a store, reads, checks that credentials are renewed before they expire, and runs the doctor.
  void check(
      const std::string& url, const std::string& source, const std::function<void()>& meanwhile = [] {}) {
    SCOPED_TRACE(source);
    services_.seconds = 4;
    const int before = services_.given;
    const auto store = store::open_store(url);
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::set<std::string> shown;
    while (shown.size() < 2 && std::chrono::steady_clock::now() < until) {
      const auto bytes = (*store)->get("x", 100);
      ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
      shown.insert(services_.shown());
      meanwhile();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    EXPECT_GE(shown.size(), 2u) << "credentials were not renewed";
    EXPECT_GT(services_.given, before);
    services_.seconds = 3600;
    meanwhile();
    const RemoteReport report = system::probe_remote(url, {});
    EXPECT_EQ(report.credentials, source);
    SystemReport all;
    all.remotes = {report};
    clean(cli::doctor_text(all));
    clean(cli::doctor_json(all).dump());
  }
  // A path that is not a file of the right kind is refused at once, and by name.
  void check_wrong_files(const std::string& file, const std::string& url, const std::string& named) {
    namespace fs = std::filesystem;
    fs::create_directories(fs::path(file).parent_path());
    struct {
      const char* what;
      std::function<void()> make;
    } const rows[] = {
        {"nothing", [] {}},
        {"a directory", [&] { fs::create_directory(file); }},
        {"a FIFO", [&] { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); }},
        {"a device", [&] { fs::create_symlink("/dev/zero", file); }},
        {"a link to itself", [&] { fs::create_symlink(file, file); }},
        {"a huge file",
         [&] {
           std::ofstream(file) << "{";
           fs::resize_file(file, std::uint64_t{1} << 36);
         }},
        {"no JSON", [&] { std::ofstream(file) << "geheim"; }},
        {"other types",
         [&] {
           std::ofstream(file) << R"({"type":["geheim"],"accessToken":{"geheim":1},"expiresAt":1,"private_key":0})";
         }},
        {"binary", [&] { std::ofstream(file) << std::string("\0geheim\xff\x1b[31m", 13); }},
    };
    for (const auto& row : rows) {
      SCOPED_TRACE(row.what);
      fs::remove(file);
      row.make();
      EXPECT_NE(refused(url).find(named), std::string::npos) << refused(url);
    }
    fs::remove(file);
  }

  support::TempDir folder_;
  Services services_;
  HttpServer server_{[this](HttpWire& wire, const HttpRequest& request) { services_.answer(wire, request); }};
};

TEST_F(CredentialSources, AProgram) {
  const std::string keys = path("keys of a program");
  write_file(path(".aws/config"), "[profile p]\ncredential_process = /bin/cat '" + keys + "'\n");
  const auto print = [&] {
    write_file(keys, R"({"Version":1,"AccessKeyId":"PROC","SecretAccessKey":"geheim-s","SessionToken":"geheim-token-)" +
                         std::to_string(++services_.given) + R"(","Expiration":")" + utc_time(services_.seconds) +
                         "\"}");
  };
  const char* const source = "the credential_process of profile 'p'";
  services_.seconds = 4;
  print();
  check("s3://bucket/a", source, print);
  for (const char* text : {"", "geheim", "[]", R"({"Version":2,"SecretAccessKey":"geheim"})", R"({"Version":"1"})"}) {
    write_file(keys, text);
    EXPECT_NE(refused("s3://bucket/a").find(std::string(source) + " prints no credentials"), std::string::npos) << text;
  }
  for (const auto& [command, said] : std::vector<std::pair<std::string, std::string>>{
           {"/bin/sh -c 'echo geheim; echo geheim >&2; exit 7'", "status 7"},
           {"/nowhere/geheim --password=geheim", "cannot be started"},
           {"/bin/sh -c 'while :; do echo geheim; done'", "prints more than 65536 bytes"},
           {"/bin/echo 'geheim", "quotes closed"}}) {
    write_file(path(".aws/config"), "[profile p]\ncredential_process = " + command + "\n");
    EXPECT_NE(refused("s3://bucket/a").find(said), std::string::npos) << refused("s3://bucket/a");
  }
}

TEST_F(CredentialSources, SingleSignOn) {
  write_file(path(".aws/config"),
             "[profile p]\nsso_session=s\nsso_account_id=1\nsso_role_name=R\n[sso-session s]\n"
             "sso_start_url=https://x/start\nsso_region=eu-west-1\n");
  set("AWS_ENDPOINT_URL_SSO", server_.url());
  const std::string cached = path(".aws/sso/cache/" + sha1_hex("s") + ".json");
  const auto leave = [&](std::int64_t seconds) {
    write_file(cached, R"({"accessToken":"geheim-login","expiresAt":")" + utc_time(seconds) + "\"}");
  };
  leave(3600);
  check("s3://bucket/a", "the single sign-on of profile 'p'");
  EXPECT_EQ(services_.by(), "geheim-login?account_id=1&role_name=R");
  leave(-1);
  EXPECT_NE(refused("s3://bucket/a").find("has expired: aws sso login --profile p"), std::string::npos);
  leave(3600);
  services_.status = 401;
  EXPECT_NE(refused("s3://bucket/a").find("no longer accepted: aws sso login --profile p"), std::string::npos);
  services_.status = 500;
  EXPECT_NE(refused("s3://bucket/a").find("HTTP 500"), std::string::npos);
  services_.status = 200;
  check_wrong_files(cached, "s3://bucket/a", "aws sso login --profile p");
}

TEST_F(CredentialSources, AServiceAccountOfGoogles) {
  if (sign_rs256(testing::kRsaTestKey, "x").status().code() == Code::kUnsupported) {
    GTEST_SKIP() << "this machine has no libcrypto";
  }
  const std::string file = path("account.json");
  set("GOOGLE_APPLICATION_CREDENTIALS", file);
  const nlohmann::json account = {{"type", "service_account"},
                                  {"client_email", "a@b.iam.gserviceaccount.com"},
                                  {"private_key", testing::kRsaTestKey},
                                  {"token_uri", server_.url() + "/token"}};
  write_file(file, account.dump());
  check("gs://bucket/a", "a service account of Google's, by the file of GOOGLE_APPLICATION_CREDENTIALS");
  EXPECT_TRUE(
      services_.by().starts_with("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="));
  services_.status = 400;
  EXPECT_NE(refused("gs://bucket/a").find("HTTP 400"), std::string::npos);
  services_.status = 200;
  check_wrong_files(file, "gs://bucket/a", "the file of GOOGLE_APPLICATION_CREDENTIALS");
}

TEST_F(CredentialSources, AUserOfGoogles) {
  const std::string file = path(".config/gcloud/application_default_credentials.json");
  write_file(file, R"({"type":"authorized_user","client_id":"c","client_secret":"geheim","refresh_token":"geheim-r",)"
                   R"("token_uri":")" +
                       server_.url() + "/token\"}");
  check("gs://bucket/a", "a user of Google's, by the file of gcloud auth application-default login");
  EXPECT_EQ(services_.by(), "grant_type=refresh_token&client_id=c&client_secret=geheim&refresh_token=geheim-r");
}

TEST_F(CredentialSources, AzuresIdentities) {
  set("AZURE_POD_IDENTITY_AUTHORITY_HOST", server_.url());
  check("az://container/a", "the machine's identity (metadata service)");
  EXPECT_TRUE(services_.by().starts_with("true?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F"));
  set("IDENTITY_ENDPOINT", server_.url() + "/msi");
  set("IDENTITY_HEADER", "geheim-word");
  check("az://container/a", "the application's identity (IDENTITY_ENDPOINT)");
  EXPECT_TRUE(services_.by().starts_with("geheim-word?api-version=2019-08-01"));
  set("AZURE_FEDERATED_TOKEN_FILE", path("token"));
  set("AZURE_AUTHORITY_HOST", server_.url());
  set("AZURE_CLIENT_ID", "client");
  set("AZURE_TENANT_ID", "tenant");
  write_file(path("token"), "geheim.jwt\n");
  check("az://container/a", "the workload's identity (AZURE_FEDERATED_TOKEN_FILE)");
  EXPECT_NE(services_.by().find("&client_assertion=geheim.jwt"), std::string::npos);
  services_.status = 401;
  EXPECT_NE(refused("az://container/a").find("HTTP 401"), std::string::npos);
  ::unlink(path("token").c_str());
  EXPECT_NE(refused("az://container/a").find("AZURE_FEDERATED_TOKEN_FILE"), std::string::npos);
  // A token is sent over https only, or to this machine.
  services_.status = 200;
  write_file(path("token"), "geheim.jwt\n");
  set("AZURE_STORAGE_ENDPOINT", "http://storage.example");
  EXPECT_NE(refused("az://container/a").find("by plain http"), std::string::npos);
}

}  // namespace
}  // namespace headrace::http
