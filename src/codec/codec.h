// Codec: undoes one step of how a chunk was encoded, on either processor. Some can also do it.
//
// Three kinds exist, as in the Zarr v3 specification ("Codecs"), and each is made from its configuration (make_codec):
//  - Array -> array and array -> bytes codecs say by enter() what they make of a chunk's elements. Those that only say
//    how elements are laid out (transpose, bytes) decode nothing: the assemble step reads the decoded bytes in that
//    Layout, so they cost no pass of their own.
//  - Whatever has bytes to decode has a StreamCoder: every bytes -> bytes codec, array -> array codecs that change
//    values (delta, astype), and array -> bytes codecs that pack elements (zfp, vlen-utf8).
//
// Threads: codecs and coders are immutable: decode() may run on many threads, each with its own Scratch.
// Fails:   kCorrupt for bytes that break the format, kUnsupported for a well-formed feature that is not implemented.
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

// In the order in which a chain has them.
enum class Kind : std::uint8_t { kArrayToArray, kArrayToBytes, kBytesToBytes };

// How the elements of one chunk lie in its decoded bytes, in terms of the array's own axes.
struct Layout {
  // axis_order[i] is the array axis that is i-th slowest in memory; identity means C order.
  std::vector<std::uint8_t> axis_order;
  bool byte_swapped = false;  // elements are big-endian (each field of a structured type on its own)
};

// One encoded stream to be decoded. All pointers are host pointers for decode().
struct EncodedStream {
  const std::byte* src = nullptr;
  std::size_t src_bytes = 0;
  std::byte* dst = nullptr;
  std::size_t dst_capacity = 0;  // never exceeded; from metadata
  std::size_t dst_bytes = 0;     // out: bytes produced, valid when the status is OK
  bool exact = true;             // in: anything but dst_capacity bytes is kCorrupt
  // In, 0: all of the stream is wanted. Else its first dst_capacity bytes, of a stream that decodes to so many
  // altogether (at most, where !exact): decoding ends there, and fewer are kCorrupt. Only for Prefix::kEndsEarly.
  std::size_t prefix_of = 0;
  // Out, with a failure for want of room where !exact: a capacity that may do, above dst_capacity; else 0.
  std::size_t needed_bytes = 0;
};

// Working memory one thread keeps for one codec between calls: library contexts, tables. Made by
// StreamCoder::make_scratch.
class Scratch {
 public:
  virtual ~Scratch() = default;
  // Where memory comes from whose size follows from stored bytes; null: from no budget. Before the first use.
  virtual void set_budget(GrowthBudget* budget) { (void)budget; }
};

// How many bytes some elements or bytes are encoded to.
struct EncodedSize {
  std::uint64_t most = 0;  // in practice: buffers are sized from it, and a longer stream is refused before it is read
  bool exact = false;      // and never fewer: the size alone tells (checksums, shuffles)
};

// A shorter stream of the same format, made of a part of a stream: it decodes to some of the stream's bytes.
struct StreamPart {
  std::size_t head_bytes = 0;                          // of what it begins with, which was made for it
  std::uint64_t begin = 0, bytes = 0;                  // of the stream: what follows
  std::uint64_t decoded_begin = 0, decoded_bytes = 0;  // what it decodes to
};

inline constexpr std::size_t kMostPartTableBytes = 4096;

// How the first bytes of what a stream decodes to are had without the others.
enum class Prefix : std::uint8_t {
  kNone,       // only all together
  kEndsEarly,  // from all of the stream: decoding ends once they are there (EncodedStream::prefix_of)
  kSameShare,  // from as many of its first bytes as encoded_size() says
};

// Decodes streams, one a call.
class StreamCoder {
 public:
  virtual ~StreamCoder() = default;
  virtual std::string_view name() const noexcept = 0;  // its codec's
  virtual EncodedSize encoded_size(std::uint64_t decoded_bytes) const;
  virtual std::unique_ptr<Scratch> make_scratch() const { return nullptr; }
  // Allocates nothing once `scratch` is warm.
  virtual Status decode(EncodedStream& stream, Scratch* scratch) const = 0;

  // Of streams that decode to at most so many bytes altogether.
  virtual Prefix prefix(std::uint64_t decoded_bytes) const noexcept { return (void)decoded_bytes, Prefix::kNone; }

