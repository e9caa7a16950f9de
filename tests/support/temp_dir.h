// TempDir: a directory that is removed with everything in it when the test ends.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
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
  explicit TempDir(std::string base = "") {
    if (base.empty()) base = std::filesystem::temp_directory_path().string();
    std::string pattern = base + "/headrace-test-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  bool ok() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The byte at each offset of every test file: a piece at the wrong place is seen.
inline std::byte pattern_at(std::uint64_t offset, std::uint64_t seed = 0) {
  std::uint64_t x = (offset / 8 + 1 + seed * 0x51ed27) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  return static_cast<std::byte>(x >> (8 * (offset % 8)));
}

inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern_at(i, seed);
  return bytes;
}

inline bool write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

// Open descriptors of this process: equal before and after what must not leak.
inline std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

}  // namespace headrace::support
