// Files and programs that give credentials, and the services behind them: each by what is asked, what is not of its
// form refused by name, and nothing secret in what is said.
#include <gtest/gtest.h>

#include <map>

#include "http/aws_credentials.h"
#include "http/credential_answers.h"
#include "http/sha1.h"

namespace headrace::http {
namespace {

constexpr std::int64_t kToday = 1'700'000'000;  // 2023-11-14T22:13:20Z
constexpr const char* kTomorrow = "2023-11-15T04:13:20Z";

struct Site {
  std::map<std::string, std::string> variables, files;
  std::map<std::string, FetchAnswer> answers;   // by "METHOD url"
  std::map<std::string, std::string> programs;  // what they print, by their words with '|' between
  std::vector<FetchQuestion> asked;

  Surroundings surroundings() {
    return {[this](const char* name) { return variables.contains(name) ? variables[name] : ""; },
            [this](const std::string& path) -> std::optional<std::string> {
              if (!files.contains(path)) return std::nullopt;
              return files[path];
            },
            nullptr,
            [this](const std::vector<std::string>& words) -> Result<std::string> {
              std::string line;
              for (const std::string& word : words) line += (line.empty() ? "" : "|") + word;
              if (!programs.contains(line)) return Status(Code::kIo, Layer::kStore, "the program ends with status 1");
              return programs[line];
            }};
  }
  Fetch fetch() {
    return [this](const FetchQuestion& question) -> Result<FetchAnswer> {
      asked.push_back(question);
      const auto found = answers.find(question.method + (" " + question.url.to_string()));
      if (found == answers.end()) return Status(Code::kIo, Layer::kStore, "no connection to the server");
      return found->second;
    };
  }
  // Who asks, or what is said instead.
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
  fails_with(site.aws(), "the credential_process of profile 'p' gives no credentials: run the command to see why");
  fails_with(site.aws(), "status 1");
  site.programs[call] = process_keys(R"(,"SessionToken":"geheim-t","Expiration":")" + std::string(kTomorrow) + "\"");
  const auto found = site.aws();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->keys.id, "PROC");
  EXPECT_EQ(found->keys.session_token, "geheim-t");
  EXPECT_EQ(found->expires, kToday + 6 * 3600);
  EXPECT_EQ(found->source, "the credential_process of profile 'p'");
  site.programs[call] = process_keys("");
  EXPECT_EQ(site.aws()->expires, Credentials::kNever) << "keys of users do not end";
  site.programs[call] = process_keys(R"(,"Expiration":"2023-11-14T22:13:20Z")");
  fails_with(site.aws(), "have ended");
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
  // What is in the profile itself goes first, as with AWS's tools; and a role may begin with a program.
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
  fails_with(site.aws(), "has ended: aws sso login --profile p");
  site.files[file] = sso_token("2023-11-15T04:13:20UTC");
  fails_with(site.aws(), "cannot be asked");
  EXPECT_EQ(site.asked.at(0).headers.at(0), "x-amz-sso_bearer_token: geheim-sso");
  const std::string keys =
      R"({"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"geheim","sessionToken":"geheim-t","expiration":)";
  site.answers[portal] = {200, keys + "1700021600000}}"};
  const auto found = site.aws();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->keys.id, "SSO");
  EXPECT_EQ(found->expires, kToday + 6 * 3600);
  EXPECT_EQ(found->source, "the single sign-on of profile 'p'");
  site.answers[portal] = {401, "geheim"};
  fails_with(site.aws(), "is not taken any more: aws sso login --profile p");
  site.answers[portal] = {403, "geheim"};
  fails_with(site.aws(), "HTTP 403");
  for (const std::string& text : {std::string("geheim"), keys + "1.5}}", keys + "\"1700021600000\"}}", keys + "null}}",
                                  std::string(R"({"roleCredentials":[]})"), std::string("{}")}) {
    site.answers[portal] = {200, text};
    fails_with(site.aws(), "holds no keys");
  }
  for (const char* end : {"1700000000000", "-1", "0"}) {
    site.answers[portal] = {200, keys + end + "}}"};
    fails_with(site.aws(), "have ended");
  }
  site.answers[portal] = {200, keys + "18446744073709551615}}"};
  EXPECT_TRUE(site.aws().ok());
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string(R"({"accessToken":1})"), sso_token("x"),
        sso_token().replace(sso_token().find("geheim"), 6, "a\\nb"), std::string(1 << 20, ' ')}) {
    site.files[file] = text;
    fails_with(site.aws(), "holds no token: aws sso login --profile p");
  }
  fails_with(site.aws("lost"), "names an sso_session that is not there");
  fails_with(site.aws("bad"), "sso_region");
  fails_with(site.aws("role"), "sso_role_name");
  site.files["/h/.aws/sso/cache/" + sha1_hex("https://start.example/start") + ".json"] = sso_token();
  site.answers["GET https://portal.sso.cn-north-1.amazonaws.com.cn/federation/credentials?account_id=1&role_name=R"] = {
      200, keys + "1700021600000}}"};
  EXPECT_EQ(site.aws("old")->keys.id, "SSO");
  site.variables["AWS_ENDPOINT_URL_SSO"] = "http://sso.example";
  fails_with(site.aws("old"), "asked by https");
}

TEST(CredentialFiles, Sha1IsSha1) {
  EXPECT_EQ(sha1_hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1_hex(std::string(55, 'a')), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
  EXPECT_EQ(sha1_hex(std::string(56, 'a')), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
  EXPECT_EQ(sha1_hex(std::string(1000, 'a')), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
}

}  // namespace
}  // namespace headrace::http
