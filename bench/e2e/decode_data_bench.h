// What decode_bench decodes: values, how they are cut into chunks, and the chunks encoded by the reference libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headrace::bench {

using Bytes = std::vector<std::byte>;

// Ends the program, saying why.
[[noreturn]] void die(const std::string& what);

// Calls work(i) once for each i < count, on all processors, in no order.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

// `bytes` of float32 fields: the start of the raw little-endian file `path`, or, where that is empty, of fields like a
// reanalysis that are made here. `origin` says which. Ends the process where the file is too short.
Bytes load_fields(const std::string& path, std::size_t bytes, std::string& origin);
// Mantissas of float32 rounded to `keep` bits, ties to even.
void round_mantissas(Bytes& values, int keep);
Bytes random_bytes(std::size_t bytes);

// Chunks one behind the other, plain and encoded.
struct EncodedChunks {
  std::size_t chunk_bytes = 0;  // decoded, each
  Bytes plain;
  Bytes encoded;
  std::vector<std::uint64_t> offset, bytes;  // of each chunk in `encoded`
  std::string library;                       // "liblz4 1.9.4", with what it was asked for

  std::size_t count() const { return offset.size(); }
};

enum class Filter { kNone, kShuffle, kBitshuffle };
const char* filter_text(Filter filter);

// As numcodecs' lz4 writes them: the size in 4 bytes, then one block. kShuffle transposes each chunk's bytes first, for
// elements of 4 bytes, and `plain` is what was transposed. `streaming` uses liblz4's streaming call, as Python's lz4
// does: up to 64 KiB its matches differ, since the one-shot call has another hash table there.
EncodedChunks encode_lz4(const Bytes& values, std::size_t chunk_bytes, Filter filter, bool streaming);
// zstd frames by libzstd, level 3, with kShuffle as above.
EncodedChunks encode_zstd(const Bytes& values, std::size_t chunk_bytes, Filter filter);
// gzip's and zlib's streams, level 6, with kShuffle as above. By zlib, as Python's modules and numcodecs write them; by
// libdeflate, whose blocks are larger, if `libdeflate`.
EncodedChunks encode_deflate(const Bytes& values, std::size_t chunk_bytes, Filter filter, bool gzip, bool libdeflate);
// Blosc1 containers by c-blosc: level 5, elements of 4 bytes, its own block size. `inner`: "lz4" or "zstd".
EncodedChunks encode_blosc(const Bytes& values, std::size_t chunk_bytes, Filter filter, const std::string& inner);
// The streams inside such containers, each as a chunk of encode_lz4() or encode_zstd(); what is stored there becomes a
// block of literals, or a frame of its own. Only those of the most common size, which are all but the last blocks'.
EncodedChunks bare_streams(const EncodedChunks& containers, const std::string& inner);

}  // namespace headrace::bench
