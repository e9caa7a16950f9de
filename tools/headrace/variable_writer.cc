#include "variable_writer.h"

#include <algorithm>
#include <utility>

#include "json_text.h"

namespace headrace::cli {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string element_text(const VariableResult& result, std::uint64_t i) {
  return result.is_utf8() ? std::string(result[i]) : base64(result[i]);
}

VariableWriter::VariableWriter(Format format, std::vector<std::uint64_t> shape, Sink sink)
    : format_(format), shape_(std::move(shape)), sink_(std::move(sink)) {}

Status VariableWriter::put(std::string_view bytes) {
  piece_ += bytes;
  return piece_.size() < kPieceBytes ? Status() : flush();
}

Status VariableWriter::flush() {
  Status status = sink_(std::as_bytes(std::span(piece_.data(), piece_.size())));
  piece_.clear();
  return status;
}

Status VariableWriter::add(const VariableResult& part) {
  for (std::uint64_t i = 0; i < part.size(); ++i) {
    HEADRACE_TRY(format_ == Format::kRaw ? add_raw(part, i) : add_json(part, i));
    ++written_;
  }
  return {};
}

Status VariableWriter::add_raw(const VariableResult& part, std::uint64_t i) {
  const std::string_view element = part[i];
  if (element.size() > UINT32_MAX) {
    return Status(Code::kUnsupported, Layer::kApi,
                  "element " + std::to_string(written_) + " has more than 2^32 - 1 bytes, which --raw cannot say");
  }
  char length[4];
  for (std::size_t k = 0; k < 4; ++k) length[k] = static_cast<char>(element.size() >> (8 * k) & 0xFF);
  HEADRACE_TRY(put({length, 4}));
  return put(element);
}

Status VariableWriter::add_json(const VariableResult& part, std::uint64_t i) {
  const std::size_t rank = shape_.size();
  if (written_ == 0) {
    HEADRACE_TRY(put(std::string(rank, '[')));
  } else {
    // Number of dimensions in which a new row starts here.
    std::size_t closed = 0;
    for (std::uint64_t rest = written_; closed + 1 < rank && rest % shape_[rank - 1 - closed] == 0; ++closed) {
      rest /= shape_[rank - 1 - closed];
    }
    HEADRACE_TRY(put(std::string(closed, ']') + (closed > 0 ? ",\n" : ", ") + std::string(closed, '[')));
  }
  return put(json_text(element_text(part, i)));
}

Status VariableWriter::finish() {
  if (format_ == Format::kJson) {
    const bool empty = std::find(shape_.begin(), shape_.end(), 0) != shape_.end();
    HEADRACE_TRY(put((empty ? "[]" : std::string(shape_.size(), ']')) + "\n"));
  }
  return flush();
}

}  // namespace headrace::cli
