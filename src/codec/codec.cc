#include "codec/codec.h"

#include <algorithm>
#include <initializer_list>

#include "base/json.h"

// clang-format off: needs what is declared above
#include "builtin_codec.inc"
// clang-format on

namespace headrace::codec {

EncodedSize StreamCoder::encoded_size(std::uint64_t decoded_bytes) const {
  // No encoder in use comes near this. Streams of tiny frames or with skippable padding still fit.
  return {decoded_bytes + decoded_bytes / 4 + 65536};
}

Result<std::vector<std::byte>> StreamCoder::make_decode_index(std::span<const std::byte> /*encoded*/) const {
  return Status(Code::kUnsupported, Layer::kCodec,
                "codec '" + std::string(name()) + "' has no decode index that the CPU can build");
}

Result<std::unique_ptr<Encoder>> StreamCoder::make_encoder() const {
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

// Known codecs that are not implemented. Names are without the prefix "numcodecs.", which each may have.
struct Absent {
  std::string_view name, why;
};
constexpr Absent kAbsent[] = {
    {"pcodec", "no maintained library that decodes it is packaged; write the array again with zstd or blosc"},
    {"zfp", "this build was made without libzfp; install libzfp-dev and build again"},
    {"zfpy", "this build was made without libzfp; install libzfp-dev and build again"},
    {"n5_default", "N5 blocks, which have individual shapes, are not implemented"},
    {"conditional", "codecs that individual chunks may skip are not implemented"},
    {"zarrs.gdeflate", "no maintained library that decodes it is packaged; write the array again with zstd or blosc"},
    {"categorize", "its elements are Python objects"},
    {"json2", "its elements are Python objects"},
    {"msgpack2", "its elements are Python objects"},
    {"pickle", "its elements are Python objects, and reading them would run code that is stored"},
};

std::string_view why_absent(std::string_view name) {
  constexpr std::string_view kPrefix = "numcodecs.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const Absent& absent : kAbsent) {
    if (absent.name == name) return absent.why;
  }
  return "";
}

}  // namespace

Result<Codec> make_codec(std::string_view name, const base::Json& config, const CodecArgs& context) {
  for (const CodecRow& row : codecs()) {
    if (!has_word(context.zarr_format == 2 ? row.v2_ids : row.v3_names, name)) continue;
    CodecArgs named = context;
    named.name = name;
    return row.make(config, named);
  }
  std::string message = "codec '" + std::string(name.substr(0, 80)) + "' is not in this build";
  if (const std::string_view why = why_absent(name); !why.empty()) message.append(": ").append(why);
  return Status(Code::kUnsupported, Layer::kCodec, std::move(message));
}

}  // namespace headrace::codec
