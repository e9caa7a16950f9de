// Array: one Zarr array, opened for reading. Store and Node: what contains it.
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
  // Opens a store on this machine: a path or "file:///path", which may continue inside a ZIP file ("/data/x.zip/group",
  // "zip:///data/x.zip/group"); "memory://name"; or "reference:///data/refs.json", a kerchunk reference file. A
  // reference file may refer only to files below its own directory, or below the directory that an appended
  // "?root=/data" names.
  static Result<Store> open(const Context& context, std::string_view url);
  // Also opens "https://host/path", "s3://bucket/path" and the other URLs in docs/guide/remote.md. `options` override
  // the environment. They are copied, and no message or report of the store shows them. kInvalidArgument: an option
  // that this kind of store does not have (a local store has none), an option given under two names with different
  // values, or an invalid value.
  static Result<Store> open(const Context& context, std::string_view url, std::span<const StorageOption> options);
  // A store implemented by the caller (byte_store.h), kept alive until nothing uses it. kInvalidArgument for null.
  static Result<Store> open(const Context& context, std::shared_ptr<ByteStore> store);

  std::string url() const;  // safe to print: contains no secrets
  // Reads a whole object. kNotFound if there is none; kResourceExhausted if it exceeds `limit` bytes.
  Result<std::vector<std::byte>> get(std::string_view key, std::uint64_t limit = std::uint64_t{1} << 30) const;
  // Creates or replaces an object. kUnsupported for read-only stores.
  Status put(std::string_view key, std::span<const std::byte> bytes) const;
  // Whether get(key, limit) would succeed now without waiting for a disk or network: the object exists, has at most
  // `limit` bytes, and is a local file in the page cache. False if the system does not report residency, and for other
  // stores. Never blocks; for event loops.
  bool at_hand(std::string_view key, std::uint64_t limit) const;
  // The underlying range reader of a remote store (with its cache, if any) or of the caller's own store, for programs
  // that want bytes rather than arrays: concurrent range reads and listings. Null for stores whose objects are files or
  // memory. May outlive the Store.
  std::shared_ptr<ByteStore> ranges() const;
  const Context& context() const noexcept { return context_; }

 private:
  friend struct Access;
  Store(Context context, std::shared_ptr<store::Store> impl) : context_(std::move(context)), impl_(std::move(impl)) {}
  Context context_;
  std::shared_ptr<store::Store> impl_;
};

// A view of the caller's memory as a tensor: its bounds and the type of its elements. Not owned; it must stay valid
// until the read has completed.
//
// A read validates the view before it reads anything: every element that shape and strides reach must lie in the
// memory, and dtype must be the type of the read's elements (result_dtype()). Otherwise kInvalidArgument.
struct TensorView {
  TensorView() = default;  // holds nothing; accepts only an empty selection
  // Elements of a C++ type (element_name()) in a std::vector, array or span. elements[first] is element [0, 0, ...].
  template <std::ranges::contiguous_range Elements>
  requires(std::ranges::borrowed_range<Elements> && !element_name<std::ranges::range_value_t<Elements>>().empty())
      TensorView(Elements&& elements, std::vector<std::uint64_t> extents, std::vector<std::int64_t> strides = {},
                 std::size_t first = 0)
      : TensorView(std::as_writable_bytes(std::span(elements)),
                   numeric_type(element_name<std::ranges::range_value_t<Elements>>()), std::move(extents),
                   std::move(strides),
                   first > std::ranges::size(elements) ? ~std::size_t{0}
                                                       : first * sizeof(std::ranges::range_value_t<Elements>)) {}
  // Elements of any type, as given by metadata (ArrayInfo::dtype) or numeric_type().
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
  std::size_t first_byte = 0;               // offset in `memory` of element [0, 0, ...]
  DataType dtype;                           // of the elements
  std::vector<std::uint64_t> shape;         // must equal the selection's shape
  std::vector<std::int64_t> strides_bytes;  // one per dimension, elements must not overlap; empty: C order
};

