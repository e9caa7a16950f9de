// AWS's credential chain: the requests of each provider, in AWS's order; responses that are rejected; and no secrets in
// error messages.
#include "http/aws_credentials.h"

#include <gtest/gtest.h>

#include <map>

#include "http/credential_answers.h"

namespace headrace::http {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;  // 2023-11-14T22:13:20Z
constexpr const char* kLater = "2023-11-15T04:13:20Z";

std::string json_keys(const std::string& id, const std::string& expiration = kLater) {
  return R"({"Code":"Success","Type":"AWS-HMAC","AccessKeyId":")" + id +
         R"(","SecretAccessKey":"geheim-secret","Token":"geheim-token","Expiration":")" + expiration + "\"}";
}

std::string sts_keys(const std::string& id, const std::string& what = "AssumeRoleWithWebIdentity",
                     const std::string& expiration = kLater) {
  return "<" + what + "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><" + what +
         "Result><AssumedRoleUser><Arn>a</Arn></AssumedRoleUser><Credentials><AccessKeyId>" + id +
         "</AccessKeyId><SecretAccessKey>geheim-secret</SecretAccessKey><SessionToken>geheim-token</SessionToken>"
         "<Expiration>" +
         expiration + "</Expiration></Credentials></" + what + "Result><ResponseMetadata/></" + what + "Response>";
}

// A machine, and services that respond by "METHOD url". Anything not listed does not exist.
struct World {
  std::map<std::string, std::string> variables, files;
  std::map<std::string, FetchAnswer> answers;
  std::vector<FetchQuestion> asked;

  Result<Credentials> obtain(const std::vector<StorageOption>& given = {}) {
    const Surroundings surroundings{
        [this](const char* name) { return variables.contains(name) ? variables[name] : ""; },
        [this](const std::string& path) -> std::optional<std::string> {
          if (!files.contains(path)) return std::nullopt;
          return files[path];
        }};
    const Fetch fetch = [this](const FetchQuestion& question) -> Result<FetchAnswer> {
      asked.push_back(question);
      const auto found = answers.find(question.method + (" " + question.url.to_string()));
      if (found == answers.end()) return Status(Code::kIo, Layer::kStore, "no connection to the server");
      return found->second;
    };
    auto options = StorageOptions::parse(given, StorageService::kS3);
    if (!options.ok()) return options.status();
    auto found = obtain_aws_credentials(*options, surroundings, fetch, kNow);
    if (!found.ok()) {
      EXPECT_EQ(found.status().to_string().find("geheim"), std::string::npos) << found.status().to_string();
    }
    return found;
  }
  std::string id(const std::vector<StorageOption>& given = {}) {
    const auto found = obtain(given);
    return found.ok() ? found->keys.id : found.status().to_string();
  }
  std::string header(std::size_t which, const std::string& name) const {
    for (const std::string& line : asked.at(which).headers) {
      if (line.starts_with(name + ": ")) return line.substr(name.size() + 2);
    }
    return "";
  }
};

