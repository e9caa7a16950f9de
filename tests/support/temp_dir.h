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
  // Under $TMPDIR, or /tmp; `base` elsewhere, for a certain file system.
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

// The byte at each offset of every test file: a piece at the wrong place is seen.
[[gnu::always_inline]] inline std::uint64_t pattern_word(std::uint64_t number, std::uint64_t seed) {
  const std::uint64_t x = (number + 1 + seed * 0x51ed27) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}
inline std::byte pattern_at(std::uint64_t offset, std::uint64_t seed = 0) {
  return static_cast<std::byte>(pattern_word(offset / 8, seed) >> (8 * (offset % 8)));
}
std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 0);

// As ==, which compares std::byte one by one: megabytes take ThreadSanitizer seconds then.
bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other);

bool write_file(const std::string& path, std::span<const std::byte> bytes);

// Until what was written before is no recent change any more (os::recently_changed()): indexes of shards are kept.
void wait_until_unchanged();

// Open descriptors of this process: before and after what must not leak.
std::size_t open_descriptors();
// The same, once no more than `most` are open or five seconds have passed. The thread that looks over a Context's
// mapped files opens each of them for a moment, whenever it likes: one look may count such a file.
std::size_t descriptors_left(std::size_t most);

}  // namespace headrace::support
