// AnswerReader: one answer of HTTP/1.1 after the other, from the bytes of a connection to the calls of an Exchange
// (RFC 9112, sections 4 to 7).
//
// The body's bytes come straight into the exchange's own memory where it has room, and through 64 KiB of the reader's
// where it has none, as for the few that arrive together with the head.
//
// Threads: one at a time, with no lock held: it calls the exchange.
// Fails:   kProtocol: what came is no answer of HTTP, has a line of more than 64 KiB, or does not tell where it ends;
//          kBroken: the connection ended first; kNoMemory. Nothing is called after a step other than kMore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "http/answer_head.h"
#include "http/transport.h"

namespace headrace::http {

class AnswerReader {
 public:
  enum class Step : std::uint8_t { kMore, kComplete, kStopped, kProtocol, kBroken, kNoMemory };

  AnswerReader();  // throws std::bad_alloc
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  // The next answer is for this one.
  void begin(Exchange& exchange) noexcept;
  // Where the next bytes go; never empty while steps are kMore. Until received() is called.
  std::span<std::byte> room() noexcept;
  // So many bytes have been written there; at least one.
  Step received(std::size_t bytes) noexcept;
  // The server sends no more.
  Step closed() noexcept;

  // Whether a byte of this answer has come.
  bool has_begun() const noexcept { return begun_; }
  // After kComplete: the server will answer another request on this connection, and has sent nothing beyond the answer.
  bool can_go_on() const noexcept { return keeps_ && begin_ == end_; }

 private:
  enum class Part : std::uint8_t { kHead, kBody, kChunkSize, kChunkEnd, kTrailer };
  static constexpr std::size_t kBuffer = 64 << 10;

  Step read_on();
  Step begin_body();
  Step take_line(std::string_view line);
  Step give(std::span<const std::byte> bytes) noexcept;
  Step end_of_part() noexcept;

  const std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is unread in it
  std::span<std::byte> room_;        // of the exchange, where the next bytes go there
  Exchange* exchange_ = nullptr;
  AnswerHead head_;
  Part part_ = Part::kHead;
  std::uint64_t left_ = 0;  // of the body, or of its chunk
  std::uint64_t trailer_bytes_ = 0;
  bool begun_ = false, chunked_ = false, until_close_ = false, keeps_ = false;
};

}  // namespace headrace::http