bool says(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

constexpr const char* kImds = "http://169.254.169.254";
void add_instance(World& world, const std::string& base = kImds) {
  const std::string folder = base + "/latest/meta-data/iam/security-credentials/";
  world.answers["PUT " + base + "/latest/api/token"] = {200, "geheim-imds"};
  world.answers["GET " + folder] = {200, "my-role\n"};
  world.answers["GET " + folder + "my-role"] = {200, json_keys("IMDS")};
}

TEST(AwsCredentials, OfAWebIdentity) {
  World world;
  world.variables = {{"AWS_ROLE_ARN", "arn:aws:iam::1:role/a b"},
                     {"AWS_WEB_IDENTITY_TOKEN_FILE", "/token"},
                     {"AWS_REGION", "eu-west-1"}};
  EXPECT_TRUE(says(world.id(), "contains no token"));
  world.files["/token"] = "geheim.jwt\n";
  EXPECT_TRUE(says(world.id(), "cannot be queried"));
  world.asked.clear();
  world.answers["POST https://sts.eu-west-1.amazonaws.com/"] = {200, sts_keys("WEB")};
  const auto found = world.obtain();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->keys.id, "WEB");
  EXPECT_EQ(found->keys.session_token, "geheim-token");
  EXPECT_EQ(found->expires, kNow + std::int64_t{6} * 3600);
  EXPECT_EQ(world.asked.at(0).body,
            "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b&"
            "RoleSessionName=headrace-1700000000&WebIdentityToken=geheim.jwt");
  EXPECT_EQ(world.header(0, "Authorization"), "") << "the token is the proof";
  world.variables["AWS_ENDPOINT_URL_STS"] = "http://sts.example.org";
  EXPECT_TRUE(says(world.id(), "must be queried by https"));
  world.variables["AWS_ENDPOINT_URL_STS"] = "http://127.0.0.1:9";
  world.answers["POST http://127.0.0.1:9/"] = {
      403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>geheim</Message></Error></ErrorResponse>"};
  EXPECT_TRUE(says(world.id(), "HTTP 403 AccessDenied"));
  world.variables["AWS_ENDPOINT_URL_STS"] = "http://127.evil.example";
  EXPECT_TRUE(says(world.id(), "must be queried by https"));
  world.variables.erase("AWS_ROLE_ARN");
  EXPECT_TRUE(says(world.id(), "needs both"));
  world.variables["AWS_ACCESS_KEY_ID"] = "ENV";
  world.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  EXPECT_EQ(world.id(), "ENV") << "keys of the environment go first";
}

TEST(AwsCredentials, OfRolesOfProfiles) {
  World world;
  world.variables = {{"AWS_CONFIG_FILE", "/config"}, {"AWS_PROFILE", "b"}, {"AWS_REGION", "us-west-2"}};
  world.files["/config"] =
      "[profile base]\naws_access_key_id=BASE\naws_secret_access_key=geheim\naws_session_token=geheim-base\n"
      "[profile a]\nrole_arn=arn:a\nsource_profile=base\nexternal_id=x/y\nrole_session_name=me\n"
      "[profile b]\nrole_arn=arn:b\nsource_profile=a\n"
      "[profile self]\nrole_arn=arn:s\nsource_profile=self\naws_access_key_id=SELF\naws_secret_access_key=geheim\n"
      "[profile x]\nrole_arn=arn:x\nsource_profile=y\n[profile y]\nrole_arn=arn:y\nsource_profile=x\n"
      "[profile both]\nrole_arn=arn:z\nsource_profile=base\ncredential_source=Environment\n"
      "[profile env]\nrole_arn=arn:e\ncredential_source=Environment\n"
      "[profile inst]\nrole_arn=arn:i\ncredential_source=Ec2InstanceMetadata\n"
      "[profile mfa]\nrole_arn=arn:m\nsource_profile=base\nmfa_serial=geheim\n"
      "[profile lost]\nrole_arn=arn:l\nsource_profile=nowhere\n"
      "[profile sso]\nsso_session=x\n[profile proc]\ncredential_process=geheim\n[profile web]\nrole_arn=arn:w\n"
      "web_identity_token_file=/token\n[profile empty]\nregion=x\n";
  world.files["/token"] = "geheim.jwt";
  const std::string sts = "POST https://sts.us-west-2.amazonaws.com/";
  world.answers[sts] = {200, sts_keys("ROLE", "AssumeRole")};
  EXPECT_EQ(world.id(), "ROLE");
  ASSERT_EQ(world.asked.size(), 2u) << "one role after the other";
  EXPECT_EQ(world.asked[0].body,
            "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aa&RoleSessionName=me&ExternalId=x%2Fy");
  EXPECT_TRUE(says(world.header(0, "Authorization"), "Credential=BASE/20231114/us-west-2/sts/aws4_request"));
  EXPECT_EQ(world.header(0, "x-amz-security-token"), "geheim-base");
  EXPECT_TRUE(says(world.header(1, "Authorization"), "Credential=ROLE/"));
  EXPECT_EQ(world.header(1, "x-amz-security-token"), "geheim-token");
  world.asked.clear();
  EXPECT_EQ(world.id({{"profile", "self"}}), "ROLE");
  EXPECT_TRUE(says(world.header(0, "Authorization"), "Credential=SELF/"));
  EXPECT_EQ(world.id({{"profile", "web"}}), "ROLE");
  EXPECT_TRUE(says(world.id({{"profile", "x"}}), "too many roles"));
  EXPECT_TRUE(says(world.id({{"profile", "both"}}), "a source_profile or a credential_source"));
  EXPECT_TRUE(says(world.id({{"profile", "mfa"}}), "mfa_serial"));
  EXPECT_TRUE(says(world.id({{"profile", "lost"}}), "source_profile of profile 'lost' does not exist"));
  EXPECT_TRUE(says(world.id({{"profile", "sso"}}), "names an sso_session that does not exist"));
  EXPECT_TRUE(says(world.id({{"profile", "proc"}}), "the credential_process of profile 'proc' is not run here"));
  EXPECT_TRUE(says(world.id({{"profile", "missing"}}), "there is no profile 'missing'"));
  add_instance(world);
  EXPECT_EQ(world.id({{"profile", "inst"}}), "ROLE");
  EXPECT_EQ(world.id({{"profile", "empty"}}), "IMDS") << "a profile without credentials leaves it to the machine";
  world.variables["AWS_ACCESS_KEY_ID"] = "ENV";
  world.variables["AWS_SECRET_ACCESS_KEY"] = "geheim";
  world.asked.clear();
  EXPECT_EQ(world.id({{"profile", "env"}}), "ROLE");
  EXPECT_TRUE(says(world.header(0, "Authorization"), "Credential=ENV/"));
}

TEST(AwsCredentials, OfContainers) {
  World world;
  add_instance(world);
  world.variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/credentials/x";
  world.answers["GET http://169.254.170.2/v2/credentials/x"] = {200, json_keys("ECS")};
  EXPECT_EQ(world.id(), "ECS") << "before the instance";
  EXPECT_TRUE(world.asked.at(0).direct) << "by no proxy";
  world.variables = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials"},
                     {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "not this"},
                     {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/eks"}};
  world.files["/eks"] = "geheim-eks\n";
  world.answers["GET http://169.254.170.23/v1/credentials"] = {200, json_keys("EKS")};
  world.asked.clear();
  EXPECT_EQ(world.id(), "EKS");
  EXPECT_EQ(world.header(0, "Authorization"), "geheim-eks");
  world.files["/eks"] = "geheim\r\nX: y";
  EXPECT_TRUE(says(world.id(), "contains invalid characters"));
  world.files.erase("/eks");
  EXPECT_TRUE(says(world.id(), "cannot be read"));
  world.variables.erase("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  for (const char* uri : {"http://example.org/x", "http://169.254.169.254/latest", "http://127.0.0.1.example.org/",
                          "http://127.1/", "http://0x7f.0.0.1/", "http://169.254.170.24/", "http://10.0.0.1/"}) {
    world.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = uri;
    world.asked.clear();
    EXPECT_TRUE(says(world.id(), "neither https nor an address of this machine")) << uri;
    EXPECT_TRUE(world.asked.empty()) << "the token went to " << uri;
  }
  for (const char* uri : {"https://example.org/x", "http://localhost:1/x", "http://127.0.0.1:9/x", "http://[::1]/x"}) {
    world.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = uri;
    world.answers[std::string("GET ") + uri] = {200, json_keys("FULL")};
    EXPECT_EQ(world.id(), "FULL") << uri;
  }
}

TEST(AwsCredentials, OfInstances) {
  World world;
  EXPECT_TRUE(says(world.id(), "no AWS credentials"));
  add_instance(world);
  world.asked.clear();
  EXPECT_EQ(world.id(), "IMDS");
  ASSERT_EQ(world.asked.size(), 3u);
  EXPECT_EQ(world.header(0, "X-aws-ec2-metadata-token-ttl-seconds"), "21600");
  EXPECT_EQ(world.header(1, "X-aws-ec2-metadata-token"), "geheim-imds");
  EXPECT_EQ(world.header(2, "X-aws-ec2-metadata-token"), "geheim-imds");
  for (const FetchQuestion& question : world.asked) {
    EXPECT_EQ(question.total_ns, 1'000'000'000u);
    EXPECT_EQ(question.attempts, 1u);
    EXPECT_TRUE(question.direct);
  }
  for (const auto& [given, seconds] : {std::pair{"5", 5u}, {"0", 1u}, {"100", 60u}, {"soon", 1u}, {"-1", 1u}}) {
    world.variables["AWS_METADATA_SERVICE_TIMEOUT"] = given;
    EXPECT_EQ(world.id(), "IMDS");
    EXPECT_EQ(world.asked.back().total_ns, seconds * std::uint64_t{1'000'000'000}) << given;
  }
  world.variables["AWS_EC2_METADATA_DISABLED"] = "True";
  world.asked.clear();
  EXPECT_TRUE(says(world.id(), "AWS_EC2_METADATA_DISABLED"));
  EXPECT_TRUE(world.asked.empty());
  world.variables = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6"}};
  add_instance(world, "http://[fd00:ec2::254]");
  world.answers["GET http://[fd00:ec2::254]/latest/meta-data/iam/security-credentials/my-role"].body = json_keys("V6");
  EXPECT_EQ(world.id(), "V6");
  world.variables = {};

  const std::string token = "PUT " + std::string(kImds) + "/latest/api/token";
  const std::string folder = "GET " + std::string(kImds) + "/latest/meta-data/iam/security-credentials/";
  const auto with = [&](const std::string& what, const FetchAnswer& answer) {
    World changed = world;
    changed.answers[what] = answer;
    std::string said = changed.id();
    EXPECT_TRUE(says(said, "no AWS credentials")) << said;
    return said;
  };
  with(token, {302, ""});
  with(token, {200, ""});
  with(token, {200, "geheim\r\nX: y"});
  with(token, {200, std::string(5000, 'x')});
  EXPECT_TRUE(says(with(folder, {404, ""}), "has no role"));
  for (const char* role : {"", "\n", "../../geheim", "a/b", "..", "a b", "geheim?x", "<html>"}) {
    EXPECT_TRUE(says(with(folder, {200, role}), "names no role")) << role;
  }
  with(folder + "my-role", {200, json_keys("IMDS", "2023-11-14T22:13:19Z")});
  with(folder + "my-role", {200, "<html>geheim</html>"});
  with(folder + "my-role", {500, json_keys("IMDS")});
}

TEST(CredentialAnswers, AreParsedStrictly) {
  EXPECT_EQ(parse_timestamp("2023-11-14T22:13:20Z"), kNow);
  EXPECT_EQ(parse_timestamp("2023-11-14T22:13:20.123456Z"), kNow);
  EXPECT_EQ(parse_timestamp("2023-11-15T00:13:20+02:00"), kNow);
  EXPECT_EQ(parse_timestamp("2023-11-14T20:43:20-01:30"), kNow);
  for (const char* text :
       {"", "2023-11-14", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z", "2023-02-30T22:13:20Z", "2023-11-14T24:13:20Z",
        "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20+2:00", "2023-11-14T22:13:20Zx", "-023-11-14T22:13:20Z",
        "2023-11-14X22:13:20Z", "+99999-01-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_timestamp(text)) << text;
  }
  EXPECT_TRUE(parse_json_keys(json_keys("ID")));
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string("null"), json_keys(""), json_keys("a b"),
        json_keys("ID\\r\\nX"), json_keys("ID", "soon"), json_keys("ID", ""), json_keys(std::string(300, 'x')),
        json_keys("ID").insert(1, R"("Code":"Failed",)"), std::string(R"({"Code":"AssumeRoleUnauthorizedAccess"})"),
        std::string(R"({"AccessKeyId":1,"SecretAccessKey":"s","Token":"t","Expiration":"2023-11-15T04:13:20Z"})"),
        std::string(100'000, '['), json_keys(std::string(kMaxCredentialBytes, 'x'))}) {
    EXPECT_FALSE(parse_json_keys(text)) << text.substr(0, 100);
  }
  EXPECT_TRUE(parse_sts_keys(sts_keys("ID")));
  for (const std::string& text :
       {std::string(), std::string("<a/>"), sts_keys(""), sts_keys("ID", "GetFederationToken"), sts_keys("a b"),
        sts_keys("ID", "AssumeRole", "x"), sts_keys("ID") + "<x/>", sts_keys("<b>ID</b>"),
        "<AssumeRoleResponse>" + sts_keys("ID") + "</AssumeRoleResponse>"}) {
    EXPECT_FALSE(parse_sts_keys(text)) << text;
  }
  EXPECT_EQ(parse_sts_error("<ErrorResponse><Error><Code>ge heim</Code></Error></ErrorResponse>"), "");
  const auto token = parse_json_token(R"({"access_token":"T","expires_in":3600,"token_type":"Bearer"})", kNow);
  ASSERT_TRUE(token);
  EXPECT_EQ(token->bearer, "T");
  EXPECT_EQ(token->expires, kNow + 3600);
  EXPECT_EQ(parse_json_token(R"({"access_token":"T","expires_in":"60"})", kNow)->expires, kNow + 60);
  for (const char* text : {R"({"access_token":"T"})", R"({"access_token":"","expires_in":1})", R"({"expires_in":1})",
                           R"({"access_token":"T","expires_in":-1})", R"({"access_token":"T","expires_in":"x"})",
                           R"({"access_token":"T x","expires_in":1})", R"({"access_token":"T","expires_in":1.5})",
                           R"({"access_token":["T"],"expires_in":1})"}) {
    EXPECT_FALSE(parse_json_token(text, kNow)) << text;
  }
  EXPECT_LE(parse_json_token(R"({"access_token":"T","expires_in":9223372036854775807})", kNow)->expires,
            kNow + std::int64_t{366} * 86400);
}

}  // namespace
}  // namespace headrace::http
