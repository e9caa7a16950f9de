// Options of remote stores: names from two libraries for one meaning, rejected options, and bucket URLs from options,
// the environment and profiles.
#include "http/storage_options.h"

#include <gtest/gtest.h>

#include <map>

#include "http/aws_credentials.h"
#include "http/client_options.h"
#include "http/s3_settings.h"

namespace headrace::http {
namespace {

using Given = std::vector<StorageOption>;

Result<StorageOptions> parse(const Given& given, StorageService service = StorageService::kS3) {
  return StorageOptions::parse(given, service);
}

struct Machine {
  std::map<std::string, std::string> variables, files;
  Surroundings surroundings() {
    return {[this](const char* name) { return variables.contains(name) ? variables[name] : ""; },
            [this](const std::string& path) -> std::optional<std::string> {
              if (!files.contains(path)) return std::nullopt;
              return files[path];
            }};
  }
};

TEST(StorageOptions, HaveTheNamesOfFsspecAndObstore) {
  const auto fsspec =
      parse({{"key", "A"}, {"secret", "B"}, {"client_kwargs.region_name", "eu-west-1"}, {"anon", "False"}});
  const auto obstore = parse({{"AWS_ACCESS_KEY_ID", "A"}, {"secret_access_key", "B"}, {"region", "eu-west-1"}});
  for (const auto* const options : {&fsspec, &obstore}) {
    ASSERT_TRUE(options->ok()) << options->status().to_string();
    EXPECT_EQ((*options)->text(StorageName::kKeyId), "A");
    EXPECT_EQ((*options)->text(StorageName::kSecret), "B");
    EXPECT_EQ((*options)->text(StorageName::kRegion), "eu-west-1");
    EXPECT_FALSE((*options)->is_on(StorageName::kAnonymous));
  }
  EXPECT_EQ(fsspec->flag(StorageName::kAnonymous), false);
  EXPECT_EQ(obstore->flag(StorageName::kAnonymous), std::nullopt);
  EXPECT_TRUE(parse({{"key", "A"}, {"access_key_id", "A"}, {"default_block_size", "5"}}).ok()) << "the same twice";
  EXPECT_TRUE(parse({{"anon", "True"}, {"skip_signature", "1"}}).ok()) << "of one meaning";
  EXPECT_EQ(parse({{"key", ""}})->text(StorageName::kKeyId), "") << "as good as none";
}

TEST(StorageOptions, RefuseWithoutRepeatingValues) {
  const std::pair<Given, const char*> wrong[] = {
      {{{"anom", "geheim"}}, "'anon' is the nearest"},
      {{{"something_else", "geheim"}}, "there are anon, key, secret"},
      {{{"headers.X", "geheim"}}, "no storage option 'headers.X'"},
      {{{"geheim\x01", "geheim"}}, "with an invalid name"},
      {{{"", "geheim"}}, "with an invalid name"},
      {{{"key", "A"}, {"access_key_id", "geheim"}}, "'key' and 'access_key_id' mean the same"},
      {{{"anon", "true"}, {"skip_signature", "false"}}, "'anon' and 'skip_signature'"},
      {{{"anon", "geheim"}}, "true or false"},
      {{{"timeout", "geheim"}}, "seconds"},
      {{{"timeout", "1e9"}}, "seconds"},
      {{{"timeout", "nan"}}, "seconds"},
      {{{"retries", "-1"}}, "a number"},
      {{{"retries", "99999999999999999999"}}, "a number"},
      {{{"secret", "geheim\n"}}, "line break"},
      {{{"secret", std::string("geheim\0", 7)}}, "line break"},
      {{{"secret", std::string(40'000, 'x')}}, "too long"},
  };
  for (const auto& [given, said] : wrong) {
    const auto options = parse(given);
    ASSERT_EQ(options.status().code(), Code::kInvalidArgument) << said;
    const std::string text = options.status().to_string();
    EXPECT_NE(text.find(said), std::string::npos) << text;
    EXPECT_EQ(text.find("geheim"), std::string::npos) << text;
    EXPECT_LT(text.size(), 1000u);
  }
}

TEST(StorageOptions, HeadersAreOfPlainHttp) {
  const auto http = [](const char* name, const std::string& value) {
    return parse({{name, value}}, StorageService::kHttp);
  };
  EXPECT_EQ(http("headers.X-Auth", "a b")->headers(), std::vector<std::string>{"X-Auth: a b"});
  EXPECT_EQ(http("client_options.default_headers.A", "b")->headers(), std::vector<std::string>{"A: b"});
  EXPECT_TRUE(http("headers.A", "")->headers().empty());
  for (const char* name : {"headers.Range", "headers.HOST", "headers.", "headers.A b", "headers.A:", "headers.A\xff"}) {
    EXPECT_EQ(http(name, "x").status().code(), Code::kInvalidArgument) << name;
  }
  EXPECT_EQ(http("headers.A", "x\r\nB: y").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(http("headers.A", "x\x01").status().code(), Code::kInvalidArgument);
}

TEST(StorageOptions, LimitTheClient) {
  const auto client = [](const Given& given) { return find_client_options(*parse(given)); };
  const auto options = client({{"connect_timeout", "2.5"},
                               {"read_timeout", "3s"},
                               {"timeout", "60"},
                               {"retries", "0"},
                               {"max_pool_connections", "7"},
                               {"verify", "/ca.pem"},
                               {"proxy_url", "http://u:p@h:1"}});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->transport.connect_ns, 2'500'000'000u);
  EXPECT_EQ(options->transport.idle_ns, 3'000'000'000u);
  EXPECT_EQ(options->total_ns, 60'000'000'000u);
  EXPECT_EQ(options->retry.attempts, 1u);
  EXPECT_EQ(options->transport.connections, 7u);
  EXPECT_EQ(options->transport.ca_file, "/ca.pem");
  EXPECT_EQ(options->transport.proxy, "http://u:p@h:1");
  for (const Given& given :
       {Given{{"verify", "false"}}, Given{{"retries", "100"}}, Given{{"max_pool_connections", "0"}},
        Given{{"proxy_url", "geheim"}}, Given{{"proxy_url", "http://geheim x"}}}) {
    const auto refused = client(given);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << given[0].name;
    EXPECT_EQ(refused.status().to_string().find("geheim"), std::string::npos);
  }
}

TEST(StorageOptions, SetTheReadShape) {
  const auto link = [](const Given& given) { return find_client_options(*parse(given)); };
  EXPECT_FALSE(link({})->link.gap_bytes || link({})->link.group_bytes || link({})->link.part_bytes) << "as is learned";
  const auto options = link({{"max_gap", "64K"}, {"max_block", "2m"}, {"part_size", "1048577"}});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->link.gap_bytes, 64u << 10);
  EXPECT_EQ(options->link.group_bytes, 2u << 20);
  EXPECT_EQ(options->link.part_bytes, 1048577u);
  EXPECT_EQ(link({{"coalesce", "0"}})->link.gap_bytes, 0u);
  EXPECT_FALSE(link({})->hedge);
  EXPECT_TRUE(link({{"hedge", "true"}})->hedge);
  EXPECT_EQ(parse({{"hedge", "5"}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(link({{"part_size", "0"}})->link.part_bytes, 0u);
  EXPECT_EQ(link({})->absent_ns, 10'000'000'000u);
  EXPECT_EQ(link({{"missing_max_age", "2.5"}})->absent_ns, 2'500'000'000u);
  EXPECT_EQ(link({{"missing_max_age", "0"}})->absent_ns, 0u);
  EXPECT_EQ(parse({{"missing_max_age", "-1"}}).status().code(), Code::kInvalidArgument);
  for (const Given& given : {Given{{"max_gap", "65M"}}, Given{{"part_size", "65535"}}, Given{{"max_block", "1"}}}) {
    EXPECT_EQ(link(given).status().code(), Code::kInvalidArgument) << given[0].name;
  }
  for (const char* value : {"M", "1T", "-1", "1.5M", "18446744073709551616", "18446744073709551615G", "1 M"}) {
    EXPECT_EQ(parse({{"part_size", value}}).status().code(), Code::kInvalidArgument) << value;
  }
}

TEST(S3Settings, ComeFromOptionsThenTheEnvironmentThenProfiles) {
  Machine machine;
  auto& [variables, files] = machine;
  const auto find = [&](const Given& given = {}) { return find_s3_settings(*parse(given), machine.surroundings()); };
  const auto keys = [&](const Given& given = {}) {
    const auto nobody = [](const FetchQuestion&) -> Result<FetchAnswer> {
      return Status(Code::kIo, Layer::kStore, "no network");
    };
    const auto found = obtain_aws_credentials(*parse(given), machine.surroundings(), nobody, 0);
    return found.ok() ? found->keys.id + " " + found->keys.secret + " " + found->keys.session_token
                      : std::string(found.status().message());
  };
  EXPECT_NE(keys().find("AWS_NO_SIGN_REQUEST"), std::string::npos);
  variables["HOME"] = "/home/me";
  files["/home/me/.aws/credentials"] =
      "# x\n[default]\naws_access_key_id = ID1\r\naws_secret_access_key=S1=\n[other]\n  aws_access_key_id = no\n"
      "aws_access_key_id=ID2\naws_secret_access_key=S2\naws_session_token=T2\n";
  files["/home/me/.aws/config"] =
      "[default]\nregion=eu-north-1\ns3 =\n  endpoint_url = http://no\n[profile other]\n"
      "endpoint_url=http://localhost:9000/\n";
  EXPECT_EQ(keys(), "ID1 S1= ");
  EXPECT_EQ(find()->region, "eu-north-1");
  EXPECT_FALSE(find()->endpoint);
  const auto place = [&](const Given& given, const char* bucket = "b-1") {
    const auto settings = find(given);
    return settings.ok() ? place_in_bucket(*settings, settings->region, bucket, "a b").to_string() : "refused";
  };
  EXPECT_EQ(place({}), "https://b-1.s3.eu-north-1.amazonaws.com/a%20b");
  EXPECT_EQ(place({}, "b.1"), "https://s3.eu-north-1.amazonaws.com/b.1/a%20b");
  EXPECT_EQ(place({{"addressing_style", "path"}}), "https://s3.eu-north-1.amazonaws.com/b-1/a%20b");
  EXPECT_EQ(place({{"virtual_hosted_style_request", "false"}}), "https://s3.eu-north-1.amazonaws.com/b-1/a%20b");
  EXPECT_EQ(place({{"region", "cn-north-1"}}), "https://b-1.s3.cn-north-1.amazonaws.com.cn/a%20b");
  EXPECT_EQ(place({{"endpoint_url", "https://h:1/x/"}}), "https://h:1/x/b-1/a%20b");
  EXPECT_EQ(place({{"endpoint_url", "https://h"}, {"addressing_style", "virtual"}}), "https://b-1.h/a%20b");
  EXPECT_EQ(place({{"endpoint", "https://b.h"}, {"virtual_hosted_style_request", "true"}}), "https://b.h/a%20b");
  EXPECT_EQ(place({{"addressing_style", "path"}, {"virtual_hosted_style_request", "true"}}), "refused");
  EXPECT_EQ(place({{"region", "evil.example/x"}}), "refused");
  EXPECT_EQ(place({{"use_ssl", "false"}}), "refused");
  EXPECT_EQ(place({{"endpoint_url", "http://h"}, {"use_ssl", "false"}}), "http://h/b-1/a%20b");

  variables["AWS_PROFILE"] = "other";
  EXPECT_EQ(keys(), "ID2 S2 T2");
  EXPECT_EQ(place({}), "http://localhost:9000/b-1/a%20b");
  variables["AWS_ACCESS_KEY_ID"] = "ID3";
  variables["AWS_SECRET_ACCESS_KEY"] = "S3";
  EXPECT_EQ(keys(), "ID3 S3 ");
  EXPECT_EQ(keys({{"profile", "default"}}), "ID1 S1= ") << "a profile that is given is meant";
  EXPECT_EQ(keys({{"key", "K"}, {"secret", "L"}}), "K L ") << "and not the environment's session";
  variables["AWS_REGION"] = "us-west-2";
  variables["AWS_ENDPOINT_URL"] = "http://no";
  variables["AWS_ENDPOINT_URL_S3"] = "https://yes:1234";
  EXPECT_EQ(find()->region, "us-west-2");
  EXPECT_EQ(find()->endpoint->origin(), "https://yes:1234");
  EXPECT_EQ(find({{"region", "x-1"}})->region, "x-1");
  EXPECT_FALSE(find()->anonymous);
  variables["AWS_NO_SIGN_REQUEST"] = "YES";
  EXPECT_TRUE(find()->anonymous);
  EXPECT_FALSE(find({{"anon", "false"}})->anonymous);
  EXPECT_FALSE(find({{"key", "K"}, {"secret", "L"}})->anonymous);
  EXPECT_FALSE(find()->requester_pays);
  variables["AWS_REQUEST_PAYER"] = "requester";
  EXPECT_TRUE(find()->requester_pays);
  EXPECT_FALSE(find({{"requester_pays", "false"}})->requester_pays);
  variables["AWS_SESSION_TOKEN"] = "geheim\r\nX: y";
  EXPECT_EQ(keys().find("geheim"), std::string::npos);
  EXPECT_NE(keys().find("contain invalid characters"), std::string::npos);
}

}  // namespace
}  // namespace headrace::http
