// PlacementFile: which processor decoded how fast in earlier processes, so that the first read of this one need not
// find out.
//
// The file is a hint. It may be another version's, damaged or hostile: what does not look as this code writes it counts
// as absent. Wrong rates cost time and nothing else, since a read's own measurements take their place.
//
// Threads: every call from any thread, of any process: a file is replaced whole, and the last writer wins.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "transfer/placement/placement.h"

namespace headrace::transfer {

// By kind of read, and the machine it was measured on. Both rates are known.
using KnownRates = std::map<std::string, PlacementRates>;

class PlacementFile {
 public:
  static constexpr std::size_t kMostKinds = 256, kMostKindBytes = 512, kMostFileBytes = std::size_t{256} << 10;

  explicit PlacementFile(std::string path) : path_(std::move(path)) {}  // "": there is none

  // Empty where there is no file, or one that is not trusted: not regular, another user's, writable by others, too
  // large, or not what parse() takes. Throws std::bad_alloc.
  KnownRates read() const;
  // Puts `learnt` into the file, over what it says of the same kinds by now; makes its folder, for this user only.
  // kPermission, kIo, kResourceExhausted. Throws std::bad_alloc.
  Status add(const KnownRates& learnt) const;

  // kCorrupt: not such a file. kUnsupported: of another version.
  static Result<KnownRates> parse(std::string_view text);
  static std::string text_of(const KnownRates& rates);

 private:
  std::string path_;
};

// For ContextOptions::placement_file: "auto" is the environment's HEADRACE_PLACEMENT_FILE ("off": none), else
// headrace/placement.json in XDG_CACHE_HOME or ~/.cache (XDG Base Directory Specification 0.8), where those are
// absolute.
std::string placement_file_path(const std::string& option);

// What rates hang on besides a kind of read: the CPUs' model, and how many threads of it decode.
std::string placement_machine(unsigned threads);

}  // namespace headrace::transfer
