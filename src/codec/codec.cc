#include "codec/codec.h"

#include <algorithm>
#include <initializer_list>

#include "base/json.h"

// clang-format off: needs what is declared above
#include "builtin_codec.inc"
// clang-format on

namespace headrace::codec {

Status Codec::resolve_layout(const DataType&, std::vector<std::uint64_t>&, Layout&) const {
  return Status(Code::kInternal, Layer::kCodec, std::string(name()) + " is not an array codec");
}

std::uint64_t Codec::max_encoded_bytes(std::uint64_t decoded_bytes) const {
  // No encoder in use comes near this; frames split very small or padded with skippable ones still fit.
  return decoded_bytes + decoded_bytes / 4 + 65536;
}

bool Codec::fixed_size(std::uint64_t, std::uint64_t&) const { return false; }

void Codec::decode(std::span<Stream> streams, std::span<Status> statuses, Scratch*) const {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    statuses[i] = Status(Code::kInternal, Layer::kCodec, std::string(name()) + " does not decode streams");
  }
}

Result<std::unique_ptr<Encoder>> Codec::make_encoder() const {
  return Status(Code::kUnsupported, Layer::kCodec, "codec '" + std::string(name()) + "' has no encoder");
}

std::span<const CodecRow> codecs() {
  static constexpr std::initializer_list<CodecRow> kRows = {HEADRACE_BUILTIN_ROWS};
  return {kRows.begin(), kRows.size()};
}

namespace {

// Whether `names` (space separated) holds `name` as a whole word.
bool has_word(std::string_view names, std::string_view name) {
  for (std::size_t start = 0; start <= names.size() && !names.empty();) {
    const std::size_t end = std::min(names.find(' ', start), names.size());
    if (names.substr(start, end - start) == name) return true;
    start = end + 1;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Codec>> make_codec(std::string_view name, const base::Json& config, const Context& context) {
  for (const CodecRow& row : codecs()) {
    if (!has_word(context.zarr_format == 2 ? row.v2_ids : row.v3_names, name)) continue;
    Context named = context;
    named.name = name;
    return row.make(config, named);
  }
  return Status(Code::kUnsupported, Layer::kCodec,
                "codec '" + std::string(name.substr(0, 80)) + "' is not in this build");
}

}  // namespace headrace::codec
