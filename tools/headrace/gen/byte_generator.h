// Generates plain files for I/O benchmarks: one large file, or many small ones.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <string>

#include "gen/field_source.h"

namespace headrace::cli {

enum class ByteContent {
  kRandom,  // incompressible
  kField,   // consecutive float32 fields of 721 x 1440
};

using ByteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// Fills the empty file `fd` with bytes [0, size_bytes) of the content. Allocates the space first, so that a full disk
// is detected before anything is written.
Status generate_file(int fd, std::uint64_t size_bytes, ByteContent content, const FieldSource& source, unsigned threads,
                     const ByteProgress& progress);

// Creates files 00000000, 00000001, ... of size_bytes each in `directory`. File i holds the content from byte
// i * round_up(size_bytes, 8) on.
Status generate_files(const std::string& directory, std::uint64_t count, std::uint64_t size_bytes, ByteContent content,
                      const FieldSource& source, unsigned threads, const ByteProgress& progress);

// The name of file `index`.
std::string generated_file_name(std::uint64_t index);

}  // namespace headrace::cli
