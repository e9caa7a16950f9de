// Parses the .xz container without liblzma's stream decoder, because that allocates the dictionary that a header
// declares, up to 4 GiB. No match reaches back further than the output, so no larger dictionary is needed.
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

// The dictionary size to allocate: at most `asked`, and at most what the stream's output needs.
std::uint32_t enough_dictionary(std::uint32_t asked, const EncodedStream& stream) noexcept;

// Runs the initialised `scratch.coder` to its end. Reads from stream.src + at and moves `at` past the input; writes to
// stream.dst + stream.dst_bytes. `what` is for messages.
Status run_lzma_coder(const char* what, EncodedStream& stream, std::size_t& at, LzmaScratch& scratch);

// The status for an error code that a liblzma function returned for the bytes at `at`.
Status lzma_failure(lzma_ret result, const char* what, std::size_t at, const EncodedStream& stream) noexcept;

// Decodes one .xz stream at `at`, and the padding after it. ["The .xz File Format" 1.2.1, section 2]
Status decode_xz(EncodedStream& stream, std::size_t& at, LzmaScratch& scratch);

}  // namespace headrace::codec
