// ArrayWriter: writes a new Zarr array, one stored object at a time.
//
// An object is the content of one key: a chunk, or a shard of chunks. finish() stores the array's metadata document
// after everything else, so readers never find a half-written array.
//
// Threads: make_worker() and finish() from any thread. A Worker belongs to one thread; several may write concurrently.
// Fails:   kCorrupt or kUnsupported for a document that headrace would not read, kUnsupported for a codec without an
//          encoder, kIo and kPermission if the store cannot be written. A failed write leaves an
//          existing object unchanged.
#pragma once

#include <headrace/array.h>
#include <headrace/export.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace headrace {

class HEADRACE_API ArrayWriter {
 public:
  // Fills in the elements of one chunk. `chunk` is its position in the grid of info().chunk_shape. `elements` has room
  // for a whole chunk (C order, little-endian, packed) and arrives with arbitrary content. Elements outside the array
  // are stored too, but never read. An exception becomes kCancelled.
  using FillChunk = std::function<Status(std::span<const std::uint64_t> chunk, std::span<std::byte> elements)>;

  // `document` is the text of zarr.json (format 3) or .zarray (format 2). `path` is the array's place in the store, ""
  // for its root.
  static Result<ArrayWriter> create(const Store& store, std::string_view path, int zarr_format,
                                    std::string_view document);

  const ArrayInfo& info() const noexcept;
  // Objects in the whole array, numbered in C order.
  std::uint64_t object_count() const noexcept;

  class HEADRACE_API Worker {
   public:
    Worker(Worker&&) noexcept;
    Worker& operator=(Worker&&) noexcept;
    ~Worker();
    // Encodes and stores one object, calling `fill` for each of its chunks, and creates or replaces it in the store.
    // Returns the bytes stored. REQUIRES: object < object_count().
    Result<std::uint64_t> write(std::uint64_t object, const FillChunk& fill);

   private:
    friend class ArrayWriter;
    class Impl;
    explicit Worker(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
  };
  // Allocates one thread's buffers and encoders: about three chunks plus a shard as stored.
  Result<Worker> make_worker() const;

  // Stores the document, which makes the array visible to readers.
  Status finish() const;

 private:
  class Impl;
  explicit ArrayWriter(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace headrace
