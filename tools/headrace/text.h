// Text for people: makes text safe to print, and suggests words for misspelt ones.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace headrace::cli {

// One line that a terminal displays literally: control characters, bidirectional control characters and invalid UTF-8
// become '?', line breaks become blanks.
std::string one_line(std::string_view text);

// "a, b, c"
std::string comma_list(std::span<const std::string> words);

// Length in bytes of the first character of `text` (not empty); 0 if it is invalid UTF-8.
std::size_t utf8_length(std::string_view text);

// Width of the terminal `fd` in columns; 80 if unknown.
std::size_t terminal_columns(int fd);

// Finds the word most similar to a misspelt one.
class NearestWord {
 public:
  // A word of more than 40 bytes matches none.
  explicit NearestWord(std::string_view word);
  void consider(std::string_view candidate);
  // Empty if no word is similar.
  const std::string& best() const noexcept { return best_; }
  // ", did you mean 'best'?", or nothing.
  std::string question(std::string_view dashes = "") const;

 private:
  std::string_view word_;
  std::size_t least_ = 0;  // words with more edits than this do not match
  std::string best_;
};

}  // namespace headrace::cli
