// Walking a JSON document without building it: for documents so large that only parts of them are wanted.
//
// Threads: a scanner belongs to one thread; what it hands out points into the text.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "base/memory_budget.h"

namespace headrace::base {

// Checks what it passes over as parse_json does: syntax, UTF-8, keys given twice, depth, numbers. The first failure
// (kCorrupt, with line and column) is final: every later call gives it again.
class JsonScanner {
 public:
  // `non_finite`: bare NaN, Infinity and -Infinity are let through; whoever parses the part decides about them.
  // What is noted of large objects is taken from *charge, if given. The text must outlive the scanner. One above the
  // limit is kResourceExhausted.
  explicit JsonScanner(std::string_view text, bool non_finite = false, const JsonLimits& limits = {},
                       Charge* charge = nullptr);

  // Steps into the object that comes next. False, without having moved, where another kind of value comes.
  Result<bool> enter_object();
  // The next member's key, decoded; false at the object's end, which is then behind. The view lasts until the next
  // call of next_key or skip_value.
  Result<bool> next_key(std::string_view& key);
  // Passes over the value that comes next and gives its text.
  Result<std::string_view> skip_value();
  // Offset in the text: behind what was read last, and of what comes next.
  std::size_t position() const noexcept { return at_; }
  std::size_t next_position() noexcept {
    skip_space();
    return at_;
  }
  // The first character of what comes next, NUL at the end.
  char peek() noexcept { return next_position() < text_.size() ? text_[at_] : '\0'; }
  // kCorrupt unless nothing but white space is left.
  Status finish();

 private:
  struct Level {
    std::size_t first_key = 0;      // of the object's own, in keys_
    std::size_t first_decoded = 0;  // likewise in decoded_
    std::size_t charged_bytes = 0;  // for many_keys
    bool is_object = false;
    bool empty = true;                                                // no element yet
    std::unique_ptr<std::unordered_set<std::string_view>> many_keys;  // instead of keys_ once there are many
  };

  // These give false once failure_ is set.
  bool fail(std::string_view what);
  bool scan_scalar_or_open();
  bool scan_string();
  bool scan_escape();
  bool scan_utf8();
  bool scan_number();
  bool scan_word(std::string_view word);
  bool scan_key(std::string_view& key);
  bool open(bool is_object);
  void close();
  bool has_element(bool& more);  // consumes the comma, or the closing bracket

  void skip_space() noexcept;
  bool next_is(char c) const noexcept { return at_ < text_.size() && text_[at_] == c; }

  std::string_view text_;
  std::size_t at_ = 0;
  bool non_finite_;
  JsonLimits limits_;
  Charge* charge_;
  std::vector<Level> levels_;
  std::vector<std::string_view> keys_;  // of the objects that are open, one after the other
  std::deque<std::string> decoded_;     // keys with escapes
  Status failure_;
};

}  // namespace headrace::base
