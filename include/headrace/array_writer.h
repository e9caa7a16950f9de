// ArrayWriter: writes one new Zarr array, one stored object after the other.
//
// An object is what one key holds: a chunk, or a shard of chunks. The array is described by its metadata document,
// which finish() stores, after everything else: a reader never finds an array whose writing stopped half-way.
//
// Threads: make_worker() and finish() from any thread; a Worker is one thread's, and several write at the same time.
// Fails:   kCorrupt or kUnsupported for a document that headrace would not read, kUnsupported for a codec without an
//          encoder, kIo and kPermission where the store cannot be written. A failed write leaves the object it would
//          have replaced.
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
  // Fills in the elements of one chunk: `chunk` is its position in the grid of info().chunk_shape, `elements` has room
  // for a whole chunk, C order, little-endian, packed, with old bytes in it. What lies outside the array is stored too,
  // but never read. What it throws becomes kCancelled.
  using FillChunk = std::function<Status(std::span<const std::uint64_t> chunk, std::span<std::byte> elements)>;

  // `document` is the text of zarr.json (format 3) or .zarray (2); `path` is the array's place in the store, "" for its
  // root.
  static Result<ArrayWriter> create(const Store& store, std::string_view path, int zarr_format,
                                    std::string_view document);

  const ArrayInfo& info() const noexcept;
  // Objects in the whole array; they are numbered in C order.
  std::uint64_t object_count() const noexcept;

  class HEADRACE_API Worker {
   public:
    Worker(Worker&&) noexcept;
    Worker& operator=(Worker&&) noexcept;
    ~Worker();
    // Encodes and stores one object, created or replaced, after asking `fill` for each of its chunks. Gives the bytes
    // stored. REQUIRES: object < object_count().
    Result<std::uint64_t> write(std::uint64_t object, const FillChunk& fill);

   private:
    friend class ArrayWriter;
    class Impl;
    explicit Worker(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
  };
  // One thread's buffers and encoders: about three chunks, and a shard as stored.
  Result<Worker> make_worker() const;

  // Stores the document: from now on the array is there.
  Status finish() const;

 private:
  class Impl;
  explicit ArrayWriter(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace headrace
