// Servers with wrong answers, with and without TLS: each range ends once, in time, with the right bytes or a named
// error.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/fault.h"
#include "support/http_server.h"
#include "support/one_object.h"
#include "support/range_reader.h"
#include "support/temp_dir.h"

namespace headrace::http {
namespace {

using testing::honest;
using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::impatient;
using testing::kSize;
using testing::object;
using testing::ObjectService;
using testing::part;
using testing::patient;
using testing::RangeReader;
using testing::text_of;

void raw(HttpWire& wire, const std::string& text) {
  wire.send(text);
  wire.close();
}

struct Misbehaviour {
  const char* name;
  std::function<void(HttpWire&, const HttpRequest&, int)> answer;  // last argument: number of earlier requests
  std::set<Code> codes;                                            // allowed results; kOk: the right bytes
};

std::vector<Misbehaviour> misbehaviours() {
  const std::string head = "HTTP/1.1 206 X\r\nContent-Range: bytes 5-14/1000\r\n";
  const std::string right(text_of(5, 10));
  std::vector<Misbehaviour> all = {
      {"honest", [](HttpWire& w, const HttpRequest& r, int) { honest().answer(w, r); }, {Code::kOk}},
      {"whole_for_a_range",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("200 OK", "", text_of(0, kSize)); },
       {Code::kUnsupported}},
      {"page_for_a_range",
       [](HttpWire& w, const HttpRequest&, int) {
         w.reply("200 OK", "Content-Type: text/html\r\n", "<html>Log in</html>");
       },
       {Code::kUnsupported}},
      {"shifted",
       [=](HttpWire& w, const HttpRequest&, int) { part(w, "", text_of(13, 10), "bytes 13-22/1000"); },
       {Code::kIo}},
      {"short_and_agreeing", [](HttpWire& w, const HttpRequest&, int) { part(w, "", text_of(5, 7)); }, {Code::kIo}},
      {"long_and_agreeing", [](HttpWire& w, const HttpRequest&, int) { part(w, "", text_of(5, 50)); }, {Code::kIo}},
      {"no_content_range", [=](HttpWire& w, const HttpRequest&, int) { w.reply("206 X", "", right); }, {Code::kIo}},
      {"two_content_ranges",
       [=](HttpWire& w, const HttpRequest&, int) { part(w, "Content-Range: bytes 6-15/1000\r\n", right); },
       {Code::kIo}},
      {"unknown_size", [=](HttpWire& w, const HttpRequest&, int) { part(w, "", right, "bytes 5-14/*"); }, {Code::kOk}},
      {"items", [=](HttpWire& w, const HttpRequest&, int) { part(w, "", right, "items 5-14/1000"); }, {Code::kIo}},
      {"huge_numbers",
       [=](HttpWire& w, const HttpRequest&, int) { part(w, "", right, "bytes 5-14/99999999999999999999"); },
       {Code::kIo}},
      {"negative", [=](HttpWire& w, const HttpRequest&, int) { part(w, "", right, "bytes -5-14/1000"); }, {Code::kIo}},
      {"status_200_but_right",
       [=](HttpWire& w, const HttpRequest&, int) { w.reply("200 OK", "Content-Range: bytes 5-14/1000\r\n", right); },
       {Code::kOk}},
      {"ends_in_the_middle",
       [=](HttpWire& w, const HttpRequest&, int) { raw(w, head + "Content-Length: 10\r\n\r\nabc"); },
       {Code::kShort, Code::kIo}},
      {"ends_at_once", [](HttpWire& w, const HttpRequest&, int) { w.close(); }, {Code::kIo}},
      {"resets", [](HttpWire& w, const HttpRequest&, int) { w.reset(); }, {Code::kIo}},
      {"resets_in_the_middle",
       [=](HttpWire& w, const HttpRequest&, int) {
         w.send(head + "Content-Length: 10\r\n\r\nabc");
         w.pause(5);
         w.reset();
       },
       {Code::kIo, Code::kShort}},
      {"half_a_head",
       [=](HttpWire& w, const HttpRequest&, int) { raw(w, "HTTP/1.1 206 X\r\nContent-Ra"); },
       {Code::kIo}},
      {"response_splitting",
       [=](HttpWire& w, const HttpRequest&, int) { w.send(head + "Content-Length: 5\r\n\r\n" + right); },
       {Code::kIo}},
      {"two_lengths",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + "Content-Length: 10\r\nContent-Length: 11\r\n\r\n" + right);
       },
       {Code::kIo}},
      {"length_and_chunked",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + "Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\na\r\n" + right + "\r\n0\r\n\r\n");
       },
       {Code::kIo}},
      {"chunked",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + "Transfer-Encoding: chunked\r\n\r\n4;ext=1\r\n" + right.substr(0, 4) + "\r\n6\r\n" +
                    right.substr(4) + "\r\n0\r\nTrailer: x\r\n\r\n");
       },
       {Code::kOk}},
      {"chunked_too_long",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + "Transfer-Encoding: chunked\r\n\r\na\r\n" + right + "\r\n5\r\nextra\r\n0\r\n\r\n");
       },
       {Code::kIo}},
      {"chunked_too_short",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + "Transfer-Encoding: chunked\r\n\r\n4\r\n" + right.substr(0, 4) + "\r\n0\r\n\r\n");
       },
       {Code::kShort}},
      {"chunked_overflow",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + right);
       },
       {Code::kIo}},
      {"endless_chunks",
       [=](HttpWire& w, const HttpRequest&, int) {
         w.send(head + "Transfer-Encoding: chunked\r\n\r\n");
         for (int i = 0; i < 100'000 && w.is_open(); ++i) w.send("4\r\nabcd\r\n");
       },
       {Code::kIo}},
      {"never_answers", [](HttpWire& w, const HttpRequest&, int) { w.pause(60'000); }, {Code::kTimeout}},
      {"stalls",
       [=](HttpWire& w, const HttpRequest&, int) {
         w.send(head + "Content-Length: 10\r\n\r\nabcdefghi");
         w.pause(60'000);
       },
       {Code::kTimeout}},
      {"drips",
       [=](HttpWire& w, const HttpRequest&, int) {
         w.send("HTTP/1.1 206 X\r\n");
         for (int i = 0; i < 1000 && w.is_open(); ++i) {
           w.send("X: y\r\n");
           w.pause(50);
         }
       },
       {Code::kTimeout}},
      {"continues_for_ever",
       [](HttpWire& w, const HttpRequest&, int) {
         for (int i = 0; i < 100'000 && w.is_open(); ++i) w.send("HTTP/1.1 100 Continue\r\n\r\n");
         w.close();
       },
       {Code::kIo}},
      {"hints",
       [=](HttpWire& w, const HttpRequest& r, int) {
         w.send("HTTP/1.1 103 Early Hints\r\nETag: \"hint\"\r\n\r\n");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"many_headers",
       [=](HttpWire& w, const HttpRequest&, int) {
         std::string many;
         for (int i = 0; i < 10'000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
         part(w, many, right);
         w.close();
       },
       {Code::kIo}},
      {"a_long_header",
       [=](HttpWire& w, const HttpRequest&, int) {
         part(w, "X: " + std::string(1 << 20, 'y') + "\r\n", right);
         w.close();
       },
       {Code::kIo}},
      {"a_nul_in_a_header",
       [=](HttpWire& w, const HttpRequest&, int) {
         raw(w, head + std::string("ETag: \"a\0b\"\r\n", 12) + "\r\nContent-Length: 10\r\n\r\n" + right);
       },
       {Code::kIo}},
      {"no_http", [](HttpWire& w, const HttpRequest&, int) { raw(w, "SSH-2.0-OpenSSH_9.2\r\n"); }, {Code::kIo}},
      {"http_3",
       [=](HttpWire& w, const HttpRequest&, int) { raw(w, "HTTP/3.0 206 X\r\nContent-Length: 10\r\n\r\n" + right); },
       {Code::kIo}},
      {"status_99",
       [=](HttpWire& w, const HttpRequest&, int) { raw(w, "HTTP/1.1 99 X\r\n\r\n" + right); },
       {Code::kIo}},
      {"status_minus_1",
       [=](HttpWire& w, const HttpRequest&, int) { raw(w, "HTTP/1.1 -1 X\r\n\r\n" + right); },
       {Code::kIo}},
      {"gzip",
       [=](HttpWire& w, const HttpRequest&, int) { part(w, "Content-Encoding: gzip\r\n", right); },
       {Code::kUnsupported}},
      {"multipart",
       [=](HttpWire& w, const HttpRequest&, int) {
         w.reply("206 X", "Content-Type: multipart/byteranges; boundary=b\r\n", "--b\r\n\r\n" + right);
       },
       {Code::kIo}},
      {"redirects_in_a_circle",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("302 Found", "Location: /x\r\n", ""); },
       {Code::kIo}},
      {"redirects_to_a_file",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("302 Found", "Location: file:///etc/passwd\r\n", ""); },
       {Code::kInvalidArgument}},
      {"redirects_to_the_link",
       [](HttpWire& w, const HttpRequest&, int) {
         w.reply("302 Found", "Location: http://169.254.169.254/latest/meta-data\r\n", "");
       },
       {Code::kInvalidArgument}},
      {"redirects_to_nowhere", [](HttpWire& w, const HttpRequest&, int) { w.reply("301 Moved", "", ""); }, {Code::kIo}},
      {"redirects_once",
       [](HttpWire& w, const HttpRequest& r, int n) {
         if (n == 0) return w.reply("307 Temporary Redirect", "Location: /x?y\r\n", "go on");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"denies", [](HttpWire& w, const HttpRequest&, int) { w.reply("403 Forbidden", "", ""); }, {Code::kPermission}},
      {"is_not_there",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("404 Not Found", "", "<html>"); },
       {Code::kNotFound}},
      {"no_content",
       [](HttpWire& w, const HttpRequest&, int) { w.send("HTTP/1.1 204 No Content\r\n\r\n"); },
       {Code::kIo}},
      {"refuses_a_valid_range",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("416 X", "Content-Range: bytes */1000\r\n", ""); },
       {Code::kIo}},
      {"fails_twice",
       [](HttpWire& w, const HttpRequest& r, int n) {
         if (n < 2) return w.reply("500 Internal Server Error", "", "oh");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"breaks_twice",
       [=](HttpWire& w, const HttpRequest& r, int n) {
         if (n < 2) return raw(w, head + "Content-Length: 10\r\n\r\nwrong");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"fails_always",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("502 Bad Gateway", "", ""); },
       {Code::kAgainExhausted}},
      {"is_busy_for_a_second",
       [](HttpWire& w, const HttpRequest& r, int n) {
         if (n < 1) return w.reply("503 Slow Down", "Retry-After: 1\r\n", "");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"is_busy_for_years",
       [](HttpWire& w, const HttpRequest&, int) { w.reply("503 X", "Retry-After: 1000000000\r\n", ""); },
       {Code::kAgainExhausted}},
      {"was_busy_in_1970",
       [](HttpWire& w, const HttpRequest& r, int n) {
         if (n < 1) return w.reply("503 X", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", "");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"is_busy_somehow",
       [](HttpWire& w, const HttpRequest& r, int n) {
         if (n < 1) return w.reply("429 X", "Retry-After: \xff soon\r\n", "");
         honest().answer(w, r);
       },
       {Code::kOk}},
      {"a_long_error",
       [](HttpWire& w, const HttpRequest&, int) {
         w.send("HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n");
         const std::string piece = "1000\r\n" + std::string(4096, 'e') + "\r\n";
         for (int i = 0; i < 100'000 && w.is_open(); ++i) w.send(piece);
         w.close();
       },
       {Code::kIo}},
      {"echoes",
       [](HttpWire& w, const HttpRequest& r, int) {
         w.reply("400 Bad Request", "Location: " + r.header("authorization") + "\r\n",
                 r.header("authorization") + r.query);
       },
       {Code::kIo}},
      {"closes_after_each",
       [](HttpWire& w, const HttpRequest& r, int) {
         honest().answer(w, r);
         w.close();
       },
       {Code::kOk}},
      {"weak_etag", [=](HttpWire& w, const HttpRequest&, int) { part(w, "ETag: W/\"x\"\r\n", right); }, {Code::kOk}},
      {"long_etag",
       [=](HttpWire& w, const HttpRequest&, int) { part(w, "ETag: \"" + std::string(60'000, 'x') + "\"\r\n", right); },
       {Code::kOk}},
  };
  return all;
}

// With TLS, libcurl carries the answers; without it, PlainConnection does.
class Misbehaving : public ::testing::TestWithParam<std::tuple<Misbehaviour, bool>> {
 protected:
  void SetUp() override {
    if (!make_transport({}).ok()) GTEST_SKIP() << "this build has no libcurl";
  }
};

TEST_P(Misbehaving, IsNotBelieved) {
  const auto& [misbehaviour, tls] = GetParam();
  const support::TempDir folder;
  ClientOptions options = misbehaviour.codes.contains(Code::kTimeout) ? impatient() : patient();
  if (tls) options.transport.ca_file = folder / "certificate.pem";
  std::atomic<int> count{0};
  const HttpServer::Answer answer = [&row = misbehaviour, &count](HttpWire& wire, const HttpRequest& request) {
    row.answer(wire, request, count++);
  };
  HttpServer server(answer, options.transport.ca_file);
  RangeReader reader(server.url(), ServiceKind::kHttp, options);
  const auto got = reader.read(5, 10);
  const Code code = got.read.status.code();
  EXPECT_TRUE(misbehaviour.codes.contains(code)) << got.read.status.to_string();
  if (!got.read.status.ok()) return;
  EXPECT_TRUE(std::equal(got.bytes.begin(), got.bytes.end(), object().begin() + 5));
  EXPECT_EQ(got.bytes.size(), 10u);
  EXPECT_TRUE(got.read.found_version.empty() || got.read.found_version == ObjectService::etag(object()));
}

INSTANTIATE_TEST_SUITE_P(Servers, Misbehaving,
                         ::testing::Combine(::testing::ValuesIn(misbehaviours()), ::testing::Bool()),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + (std::get<1>(row.param) ? "_tls" : "");
                         });

// The process has used all of its descriptors: the connection succeeds, but cannot be kept.
TEST(NoDescriptorIsLeft, ForAConnection) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  ASSERT_TRUE(make_transport({}).ok()) << "this build has no libcurl";
  HttpServer server([](HttpWire& wire, const HttpRequest& request) { honest().answer(wire, request); });
  for (const bool forever : {false, true}) {
    RangeReader reader(server.url());
    base::arm_fault({.point = "http_curl.keep_socket", .error = EMFILE, .forever = forever});
    const auto got = reader.read(5, 10);
    base::disarm_faults();
    EXPECT_EQ(got.read.status.ok(), !forever) << got.read.status.to_string();
    if (forever) {
      EXPECT_NE(got.read.status.to_string().find("out of file descriptors"), std::string::npos)
          << got.read.status.to_string();
    }
    EXPECT_TRUE(reader.read(5, 10).read.status.ok());
  }
}

}  // namespace
}  // namespace headrace::http
