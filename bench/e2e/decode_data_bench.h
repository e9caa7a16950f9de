// Test data of decode_bench: values, their division into chunks, and the chunks encoded by the reference libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headrace::bench {

using Bytes = std::vector<std::byte>;

// Ends the program with a message.
[[noreturn]] void die(const std::string& what);

// Calls work(i) once for each i < count, on all processors, in any order.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

// `bytes` of float32 fields: the start of the raw little-endian file `path`, or, if that is empty, synthetic fields
// like a reanalysis. `origin` receives a description. Ends the program if the file is too short.
Bytes load_fields(const std::string& path, std::size_t bytes, std::string& origin);
// Rounds the mantissas of float32 values to `keep` bits, ties to even.
void round_mantissas(Bytes& values, int keep);
Bytes random_bytes(std::size_t bytes);

// Contiguous chunks, plain and encoded.
struct EncodedChunks {
  std::size_t chunk_bytes = 0;  // decoded size of each
  Bytes plain;
  Bytes encoded;
  std::vector<std::uint64_t> offset, bytes;  // of each chunk in `encoded`
  std::string library;                       // "liblz4 1.9.4", with its parameters

  std::size_t count() const { return offset.size(); }
};

enum class Filter { kNone, kShuffle, kBitshuffle };
const char* filter_text(Filter filter);

// As numcodecs' lz4 writes: the size in 4 bytes, then one block. kShuffle first transposes each chunk's bytes for
// elements of 4 bytes; `plain` is then the transposed data. `streaming` uses liblz4's streaming call, as Python's lz4
// does: up to 64 KiB its matches differ, since the one-shot call uses another hash table there.
EncodedChunks encode_lz4(const Bytes& values, std::size_t chunk_bytes, Filter filter, bool streaming);
// zstd frames by libzstd, level 3; kShuffle as above.
EncodedChunks encode_zstd(const Bytes& values, std::size_t chunk_bytes, Filter filter);
// gzip or zlib streams, level 6; kShuffle as above. Written by zlib, as by Python's modules and numcodecs, or, if
// `libdeflate`, by libdeflate, whose blocks are larger.
EncodedChunks encode_deflate(const Bytes& values, std::size_t chunk_bytes, Filter filter, bool gzip, bool libdeflate);
// Checksummed chunks (crc32c, crc32, adler32, fletcher32) by the library's own encoder, with kShuffle as above.
EncodedChunks encode_by_codec(const Bytes& values, std::size_t chunk_bytes, Filter filter, const std::string& name);
// Blosc1 containers by c-blosc: level 5, elements of 4 bytes, its default block size. `inner`: "lz4" or "zstd".
EncodedChunks encode_blosc(const Bytes& values, std::size_t chunk_bytes, Filter filter, const std::string& inner);
// Whichever of these `codec` names. `streaming`: see encode_lz4(). `libdeflate`: see encode_deflate().
EncodedChunks encode(const std::string& codec, const Bytes& values, std::size_t chunk_bytes, Filter filter,
                     bool streaming, bool libdeflate);
// The streams inside Blosc containers, each as a chunk of encode_lz4() or encode_zstd(). A stored stream becomes a
// block of literals, or a zstd frame. Only streams of the most common size are used: all but those of the last blocks.
EncodedChunks bare_streams(const EncodedChunks& containers, const std::string& inner);

}  // namespace headrace::bench
