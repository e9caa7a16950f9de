// Ways in which a writer changes a file that others read.
//
// Fails: as an expectation of the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace headrace::support {

inline void write_text(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// Overwrites the file's bytes in place, without truncating it.
inline void overwrite(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::pwrite(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  ::close(fd);
}

// Replaces the file by another one under its name.
inline void replace(const std::string& path, std::string_view text) {
  write_text(path + ".new", text);
  std::filesystem::rename(path + ".new", path);
}

inline void truncate_and_rewrite(const std::string& path, std::string_view text) { write_text(path, text); }

}  // namespace headrace::support
