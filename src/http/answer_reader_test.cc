// HTTP/1.1 responses that arrive in pieces of any size: lines and bytes are delivered as sent, a body ends exactly
// where the head says, and bytes go directly into the exchange's memory but never beyond it.
#include "http/answer_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace headrace::http {
namespace {

using Step = AnswerReader::Step;

class Recorded final : public Exchange {
 public:
  // `room`: size of its own memory for the body.
  explicit Recorded(std::size_t room) : memory(room + 1, '#') {}

  bool on_line(std::string_view line) noexcept override {
    lines += line;
    return lines.find(stop_at_line) == std::string::npos;
  }
  std::span<std::byte> body_room() noexcept override {
    const std::size_t used = std::min(body.size(), memory.size() - 1);
    return std::as_writable_bytes(std::span(memory)).subspan(used, memory.size() - 1 - used);
  }
  bool on_body(std::span<const std::byte> bytes) noexcept override {
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    if (text >= memory.data() && text < memory.data() + memory.size()) {
      EXPECT_EQ(text, memory.data() + body.size());
      direct += bytes.size();
    }
    body.append(text, bytes.size());
    return body.size() < stop_at_byte;
  }
  void on_end(ExchangeEnd, std::string_view) noexcept override { ADD_FAILURE() << "not the reader's to call"; }

