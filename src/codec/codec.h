// Codec: one step of a chunk's encoding, decoded on either processor. Some codecs can also encode.
//
// There are three kinds, as in the Zarr v3 specification ("Codecs"). Each is made from its configuration (make_codec):
//   - Array -> array and array -> bytes codecs describe in enter() how they change a chunk's elements. Those that only
//     change the layout (transpose, bytes) decode nothing: the assemble step reads the decoded bytes in that Layout, so
//     they cost no pass of their own.
//   - Codecs with bytes to decode have a StreamCoder: every bytes -> bytes codec, array -> array codecs that change
//     values (delta, astype), and array -> bytes codecs that pack elements (zfp, vlen-utf8).
//
// Threads: codecs and coders are immutable; decode() may run on many threads, each with its own Scratch.
// Fails:   kCorrupt for bytes that break the format, kUnsupported for a valid feature that is not implemented.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_fwd.h"
#include "codec/encoder.h"
#include "codec/growing_buffer.h"
#include "device/decode.h"

namespace headrace::codec {

class Representation;

// In the order they have in a chain.
enum class Kind : std::uint8_t { kArrayToArray, kArrayToBytes, kBytesToBytes };

// How the elements of a chunk are laid out in its decoded bytes, in terms of the array's own axes.
struct Layout {
  // axis_order[i] is the array axis that is i-th slowest in memory; identity means C order.
  std::vector<std::uint8_t> axis_order;
  bool byte_swapped = false;  // elements are big-endian (per field for structured types)
};

// One encoded stream to decode. All pointers are host pointers for decode().
struct EncodedStream {
  const std::byte* src = nullptr;
  std::size_t src_bytes = 0;
  std::byte* dst = nullptr;
  std::size_t dst_capacity = 0;  // never exceeded; from metadata
  std::size_t dst_bytes = 0;     // out: bytes produced, valid when the status is OK
  bool exact = true;             // in: any size but dst_capacity is kCorrupt
  // In. 0: the whole stream is wanted. Otherwise only its first dst_capacity bytes are, of a stream that decodes to
  // this many (or at most this many, if !exact): decoding ends there, and fewer bytes are kCorrupt. Only for
  // Prefix::kEndsEarly.
  std::size_t prefix_of = 0;
  // Out, on a failure for lack of room if !exact: a capacity above dst_capacity that may suffice; otherwise 0.
  std::size_t needed_bytes = 0;
};

// Working memory that one thread keeps for one codec between calls, such as library contexts and tables. Made by
// StreamCoder::make_scratch.
class Scratch {
 public:
  virtual ~Scratch() = default;
  // Budget for memory sized by stored bytes; null: unlimited. Call before the first use.
  virtual void set_budget(GrowthBudget* budget) { (void)budget; }
};

// The encoded size of some elements or bytes.
struct EncodedSize {
  std::uint64_t most = 0;  // practical maximum: buffers are sized by it, and longer streams are refused before
                           // they are read
  bool exact = false;      // never fewer either: the size alone is checked (checksums, shuffles)
};

// A shorter stream in the same format, made from part of a stream. It decodes to a range of the stream's bytes.
struct StreamPart {
  std::size_t head_bytes = 0;                          // size of its generated beginning
  std::uint64_t begin = 0, bytes = 0;                  // the range of the stream that follows it
  std::uint64_t decoded_begin = 0, decoded_bytes = 0;  // the range of decoded bytes it covers
};

inline constexpr std::size_t kMaxPartTableBytes = 4096;

// How the first decoded bytes of a stream can be obtained without the rest.
enum class Prefix : std::uint8_t {
  kNone,       // not at all
  kEndsEarly,  // from the whole stream: decoding stops early (EncodedStream::prefix_of)
  kSameShare,  // from its first encoded_size() bytes
};

// Decodes streams, one per call.
class StreamCoder {
 public:
  virtual ~StreamCoder() = default;
  virtual std::string_view name() const noexcept = 0;  // of its codec
  virtual EncodedSize encoded_size(std::uint64_t decoded_bytes) const;
  virtual std::unique_ptr<Scratch> make_scratch() const { return nullptr; }
  // Allocates nothing once `scratch` is warm.
  virtual Status decode(EncodedStream& stream, Scratch* scratch) const = 0;

  // For streams that decode to at most this many bytes.
  virtual Prefix prefix(std::uint64_t decoded_bytes) const noexcept { return (void)decoded_bytes, Prefix::kNone; }

  // For formats whose first bytes locate parts of the stream: how many of these bytes suffice for most streams, at most
  // kMaxPartTableBytes. 0: parts cannot be decoded alone.
  virtual std::size_t part_table_bytes() const noexcept { return 0; }
  // Finds the part of a stream of `stream_bytes` that suffices for the decoded bytes [begin, end). `table` holds the
  // stream's first part_table_bytes(), or all of it; `head` has room for as much. False: decode the whole stream, which
  // also detects what is wrong with it. Never refers to bytes outside the stream, whatever its content.
  virtual bool cut(std::span<const std::byte> table, std::uint64_t stream_bytes, std::uint64_t begin, std::uint64_t end,
                   std::span<std::byte> head, StreamPart& part) const noexcept {
    return (void)table, (void)stream_bytes, (void)begin, (void)end, (void)head, (void)part, false;
  }

  // One thread's encoder for this configuration. kUnsupported if there is none, naming what is missing.
  virtual Result<std::unique_ptr<Encoder>> make_encoder() const;

