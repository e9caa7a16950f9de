// Decode indices on disk: what the first decode of a chunk notes so that the next ones take a GPU less time, made ahead
// by the CPU and kept in a directory of their own. Stores are never written to.
//
// An index is verified by the decode that uses it: one of other bytes, or made to mislead, costs time and changes no
// element. So nothing has to be trusted and nothing be kept in step: what does not fit is collected anew.
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
  std::string codec;          // whose indices they are
  std::string file;           // in the directory
  std::uint64_t chunks = 0;   // stored ones
  std::uint64_t indexed = 0;  // that have an index
  std::uint64_t small = 0;    // that need none
  std::uint64_t without = 0;  // whose bytes have none: damaged, or not to be decoded on a GPU
  std::uint64_t stale = 0;    // check: saved, and not of the chunk as it is
  std::uint64_t missing = 0;  // check: not saved
  std::uint64_t index_bytes = 0, file_bytes = 0;
  std::uint64_t stored_bytes = 0, decoded_bytes = 0;  // of all stored chunks
};

struct DecodeIndexOptions {
  // Called as ReadOptions::progress is, and once all is done. Where it throws, the work stops: kCancelled, with what
  // was thrown as the cause.
  std::function<void(std::uint64_t chunks_done, std::uint64_t chunks_total)> progress;
  std::optional<Cancel> cancel;  // once it is asked, the work stops: kCancelled, and nothing is saved
};

// Makes the indices of all chunks and saves them in `directory`, which is made if need be. With the Context's number of
// threads, on the CPU. kUnsupported where no GPU decoder of the array's codecs has indices that the CPU makes
// (Zstandard has; Blosc's are collected by GPUs alone).
HEADRACE_API Result<DecodeIndexReport> build_decode_index(const Array& array, const std::string& directory,
                                                          const DecodeIndexOptions& options = {});
// Makes them again and compares with those saved. kNotFound, kCorrupt: there is no file that could be used.
HEADRACE_API Result<DecodeIndexReport> check_decode_index(const Array& array, const std::string& directory,
                                                          const DecodeIndexOptions& options = {});

}  // namespace headrace
