// Array: one Zarr array, opened for reading. Store, Node: what contains it.
//
// Threads: every call from any thread; an Array is immutable once open.
#pragma once

#include <headrace/byte_store.h>
#include <headrace/cancel.h>
#include <headrace/context.h>
#include <headrace/device.h>
#include <headrace/dtype.h>
#include <headrace/export.h>
#include <headrace/open_options.h>
#include <headrace/selection.h>
#include <headrace/stats.h>
#include <headrace/status.h>
#include <headrace/variable.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace {

namespace store {
class Store;
}

class HEADRACE_API Store {
 public:
  // A path or "file:///path", also one that goes on inside a ZIP file ("/data/x.zip/group"; "zip:///data/x.zip/group"),
  // "memory://name", or "reference:///data/refs.json": a kerchunk reference file, which opens files below its
  // directory, or below the one that "?root=/data" behind it names, and no others.
  static Result<Store> open(const Context& context, std::string_view url);
  // Also "https://host/path", "s3://bucket/path" and the others of docs/guide/remote.md, as `options` say, which go
  // before the environment. They are copied, and in nothing that the store says. kInvalidArgument: an option that such
  // a store does not have, one that is given by two names with different values, or that has no value of its kind; any
  // option of a store of this machine.
  static Result<Store> open(const Context& context, std::string_view url, std::span<const StorageOption> options);
  // Storage of the caller's own (byte_store.h), kept alive until nobody uses it. kInvalidArgument for null.
  static Result<Store> open(const Context& context, std::shared_ptr<ByteStore> store);

  std::string url() const;  // safe to print
  // A whole object, kNotFound where there is none; kResourceExhausted above `limit` bytes.
  Result<std::vector<std::byte>> get(std::string_view key, std::uint64_t limit = std::uint64_t{1} << 30) const;
  // Creates or replaces an object. kUnsupported for stores that are read only.
  Status put(std::string_view key, std::span<const std::byte> bytes) const;
  // Whether the object is there, has at most `limit` bytes, and can be opened and read now without anybody waiting for
  // a disk or a network: local files in the page cache. False as well where the system does not tell, and for other
  // stores. For callers that may not be kept waiting, as an event loop; it does not wait itself.
  bool at_hand(std::string_view key, std::uint64_t limit) const;
  // What the store reads ranges of, for whoever wants bytes and not arrays: many at a time, and listings. That of a
  // remote store (with its cache, if it has one) or the caller's own; null where objects are files or memory. May
  // outlive the Store.
  std::shared_ptr<ByteStore> ranges() const;
  const Context& context() const noexcept { return context_; }

 private:
  friend struct Access;
  Store(Context context, std::shared_ptr<store::Store> impl) : context_(std::move(context)), impl_(std::move(impl)) {}
  Context context_;
  std::shared_ptr<store::Store> impl_;
};

// The caller's memory: how much of it there is, and what its elements are. Not owned; must stay valid until the read
// has completed.
//
// A read compares it with what it is about to write, before it reads anything: each element that shape and strides
// reach lies in the memory, and dtype is that of the read's elements (result_dtype()). Else kInvalidArgument.
struct TensorView {
  TensorView() = default;  // holds nothing: only an empty selection goes there
  // Elements of a C++ type (element_name()), in a std::vector, array or span. Element [0, 0, ...] is elements[first].
  template <std::ranges::contiguous_range Elements>
  requires(std::ranges::borrowed_range<Elements> && !element_name<std::ranges::range_value_t<Elements>>().empty())
      TensorView(Elements&& elements, std::vector<std::uint64_t> extents, std::vector<std::int64_t> strides = {},
                 std::size_t first = 0)
      : TensorView(std::as_writable_bytes(std::span(elements)),
                   numeric_type(element_name<std::ranges::range_value_t<Elements>>()), std::move(extents),
                   std::move(strides),
                   first > std::ranges::size(elements) ? ~std::size_t{0}
                                                       : first * sizeof(std::ranges::range_value_t<Elements>)) {}
  // Elements of any type, named as metadata (ArrayInfo::dtype) or numeric_type() name it.
  TensorView(std::span<std::byte> bytes, DataType type, std::vector<std::uint64_t> extents,
             std::vector<std::int64_t> strides = {}, std::size_t first = 0)
      : memory(bytes),
        first_byte(first),
        dtype(std::move(type)),
        shape(std::move(extents)),
        strides_bytes(std::move(strides)) {}
  TensorView(const Buffer& buffer, DataType type, std::vector<std::uint64_t> extents,
             std::vector<std::int64_t> strides = {}, std::size_t first = 0)
      : TensorView({buffer.data(), buffer.size_bytes()}, std::move(type), std::move(extents), std::move(strides),
                   first) {}

