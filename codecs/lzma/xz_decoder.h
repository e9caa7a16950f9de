// The .xz container, taken apart here and not by liblzma's own stream decoder: that one allocates the dictionary that a
// header asks for, up to 4 GiB. No match reaches back further than the output, so none needs to be larger.
#pragma once

#include <lzma.h>

#include "codec/codec.h"
#include "codec/library_memory.h"

namespace headrace::codec {

struct LzmaScratch final : Scratch {
  LzmaScratch();
  ~LzmaScratch() override;
  LzmaScratch(const LzmaScratch&) = delete;
  LzmaScratch& operator=(const LzmaScratch&) = delete;

  LibraryMemory memory;
  lzma_allocator allocator{};
  lzma_stream coder = LZMA_STREAM_INIT;
  lzma_index_hash* index = nullptr;
};

// The dictionary such a stream needs at most, of the `asked` bytes.
std::uint32_t enough_dictionary(std::uint32_t asked, const EncodedStream& stream) noexcept;

// Runs `scratch.coder`, which has been initialised, to its end: from stream.src + at, which becomes the end of what it
// took, to stream.dst + stream.dst_bytes. `what` is for messages.
Status run_lzma_coder(const char* what, EncodedStream& stream, std::size_t& at, LzmaScratch& scratch);

// What one of liblzma's functions said about the bytes at `at`.
Status lzma_failure(lzma_ret result, const char* what, std::size_t at, const EncodedStream& stream) noexcept;

// One .xz stream at `at`, and the padding behind it. ["The .xz File Format" 1.2.1, section 2]
Status decode_xz(EncodedStream& stream, std::size_t& at, LzmaScratch& scratch);

}  // namespace headrace::codec