// What Array::info returns. All of it comes from metadata.
struct ArrayInfo {
  int zarr_format = 0;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> chunk_shape;  // smallest unit of reading and decoding (innermost chunk of a shard)
  std::vector<std::uint64_t> shard_shape;  // empty unless sharded
  // "regular", or "rectilinear": chunks differ in shape. chunk_shape is then the largest extent along each axis, and
  // the unit of reading and decoding is the whole stored chunk.
  std::string chunk_grid = "regular";
  DataType dtype;
  std::vector<std::optional<std::string>> dimension_names;
  std::vector<std::string> codecs;        // names in encoding order; for a sharded array, the inner codecs
  std::vector<std::string> outer_codecs;  // sharded: the outer chain, and those of nested shards; otherwise empty
  std::vector<bool> codec_on_gpu;         // for each of `codecs`: a GPU decoder exists
  std::string fill_text;                  // as written in the metadata
  std::vector<std::byte> fill;            // one element; empty if elements have variable length and the fill is ""
  std::string attributes_json;
  std::uint64_t decoded_bytes = 0;  // of the whole array; saturates at 2^64-1; 0 for variable-length elements
  std::uint64_t chunk_count = 0;    // chunks in the grid of chunk_shape; saturates
  // Deviations accepted on opening (OpenOptions::lenient): "endian-codec: codecs[0] is called 'endian'".
  std::vector<std::string> lenient_uses;
  // OpenOptions::index_directory: how much was loaded, or why nothing was.
  std::string decode_index;
};

// Which processor decodes chunks, on a device that has decoders.
enum class Placement : std::uint8_t {
  kAuto,  // the faster one, as measured on the waves of this array and similar ones; starts with the device
  kCpu,
  kGpu,  // kUnsupported, naming the codec, if the device has no decoder for the last codec of the chain
};

// How much of a partly selected chunk is checked. kAsRead: only the selected part of a chunk may be read and decoded
// (Stats::skipped_bytes), so damage elsewhere in the chunk goes unnoticed. kWhole: each chunk is read
// and decoded whole.
enum class Verify : std::uint8_t { kAsRead, kWhole };

struct ReadOptions {
  void* native_stream = nullptr;  // the caller's stream (cudaStream_t): the read starts after the work queued there now
  // Called about every 100 ms with progress, from a worker thread or, in blocking calls, the calling thread; null:
  // never. If it throws, the read stops with kCancelled and the exception's text as the cause.
  std::function<void(std::uint64_t chunks_done, std::uint64_t chunks_total)> progress;
  // Continue past chunks that cannot be read. Such chunks are listed in Completion::errors(), and their elements keep
  // their old values. On a device that decodes straight into the tensor, they may be partly overwritten.
  bool collect_errors = false;
  Placement placement = Placement::kAuto;
  Verify verify = Verify::kAsRead;
  std::optional<Cancel> cancel;  // once asked, the read stops with kCancelled

  // Conversion on the way into the tensor, whose elements then have the type `dtype`. For arrays of bool, integers and
  // floats; other types fail with kUnsupported before anything is read.
  //
  // To a float: rounded once, to nearest, ties to even; overflow becomes infinity. To an integer: truncated towards
  // zero, as NumPy's astype; values out of range saturate and NaN becomes 0. Results are bit-identical on every device.
  std::string dtype;  // "float16", "bfloat16", "float32", "float64", "int8" to "uint64"; "": as stored
  // The value of a stored number x is x * scale + offset (CF's scale_factor and add_offset): two operations, in float32
  // if the stored and the resulting type both fit its 24-bit significand, else in float64. Both must be finite. An
  // integer result requires an explicit `dtype`.
  double scale = 1, offset = 0;
  // Stored elements equal to the array's fill value, and absent chunks, become NaN. `dtype` must be a float. If false,
  // absent chunks hold the fill value, scaled and converted like any element.
  bool fill_as_nan = false;
  // With fill_as_nan: one stored element, little-endian, that means NaN in place of the fill value (CF's _FillValue).
  // Absent chunks then become NaN only if the fill value equals it. Empty: the fill value.
  std::vector<std::byte> missing;
  // A damaged chunk (kCorrupt, kShort) does not end the read: its elements become NaN and it is counted in
  // Stats::damaged_chunks. `dtype` must be a float.
  bool damage_as_nan = false;
};

// The element type of the result of a read with these options. kInvalidArgument, kUnsupported: as for the read itself.
HEADRACE_API Result<DataType> result_dtype(const DataType& stored, const ReadOptions& options);

