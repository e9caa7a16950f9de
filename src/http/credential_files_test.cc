// Credentials from files and programs, and the services behind them: the requests made, ill-formed input rejected by
// name, and no secrets in messages.
#include <gtest/gtest.h>

#include <map>

#include "base/base64.h"
#include "base/json.h"
#include "http/aws_credentials.h"
#include "http/azure_identity.h"
#include "http/credential_answers.h"
#include "http/google.h"
#include "http/rsa_signature.h"
#include "http/sha1.h"
#include "support/given_surroundings.h"
#include "support/rsa_test_key.h"

namespace headrace::http {
namespace {

constexpr std::int64_t kToday = 1'700'000'000;  // 2023-11-14T22:13:20Z
constexpr const char* kTomorrow = "2023-11-15T04:13:20Z";

struct Site : testing::GivenSurroundings {
  std::map<std::string, FetchAnswer> answers;   // by "METHOD url"
  std::map<std::string, std::string> programs;  // their output, by their words joined with '|'
  std::vector<FetchQuestion> asked;

  Surroundings surroundings() {
    Surroundings all = GivenSurroundings::surroundings();
    all.run = [this](const std::vector<std::string>& words) -> Result<std::string> {
      std::string line;
      for (const std::string& word : words) line += (line.empty() ? "" : "|") + word;
      if (!programs.contains(line)) return Status(Code::kIo, Layer::kStore, "the program exited with status 1");
      return programs[line];
    };
    return all;
  }
  Fetch fetch() {
    return [this](const FetchQuestion& question) -> Result<FetchAnswer> {
      asked.push_back(question);
      const auto found = answers.find(question.method + (" " + question.url.to_string()));
      if (found == answers.end()) return Status(Code::kIo, Layer::kStore, "no connection to the server");
      return found->second;
    };
  }
  // The credentials, or the error.
  template <class Function>
  Result<Credentials> obtain(Function function, StorageService service, const std::vector<StorageOption>& given = {}) {
    const auto options = StorageOptions::parse(given, service);
    auto found = function(*options, surroundings(), fetch(), kToday);
    const std::string said = found.ok() ? found->source : found.status().to_string();
    EXPECT_EQ(said.find("geheim"), std::string::npos) << said;
    EXPECT_EQ(said.find("PRIVATE"), std::string::npos) << said;
    return found;
  }
  Result<Credentials> aws(const std::string& profile = "p") {
    return obtain(obtain_aws_credentials, StorageService::kS3, {{"profile", profile}});
  }
  Result<Credentials> google(const std::vector<StorageOption>& given = {}) {
    return obtain(obtain_google_credentials, StorageService::kGoogle, given);
  }
  Result<Credentials> azure() { return obtain(obtain_azure_credentials, StorageService::kAzure); }
};

bool fails_with(const Result<Credentials>& got, const std::string& what) {
  const std::string said = got.ok() ? "ok: " + got->source : got.status().to_string();
  const bool has = !got.ok() && said.find(what) != std::string::npos;
  if (!has) ADD_FAILURE() << said << "\n  has not: " << what;
  return has;
}

std::string process_keys(const std::string& more) {
  return R"({"Version":1,"AccessKeyId":"PROC","SecretAccessKey":"geheim-s")" + more + "}";
}

TEST(CredentialFiles, OfAProgram) {
  Site site;
  site.variables["HOME"] = "/h";
  site.files["/h/.aws/config"] = "[profile p]\ncredential_process = \"/opt/a b\" --geheim 'x y'\n";
  const std::string call = "/opt/a b|--geheim|x y";
  fails_with(site.aws(), "the credential_process of profile 'p' returned no credentials: run the command to see why");
  fails_with(site.aws(), "status 1");
  site.programs[call] = process_keys(R"(,"SessionToken":"geheim-t","Expiration":")" + std::string(kTomorrow) + "\"");
  const auto found = site.aws();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->keys.id, "PROC");
  EXPECT_EQ(found->keys.session_token, "geheim-t");
  EXPECT_EQ(found->expires, kToday + std::int64_t{6} * 3600);
  EXPECT_EQ(found->source, "the credential_process of profile 'p'");
  site.programs[call] = process_keys("");
  EXPECT_EQ(site.aws()->expires, Credentials::kNever) << "keys of users do not end";
  site.programs[call] = process_keys(R"(,"Expiration":"2023-11-14T22:13:20Z")");
  fails_with(site.aws(), "have expired");
  for (const std::string& text :
       {std::string(), std::string("geheim"), std::string("[1]"), process_keys("").replace(11, 1, "2"),
        process_keys("").replace(11, 1, "\"1\""), process_keys(R"(,"SessionToken":1)"),
        process_keys(R"(,"Expiration":1700000000)"), process_keys(R"(,"Expiration":"soon")"),
        process_keys(R"(,"SessionToken":"a b")"), std::string(R"({"Version":1,"AccessKeyId":"A"})"),
        process_keys("") + "geheim", std::string(70'000, ' ') + process_keys("")}) {
    site.programs[call] = text;
    fails_with(site.aws(), "prints no credentials");
  }
  site.files["/h/.aws/config"] = "[profile p]\ncredential_process = 'geheim\n";
  fails_with(site.aws(), "are its quotes closed?");
  // Keys in the profile itself take precedence, as with AWS's tools; and a role may start from a program's credentials.
  site.files["/h/.aws/config"] =
      "[profile p]\naws_access_key_id=OWN\naws_secret_access_key=geheim\ncredential_process=x\n";
  EXPECT_EQ(site.aws()->keys.id, "OWN");
}

std::string sso_token(const std::string& end = kTomorrow) {
  return R"({"startUrl":"https://x","region":"eu-west-1","accessToken":"geheim-sso","expiresAt":")" + end + "\"}";
}

TEST(CredentialFiles, OfSingleSignOn) {
  Site site;
  site.variables["HOME"] = "/h";
  site.files["/h/.aws/config"] =
      "[profile p]\nsso_session = my-sso\nsso_account_id = 111122223333\nsso_role_name = Read+Only\n"
      "[sso-session my-sso]\nsso_start_url = https://start.example/start\nsso_region = eu-west-1\n"
      "[profile "
      "old]\nsso_start_url=https://start.example/start\nsso_region=cn-north-1\nsso_account_id=1\nsso_role_name=R\n"
      "[profile lost]\nsso_session=nowhere\nsso_account_id=1\nsso_role_name=R\n"
      "[profile bad]\nsso_start_url=https://x\nsso_region=e/u\nsso_account_id=1\nsso_role_name=R\n"
      "[profile role]\nsso_session=my-sso\nsso_account_id=1\nsso_role_name=a b\n";
  const std::string file = "/h/.aws/sso/cache/0ad374308c5a4e22f723adf10145eafad7c4031c.json";
  const std::string portal =
      "GET https://portal.sso.eu-west-1.amazonaws.com/federation/credentials?account_id=111122223333"
      "&role_name=Read%2BOnly";
  fails_with(site.aws(), "the single sign-on of profile 'p' has not been done: aws sso login --profile p");
  site.files[file] = sso_token("2023-11-14T22:13:20Z");
  fails_with(site.aws(), "has expired: aws sso login --profile p");
  site.files[file] = sso_token("2023-11-15T04:13:20UTC");
  fails_with(site.aws(), "cannot be queried");
  EXPECT_EQ(site.asked.at(0).headers.at(0), "x-amz-sso_bearer_token: geheim-sso");
  const std::string keys =
      R"({"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"geheim","sessionToken":"geheim-t","expiration":)";
  site.answers[portal] = {200, keys + "1700021600000}}"};
  const auto found = site.aws();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->keys.id, "SSO");
  EXPECT_EQ(found->expires, kToday + std::int64_t{6} * 3600);
  EXPECT_EQ(found->source, "the single sign-on of profile 'p'");
  site.answers[portal] = {401, "geheim"};
  fails_with(site.aws(), "is no longer accepted: aws sso login --profile p");
  site.answers[portal] = {403, "geheim"};
  fails_with(site.aws(), "HTTP 403");
  for (const std::string& text : {std::string("geheim"), keys + "1.5}}", keys + "\"1700021600000\"}}", keys + "null}}",
                                  std::string(R"({"roleCredentials":[]})"), std::string("{}")}) {
    site.answers[portal] = {200, text};
    fails_with(site.aws(), "without keys");
  }
  for (const char* end : {"1700000000000", "-1", "0"}) {
    site.answers[portal] = {200, keys + end + "}}"};
    fails_with(site.aws(), "have expired");
  }
  site.answers[portal] = {200, keys + "18446744073709551615}}"};
  EXPECT_TRUE(site.aws().ok());
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string(R"({"accessToken":1})"), sso_token("x"),
        sso_token().replace(sso_token().find("geheim"), 6, "a\\nb"), std::string(1 << 20, ' ')}) {
    site.files[file] = text;
    fails_with(site.aws(), "contains no token: aws sso login --profile p");
  }
  fails_with(site.aws("lost"), "names an sso_session that does not exist");
  fails_with(site.aws("bad"), "sso_region");
  fails_with(site.aws("role"), "sso_role_name");
  site.files["/h/.aws/sso/cache/" + sha1_hex("https://start.example/start") + ".json"] = sso_token();
  site.answers["GET https://portal.sso.cn-north-1.amazonaws.com.cn/federation/credentials?account_id=1&role_name=R"] = {
      200, keys + "1700021600000}}"};
  EXPECT_EQ(site.aws("old")->keys.id, "SSO");
  site.variables["AWS_ENDPOINT_URL_SSO"] = "http://sso.example";
  fails_with(site.aws("old"), "must be queried by https");
}

