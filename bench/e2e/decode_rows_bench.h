// The rows that decode_bench measures, and its command-line options.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "decode_data_bench.h"

namespace headrace::bench {

struct DecodeOptions {
  std::string data, nvcomp, only = ".", commit = "unknown";
  int repeat = 5;
  std::size_t total_mib = 1024, distinct_mib = 128;
  double slow_ms = 300;  // slower rows are repeated only once
  bool packed = false, streaming = false, libdeflate = false, list = false;
};

// Ends the program with a message for an unknown argument or a missing value. `command` receives the command line.
DecodeOptions parse_decode_options(int argc, char** argv, std::string& command);

struct Row {
  std::string codec;  // lz4, zstd, gzip or zlib; blosc-lz4 or blosc-zstd: Blosc containers of such streams
  Filter filter = Filter::kNone;
  std::string values;  // era5, round, random
  std::size_t chunk_bytes = 0, chunks = 0;
  bool index = false;  // decoded with the index collected by a first decode
  std::string name() const;
};

// The rows whose names match `options.only`.
std::vector<Row> chosen_rows(const DecodeOptions& options);

}  // namespace headrace::bench
