// AnswerReader: parses HTTP/1.1 responses from the bytes of a connection and passes them to an Exchange, one response
// after the other (RFC 9112, sections 4 to 7).
//
// Body bytes are received directly into the exchange's own memory where it offers room. Otherwise, and for body bytes
// that arrive together with the head, they pass through the reader's 64 KiB buffer.
//
// Threads: one at a time, with no lock held, since it calls the exchange.
// Fails:   kProtocol: the data is not an HTTP response, has a line longer than 64 KiB, or does not say where the body
//          ends; kBroken: the connection closed early; kNoMemory. Any step other than kMore ends the response: it takes
//          no more bytes until begin().
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

  // Starts parsing a response for `exchange`.
  void begin(Exchange& exchange) noexcept;
  // The buffer for the next bytes; valid until received() is called, never empty while steps are kMore.
  std::span<std::byte> room() noexcept;
  // `bytes` bytes, at least one, have been written to room().
  Step received(std::size_t bytes) noexcept;
  // The server has closed its end.
  Step closed() noexcept;

  // Whether any byte of this response has arrived.
  bool has_started() const noexcept { return started_; }
  // After kComplete: the connection can be reused, and the server has sent nothing beyond the response.
  bool can_reuse_connection() const noexcept { return keep_alive_ && begin_ == end_; }

 private:
  enum class Part : std::uint8_t { kHead, kBody, kChunkSize, kChunkEnd, kTrailer };
  static constexpr std::size_t kBuffer = 64 << 10;

  Step read_on();
  Step begin_body();
  Step take_line(std::string_view line);
  Step give(std::span<const std::byte> bytes) noexcept;
  Step end_of_part() noexcept;

  const std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the unread bytes of buffer_
  std::span<std::byte> room_;        // the exchange's memory, when the next bytes go there
  Exchange* exchange_ = nullptr;
  AnswerHead head_;
  Part part_ = Part::kHead;
  std::uint64_t left_ = 0;  // bytes left of the body or of its current chunk
  std::uint64_t trailer_bytes_ = 0;
  bool started_ = false, chunked_ = false, until_close_ = false, keep_alive_ = false;
};

}  // namespace headrace::http
