// LibraryMemory: the allocations of a library for decoding one stream, kept in a thread's Scratch for reuse.
//
// For libraries that allocate per stream through the caller's functions. Blocks are reused as they are, so decoding
// similar streams allocates nothing once warm. A stream that needs other sizes first frees all unused blocks, so memory
// stays at what the largest stream so far needed.
//
// Threads: one at a time. Owns: all blocks until destruction, so users of the blocks must be destroyed first.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace headrace::codec {

class LibraryMemory {
 public:
  LibraryMemory() = default;
  LibraryMemory(const LibraryMemory&) = delete;
  LibraryMemory& operator=(const LibraryMemory&) = delete;

  // Uninitialised memory, or null. Never throws, since C code is on the call stack.
  void* take(std::size_t count, std::size_t size) noexcept;
  // REQUIRES: null, or a block from take() that has not been given back.
  void give(void* data) noexcept;

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
    bool used = false;
  };
  std::vector<Block> blocks_;
};

}  // namespace headrace::codec
