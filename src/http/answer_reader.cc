#include "http/answer_reader.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

namespace headrace::http {
namespace {

// A head has some 500 bytes. Body bytes that arrive in the same piece are copied once more.
constexpr std::size_t kHeadPiece = 2 << 10;
constexpr std::uint64_t kMaxTrailerBytes = 64 << 10;

// Whether a comma-separated list such as "keep-alive, Upgrade" contains `word`.
bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (same_name(trimmed(list.substr(0, comma)), word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// "1a2b;name=value": at most 15 digits.
std::optional<std::uint64_t> parse_chunk_size(std::string_view line) {
  const std::string_view digits = trimmed(line.substr(0, line.find(';')));
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  std::uint64_t size = 0;
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    size = size * 16 + static_cast<std::uint64_t>(digit);
  }
  return size;
}

}  // namespace

AnswerReader::AnswerReader() : buffer_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)) {}

void AnswerReader::begin(Exchange& exchange) noexcept {
  exchange_ = &exchange;
  head_.clear();
  part_ = Part::kHead;
  begin_ = end_ = 0;
  left_ = trailer_bytes_ = 0;
  started_ = chunked_ = until_close_ = keep_alive_ = false;
}

std::span<std::byte> AnswerReader::room() noexcept {
  room_ = {};
  if (begin_ == end_) begin_ = end_ = 0;
  if (part_ == Part::kBody && begin_ == end_) {
    room_ = exchange_->body_room();
    room_ = room_.first(static_cast<std::size_t>(std::min<std::uint64_t>(room_.size(), left_)));
    if (!room_.empty()) return room_;
  }
  if (begin_ > 0 && end_ == kBuffer) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t most = part_ == Part::kBody ? kBuffer : kHeadPiece;
  return {buffer_.get() + end_, std::min(most, kBuffer - end_)};
}

AnswerReader::Step AnswerReader::received(std::size_t bytes) noexcept {
  started_ = true;
  Step step = Step::kMore;
  try {
    if (room_.empty()) {
      end_ += bytes;
    } else {
      step = give(room_.first(bytes));
    }
    if (step == Step::kMore) step = read_on();
  } catch (const std::bad_alloc&) {
    step = Step::kNoMemory;
  }
  keep_alive_ = keep_alive_ && (step == Step::kMore || step == Step::kComplete);
  return step;
}

AnswerReader::Step AnswerReader::closed() noexcept {
  return part_ == Part::kBody && until_close_ ? Step::kComplete : Step::kBroken;
}

// Delivers body bytes.
AnswerReader::Step AnswerReader::give(std::span<const std::byte> bytes) noexcept {
  left_ -= bytes.size();
  return exchange_->on_body(bytes) ? Step::kMore : Step::kStopped;
}

// Parses what is in the buffer.
AnswerReader::Step AnswerReader::read_on() {
  for (;;) {
    const std::span<const std::byte> unread(buffer_.get() + begin_, end_ - begin_);
    if (part_ == Part::kBody) {
      const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(left_, unread.size()));
      if (some > 0) {
        begin_ += some;
        const Step step = give(unread.first(some));
        if (step != Step::kMore) return step;
      }
      if (left_ > 0) return Step::kMore;
      const Step step = end_of_part();
      if (step != Step::kMore) return step;
      continue;
    }
    const void* const line_end = unread.empty() ? nullptr : std::memchr(unread.data(), '\n', unread.size());
    if (line_end == nullptr) return unread.size() == kBuffer ? Step::kProtocol : Step::kMore;
    const auto length = static_cast<std::size_t>(static_cast<const std::byte*>(line_end) - unread.data()) + 1;
    begin_ += length;
    const Step step = take_line({reinterpret_cast<const char*>(unread.data()), length});
    if (step != Step::kMore) return step;
  }
}

AnswerReader::Step AnswerReader::take_line(std::string_view line) {
  switch (part_) {
    case Part::kHead: {
      const bool complete = head_.line(line);
      if (!exchange_->on_line(line)) return Step::kStopped;
      return complete ? begin_body() : Step::kMore;
    }
    case Part::kChunkSize: {
      const auto size = parse_chunk_size(without_line_end(line));
      if (!size) return Step::kProtocol;
      left_ = *size;
      part_ = left_ > 0 ? Part::kBody : Part::kTrailer;
      return Step::kMore;
    }
    case Part::kChunkEnd:
      part_ = Part::kChunkSize;
      return without_line_end(line).empty() ? Step::kMore : Step::kProtocol;
    case Part::kTrailer:
      if (without_line_end(line).empty()) return Step::kComplete;
      trailer_bytes_ += line.size();
      return trailer_bytes_ > kMaxTrailerBytes ? Step::kProtocol : Step::kMore;
    case Part::kBody:
      break;
  }
  return Step::kProtocol;
}

// The body, or one of its chunks, is complete.
AnswerReader::Step AnswerReader::end_of_part() noexcept {
  if (!chunked_) return Step::kComplete;
  part_ = Part::kChunkEnd;
  return Step::kMore;
}

// The head is complete: decides how the body ends (section 6.3).
AnswerReader::Step AnswerReader::begin_body() {
  if (!head_.malformed.empty()) return Step::kProtocol;
  keep_alive_ = head_.http10 ? has_word(head_.connection, "keep-alive") : !has_word(head_.connection, "close");
  if (head_.status == 204 || head_.status == 304) return Step::kComplete;
  part_ = Part::kBody;
  if (!head_.transfer_encoding.empty()) {
    if (!same_name(head_.transfer_encoding, "chunked")) return Step::kProtocol;
    // The two contradict each other, so the rest of the connection cannot be trusted.
    if (head_.http10 || !head_.content_length.empty()) keep_alive_ = false;
    chunked_ = true;
    part_ = Part::kChunkSize;
    return Step::kMore;
  }
  if (!head_.content_length.empty()) {
    const auto length = parse_length(head_.content_length);
    if (!length) return Step::kProtocol;
    left_ = *length;
    return Step::kMore;  // an empty body completes in read_on()
  }
  until_close_ = true;
  keep_alive_ = false;
  left_ = ~std::uint64_t{0};
  return Step::kMore;
}

}  // namespace headrace::http
