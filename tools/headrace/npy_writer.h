// NumPy's .npy header for a C-order array.
#pragma once

#include <headrace/dtype.h>

#include <cstdint>
#include <span>
#include <string>

namespace headrace::cli {

// The element type as NumPy's descr: "'<f4'", "'<M8[ns]'", "[('a', '<i4'), ('b', '|S3', (2,))]".
std::string npy_descr(const DataType& dtype);

// Magic, version and header, padded to a multiple of 64 bytes. Version 1.0 if possible; 2.0 if the header is longer
// than 65,535 bytes, 3.0 if a field name needs UTF-8.
std::string npy_header(const DataType& dtype, std::span<const std::uint64_t> shape);

}  // namespace headrace::cli
