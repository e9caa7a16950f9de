// LibraryMemory: what a library asks for to decode one stream, kept by a thread's Scratch for the next one.
//
// For libraries that allocate for each stream and let the caller do it. Blocks are used again as they are, so decoding
// streams of one kind allocates nothing once warm; a kind that needs other sizes first lets go of all that is unused,
// so no more is held than the largest stream so far needed.
//
// Threads: one at a time. Owns: all blocks, until it is destroyed; whoever uses it must be gone by then.
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

  // Uninitialised memory, or null. Never throws, since C code is above it on the stack.
  void* take(std::size_t count, std::size_t size) noexcept;
  // REQUIRES: null, or what take() gave and nobody gave back.
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