  std::string memory, lines, body, stop_at_line = "\1";
  std::size_t direct = 0, stop_at_byte = std::size_t{1} << 40;
};

// Sends `text` in pieces of at most `piece` bytes; then the server closes if the response is incomplete.
Step read(AnswerReader& reader, Recorded& exchange, std::string_view text, std::size_t piece,
          std::size_t* left = nullptr) {
  reader.begin(exchange);
  while (!text.empty()) {
    const std::span<std::byte> room = reader.room();
    EXPECT_FALSE(room.empty());
    const std::size_t some = std::min({room.size(), text.size(), piece});
    std::memcpy(room.data(), text.data(), some);
    text.remove_prefix(some);
    const Step step = reader.received(some);
    if (left != nullptr) *left = text.size();
    if (step != Step::kMore) return step;
  }
  return reader.closed();
}

constexpr std::size_t kPieces[] = {1, 2, 3, 7, 64, 100'000};

struct Answer {
  std::string text;
  Step step;
  std::string body;
  bool goes_on;
};

TEST(AnswerReader, BodyLengthFollowsTheHead) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::vector<Answer> answers = {
      {ok + "Content-Length: 5\r\n\r\nhello", Step::kComplete, "hello", true},
      {"HTTP/1.1 206 Partial Content\ncontent-length:5\n\nhello", Step::kComplete, "hello", true},
      {ok + "Content-Length: 0\r\n\r\n", Step::kComplete, "", true},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Step::kComplete, "", true},
      {"HTTP/1.1 204 No Content\r\n\r\n", Step::kComplete, "", true},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nX: y\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nab",
       Step::kComplete, "ab", true},
      {ok + "Content-Length: 2\r\nConnection: close\r\n\r\nab", Step::kComplete, "ab", false},
      {ok + "Content-Length: 2\r\nConnection: x , Close\r\n\r\nab", Step::kComplete, "ab", false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", Step::kComplete, "ab", false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nab", Step::kComplete, "ab", true},
      {ok + "\r\nuntil the end", Step::kComplete, "until the end", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nX: trailer\r\n\r\n",
       Step::kComplete, "abc0123456789", true},
      {ok + "Transfer-Encoding: Chunked\r\nContent-Length: 1\r\n\r\n3\r\nabc\r\n00\r\n\r\n", Step::kComplete, "abc",
       false},
      // Truncated or invalid responses.
      {ok + "Content-Length: 5\r\n\r\nhell", Step::kBroken, "hell", false},
      {ok + "Content-Length: 5\r\n", Step::kBroken, "", false},
      {"", Step::kBroken, "", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Step::kBroken, "abc", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", Step::kBroken, "abc", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", Step::kProtocol, "abc", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n", Step::kProtocol, "", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n", Step::kProtocol, "", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n", Step::kProtocol, "", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\nabc\r\n", Step::kProtocol, "", false},
      {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", Step::kProtocol, "", false},
      {ok + "Content-Length: -5\r\n\r\nhello", Step::kProtocol, "", false},
      {ok + "Content-Length: 5, 5\r\n\r\nhello", Step::kProtocol, "", false},
      {ok + "Content-Length: 9223372036854775808\r\n\r\nhello", Step::kProtocol, "", false},
      {ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Step::kProtocol, "", false},
      {"SSH-2.0-OpenSSH\r\n", Step::kProtocol, "", false},
      {"\r\n\r\n", Step::kProtocol, "", false},
      {ok + "X: " + std::string(70'000, 'x'), Step::kProtocol, "", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n" + std::string(70'000, '1'), Step::kProtocol, "", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" +
           [] {
             std::string lines;
             for (int i = 0; i < 2000; ++i) lines += "X: " + std::string(50, 'x') + "\r\n";
             return lines;
           }(),
       Step::kProtocol, "", false},
  };
  AnswerReader reader;
  for (const Answer& answer : answers) {
    for (const std::size_t piece : kPieces) {
      if (piece < 64 && answer.text.size() > 10'000) continue;
      for (const std::size_t room : {std::size_t{0}, std::size_t{3}, std::size_t{1000}}) {
        Recorded exchange(room);
        EXPECT_EQ(read(reader, exchange, answer.text, piece), answer.step) << answer.text.substr(0, 200) << piece;
        EXPECT_EQ(exchange.body, answer.body) << answer.text.substr(0, 200);
        EXPECT_EQ(exchange.memory.back(), '#');
        if (answer.step == Step::kComplete) {
          EXPECT_EQ(reader.can_reuse_connection(), answer.goes_on) << answer.text;
        }
      }
    }
  }
}

TEST(AnswerReader, BodyIsReceivedWithoutCopies) {
  std::string body(300'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i * 7919 % 26);
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n";
  AnswerReader reader;
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{1'000'000}}) {
    Recorded exchange(body.size());
    ASSERT_EQ(read(reader, exchange, head + body, piece), Step::kComplete);
    EXPECT_EQ(exchange.lines, head);
    EXPECT_EQ(exchange.body, body);
    EXPECT_GE(exchange.direct, body.size() - 2048) << "copied: more than what came with the head";
    // When its memory is too small, the rest goes through the reader's buffer.
    Recorded small(100'000);
    ASSERT_EQ(read(reader, small, head + body, piece), Step::kComplete);
    EXPECT_EQ(small.body, body);
    EXPECT_LE(small.direct, 100'000u);
    EXPECT_EQ(small.memory.back(), '#');
  }
}

TEST(AnswerReader, BytesAfterAResponseAreNotPartOfTheNext) {
  AnswerReader reader;
  Recorded exchange(0);
  std::size_t left = 0;
  const std::string text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n";
  EXPECT_EQ(read(reader, exchange, text, 1000, &left), Step::kComplete);
  EXPECT_EQ(exchange.body, "ab");
  EXPECT_FALSE(reader.can_reuse_connection());
  // Bytes that were not received with the response are for the connection to detect.
  EXPECT_EQ(read(reader, exchange, text, 1, &left), Step::kComplete);
  EXPECT_TRUE(reader.can_reuse_connection());
  EXPECT_EQ(left, std::strlen("HTTP/1.1 200 OK\r\n"));
}

TEST(AnswerReader, AnExchangeStopsIt) {
  AnswerReader reader;
  const std::string text = "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello";
  for (const std::size_t piece : kPieces) {
    Recorded by_line(100);
    by_line.stop_at_line = "X: y";
    EXPECT_EQ(read(reader, by_line, text, piece), Step::kStopped);
    EXPECT_TRUE(by_line.body.empty());
    Recorded by_byte(100);
    by_byte.stop_at_byte = 2;
    EXPECT_EQ(read(reader, by_byte, text, piece), Step::kStopped);
    EXPECT_GE(by_byte.body.size(), 2u);
    EXPECT_FALSE(reader.can_reuse_connection());
  }
}

}  // namespace
}  // namespace headrace::http
