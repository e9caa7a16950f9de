// Parsers of what servers send: addresses, header fields, XML, signatures, verdicts.
#include <gtest/gtest.h>

#include "http/answer_head.h"
#include "http/request_signer.h"
#include "http/retry_policy.h"
#include "http/s3_settings.h"
#include "http/verdict.h"
#include "http/xml_reader.h"

namespace headrace::http {
namespace {

TEST(Urls, AreParsed) {
  const auto url = parse_url("HTTPS://Example.org:8443/a b/%41?x=1&y=\xc3\xa9#z");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->to_string(), "https://example.org:8443/a%20b/%41?x=1&y=%C3%A9");
  EXPECT_EQ(url->without_secrets(), "https://example.org:8443/a%20b/%41");
  EXPECT_EQ(parse_url("http://h")->to_string(), "http://h/");
  EXPECT_EQ(parse_url("http://h:80?q")->to_string(), "http://h/?q");
  EXPECT_EQ(parse_url("http://[::1]:9000/x")->authority(), "[::1]:9000");
  EXPECT_EQ(parse_url("http://h/%zz%4")->path, "/%25zz%254");
  for (const char* text :
       {"", "http://", "ftp://h/", "http:/h", "http://h:0/", "http://h:65536/", "http://h:x/", "http://[::1/",
        "http://[::g]/", "http://[]/", "http://h\r\nx/", "http://a b/", "http://[::1]x/", "file:///x"}) {
    EXPECT_EQ(parse_url(text).status().code(), Code::kInvalidArgument) << text;
  }
  const auto secret = parse_url("http://user:geheim@h/");
  ASSERT_FALSE(secret.ok());
  EXPECT_EQ(secret.status().to_string().find("geheim"), std::string::npos);
}

TEST(Urls, RedirectsLead) {
  const Url base = *parse_url("https://h:8443/a/b?q=1");
  const auto to = [&](const char* location) {
    const auto url = resolve_redirect(base, location);
    return url.ok() ? url->to_string() : "";
  };
  EXPECT_EQ(to("/c"), "https://h:8443/c");
  EXPECT_EQ(to("c?x"), "https://h:8443/a/c?x");
  EXPECT_EQ(to("?x"), "https://h:8443/a/b?x");
  EXPECT_EQ(to("//other/c"), "https://other/c");
  EXPECT_EQ(to("https://other/c"), "https://other/c");
  EXPECT_EQ(to("http://h:8443/c"), "") << "https to http";
  for (const char* location :
       {"", "file:///etc/passwd", "gopher://h/", "https://169.254.169.254/latest", "https://[fe80::1]/",
        "https://2852039166/", "https://0xa9fea9fe/", "https://0251.254.169.254/", "https://a@b/", "https://127.0.0.1/",
        "https://localhost:8443/", "https://[::ffff:127.0.0.1]/"}) {
    EXPECT_EQ(to(location), "") << location;
  }
  const Url here = *parse_url("http://127.0.0.1:80/a");
  EXPECT_TRUE(resolve_redirect(here, "http://localhost:81/b").ok()) << "both are on this machine";
}

// Every spelling of an address that leads there.
TEST(Urls, AddressesAreJudgedInAnySpelling) {
  const auto url = [](const char* host) { return *parse_url("http://" + std::string(host) + "/"); };
  for (const char* host : {"169.254.169.254",
                           "[fe80::1]",
                           "[febf:0::1]",
                           "[::ffff:169.254.169.254]",
                           "[0:0:0:0:0:ffff:169.254.169.254]",
                           "[::FFFF:A9FE:A9FE]",
                           "[0:0:0:0:0:ffff:a9fe:a9fe]",
                           "[0000:0000:0000:0000:0000:ffff:a9fe:a9fe]",
                           "[::169.254.169.254]",
                           "[64:ff9b::a9fe:a9fe]",
                           "[2002:a9fe:a9fe::]",
                           "[fd00:ec2::254]",
                           "[fd00:0ec2::254]",
                           "[1::2::3]",
                           "[:::]",
                           "[1:2:3:4:5:6:7:]",
                           "[1:2]",
                           "[::1.2.3]",
                           "[::1.2.3.256]",
                           "[1.2.3.4::]",
                           "[12345::]",
                           "[1:2:3:4:5:6:7:8::]",
                           "[::1:2:3:4:5:6:1.2.3.4:8]",
                           "[1:2:3:4:5:6:7:8:9]",
                           "2852039166",
                           "0xa9fea9fe",
                           "169.16689662"}) {
    EXPECT_TRUE(is_link_local(url(host))) << host;
  }
  for (const char* host : {"[2001:db8::1]", "[fec0::1]", "[::ffff:192.0.2.1]", "[fd00:ec3::254]", "192.0.2.1",
                           "169.255.1.1", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:1.2.3.4]", "[1::8]", "[1::]", "[::8]",
                           "fe80.example", "[::1]", "localhost"}) {
    EXPECT_FALSE(is_link_local(url(host))) << host;
  }
  for (const char* host : {"127.0.0.1", "127.9.9.9", "0.0.0.0", "localhost", "LOCALHOST.", "a.localhost",
                           "a.localhost.", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]",
                           "[0:0:0:0:0:ffff:7f00:1]", "[::ffff:0.0.0.0]", "[64:ff9b::7f00:1]", "ip6-localhost"}) {
    EXPECT_TRUE(may_be_this_machine(url(host))) << host;
  }
  for (const char* host : {"192.0.2.1", "127.example.org", "localhost.example.org", "notlocalhost", "[2001:db8::1]",
                           "[::ffff:192.0.2.1]", "[1::1]"}) {
    EXPECT_FALSE(may_be_this_machine(url(host))) << host;
  }
}

