// Reads the committed seeds of a codec from codecs/NAME/seeds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/codec_seed.h"

namespace headrace::test {

struct CodecSeedFile {
  std::filesystem::path path;
  std::vector<std::byte> content;
  CodecSeed seed;  // its stream points into `content`
};

// The seeds of a folder by name. Configurations of array codecs, and files too short to be seeds, are skipped. Throws
// if the folder does not exist.
inline std::vector<CodecSeedFile> read_codec_seeds(const std::filesystem::path& folder) {
  std::vector<CodecSeedFile> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    out.push_back({entry.path(), {begin, begin + text.size()}, {}});
    if (!parse_codec_seed(out.back().content, out.back().seed)) out.pop_back();
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

// The seeds of a codec, from the sources at HEADRACE_SOURCE_DIR, else from the working directory.
inline std::vector<CodecSeedFile> codec_seeds(std::string_view codec) {
  const char* const root = std::getenv("HEADRACE_SOURCE_DIR");
  return read_codec_seeds(std::filesystem::path(root == nullptr ? "." : root) / "codecs" / codec / "seeds");
}

}  // namespace headrace::test