  std::span<std::byte> memory;              // on the read's device
  std::size_t first_byte = 0;               // of memory: where element [0, 0, ...] begins
  DataType dtype;                           // of the elements
  std::vector<std::uint64_t> shape;         // must equal the selection's shape
  std::vector<std::int64_t> strides_bytes;  // one per dimension, any value that keeps elements apart; empty: C order
};

// What `Array::info` tells, all of it from metadata.
struct ArrayInfo {
  int zarr_format = 0;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk_shape;  // smallest unit that is read and decoded (innermost chunk of a shard)
  std::vector<std::uint64_t> shard_shape;  // empty unless sharded
  // "regular", or "rectilinear": chunks differ in shape; chunk_shape is then the largest extent along each axis, and
  // what is read and decoded at a time is the whole stored chunk.
  std::string chunk_grid = "regular";
  DataType dtype;
  std::vector<std::optional<std::string>> dimension_names;
  std::vector<std::string> codecs;        // names in encoding order; inner codecs of a shard for sharded arrays
  std::vector<std::string> outer_codecs;  // sharded: the outer chain, and the inner shards of shards; else empty
  std::vector<bool> codec_on_gpu;         // for each of `codecs`: a GPU decoder exists
  std::string fill_text;                  // as written in the metadata
  std::vector<std::byte> fill;            // one element; none where elements of variable length are filled with ""
  std::string attributes_json;
  std::uint64_t decoded_bytes = 0;  // of the whole array; saturates at 2^64-1; 0 for elements of variable length
  std::uint64_t chunk_count = 0;    // of the grid of chunk_shape; saturates
  // What was let pass on opening, by OpenOptions::lenient: "endian-codec: codecs[0] is called 'endian'".
  std::vector<std::string> lenient_uses;
  // OpenOptions::index_directory: how much was loaded, or why nothing was.
  std::string decode_index;
};

// Who decodes chunks that are read to a device with decoders of its own.
enum class Placement : std::uint8_t {
  kAuto,  // whoever is faster, as measured on the waves of this array and of like ones; the device first
  kCpu,
  kGpu,  // kUnsupported, naming the codec, where the device has no decoder for the chain's last codec
};

// kAsRead: what a selection takes of a chunk may be all that is read and decoded of it (Stats::skipped_bytes), so that
// damage elsewhere in the chunk is not noticed. kWhole: each chunk is read and decoded as a whole.
enum class Verify : std::uint8_t { kAsRead, kWhole };

struct ReadOptions {
  void* native_stream = nullptr;  // the caller's stream (cudaStream_t): the read starts after what is queued there now
  // Called with progress about every 100 ms, from a worker thread or, in calls that block, the calling one; null:
  // never. Where it throws, the read stops: kCancelled, with what was thrown as the cause.
  std::function<void(std::uint64_t chunks_done, std::uint64_t chunks_total)> progress;
  // Keep going past chunks that cannot be read; they are listed and left untouched in the tensor.
  // On a device that decodes straight into the tensor, such a chunk's own place may hold part of it.
  bool collect_errors = false;
  Placement placement = Placement::kAuto;
  Verify verify = Verify::kAsRead;
  std::optional<Cancel> cancel;  // once it is asked, the read stops: kCancelled

  // Conversion on the way into the tensor, whose elements then have the type `dtype`. Arrays of bool, integers and
  // floats; anything else is kUnsupported before a byte is read.
  //
  // To a float: rounded once to nearest, ties to even; too large is infinity. To an integer: towards zero, as NumPy's
  // astype; what does not fit becomes the nearest end of the range, NaN becomes 0. The same bits on every device.
  std::string dtype;  // "float16", "bfloat16", "float32", "float64", "int8" to "uint64"; "": as stored
  // What a stored number x means is x * scale + offset (CF's scale_factor and add_offset), two operations in float32
  // where stored and wanted type both fit its 24 bits, else in float64. Finite. Integers need `dtype` named for this.
  double scale = 1, offset = 0;
  // Stored elements equal to the array's fill value, and chunks that are not stored, become NaN. `dtype` must be a
  // float. Without it, chunks that are not stored hold the fill value, scaled and converted like any element.
  bool fill_as_nan = false;
  // With fill_as_nan: one stored element, little-endian, that means NaN instead of the fill value (CF's _FillValue).
  // Chunks that are not stored are NaN only if the fill value equals it. Empty: the fill value.
  std::vector<std::byte> missing;
  // A chunk that is damaged (kCorrupt, kShort) does not end the read: its elements become NaN, and it is counted
  // (Stats::damaged_chunks). `dtype` must be a float.
  bool damage_as_nan = false;
};

// The type of the tensor's elements under these options. kInvalidArgument, kUnsupported: as a read with them would say.
HEADRACE_API Result<DataType> result_dtype(const DataType& stored, const ReadOptions& options);