TEST(Urls, KeysAreEscapedAsS3SignsThem) {
  std::string out;
  append_escaped(out, "a/b c+\xc3\xa9~%25=&'()", true);
  EXPECT_EQ(out, "a/b%20c%2B%C3%A9~%2525%3D%26%27%28%29");
  std::string back;
  EXPECT_TRUE(unescape_form(out, back));
  EXPECT_EQ(back, "a/b c+\xc3\xa9~%25=&'()");
  EXPECT_TRUE(unescape_form("a+b", back));
  EXPECT_EQ(back, "a b");
  EXPECT_FALSE(unescape_form("%4", back));
  EXPECT_FALSE(unescape_form("%g0", back));
}

TEST(HeaderFields, ContentRange) {
  const auto range = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5u);
  EXPECT_EQ(range->last, 9u);
  EXPECT_EQ(range->size, 100u);
  EXPECT_FALSE(parse_content_range("bytes 5-9/*")->size);
  EXPECT_TRUE(parse_content_range("bytes */7")->unsatisfied);
  for (const char* text :
       {"", "bytes", "bytes ", "bytes 5-9", "bytes 9-5/100", "bytes 5-9/9", "bytes -5-9/100", "bytes +5-9/100",
        "bytes 5-9/-", "items 5-9/100", "bytes */*", "bytes 5-9223372036854775808/*", "bytes 0x5-9/100",
        "bytes 5-9/18446744073709551616", "bytes 5 - 9/100", "bytes5-9/100"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

TEST(HeaderFields, DatesAndWaiting) {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"}) {
    EXPECT_EQ(parse_http_date(text), 784111777) << text;
  }
  EXPECT_EQ(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
  EXPECT_EQ(parse_http_date("Thu, 29 Feb 2024 23:59:59 GMT"), 1709251199);
  for (const char* text :
       {"", "x", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nox 1994 08:49:37 GMT", "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT+1"}) {
    EXPECT_FALSE(parse_http_date(text)) << text;
  }
  EXPECT_EQ(parse_retry_after("3", 0), 3u);
  EXPECT_EQ(parse_retry_after("99999999999999999999999", 0), 86400u);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111770), 7u);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", 784111800), 0u) << "of the past";
  EXPECT_FALSE(parse_retry_after("soon", 0));
  EXPECT_FALSE(parse_retry_after("-1", 0));
}

TEST(HeaderFields, StrongEtags) {
  EXPECT_EQ(strong_etag("\"abc\""), "\"abc\"");
  for (const std::string text : {"", "\"\"", "abc", "W/\"abc\"", "\"a\"b\"", "\"a\r\nX: y\"", "\"a b\"", "\"abc"}) {
    EXPECT_EQ(strong_etag(text), "") << text;
  }
  EXPECT_EQ(strong_etag('"' + std::string(1000, 'x') + '"'), "");
}

AnswerHead head_of(std::initializer_list<const char*> lines) {
  AnswerHead head;
  for (const char* line : lines) head.line(std::string(line) + "\r\n");
  head.line("\r\n");
  return head;
}

TEST(Heads, AreReadAndBounded) {
  const AnswerHead good =
      head_of({"HTTP/1.1 206 Partial Content", "CONTENT-range:  bytes 0-1/2 ", "ETag: \"a\"", "X: y"});
  EXPECT_TRUE(good.is_complete());
  EXPECT_EQ(good.status, 206);
  EXPECT_EQ(good.content_range, "bytes 0-1/2");
  EXPECT_EQ(good.malformed, "");
  AnswerHead head;
  for (const char* line : {"HTTP/1.1 100 Continue\r\n", "ETag: \"early\"\r\n", "\r\n", "HTTP/1.1 200 OK\r\n"}) {
    EXPECT_FALSE(head.line(line));
  }
  EXPECT_TRUE(head.line("\r\n"));
  EXPECT_EQ(head.etag, "") << "of the interim answer";
  EXPECT_NE(head_of({"HTTP/1.1 206 X", "Content-Range: bytes 0-1/2", "Content-Range: bytes 0-1/3"}).malformed, "");
  EXPECT_EQ(head_of({"HTTP/1.1 206 X", "Content-Length: 2", "content-length: 2"}).malformed, "");
  EXPECT_NE(head_of({"HTTP/1.1 206 X", "Content-Length: 2", "content-length: 3"}).malformed, "");
  for (const char* line :
       {"HTTP/3.0 206 X", "HTTP/1.1 99 X", "HTTP/1.1 600 X", "HTTP/1.1 -1 X", "206 X", "HTTP/1.1", "HTTP/1.1 20 X"}) {
    EXPECT_NE(head_of({line}).malformed, "") << line;
  }
  EXPECT_NE(head_of({"HTTP/1.1 206 X", "no field"}).malformed, "");
  AnswerHead endless;
  int lines = 0;
  endless.line("HTTP/1.1 200 OK\r\n");
  while (!endless.line("X: y\r\n")) ASSERT_LT(++lines, 10'000);
  EXPECT_NE(endless.malformed, "");
  AnswerHead interim;
  for (lines = 0; !interim.line(lines % 2 == 0 ? "HTTP/1.1 103 X\r\n" : "\r\n"); ++lines) ASSERT_LT(lines, 10'000);
  EXPECT_NE(interim.malformed, "");
}

TEST(Xml, ErrorsOfS3) {
  const S3Error error = parse_s3_error(
      "<?xml version=\"1.0\"?>\n<!-- x --><Error xmlns='u'><Code>NoSuchKey</Code><Message>a &lt;b&gt; &#x41;</Message>"
      "<Region/><RequestId>R</RequestId><Deep><Code>Other</Code></Deep></Error>\n");
  EXPECT_EQ(error.code, "NoSuchKey");
  EXPECT_EQ(error.message, "a <b> A");
  EXPECT_EQ(error.region, "");
  EXPECT_EQ(error.request_id, "R");
  for (const char* text :
       {"", "<html>", "<html></html>", "<Error><Code>X</Code>", "<Error><Code>X</Error></Code>", "text",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><Error><Code>&a;</Code></Error>", "<Error><Code>&a;</Code></Error>",
        "<Error><Code>X</Code></Error><Error/>", "<Error><Code>&#0;</Code></Error>", "<Error><![CDATA[x]]></Error>"}) {
    EXPECT_EQ(parse_s3_error(text).code, "") << text;
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "<a>";
  EXPECT_EQ(parse_s3_error("<Error>" + deep).code, "");
}

TEST(Xml, PagesOfListings) {
  ObjectPage page;
  ASSERT_TRUE(parse_s3_page(
      "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a+b%2F</Key><Owner><Key>no</Key>"
      "</Owner></Contents><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes><Prefix>no</Prefix>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;</NextContinuationToken></ListBucketResult>",
      page));
  ASSERT_EQ(page.names.size(), 2u);
  EXPECT_EQ(page.names[0].key, "a b/");
  EXPECT_TRUE(page.names[1].is_prefix);
  EXPECT_TRUE(page.truncated);
  EXPECT_EQ(page.next_token, "t&");
  EXPECT_FALSE(parse_s3_page("<html></html>", page));
  EXPECT_FALSE(parse_s3_page("<ListBucketResult>", page));
}

// Vectors of FIPS 180-4 and RFC 4231.
TEST(Signatures, Hashes) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  for (std::size_t n = 50; n < 70; ++n) EXPECT_NE(sha256(std::string(n, 'a')), sha256(std::string(n + 1, 'a')));
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// botocore's signatures of the same requests.
TEST(Signatures, AreBotocores) {
  const auto sign = [](const char* url, const char* token, const char* region) {
    RequestSigner signer(region);
    std::vector<std::string> headers;
    signer.sign(*parse_url(url), 1369353600, {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token},
                headers);
    return headers.at(0).substr(headers.at(0).rfind('=') + 1);
  };
  EXPECT_EQ(sign("https://examplebucket.s3.amazonaws.com/test.txt", "", "us-east-1"),
            "17ee2dc4ebe24953b3ebb4aad72c73aada1b27aa77109a55301af128fdcf571f");
  EXPECT_EQ(sign("https://examplebucket.s3.amazonaws.com/a%20b/%2B%C3%A9~", "TOKEN+/=", "eu-central-1"),
            "23068a22450cb0d3a7347374c4e598aff0350c93cfdd4ceb9ba0e88322921fcc");
  EXPECT_EQ(sign("http://127.0.0.1:9000/bucket/?list-type=2&prefix=a%2F&delimiter=%2F&location", "", "us-east-1"),
            "46d1aa4b0102dfd57b1d8e124c00962bc8b935dd26c3b796a77778d39d9cc682");
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "TOKEN"};
  std::vector<std::string> form, paying;
  sign_form(*parse_url("https://sts.us-west-2.amazonaws.com/"), "Action=AssumeRole&Version=2011-06-15", keys,
            "us-west-2", "sts", 1369353600, form);
  EXPECT_TRUE(form.at(0).ends_with("=c570978f7d7f4e2398dbb3f0a3ab423affa44adc57b876bfb8881a9ad39a4ca1")) << form[0];
  RequestSigner("us-east-1", true)
      .sign(*parse_url("https://examplebucket.s3.amazonaws.com/test.txt"), 1369353600, keys, paying);
  EXPECT_TRUE(paying.at(0).ends_with("=14c6255c66e5776991fb8419d1975a43bca1ed5dd4c01ec2bcc55c59454266e4")) << paying[0];
  RequestSigner anonymous("us-east-1");
  std::vector<std::string> headers;
  anonymous.sign(*parse_url("http://h/x"), 0, {}, headers);
  EXPECT_TRUE(headers.empty());
}

TEST(Verdicts, PartsMatchTheRequest) {
  const RequestedRange asked{5, 10, false, {}}, tail{0, 10, true, {}}, start{0, 10, false, {}};
  const auto plan = [](std::initializer_list<const char*> lines, const RequestedRange& what) {
    return plan_body(head_of(lines), what);
  };
  const auto full = plan({"HTTP/1.1 206 X", "Content-Range: bytes 5-14/100", "Content-Length: 10"}, asked);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->bytes, 10u);
  EXPECT_EQ(full->object_bytes, 100u);
  EXPECT_TRUE(full->exact);
  EXPECT_EQ(plan({"HTTP/1.1 206 X", "Content-Range: bytes 5-7/8"}, asked)->bytes, 3u) << "the object ends";
  EXPECT_EQ(plan({"HTTP/1.1 206 X", "Content-Range: bytes 5-14/*"}, asked)->object_bytes, BodyPlan::kUnknown);
  EXPECT_EQ(plan({"HTTP/1.1 200 OK", "Content-Range: bytes 5-14/100"}, asked)->bytes, 10u);
  EXPECT_EQ(plan({"HTTP/1.1 206 X", "Content-Range: bytes 90-99/100"}, tail)->bytes, 10u);
  EXPECT_EQ(plan({"HTTP/1.1 206 X", "Content-Range: bytes 0-3/4"}, tail)->bytes, 4u);
  EXPECT_EQ(plan({"HTTP/1.1 200 OK", "Content-Length: 4"}, tail)->bytes, 4u);
  EXPECT_TRUE(plan({"HTTP/1.1 200 OK", "Content-Length: 400"}, start)->cut);
  EXPECT_EQ(plan({"HTTP/1.1 200 OK", "Content-Length: 400"}, start)->object_bytes, 400u);
  EXPECT_FALSE(plan({"HTTP/1.1 200 OK", "Transfer-Encoding: chunked"}, start)->exact);
  const struct {
    std::initializer_list<const char*> lines;
    RequestedRange what;
    Code code;
  } wrong[] = {
      {{"HTTP/1.1 206 X"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 6-15/100"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 5-15/100"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 5-13/100"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 5-13/*"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes */100"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 5-14/100", "Content-Length: 9"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 5-14/100", "Content-Length: ten"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 5-14/100", "Content-Encoding: gzip"}, asked, Code::kUnsupported},
      {{"HTTP/1.1 206 X", "Content-Type: multipart/byteranges; boundary=x"}, asked, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 89-98/100"}, tail, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 95-99/100"}, tail, Code::kIo},
      {{"HTTP/1.1 206 X", "Content-Range: bytes 90-99/*"}, tail, Code::kIo},
      {{"HTTP/1.1 200 OK", "Content-Length: 100"}, asked, Code::kUnsupported},
      {{"HTTP/1.1 200 OK", "Content-Length: 100"}, tail, Code::kUnsupported},
      {{"HTTP/1.1 200 OK"}, start, Code::kIo},
      {{"HTTP/1.1 200 OK", "Content-Length: 5", "Transfer-Encoding: chunked"}, start, Code::kIo},
  };
  for (const auto& row : wrong) {
    const auto answer = plan_body(head_of(row.lines), row.what);
    EXPECT_EQ(answer.status().code(), row.code) << *(row.lines.end() - 1);
  }
  RequestedRange pinned = asked;
  pinned.etag = "\"a\"";
  for (const char* etag : {"ETag: \"b\"", "ETag: W/\"a\"", "X: y"}) {
    EXPECT_EQ(plan({"HTTP/1.1 206 X", "Content-Range: bytes 5-14/100", etag}, pinned).status().code(),
              Code::kAgainExhausted);
  }
  EXPECT_TRUE(plan({"HTTP/1.1 206 X", "Content-Range: bytes 5-14/100", "ETag: \"a\""}, pinned).ok());
}

TEST(Verdicts, EachResponseHasItsVerdict) {
  const RequestedRange asked{5, 10, false, {}};
  const auto xml = [](const char* code) { return std::string("<Error><Code>") + code + "</Code></Error>"; };
  using Next = Verdict::Next;
  const struct {  // NOLINT(clang-analyzer-optin.performance.Padding): field order aids reading
    int status;
    ServiceKind kind;
    std::string body;
    Next next;
    Code code;
  } rows[] = {
      {404, ServiceKind::kHttp, "", Next::kDone, Code::kNotFound},
      {410, ServiceKind::kHttp, "", Next::kDone, Code::kNotFound},
      {404, ServiceKind::kS3, xml("NoSuchKey"), Next::kDone, Code::kNotFound},
      {404, ServiceKind::kS3, xml("NoSuchBucket"), Next::kDone, Code::kIo},
      {404, ServiceKind::kS3, xml("NoSuchVersion"), Next::kDone, Code::kIo},
      {404, ServiceKind::kS3, "<html></html>", Next::kDone, Code::kIo},
      {404, ServiceKind::kS3, "", Next::kDone, Code::kIo},
      {204, ServiceKind::kHttp, "", Next::kDone, Code::kIo},
      {403, ServiceKind::kHttp, "", Next::kDone, Code::kPermission},
      {407, ServiceKind::kHttp, "", Next::kDone, Code::kPermission},
      {401, ServiceKind::kHttp, "", Next::kDone, Code::kPermission},
      {403, ServiceKind::kS3, xml("AccessDenied"), Next::kDone, Code::kPermission},
      {403, ServiceKind::kS3, xml("SignatureDoesNotMatch"), Next::kDone, Code::kPermission},
      {403, ServiceKind::kS3, xml("RequestTimeTooSkewed"), Next::kClock, Code::kPermission},
      {400, ServiceKind::kS3, xml("ExpiredToken"), Next::kCredentials, Code::kPermission},
      {401, ServiceKind::kS3, xml("AuthenticationRequired"), Next::kCredentials, Code::kPermission},
      {404, ServiceKind::kAzure, xml("BlobNotFound"), Next::kDone, Code::kNotFound},
      {404, ServiceKind::kAzure, xml("ContainerNotFound"), Next::kDone, Code::kIo},
      {404, ServiceKind::kAzure, xml("NoSuchKey"), Next::kDone, Code::kIo},
      {404, ServiceKind::kAzure, "", Next::kDone, Code::kIo},
      {503, ServiceKind::kAzure, xml("ServerBusy"), Next::kRetry, Code::kAgainExhausted},
      {400, ServiceKind::kS3, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>",
       Next::kRegion, Code::kInvalidArgument},
      {400, ServiceKind::kS3, xml("RequestTimeout"), Next::kRetry, Code::kAgainExhausted},
      {412, ServiceKind::kHttp, "", Next::kDone, Code::kAgainExhausted},
      {429, ServiceKind::kHttp, "", Next::kRetry, Code::kAgainExhausted},
      {500, ServiceKind::kHttp, "", Next::kRetry, Code::kAgainExhausted},
      {503, ServiceKind::kS3, xml("SlowDown"), Next::kRetry, Code::kAgainExhausted},
      {501, ServiceKind::kHttp, "", Next::kDone, Code::kUnsupported},
      {302, ServiceKind::kHttp, "", Next::kDone, Code::kIo},  // without a Location
      {304, ServiceKind::kHttp, "", Next::kDone, Code::kIo},
      {400, ServiceKind::kHttp, "", Next::kDone, Code::kIo},
  };
  for (const auto& row : rows) {
    const AnswerHead head = head_of({("HTTP/1.1 " + std::to_string(row.status) + " X").c_str()});
    const Verdict verdict = judge(head, asked, row.kind, row.body);
    EXPECT_EQ(verdict.next, row.next) << row.status << " " << row.body;
    EXPECT_EQ(verdict.status.code(), row.code) << row.status << " " << row.body;
  }
  const auto beyond = [&](const char* range, const RequestedRange& what) {
    return judge(head_of({"HTTP/1.1 416 X", range}), what, ServiceKind::kHttp, "");
  };
  EXPECT_EQ(beyond("Content-Range: bytes */3", asked).object_bytes, 3u);
  EXPECT_EQ(beyond("Content-Range: bytes */6", asked).status.code(), Code::kIo);
  EXPECT_EQ(beyond("X: y", asked).object_bytes, RangeRead::kUnknown);
  EXPECT_TRUE(beyond("ETag: \"v\"", {5, 10, false, "\"v\""}).status.ok());
  EXPECT_EQ(beyond("ETag: \"w\"", {5, 10, false, "\"v\""}).status.code(), Code::kAgainExhausted);
  EXPECT_EQ(beyond("X: y", {0, 10, false, {}}).object_bytes, 0u);
  EXPECT_EQ(beyond("X: y", {0, 10, true, {}}).object_bytes, 0u);
  EXPECT_EQ(beyond("Content-Range: bytes */6", {0, 10, true, {}}).status.code(), Code::kIo);
  EXPECT_NE(judge(head_of({"HTTP/1.1 407 X"}), asked, ServiceKind::kHttp, "").status.to_string().find("proxy"),
            std::string::npos);
  // Text that a server echoes is not printed.
  const Verdict echo = judge(head_of({"HTTP/1.1 403 X", "x-amz-request-id: Signature=geheim"}), asked, ServiceKind::kS3,
                             "<Error><Code>geheim geheim</Code><Message>geheim</Message></Error>");
  EXPECT_EQ(echo.status.to_string().find("geheim"), std::string::npos);
}

TEST(Retries, AreBounded) {
  RetryPolicy policy({3, 1000, 5000, 20});
  EXPECT_LE(*policy.wait_ns(1, 0, ~0ull, 12345), 2000u);
  EXPECT_EQ(policy.wait_ns(1, 70'000, ~0ull, 0), 70'000u) << "as the server asks";
  EXPECT_FALSE(policy.wait_ns(3, 0, ~0ull, 0)) << "attempts";
  EXPECT_FALSE(policy.wait_ns(1, 70'000, 60'000, 0)) << "the deadline";
  EXPECT_LE(*policy.wait_ns(2, 0, ~0ull, 987654321), 5000u);
  EXPECT_TRUE(policy.wait_ns(1, 0, ~0ull, 0));
  EXPECT_FALSE(policy.wait_ns(1, 0, ~0ull, 0)) << "the budget";
  for (int i = 0; i < 5; ++i) policy.answered();
  EXPECT_TRUE(policy.wait_ns(1, 0, ~0ull, 0));
}

TEST(Buckets, HaveNames) {
  EXPECT_FALSE(valid_bucket("a"));
  EXPECT_FALSE(valid_bucket("a..b"));
  EXPECT_FALSE(valid_bucket("a/b"));
  EXPECT_TRUE(valid_bucket("a-b.c_D"));
}

}  // namespace
}  // namespace headrace::http