  // Describes the decoding for a device: fills in `codec` and `parameters` of a stage whose sizes are set. False if no
  // device has code for this configuration.
  virtual bool describe_for_device(device::DecodeStage& stage) const {
    (void)stage;
    return false;
  }
  // Whether that device code uses decode indices (device/decode.h).
  virtual bool has_decode_index() const noexcept { return false; }
  // Builds the index of an encoded stream on the CPU, equal to what a device's first decode collects. Empty if
  // an index would not help; kUnsupported if only a device can build it; kCorrupt for bytes that have none.
  // Throws std::bad_alloc.
  virtual Result<std::vector<std::byte>> make_decode_index(std::span<const std::byte> encoded) const;
};

// The three kinds. name() is the codec's name: "zstd", "blosc", ... If coder() is null, there is nothing to decode.
class ArrayToArray {
 public:
  virtual ~ArrayToArray() = default;
  virtual std::string_view name() const noexcept = 0;
  // Changes `elements` to what they are encoded to. Fails if the codec cannot take such elements.
  virtual Status enter(Representation& elements) const = 0;
  virtual const StreamCoder* coder() const noexcept { return nullptr; }
  // A coder that reads the encoded elements as big-endian; coder() reads native ones. Only if coder() is not null.
  virtual std::unique_ptr<StreamCoder> make_big_endian_coder() const { return nullptr; }
};

class ArrayToBytes {
 public:
  virtual ~ArrayToBytes() = default;
  virtual std::string_view name() const noexcept = 0;
  // As above; only the byte order of the elements may change.
  virtual Status enter(Representation& elements) const = 0;
  virtual const StreamCoder* coder() const noexcept { return nullptr; }
  // Whether elements have variable length and decode to one VariableSlot each (variable_codec.h). Only their streams
  // determine their lengths.
  virtual bool variable_length() const noexcept { return false; }
};

class BytesToBytes {
 public:
  virtual ~BytesToBytes() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual const StreamCoder* coder() const noexcept = 0;
};

// A codec of any of the three kinds.
class Codec {
 public:
  explicit Codec(std::unique_ptr<ArrayToArray> codec) noexcept : codec_(std::move(codec)) {}
  explicit Codec(std::unique_ptr<ArrayToBytes> codec) noexcept : codec_(std::move(codec)) {}
  explicit Codec(std::unique_ptr<BytesToBytes> codec) noexcept : codec_(std::move(codec)) {}
  // For array codecs that are bytes filters in v2, which has no other kind.
  template <class T>
  Codec(std::unique_ptr<T> codec, int zarr_format) : Codec(std::unique_ptr<BytesToBytes>()) {
    using OfArrays = std::conditional_t<std::is_base_of_v<ArrayToArray, T>, ArrayToArray, ArrayToBytes>;
    if (zarr_format == 2) {
      codec_ = std::unique_ptr<BytesToBytes>(std::move(codec));
    } else {
      codec_ = std::unique_ptr<OfArrays>(std::move(codec));
    }
  }

  Kind kind() const noexcept { return static_cast<Kind>(codec_.index()); }
  std::string_view name() const noexcept {
    return std::visit([](const auto& codec) { return codec->name(); }, codec_);
  }
  const StreamCoder* coder() const noexcept {
    return std::visit([](const auto& codec) { return codec->coder(); }, codec_);
  }
  bool has_device_code() const {
    device::DecodeStage stage;
    return coder() != nullptr && coder()->describe_for_device(stage);
  }
  // Null if the codec is of another kind.
  const ArrayToArray* array_to_array() const noexcept { return get<ArrayToArray>(); }
  const ArrayToBytes* array_to_bytes() const noexcept { return get<ArrayToBytes>(); }

 private:
  template <class T>
  const T* get() const noexcept {
    const auto* codec = std::get_if<std::unique_ptr<T>>(&codec_);
    return codec == nullptr ? nullptr : codec->get();
  }
  std::variant<std::unique_ptr<ArrayToArray>, std::unique_ptr<ArrayToBytes>, std::unique_ptr<BytesToBytes>> codec_;
};

// What is known about the array when a codec is made.
struct CodecArgs {
  const DataType* dtype = nullptr;  // of the elements that enter the codec; null for bytes -> bytes in v2
  int zarr_format = 3;
  // Name by which the metadata refers to the codec, set by make_codec: "blosc" and "numcodecs.blosc" have
  // different configurations.
  std::string_view name = {};
  const std::vector<std::uint64_t>* shape = nullptr;  // of the chunk that enters the codec; null: unknown
};

// A row of the table of compiled-in codecs (generated from codecs/).
struct CodecRow {
  const char* name;      // folder name
  const char* v3_names;  // space separated, first is canonical: "zstd numcodecs.zstd"
  const char* v2_ids;    // space separated numcodecs ids, "" if none
  // `config` is the v3 "configuration" object (empty object if absent) or the v2 object less "id".
  Result<Codec> (*make)(const base::Json& config, const CodecArgs& context);
  // A minimal v3 configuration that it accepts, for capabilities() and tests.
  const char* config = "{}";
};

std::span<const CodecRow> codecs();

// kUnsupported, naming the codec, if no row has that name.
Result<Codec> make_codec(std::string_view name, const base::Json& config, const CodecArgs& context);

}  // namespace headrace::codec