// The outcome of a read that may still be running.
//
// Threads: any. Destroying it does not stop the read.
class HEADRACE_API Completion {
 public:
  // Blocks until the data is in place (device work included) and says how it went.
  Status wait() const;
  // Blocks until then, or until `timeout` has passed: done().
  bool wait_for(std::chrono::nanoseconds timeout) const;
  bool done() const;
  // Asks this read to stop, as ReadOptions::cancel does for all that it was given to; wait() then gives kCancelled
  // unless the read had already ended.
  void cancel() const;
  // REQUIRES: done.
  const Stats& stats() const;
  const std::vector<ChunkError>& errors() const;

  class State;

 private:
  friend struct Access;
  explicit Completion(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// One of several selections that are read together, and where its elements go.
struct ReadPart {
  Selection selection;
  TensorView tensor;  // no element of it is one of another part's
};

// What Array::stored_chunks gives.
struct StoredChunks {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> indices;  // one for each axis of the grid, one chunk behind the other, in C order
};

class HEADRACE_API Array {
 public:
  // `path` inside the store, "" for a store that is itself an array. kNotFound: no node; kInvalidArgument: a group, or
  // a path that no node can have. Reads the array's own metadata and lists nothing.
  static Result<Array> open(const Store& store, std::string_view path = "", const OpenOptions& options = {});

  // An array whose metadata the caller has: `document` is the text of its zarr.json (format 3) or .zarray (2). Nothing
  // is read; stored chunks are looked for at `path` inside the store. Attributes of format 2 are in no such document.
  static Result<Array> from_document(const Store& store, std::string_view path, int zarr_format,
                                     std::string_view document, const OpenOptions& options = {});

  const ArrayInfo& info() const noexcept;

  // What `selection` means for this array, before anything is read: shape of the result, elements. Blocks of a
  // selection are chunks of the array's grid, shards where it is sharded. Fails as resolve_selection() does.
  Result<ResolvedSelection> resolve(const Selection& selection) const;

  // The chunks (shards, where the array is sharded) that the store has an object for, found by listing it. For sparse
  // arrays: what is not among them is the fill value. Objects that no chunk is called are passed over. Fails where the
  // store cannot be listed, and with kResourceExhausted where the list takes more than the Context's
  // stored_budget_bytes.
  Result<StoredChunks> stored_chunks() const;

  // Starts reading `selection` into `tensor` on `device`. Elements arrive little-endian and packed, with any strides,
  // as stored or of the type that `options` ask for.
  Result<Completion> read_async(const Selection& selection, const TensorView& tensor, const Device& device,
                                const ReadOptions& options = {}) const;
  // The same, blocking, with the calling thread working along; *stats is set if given.
  Status read(const Selection& selection, const TensorView& tensor, const Device& device,
              const ReadOptions& options = {}, Stats* stats = nullptr) const;

  // Several selections planned together: each chunk is read and decoded once, however many of them touch it. Done when
  // all are; kInvalidArgument for no parts.
  Result<Completion> read_many_async(std::span<const ReadPart> parts, const Device& device,
                                     const ReadOptions& options = {}) const;
  Status read_many(std::span<const ReadPart> parts, const Device& device, const ReadOptions& options = {},
                   Stats* stats = nullptr) const;

  // Reads strings or byte strings of variable length to the host, blocking, with the Context's workers and the calling
  // thread. Workers read chunks themselves, through the page cache. Memory for decoding comes out of
  // ContextOptions::host_budget_bytes: the buffers of one chunk may take up to half of it.
  //
  // kInvalidArgument where elements have a size (read() is for those). kCorrupt for a chunk that breaks its format,
  // naming the element: a wrong count, a length beyond the end, bytes behind the last element, text that is not UTF-8.
  // kUnsupported where an element that is selected is no string (object codec json2). kResourceExhausted beyond
  // max_bytes, or where one chunk needs more than half of the host budget.
  Result<VariableResult> read_variable(const Selection& selection, const VariableReadOptions& options = {}) const;

  class Impl;

 private:
  friend struct Access;
  explicit Array(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// One node of a hierarchy.
struct Node {
  std::string path;  // "" for the root
  bool is_array = false;
  int zarr_format = 0;  // of the root, 0: a folder that is no node, with nodes of v3 below
  std::string attributes_json;
  std::optional<Array> array;  // arrays that could be opened
  Status status;               // why not, otherwise
};

// The node at `path` and everything under it, parents before children, siblings by name. Opens every array;
// Group::members tells shapes and types without.
HEADRACE_API Result<std::vector<Node>> list_nodes(const Store& store, std::string_view path = "",
                                                  const OpenOptions& options = {});

}  // namespace headrace
