// PlacementFile: decoding rates measured in earlier processes, so that the first read of this one need not measure
// them.
//
// The file is a hint. It may be damaged, hostile or of another version: anything that this code would not have written
// counts as absent. Wrong rates cost only time, since a read's own measurements replace them.
//
// Threads: every call from any thread, of any process: a file is replaced atomically, and the last writer wins.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "transfer/placement/placement.h"

namespace headrace::transfer {

// By kind of read and the machine it was measured on. Both rates are known.
using KnownRates = std::map<std::string, PlacementRates>;

class PlacementFile {
 public:
  static constexpr std::size_t kMaxKinds = 256, kMaxKindBytes = 512, kMaxFileBytes = std::size_t{256} << 10;

  explicit PlacementFile(std::string path) : path_(std::move(path)) {}  // "": no file

  // Empty if there is no file or it is not trusted: not regular, another user's, writable by others, too large, or
  // rejected by parse(). Throws std::bad_alloc.
  KnownRates read() const;
  // Merges `learnt` into the file, replacing the same kinds; creates its folder, for this user only. kPermission, kIo,
  // kResourceExhausted. Throws std::bad_alloc.
  Status add(const KnownRates& learnt) const;

  // kCorrupt: not such a file. kUnsupported: another version.
  static Result<KnownRates> parse(std::string_view text);
  static std::string text_of(const KnownRates& rates);

 private:
  std::string path_;
};

// For ContextOptions::placement_file: "auto" is the environment variable HEADRACE_PLACEMENT_FILE ("off": none), else
// headrace/placement.json in XDG_CACHE_HOME or ~/.cache (XDG Base Directory Specification 0.8), if those are absolute.
std::string placement_file_path(const std::string& option);

// What rates depend on besides the kind of read: the CPU model, and the number of threads that decode.
std::string placement_machine(unsigned threads);

}  // namespace headrace::transfer
