#include "tests/support/temp_dir.h"

#include <stdlib.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/support/sanitizer.h"

namespace headrace::support {

TempDir::TempDir(std::string base) {
  if (base.empty()) base = std::filesystem::temp_directory_path().string();
  std::string pattern = base + "/headrace-test-XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

HEADRACE_TEST_OWN_BYTES static void fill_pattern(std::byte* to, std::size_t size, std::uint64_t seed) {
  std::size_t i = 0;
  if constexpr (std::endian::native == std::endian::little) {  // each number makes eight bytes
    for (; i + 8 <= size; i += 8) {
      const std::uint64_t eight = pattern_word(i / 8, seed);
      std::memcpy(to + i, &eight, 8);
    }
  }
  for (; i < size; ++i) to[i] = pattern_at(i, seed);
}

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  fill_pattern(bytes.data(), size, seed);
  return bytes;
}

bool same_bytes(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

bool write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

void wait_until_unchanged() { std::this_thread::sleep_for(std::chrono::milliseconds(120)); }

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

std::size_t descriptors_left(std::size_t most) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::size_t open = open_descriptors();
  while (open > most && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    open = open_descriptors();
  }
  return open;
}

}  // namespace headrace::support
