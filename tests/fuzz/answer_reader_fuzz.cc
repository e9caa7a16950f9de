// An HTTP/1.1 answer that arrives in pieces. The first bytes of an input set the piece size, the exchange's memory and
// when the exchange stops. However the answer is split, the reader must deliver the same lines, the same bytes and the
// same end. It must not write outside the room it offers, and a body is never longer than what was sent.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "http/answer_reader.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace headrace::http;
using Step = AnswerReader::Step;

class Recorded final : public Exchange {
 public:
  Recorded(std::size_t room, std::size_t most) : size_(room), memory_(new std::byte[room]), max_(most) {}

  bool on_line(std::string_view line) noexcept override {
    FUZZ_CHECK(line.ends_with('\n') && body.empty());
    lines += line;
    return true;
  }
  std::span<std::byte> body_room() noexcept override {
    const std::size_t used = std::min(body.size(), size_);
    return {memory_.get() + used, size_ - used};
  }
  bool on_body(std::span<const std::byte> bytes) noexcept override {
    FUZZ_CHECK(!bytes.empty());
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return body.size() < max_;
  }
  void on_end(ExchangeEnd, std::string_view) noexcept override { FUZZ_CHECK(false); }

  std::string lines, body;

 private:
  const std::size_t size_;
  const std::unique_ptr<std::byte[]> memory_;  // exact size, so that a sanitizer detects overruns
  const std::size_t max_;
};

Step read(AnswerReader& reader, Recorded& exchange, std::string_view text, std::size_t piece, bool& goes_on) {
  reader.begin(exchange);
  goes_on = false;
  while (!text.empty()) {
    const std::span<std::byte> room = reader.room();
    FUZZ_CHECK(!room.empty());
    const std::size_t some = std::min({room.size(), text.size(), piece});
    std::memcpy(room.data(), text.data(), some);
    text.remove_prefix(some);
    const Step step = reader.received(some);
    if (step != Step::kMore) {
      goes_on = reader.can_reuse_connection() && text.empty();
      return step;
    }
  }
  return reader.closed();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::size_t piece = data[0] % 64 + 1, room = data[1] * std::size_t{data[1]};
  const std::size_t most = data[2] % 8 == 0 ? data[2] : ~std::size_t{0};
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  static AnswerReader reader;
  Recorded in_pieces(room, most), at_once(0, most);
  bool goes_on = false, goes_on_at_once = false;
  const Step step = read(reader, in_pieces, text, piece, goes_on);
  const Step expected = read(reader, at_once, text, size, goes_on_at_once);
  FUZZ_CHECK(in_pieces.lines == at_once.lines && in_pieces.lines.size() + in_pieces.body.size() <= text.size());
  FUZZ_CHECK(step == expected);
  if (step != Step::kStopped) FUZZ_CHECK(in_pieces.body == at_once.body && goes_on == goes_on_at_once);
  return 0;
}
