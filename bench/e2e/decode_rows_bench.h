// What decode_bench measures, and how it is asked for that.
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
  double slow_ms = 300;  // repeated once instead
  bool packed = false, streaming = false, libdeflate = false, list = false;
};

// Ends the process, naming it, where an argument is unknown or has no value. `command` is what was typed.
DecodeOptions parse_decode_options(int argc, char** argv, std::string& command);

struct Row {
  std::string codec;  // lz4, zstd, gzip or zlib; blosc-lz4 or blosc-zstd: containers of such streams
  Filter filter = Filter::kNone;
  std::string values;  // era5, round, random
  std::size_t chunk_bytes = 0, chunks = 0;
  bool index = false;  // decoded with the index that a first decode has collected
  std::string name() const;
};

// Those whose names `options.only` matches.
std::vector<Row> chosen_rows(const DecodeOptions& options);

}  // namespace headrace::bench
