// Text for people: what is safe to print, and which word may have been meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace headrace::cli {

// One line that a terminal shows as it is: control characters, characters that change the direction of text, and what
// is no UTF-8 become '?', line breaks become blanks.
std::string one_line(std::string_view text);

// "a, b, c"
std::string comma_list(std::span<const std::string> words);

// Bytes of the character that `text` (not empty) begins with, 0 where that is no UTF-8.
std::size_t utf8_length(std::string_view text);

// Columns of the terminal that `fd` is; 80 where it does not tell.
std::size_t terminal_columns(int fd);

// Finds the word that a misspelt one is nearest to.
class NearestWord {
 public:
  // No word is near one of more than 40 bytes.
  explicit NearestWord(std::string_view word);
  void consider(std::string_view candidate);
  // Empty where none is near.
  const std::string& best() const noexcept { return best_; }
  // ", did you mean 'best'?", or nothing.
  std::string question(std::string_view dashes = "") const;

 private:
  std::string_view word_;
  std::size_t least_ = 0;  // more edits than this make another word
  std::string best_;
};

}  // namespace headrace::cli
