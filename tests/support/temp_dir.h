// TempDir: a directory that is removed with everything in it when the test ends.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace headrace::support {

class TempDir {
 public:
  // Under $TMPDIR or /tmp; `base` selects another directory, for a particular file system.
  explicit TempDir(std::string base = "");
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  bool ok() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The expected byte at each offset of every test file, so that a misplaced piece is detected.
[[gnu::always_inline]] inline std::uint64_t pattern_word(std::uint64_t number, std::uint64_t seed) {
  const std::uint64_t x = (number + 1 + seed * 0x51ed27) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}
inline std::byte pattern_at(std::uint64_t offset, std::uint64_t seed = 0) {
  return static_cast<std::byte>(pattern_word(offset / 8, seed) >> (8 * (offset % 8)));
}
std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 0);

// Like ==, which compares std::byte one by one and takes ThreadSanitizer seconds for megabytes.
bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other);

bool write_file(const std::string& path, std::span<const std::byte> bytes);

// Waits until earlier writes no longer count as recent changes (os::recently_changed()), so that shard indexes are
// kept.
void wait_until_unchanged();

// Number of open descriptors of this process, to detect leaks.
std::size_t open_descriptors();
// The same, once at most `most` are open or five seconds have passed. The thread that checks a Context's mapped files
// opens each of them briefly at any time, so one count may include such a file.
std::size_t descriptors_left(std::size_t most);

}  // namespace headrace::support
