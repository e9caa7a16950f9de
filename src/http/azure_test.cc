// Azure's container URLs and credentials; expected signatures come from Azure's own library.
#include "http/azure.h"

#include <gtest/gtest.h>

#include <map>

#include "base/base64.h"

namespace headrace::http {
namespace {

TEST(Base64, BothWays) {
  const std::pair<const char*, const char*> known[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                                                       {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe", "//4="}};
  for (const auto& [plain, encoded] : known) {
    EXPECT_EQ(base::encode_base64(plain), encoded);
    EXPECT_EQ(base::decode_base64(encoded), plain);
  }
  for (const char* text : {"Z", "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zg =", "Zm9v\n", "Z=8="}) {
    EXPECT_FALSE(base::decode_base64(text)) << text;
  }
}

std::string signature(const char* url, std::vector<std::string> headers) {
  AzureSettings settings;
  settings.account = "account";
  settings.key = "of-a-test";
  AzureDialect dialect("az://c", "c", settings);
  dialect.authorize(*parse_url(url), 1369353600, {}, headers);
  return headers.back();
}

TEST(AzureSignatures, AreAzures) {
  EXPECT_EQ(
      signature("https://account.blob.core.windows.net/c/a%20b/%2B%C3%A9?x=1", {"If-Match: \"0x8D\""}).substr(0, 32),
      "Authorization: SharedKey account");
  EXPECT_EQ(signature("https://account.blob.core.windows.net/c/a%20b/%2B%C3%A9", {"If-Match: \"0x8D\""}),
            "Authorization: SharedKey account:+kJIVo7OVmpJ3ziOeZMPXcsftS8nGo8NCZZ5KSbZmNs=");
  EXPECT_EQ(signature("https://account.blob.core.windows.net/"
                      "c?comp=list&delimiter=%2F&marker=m%21%3D&prefix=a%20b%2F&restype=container",
                      {}),
            "Authorization: SharedKey account:C7qySgdwJ3JqUM2ExMjGQWQjdvSwgEaUV/8VctO9a5s=");
  // The string in Microsoft's documentation.
  EXPECT_EQ(AzureDialect::text_to_sign(*parse_url("http://h/mycontainer?restype=container&comp=metadata&timeout=20"),
                                       "myaccount",
                                       {"x-ms-version: 2015-02-21", "x-ms-date: Fri, 26 Jun 2015 23:39:12 GMT",
                                        "Range: bytes=0-9", "Accept-Encoding: identity"}),
            "GET\n\n\n\n\n\n\n\n\n\n\nbytes=0-9\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
            "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
}

TEST(AzureSettings, NameTheEndpointAndCredentials) {
  std::map<std::string, std::string> variables;
  const Surroundings surroundings{[&](const char* name) { return variables.contains(name) ? variables[name] : ""; },
                                  [](const std::string&) { return std::optional<std::string>(); }};
  const auto find = [&](const std::vector<StorageOption>& given, const std::string& account = "") {
    auto options = StorageOptions::parse(given, StorageService::kAzure);
    if (!options.ok()) return Result<AzureSettings>(options.status());
    return find_azure_settings(*options, surroundings, account);
  };
  const auto place = [&](const Result<AzureSettings>& settings) {
    return settings.ok() ? AzureDialect("az://c", "c", *settings).place("a b").to_string()
                         : settings.status().to_string();
  };
  EXPECT_NE(place(find({})).find("no Azure account"), std::string::npos);
  EXPECT_TRUE(find({{"account_name", "acc"}})->use_machine_identity) << "whom nobody names the machine may";
  EXPECT_FALSE(find({{"account_name", "acc"}, {"anon", "true"}})->use_machine_identity);
  EXPECT_EQ(place(find({{"account_name", "acc"}, {"anon", "true"}})), "https://acc.blob.core.windows.net/c/a%20b");
  EXPECT_EQ(place(find({{"anon", "true"}}, "acc")), "https://acc.blob.core.windows.net/c/a%20b");
  EXPECT_EQ(place(find({{"account_host", "acc.other.net"}, {"anon", "true"}})), "https://acc.other.net/c/a%20b");
  EXPECT_EQ(place(find({{"account_name", "acc"}, {"sas_token", "?sv=1&sig=a%2Bb="}})),
            "https://acc.blob.core.windows.net/c/a%20b?sv=1&sig=a%2Bb=");
  EXPECT_EQ(find({{"account_name", "acc"}, {"account_key", "b2YtYS10ZXN0"}})->key, "of-a-test");
  variables = {{"AZURE_STORAGE_ACCOUNT", "env"}, {"AZURE_STORAGE_KEY", "b2YtYS10ZXN0"}};
  EXPECT_EQ(find({})->account, "env");
  EXPECT_EQ(find({})->key, "of-a-test");
  EXPECT_FALSE(find({})->use_machine_identity);
  EXPECT_EQ(find({{"sas_token", "sig=x"}})->key, "") << "options go first";
  EXPECT_EQ(find({{"anon", "true"}})->key, "");
  for (const std::vector<StorageOption>& wrong :
       std::vector<std::vector<StorageOption>>{{{"account_key", "geheim!"}},
                                               {{"sas_token", "geheim x"}},
                                               {{"bearer_token", "geheim\tx"}},
                                               {{"account_name", "geheim/x"}},
                                               {{"bearer_token", "geheim"}, {"endpoint_url", "http://example.org"}},
                                               {{"sas_token", "geheim"}, {"endpoint_url", "http://example.org"}},
                                               {{"endpoint_url", "http://geheim:x@h/"}},
                                               {{"account_name", "acc"}, {"azure_storage_account_name", "geheim"}}}) {
    const auto refused = find(wrong);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << wrong[0].name;
    EXPECT_EQ(refused.status().to_string().find("geheim"), std::string::npos) << refused.status().to_string();
  }
  EXPECT_EQ(find({{"account_name", "acc"}}, "other").status().code(), Code::kInvalidArgument);
}

TEST(AzureLocations, NameContainersAndAccounts) {
  const auto plain = parse_azure_location("cont/a/b/", "az");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->container + " " + plain->prefix + " " + plain->account, "cont a/b ");
  const auto full = parse_azure_location("cont@acc.dfs.core.windows.net/a", "abfs");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->container + " " + full->prefix + " " + full->account, "cont a acc");
  for (const char* text : {"", "c", "Cont/a", "cont/a?sig=x", "cont@evil.example/a",
                           "cont@acc.dfs.core.windows.net.evil.example/a", "cont@/a", "co nt", "..", "cont@acc@b/a"}) {
    EXPECT_EQ(parse_azure_location(text, "az").status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(AzureListings, AreRead) {
  ObjectPage page;
  ASSERT_TRUE(
      parse_azure_page("<?xml version=\"1.0\"?><EnumerationResults><Prefix>no</Prefix><Blobs><Blob><Name>a &amp; b"
                       "</Name><Properties><Name>no</Name></Properties></Blob><BlobPrefix><Name>c/</Name>"
                       "</BlobPrefix></Blobs><NextMarker>m</NextMarker></EnumerationResults>",
                       page));
  ASSERT_EQ(page.names.size(), 2u);
  EXPECT_EQ(page.names[0].key, "a & b");
  EXPECT_TRUE(page.names[1].is_prefix);
  EXPECT_TRUE(page.truncated);
  EXPECT_EQ(page.next_token, "m");
  ASSERT_TRUE(parse_azure_page("<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>", page));
  EXPECT_FALSE(page.truncated);
  EXPECT_FALSE(parse_azure_page("<ListBucketResult></ListBucketResult>", page));
  EXPECT_FALSE(parse_azure_page("<EnumerationResults>", page));
}

}  // namespace
}  // namespace headrace::http