// Handle of a read that may still be running.
//
// Threads: any. Destroying the handle does not stop the read.
class HEADRACE_API Completion {
 public:
  // Blocks until the data is in place, including device work, and returns the read's status.
  Status wait() const;
  // Blocks until the read is done or `timeout` has passed; returns done().
  bool wait_for(std::chrono::nanoseconds timeout) const;
  bool done() const;
  // Stops this read, as ReadOptions::cancel stops all reads that share the token. wait() then gives kCancelled unless
  // the read had already ended.
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

// One of several selections that are read together, and its destination.
struct ReadPart {
  Selection selection;
  TensorView tensor;  // must not share elements with the tensor of another part
};

// Result of Array::stored_chunks().
struct StoredChunks {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> indices;  // grid indices, one per axis for each chunk; chunks in C order
};

class HEADRACE_API Array {
 public:
  // `path` inside the store; "" for a store whose root is an array. kNotFound: no node; kInvalidArgument: a group, or a
  // path that no node can have. Reads only the array's own metadata and lists nothing.
  static Result<Array> open(const Store& store, std::string_view path = "", const OpenOptions& options = {});

  // An array whose metadata the caller has. `document` is the text of its zarr.json (format 3) or .zarray (format 2).
  // Nothing is read; chunks are later looked up at `path` inside the store. A .zarray has no attributes.
  static Result<Array> from_document(const Store& store, std::string_view path, int zarr_format,
                                     std::string_view document, const OpenOptions& options = {});

  const ArrayInfo& info() const noexcept;

  // Resolves `selection` for this array without reading: shape of the result, elements. Block items count chunks of the
  // array's grid, or shards if it is sharded. Fails as resolve_selection() does.
  Result<ResolvedSelection> resolve(const Selection& selection) const;

  // The chunks (shards, if the array is sharded) for which the store has an object, found by listing the store. For
  // sparse arrays: all other chunks consist of the fill value. Objects whose names are no chunk keys are ignored. Fails
  // if the store cannot be listed, and with kResourceExhausted if the list exceeds the Context's stored_budget_bytes.
  Result<StoredChunks> stored_chunks() const;

  // Starts reading `selection` into `tensor` on `device`. Elements are little-endian and packed, laid out by the
  // tensor's strides, in the stored type or the one that `options` ask for.
  Result<Completion> read_async(const Selection& selection, const TensorView& tensor, const Device& device,
                                const ReadOptions& options = {}) const;
  // Blocking version; the calling thread works too. Sets *stats if it is not null.
  Status read(const Selection& selection, const TensorView& tensor, const Device& device,
              const ReadOptions& options = {}, Stats* stats = nullptr) const;

  // Reads several selections as one: each chunk is read and decoded once, however many selections touch it. Completes
  // when all of them are done. kInvalidArgument if there are no parts.
  Result<Completion> read_many_async(std::span<const ReadPart> parts, const Device& device,
                                     const ReadOptions& options = {}) const;
  Status read_many(std::span<const ReadPart> parts, const Device& device, const ReadOptions& options = {},
                   Stats* stats = nullptr) const;

  // Reads strings or byte strings of variable length to the host. Blocks; the Context's workers and the calling thread
  // read chunks through the page cache. Memory for decoding comes from ContextOptions::host_budget_bytes: the buffers
  // of one chunk may take up to half of it.
  //
  // kInvalidArgument: elements have a fixed size (use read()). kCorrupt: a chunk breaks its format; the message names
  // the element: wrong count, length beyond the end, bytes after the last element, text that is not UTF-8.
  // kUnsupported: a selected element is not a string (object codec json2). kResourceExhausted: the result exceeds
  // max_bytes, or one chunk needs more than half of the host budget.
  Result<VariableResult> read_variable(const Selection& selection, const VariableReadOptions& options = {}) const;

  class Impl;

 private:
  friend struct Access;
  explicit Array(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// One node of a hierarchy, as list_nodes() returns it.
struct Node {
  std::string path;  // "" for the root
  bool is_array = false;
  int zarr_format = 0;  // 0 for a root folder that is not itself a node but has v3 nodes below it
  std::string attributes_json;
  std::optional<Array> array;  // set for arrays that could be opened
  Status status;               // otherwise, why the array could not be opened
};

// The node at `path` and everything below it: parents before children, siblings by name. Opens every array;
// Group::members returns shapes and types without opening them.
HEADRACE_API Result<std::vector<Node>> list_nodes(const Store& store, std::string_view path = "",
                                                  const OpenOptions& options = {});

}  // namespace headrace