  // Streams whose first bytes tell where parts of them lie: as many of these as are enough for most streams, at most
  // kMostPartTableBytes. 0: there is no part without the rest.
  virtual std::size_t part_table_bytes() const noexcept { return 0; }
  // What is enough of a stream of `stream_bytes` for the decoded bytes [begin, end), of which `table` is the first
  // part_table_bytes(), or all; `head` has room for as much. False: the stream is to be decoded as a whole, which also
  // finds out what is wrong with it.
  // Nothing outside of the stream is asked for, whatever its bytes are.
  virtual bool cut(std::span<const std::byte> table, std::uint64_t stream_bytes, std::uint64_t begin, std::uint64_t end,
                   std::span<std::byte> head, StreamPart& part) const noexcept {
    return (void)table, (void)stream_bytes, (void)begin, (void)end, (void)head, (void)part, false;
  }

  // One thread's encoder for this configuration. kUnsupported where there is none, naming what is missing.
  virtual Result<std::unique_ptr<Encoder>> make_encoder() const;

  // What a device needs to know to decode. Fills in `codec` and `parameters` of a stage whose sizes are set. False
  // where no device has code for this configuration.
  virtual bool describe_for_device(device::DecodeStage& stage) const {
    (void)stage;
    return false;
  }
  // Whether that device code has use for decode indices (device/decode.h).
  virtual bool has_decode_index() const noexcept { return false; }
  // The index of an encoded stream, made by the CPU: what a device's first decode of it gives. Empty where none is of
  // use; kUnsupported where only a device makes them, kCorrupt for bytes that have none. Throws std::bad_alloc.
  virtual Result<std::vector<std::byte>> make_decode_index(std::span<const std::byte> encoded) const;
};

// The three kinds. name() is the codec's own: "zstd", "blosc", ... Where coder() is null, nothing is to be decoded.
class ArrayToArray {
 public:
  virtual ~ArrayToArray() = default;
  virtual std::string_view name() const noexcept = 0;
  // Makes of `elements` what they are encoded to. Fails where the codec cannot take such elements.
  virtual Status enter(Representation& elements) const = 0;
  virtual const StreamCoder* coder() const noexcept { return nullptr; }
  // A coder that reads the encoded elements as big-endian; coder() reads native ones. Only where that is not null.
  virtual std::unique_ptr<StreamCoder> make_big_endian_coder() const { return nullptr; }
};

class ArrayToBytes {
 public:
  virtual ~ArrayToBytes() = default;
  virtual std::string_view name() const noexcept = 0;
  // As above; the byte order of the elements is all that may change.
  virtual Status enter(Representation& elements) const = 0;
  virtual const StreamCoder* coder() const noexcept { return nullptr; }
  // Elements of variable length, which decode to one VariableSlot each (variable_codec.h). Nothing but their streams
  // tells how long those are.
  virtual bool variable_length() const noexcept { return false; }
};

class BytesToBytes {
 public:
  virtual ~BytesToBytes() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual const StreamCoder* coder() const noexcept = 0;
};

// A codec of one of the kinds.
class Codec {
 public:
  explicit Codec(std::unique_ptr<ArrayToArray> codec) noexcept : codec_(std::move(codec)) {}
  explicit Codec(std::unique_ptr<ArrayToBytes> codec) noexcept : codec_(std::move(codec)) {}
  explicit Codec(std::unique_ptr<BytesToBytes> codec) noexcept : codec_(std::move(codec)) {}
  // For codecs of arrays that are filters of bytes in v2, which has no others.
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
  // Null if it is of another kind.
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

// What is known of the array when a codec is made.
struct CodecArgs {
  const DataType* dtype = nullptr;  // type of the elements that enter the codec; null for bytes -> bytes in v2
  int zarr_format = 3;
  // Name under which the metadata asks for the codec, set by make_codec: "blosc" and "numcodecs.blosc" have different
  // configurations.
  std::string_view name = {};
  const std::vector<std::uint64_t>* shape = nullptr;  // of the chunk that enters the codec; null: not known
};

// One row of the table of codecs compiled in (generated from codecs/).
struct CodecRow {
  const char* name;      // folder
  const char* v3_names;  // space separated, first is canonical: "zstd numcodecs.zstd"
  const char* v2_ids;    // space separated numcodecs ids, "" if none
  // `config` is the v3 "configuration" object (empty object if absent) or the v2 object less "id".
  Result<Codec> (*make)(const base::Json& config, const CodecArgs& context);
  // The least v3 configuration that it takes: what capabilities() and tests ask it with.
  const char* config = "{}";
};

std::span<const CodecRow> codecs();

// kUnsupported naming the codec where no row has that name.
Result<Codec> make_codec(std::string_view name, const base::Json& config, const CodecArgs& context);

}  // namespace headrace::codec