TEST(CredentialFiles, Sha1IsSha1) {
  EXPECT_EQ(sha1_hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_hex(std::string(55, 'a')), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
  EXPECT_EQ(sha1_hex(std::string(56, 'a')), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
  EXPECT_EQ(sha1_hex(std::string(1000, 'a')), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
}

// False on a machine without libcrypto.
bool can_sign() { return sign_rs256(testing::kRsaTestKey, "x").status().code() != Code::kUnsupported; }

TEST(CredentialFiles, SignaturesAreOpenSsls) {
  if (!can_sign()) GTEST_SKIP() << "this machine has no libcrypto";
  const auto signature = sign_rs256(testing::kRsaTestKey, testing::kRsaTestText);
  ASSERT_TRUE(signature.ok()) << signature.status().to_string();
  std::string hex;
  for (const char c : *signature) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(hex, testing::kRsaTestSignature);
  constexpr const char* kCurve =
      "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgASJm6JSwJOaBxdsF\n"
      "9i2Vgy6VqSrOn0gmd1CE+eT5KcihRANCAARTu1H5e35AHMWAbLJBahgzdbzJjj9Z\n"
      "VCaGRXpuYzML/4JLVlxN/0JqZBNTQ0Vla0ts1EhYxJs04QbLBzAA6NcZ\n-----END PRIVATE KEY-----\n";
  const std::string cut(testing::kRsaTestKey, 400);
  for (const std::string& pem :
       {std::string(), std::string("geheim"), cut, std::string(kCurve), std::string(40'000, 'x'),
        std::string("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIC\n")}) {
    EXPECT_EQ(sign_rs256(pem, "x").status().code(), Code::kInvalidArgument) << pem.substr(0, 40);
  }
}

std::string service_account(const std::string& uri = "https://oauth2.googleapis.com/token") {
  return base::Json({{"type", "service_account"},
                     {"client_email", "a@b.iam.gserviceaccount.com"},
                     {"private_key_id", "k1"},
                     {"private_key", testing::kRsaTestKey},
                     {"token_uri", uri}})
      .dump();
}

std::string decoded(std::string text) {
  for (char& c : text) c = c == '-' ? '+' : c == '_' ? '/' : c;
  while (text.size() % 4 != 0) text += '=';
  return base::decode_base64(text).value_or("");
}

TEST(CredentialFiles, OfAServiceAccount) {
  if (!can_sign()) GTEST_SKIP() << "this machine has no libcrypto";
  Site site;
  site.variables["GOOGLE_APPLICATION_CREDENTIALS"] = "/sa.json";
  fails_with(site.google(), "the file of GOOGLE_APPLICATION_CREDENTIALS cannot be read");
  site.files["/sa.json"] = service_account();
  fails_with(site.google(), "cannot be queried");
  const std::string form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
  ASSERT_TRUE(site.asked.at(0).body.starts_with(form));
  const std::string token = site.asked[0].body.substr(form.size());
  const std::size_t first = token.find('.'), second = token.rfind('.');
  ASSERT_NE(first, second);
  const auto head = base::parse_json(decoded(token.substr(0, first))),
             claims = base::parse_json(decoded(token.substr(first + 1, second - first - 1)));
  EXPECT_EQ(*head, base::Json({{"alg", "RS256"}, {"typ", "JWT"}, {"kid", "k1"}}));
  EXPECT_EQ(*claims, base::Json({{"iss", "a@b.iam.gserviceaccount.com"},
                                 {"scope", "https://www.googleapis.com/auth/devstorage.read_only"},
                                 {"aud", "https://oauth2.googleapis.com/token"},
                                 {"iat", kToday},
                                 {"exp", kToday + 3600}}));
  EXPECT_EQ(decoded(token.substr(second + 1)), *sign_rs256(testing::kRsaTestKey, token.substr(0, second)));
  const std::string asked = "POST https://oauth2.googleapis.com/token";
  site.answers[asked] = {200, R"({"access_token":"geheim-T","expires_in":3599,"token_type":"Bearer"})"};
  auto found = site.google();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->bearer, "geheim-T");
  EXPECT_EQ(found->expires, kToday + 3599);
  EXPECT_EQ(found->source, "a service account of Google's, by the file of GOOGLE_APPLICATION_CREDENTIALS");
  site.variables.clear();
  EXPECT_EQ(site.google({{"token", "/sa.json"}})->source,
            "a service account of Google's, by the file of the storage option 'token'");
  site.answers[asked] = {400, R"({"error":"invalid_grant","error_description":"geheim"})"};
  fails_with(site.google({{"token", "/sa.json"}}), "HTTP 400");
  site.answers[asked] = {200, "geheim"};
  fails_with(site.google({{"token", "/sa.json"}}), "a response without a token");
}

TEST(CredentialFiles, OfAUserOfGoogles) {
  Site site;
  site.variables["HOME"] = "/h";
  site.files["/h/.config/gcloud/application_default_credentials.json"] =
      R"({"type":"authorized_user","client_id":"c d","client_secret":"geheim/1","refresh_token":"geheim+2"})";
  fails_with(site.google(), "cannot be queried");
  EXPECT_EQ(site.asked.at(0).body,
            "grant_type=refresh_token&client_id=c%20d&client_secret=geheim%2F1&refresh_token=geheim%2B2");
  site.answers["POST https://oauth2.googleapis.com/token"] = {200, R"({"access_token":"geheim-U","expires_in":60})"};
  EXPECT_EQ(site.google()->source, "a user of Google's, by the file of gcloud auth application-default login");
  EXPECT_EQ(site.google({{"token", "google_default"}})->bearer, "geheim-U");
  site.answers["POST https://oauth2.googleapis.com/token"] = {400, "geheim"};
  fails_with(site.google(), "gcloud auth application-default login");
  site.variables["GOOGLE_OAUTH_ACCESS_TOKEN"] = "geheim-env";
  EXPECT_EQ(site.google()->bearer, "geheim-env") << "what is said of this process goes first";
}

TEST(CredentialFiles, OfGoogleThatAreNone) {
  Site site;
  const std::pair<std::string, const char*> rows[] = {
      {"", "not JSON"},
      {"geheim", "not JSON"},
      {R"(["geheim"])", "not JSON"},
      {std::string(100'000, '['), "not JSON"},
      {R"({"type":"geheim"})", "an unknown type"},
      {R"({"type":1})", "an unknown type"},
      {R"({"type":"external_account"})", "external_account, which is not supported"},
      {R"({"type":"service_account"})", "no client_email and private_key"},
      {R"({"type":"service_account","client_email":1,"private_key":["geheim"]})", "no client_email and private_key"},
      {R"({"type":"service_account","client_email":"a","private_key":"geheim"})", "not an RSA key in PEM form"},
      {R"({"type":"authorized_user","client_id":"a","client_secret":"geheim"})", "refresh_token"},
      {service_account("http://geheim.example/token"), "token_uri that is not an https URL"},
      {service_account("ftp://geheim"), "token_uri that is not an https URL"},
  };
  for (const auto& [text, said] : rows) {
    site.files["/x.json"] = text;
    if (!can_sign() && text.find("service_account") != std::string::npos) continue;
    fails_with(site.google({{"token", "/x.json"}}), said);
  }
  EXPECT_TRUE(site.asked.empty());
}

TEST(CredentialFiles, OfAzuresIdentities) {
  Site site;
  const std::string machine =
      "GET http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
      "https%3A%2F%2Fstorage.azure.com%2F";
  fails_with(site.azure(), "no Azure credentials: set AZURE_STORAGE_KEY");
  EXPECT_EQ(site.asked.at(0).headers.at(0), "Metadata: true");
  EXPECT_EQ(site.asked[0].connect_ns, 250'000'000u);
  site.answers[machine] = {200, R"({"access_token":"geheim-vm","expires_in":"86399","expires_on":"1700086399"})"};
  auto found = site.azure();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->bearer, "geheim-vm");
  EXPECT_EQ(found->expires, kToday + 86399);
  EXPECT_EQ(found->source, "the machine's identity (metadata service)");
  site.answers[machine] = {400, "geheim"};
  fails_with(site.azure(), "HTTP 400");
  site.files["/sys/class/dmi/id/sys_vendor"] = "LENOVO";
  site.asked.clear();
  fails_with(site.azure(), "/sys/class/dmi/id says that this machine is not of");
  EXPECT_TRUE(site.asked.empty());

  site.variables = {{"IDENTITY_ENDPOINT", "http://127.0.0.1:41/msi/token"}, {"AZURE_CLIENT_ID", "user-1"}};
  fails_with(site.azure(), "IDENTITY_HEADER");
  site.variables["IDENTITY_HEADER"] = "geheim-word";
  site.answers
      ["GET http://127.0.0.1:41/msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com%2F&"
       "client_id=user-1"] = {200, R"({"access_token":"geheim-app","expires_on":"1700003600"})"};
  found = site.azure();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->bearer, "geheim-app");
  EXPECT_EQ(found->expires, kToday + 3600);
  EXPECT_EQ(site.asked.back().headers.at(0), "X-IDENTITY-HEADER: geheim-word");
  for (const char* address : {"http://example.org/msi", "http://169.254.evil.example/", "ftp://127.0.0.1/"}) {
    site.variables["IDENTITY_ENDPOINT"] = address;
    site.asked.clear();
    fails_with(site.azure(), "IDENTITY_ENDPOINT");
    EXPECT_TRUE(site.asked.empty()) << address;
  }

  site.variables["AZURE_FEDERATED_TOKEN_FILE"] = "/token";
  fails_with(site.azure(), "AZURE_TENANT_ID");
  site.variables["AZURE_TENANT_ID"] = "tenant-1";
  fails_with(site.azure(), "contains no token");
  site.files["/token"] = "geheim.jwt\n";
  site.answers["POST https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token"] = {
      200, R"({"token_type":"Bearer","expires_in":3599,"access_token":"geheim-wl"})"};
  found = site.azure();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->bearer, "geheim-wl");
  EXPECT_EQ(site.asked.back().body,
            "grant_type=client_credentials&client_id=user-1&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3A"
            "client-assertion-type%3Ajwt-bearer&scope=https%3A%2F%2Fstorage.azure.com%2F.default&client_assertion="
            "geheim.jwt");
  site.variables["AZURE_AUTHORITY_HOST"] = "http://login.example/";
  fails_with(site.azure(), "AZURE_AUTHORITY_HOST");
  site.variables["AZURE_TENANT_ID"] = "../x";
  fails_with(site.azure(), "AZURE_TENANT_ID");
}

}  // namespace
}  // namespace headrace::http
