#include "decode_rows_bench.h"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <utility>

namespace headrace::bench {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<Row> all_rows(const DecodeOptions& options) {
  const std::size_t total = options.total_mib * kMiB;
  std::vector<Row> rows;
  const std::pair<Filter, const char*> kinds[] = {
      {Filter::kShuffle, "era5"}, {Filter::kNone, "era5"}, {Filter::kShuffle, "round"}, {Filter::kNone, "random"}};
  for (const auto& [filter, values] : kinds) {
    for (const char* codec : {"lz4", "zstd", "gzip", "zlib"}) {
      for (const std::size_t bytes : {16 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 8 * kMiB, 64 * kMiB}) {
        if (bytes <= total) rows.push_back({codec, filter, values, bytes, total / bytes});
      }
      for (const std::size_t bytes : {64 * kKiB, kMiB, 8 * kMiB, 64 * kMiB}) {
        rows.push_back({codec, filter, values, bytes, 1});
      }
      if (codec != std::string("zstd") || values == std::string("random")) continue;
      if (4 * kMiB <= total) rows.push_back({codec, filter, values, 4 * kMiB, total / (4 * kMiB)});
      for (const std::size_t bytes : {64 * kKiB, kMiB, 8 * kMiB, 64 * kMiB}) {
        if (bytes <= total) rows.push_back({codec, filter, values, bytes, total / bytes, true});
      }
      for (const std::size_t bytes : {kMiB, 8 * kMiB, 64 * kMiB}) {
        rows.push_back({codec, filter, values, bytes, 1, true});
      }
    }
  }
  for (const char* codec : {"blosc-lz4", "blosc-zstd"}) {
    for (const Filter filter : {Filter::kShuffle, Filter::kBitshuffle, Filter::kNone}) {
      for (const char* values : {"era5", "round"}) {
        for (const std::size_t bytes : {256 * kKiB, kMiB, 4 * kMiB, 8 * kMiB, 64 * kMiB}) {
          if (bytes <= total) rows.push_back({codec, filter, values, bytes, total / bytes});
        }
        // One and 16 chunks, as a read of one frame or of a batch: the latency of a decode.
        for (const std::size_t chunks : {1, 16}) rows.push_back({codec, filter, values, 4 * kMiB, chunks});
        rows.push_back({codec, filter, values, 64 * kMiB, 1});
      }
    }
  }
  // Checksums alone: a copy of device memory is the most they can reach.
  for (const char* codec : {"crc32c", "crc32", "adler32", "fletcher32"}) {
    for (const std::size_t bytes : {16 * kKiB, 64 * kKiB, kMiB, 8 * kMiB, 64 * kMiB}) {
      if (bytes <= total) rows.push_back({codec, Filter::kNone, "random", bytes, total / bytes});
    }
    for (const std::size_t bytes : {kMiB, 64 * kMiB}) rows.push_back({codec, Filter::kNone, "random", bytes, 1});
  }
  return rows;
}

}  // namespace

std::string Row::name() const {
  return codec + "/" + filter_text(filter) + "/" + values + "/" + std::to_string(chunks) + "x" +
         std::to_string(chunk_bytes) + (index ? "/index" : "");
}

DecodeOptions parse_decode_options(int argc, char** argv, std::string& command) {
  DecodeOptions options;
  command = "decode_bench";
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    command += " " + arg;
    const auto value = [&] {
      if (i + 1 >= argc) die(arg + " needs a value");
      command += std::string(" ") + argv[i + 1];
      return std::string(argv[++i]);
    };
    if (arg == "--data")
      options.data = value();
    else if (arg == "--nvcomp")
      options.nvcomp = value();
    else if (arg == "--only")
      options.only = value();
    else if (arg == "--commit")
      options.commit = value();
    else if (arg == "--repeat")
      options.repeat = std::max(1, std::atoi(value().c_str()));
    else if (arg == "--total-mib")
      options.total_mib = std::strtoull(value().c_str(), nullptr, 10);
    else if (arg == "--distinct-mib")
      options.distinct_mib = std::strtoull(value().c_str(), nullptr, 10);
    else if (arg == "--slow-ms")
      options.slow_ms = std::atof(value().c_str());
    else if (arg == "--streaming")
      options.streaming = true;
    else if (arg == "--libdeflate")
      options.libdeflate = true;
    else if (arg == "--packed")
      options.packed = true;
    else if (arg == "--list")
      options.list = true;
    else
      die("unknown argument " + arg + "; the head of decode_bench.cu says what there is");
  }
  if (options.total_mib == 0 || options.distinct_mib < 64) die("needs --distinct-mib 64 or more");
  return options;
}

std::vector<Row> chosen_rows(const DecodeOptions& options) {
  const std::regex only(options.only);
  std::vector<Row> rows;
  for (const Row& row : all_rows(options)) {
    if (std::regex_search(row.name(), only)) rows.push_back(row);
  }
  return rows;
}

}  // namespace headrace::bench
