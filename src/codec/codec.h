// Codec: undoes one step of how a chunk was encoded, for many chunks at a time, on either processor. Some can also do
// it.
//
// A Codec is made from its configuration (make_codec) and then resolved against the representation of what it encodes.
// Three kinds exist, as in the Zarr v3 specification ("Codecs"): array -> array, array -> bytes, bytes -> bytes.
//  - Array -> array and array -> bytes codecs that only say how elements are laid out (transpose, bytes) decode
//  nothing:
//    they change the Layout with which the assemble step reads the decoded bytes, so they cost no pass of their own.
//  - Array -> array codecs that change values (delta, astype) decode the elements of a chunk as a stream.
//  - Bytes -> bytes codecs decode streams. A wave hands over all its streams at once; each stream has its own status,
//    and one bad stream leaves the others exact.
//
// Threads: a resolved codec is immutable: decode() may run on many threads, each with its own Scratch.
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
#include <vector>

#include "base/json_fwd.h"
#include "codec/encoder.h"
#include "codec/growing_buffer.h"
#include "device/decode.h"

namespace headrace::codec {

enum class Kind : std::uint8_t { kArrayToArray, kArrayToBytes, kBytesToBytes };

// How the elements of one chunk lie in its decoded bytes, in terms of the array's own axes.
struct Layout {
  // axis_order[i] is the array axis that is i-th slowest in memory; identity means C order.
  std::vector<std::uint8_t> axis_order;
  bool byte_swapped = false;  // elements are big-endian (each field of a structured type on its own)
};

// One encoded stream to be decoded. All pointers are host pointers for decode().
struct Stream {
  const std::byte* src = nullptr;
  std::size_t src_bytes = 0;
  std::byte* dst = nullptr;
  std::size_t dst_capacity = 0;  // never exceeded; from metadata
  std::size_t dst_bytes = 0;     // out: bytes produced, valid when the status is OK
  bool exact = true;             // in: anything but dst_capacity bytes is kCorrupt
  // Out, with a failure for want of room where !exact: a capacity that may do, above dst_capacity; else 0.
  std::size_t needed_bytes = 0;
};

// Working memory one thread keeps for one codec between calls: library contexts, tables. Made by Codec::make_scratch.
class Scratch {
 public:
  virtual ~Scratch() = default;
  // Where memory comes from whose size follows from stored bytes; null: from no budget. Before the first use.
  virtual void set_budget(GrowthBudget* budget) { (void)budget; }
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const noexcept = 0;  // the part's own name: "zstd", "blosc", ...
  virtual Kind kind() const noexcept = 0;

  // Array codecs only. Checks that the codec can take elements of `dtype` in chunks of `shape` and folds what it says
  // about the order of elements into `layout` and `shape` (which becomes the encoded shape).
  virtual Status resolve_layout(const DataType& dtype, std::vector<std::uint64_t>& shape, Layout& layout) const;

  // Array -> array codecs that change values, which is those with a decode stage; see value_codec.h. Type of what
  // elements of `dtype` are encoded to.
  virtual DataType encoded_type(const DataType& dtype) const { return dtype; }
  // Whether each element is encoded by itself, so that their order does not matter to the codec.
  virtual bool elementwise() const noexcept { return true; }
  // Whether the axes of what it encodes to are those of what enters, in the order that resolve_layout tells. One that
  // gives others (reshape) keeps the order of elements and leaves the layout alone.
  virtual bool keeps_axes() const noexcept { return true; }
  // Told once, while a chain is made: the byte order in which the encoded elements are stored.
  virtual void set_stored_byte_order(bool big_endian) { (void)big_endian; }
  // Array codecs only. Told once, while a chain is made: the shape of what enters, for codecs that decode by axes.
  virtual void set_entering_shape(const std::vector<std::uint64_t>& shape) { (void)shape; }

  // Whether decode() has work to do. Array codecs that only describe a layout have none.
  virtual bool has_decode_stage() const noexcept { return kind() == Kind::kBytesToBytes; }

  // Array -> bytes codecs of elements of variable length, which decode to one VariableSlot an element
  // (variable_codec.h). Nothing but their streams tells how long those are.
  virtual bool variable_length() const noexcept { return false; }

  // Codecs with a decode stage only.
  // Most bytes that encoding n bytes can give in practice, from which buffers are sized; n exactly for codecs that
  // keep the size. A stream that is longer is refused before it is read.
  virtual std::uint64_t max_encoded_bytes(std::uint64_t decoded_bytes) const;
  // Decoded size of an encoded stream where the size alone tells (checksums, shuffles), else nothing.
  virtual bool fixed_size(std::uint64_t decoded_bytes, std::uint64_t& encoded_bytes) const;
  virtual std::unique_ptr<Scratch> make_scratch() const { return nullptr; }
  // Decodes each stream; statuses[i] tells how streams[i] went. Allocates nothing once `scratch` is warm.
  virtual void decode(std::span<Stream> streams, std::span<Status> statuses, Scratch* scratch) const;

  // One thread's encoder for this configuration. kUnsupported where there is none, naming what is missing.
  virtual Result<std::unique_ptr<Encoder>> make_encoder() const;

  // Codecs with a decode stage: what a device needs to know to do it. Fills in `codec` and `parameters` of a stage
  // whose sizes are set. False where no device has code for this configuration.
  virtual bool describe_for_device(device::DecodeStage& stage) const {
    (void)stage;
    return false;
  }
  // Whether that device code has use for decode indices (device/decode.h).
  virtual bool has_decode_index() const noexcept { return false; }
  // The index of an encoded stream, made by the CPU: what a device's first decode of it gives. Empty where none is of
  // use; kUnsupported where only a device makes them, kCorrupt for bytes that have none. Throws std::bad_alloc.
  virtual Result<std::vector<std::byte>> make_decode_index(std::span<const std::byte> encoded) const;
  bool has_device_code() const {
    device::DecodeStage stage;
    return describe_for_device(stage);
  }
};

// What is known of the array when a codec is made.
struct Context {
  const DataType* dtype = nullptr;  // type of the elements that enter the codec; null for bytes -> bytes in v2
  int zarr_format = 3;
  // Name under which the metadata asks for the codec, set by make_codec: "blosc" and "numcodecs.blosc" have different
  // configurations.
  std::string_view name = {};
};

// One row of the table of codecs compiled in (generated from codecs/).
struct CodecRow {
  const char* name;      // folder
  const char* v3_names;  // space separated, first is canonical: "zstd numcodecs.zstd"
  const char* v2_ids;    // space separated numcodecs ids, "" if none
  // `config` is the v3 "configuration" object (empty object if absent) or the v2 object less "id".
  Result<std::unique_ptr<Codec>> (*make)(const base::Json& config, const Context& context);
};

std::span<const CodecRow> codecs();

// kUnsupported naming the codec where no row has that name.
Result<std::unique_ptr<Codec>> make_codec(std::string_view name, const base::Json& config, const Context& context);

}  // namespace headrace::codec
