// For 5,000 random schemas, samples and their windows are equal to xbatcher's and in the same order
// (tests/golden/xbatcher_windows.py).
#include <gtest/gtest.h>
#include <headrace/windows.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace headrace {
namespace {

std::vector<std::string> split_text(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

// Parses "0:5:3,2:4:0" into the sizes and overlaps of windows; "-" is empty.
void read_dict(const std::string& text, ByDim<std::uint64_t>& sizes, ByDim<std::uint64_t>& overlaps) {
  if (text == "-") return;
  for (const std::string& item : split_text(text, ',')) {
    const auto numbers = split_text(item, ':');
    sizes.emplace_back("d" + numbers.at(0), std::stoull(numbers.at(1)));
    if (numbers.at(2) != "0") overlaps.emplace_back("d" + numbers.at(0), std::stoull(numbers.at(2)));
  }
}

std::string digest_of(const Windows& windows, const ByDim<std::uint64_t>& dims) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&](const std::string& text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  };
  std::vector<DimSlice> slices(dims.size());
  for (std::uint64_t sample = 0; sample < windows.sample_count(); ++sample) {
    for (std::uint64_t window = 0; window < windows.window_count(sample); ++window) {
      EXPECT_TRUE(windows.slices(sample, window, 0, slices).ok());
      std::string text;
      for (const DimSlice& slice : slices) {
        EXPECT_EQ(slice.size(), slice.count);
        text +=
            (text.empty() ? "" : " ") + std::to_string(slice.begin) + ":" + std::to_string(slice.begin + slice.count);
      }
      add(text + ",");
    }
    add("/");
  }
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}

TEST(WindowsGolden, AreXbatchers) {
  const char* const root = std::getenv("HEADRACE_SOURCE_DIR");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/tests/data/xbatcher_windows.txt");
  std::size_t schemas = 0, refused = 0, concatenated = 0;
  for (std::string line; std::getline(file, line); ++schemas) {
    const auto words = split_text(line, ' ');
    ASSERT_GE(words.size(), 5u) << line;
    ByDim<std::uint64_t> dims;
    for (const std::string& size : split_text(words[0], ','))
      dims.emplace_back("d" + std::to_string(dims.size()), std::stoull(size));
    WindowOptions options;
    read_dict(words[1], options.input_dims, options.input_overlap);
    read_dict(words[2], options.batch_dims, options.input_overlap);
    options.concat_input_dims = words[3] == "1";
    const auto windows = Windows::create(dims, options);
    if (words[4] == "refused") {
      EXPECT_FALSE(windows.ok()) << line;
      ++refused;
      continue;
    }
    ASSERT_TRUE(windows.ok()) << line << ": " << windows.status().to_string();
    ASSERT_EQ(std::to_string(windows->sample_count()), words[4]) << line;
    ASSERT_EQ(digest_of(*windows, dims), words.at(5)) << line;
    concatenated += options.concat_input_dims && !options.batch_dims.empty();
  }
  EXPECT_EQ(schemas, 5000u);
  EXPECT_GT(refused, 100u);
  EXPECT_GT(concatenated, 500u);
}

}  // namespace
}  // namespace headrace
