// Decode indices on disk. An index records what the first decode of a chunk learns so that later decodes on a GPU are
// faster. Here the CPU builds indices ahead of time and saves them in a separate directory. Stores are
// never written to.
//
// The decode that uses an index verifies it. An index of other bytes, or a forged one, costs time but never changes an
// element. So index files need neither trust nor synchronisation: an index that does not match is replaced.
#pragma once

#include <headrace/array.h>
#include <headrace/cancel.h>
#include <headrace/export.h>
#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace headrace {

struct DecodeIndexReport {
  std::string codec;          // the codec that the indices are for
  std::string file;           // file name in the directory
  std::uint64_t chunks = 0;   // stored chunks
  std::uint64_t indexed = 0;  // chunks with an index
  std::uint64_t small = 0;    // chunks too small to need one
  std::uint64_t without = 0;  // chunks that cannot have one: damaged, or not decodable on a GPU
  std::uint64_t stale = 0;    // check: saved, but not for the present bytes of the chunk
  std::uint64_t missing = 0;  // check: not saved
  std::uint64_t index_bytes = 0, file_bytes = 0;
  std::uint64_t stored_bytes = 0, decoded_bytes = 0;  // of all stored chunks
};

struct DecodeIndexOptions {
  // Called as ReadOptions::progress is, and once at the end. If it throws, the work stops with kCancelled and the
  // exception's text as the cause.
  std::function<void(std::uint64_t chunks_done, std::uint64_t chunks_total)> progress;
  std::optional<Cancel> cancel;  // once asked, the work stops with kCancelled and nothing is saved
};

// Builds the indices of all chunks on the CPU, with the Context's number of threads, and saves them in `directory`,
// which is created if needed. kUnsupported if no GPU decoder of the array's codecs has indices that the CPU can build:
// Zstandard's has; indices for Blosc are built only by GPUs.
HEADRACE_API Result<DecodeIndexReport> build_decode_index(const Array& array, const std::string& directory,
                                                          const DecodeIndexOptions& options = {});
// Rebuilds the indices and compares them with the saved ones. kNotFound, kCorrupt: there is no usable file.
HEADRACE_API Result<DecodeIndexReport> check_decode_index(const Array& array, const std::string& directory,
                                                          const DecodeIndexOptions& options = {});

}  // namespace headrace
