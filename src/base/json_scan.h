// JsonScanner: walks a JSON document without building it, for documents so large that only parts are needed.
//
// Threads: a scanner belongs to one thread. The views it returns point into the text.
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

// Checks what it skips as parse_json does: syntax, UTF-8, duplicate keys, depth, numbers. The first failure (kCorrupt,
// with line and column) is final: every later call returns it again.
class JsonScanner {
 public:
  // `non_finite`: accept bare NaN, Infinity and -Infinity; the parser of that part decides about them. The memory for
  // keys of large objects is taken from *charge, if given. The text must outlive the scanner. A text above the limit is
  // kResourceExhausted.
  explicit JsonScanner(std::string_view text, bool non_finite = false, const JsonLimits& limits = {},
                       Charge* charge = nullptr);

  // Enters the object that comes next. Returns false, without moving, if the next value is of another kind.
  Result<bool> enter_object();
  // Decodes the key of the next member. Returns false at the end of the object, which is then consumed. The view is
  // valid until the next call of next_key or skip_value.
  Result<bool> next_key(std::string_view& key);
  // Skips the next value and returns its text.
  Result<std::string_view> skip_value();
  // position(): offset just after what was last read. next_position(): offset of what comes next.
  std::size_t position() const noexcept { return at_; }
  std::size_t next_position() noexcept {
    skip_space();
    return at_;
  }
  // The first character of what comes next; NUL at the end.
  char peek() noexcept { return next_position() < text_.size() ? text_[at_] : '\0'; }
  // kCorrupt unless only white space is left.
  Status finish();

 private:
  struct Level {
    std::size_t first_key = 0;      // index in keys_ of the object's first key
    std::size_t first_decoded = 0;  // likewise in decoded_
    std::size_t charged_bytes = 0;  // for many_keys
    bool is_object = false;
    bool empty = true;                                                // no element yet
    std::unique_ptr<std::unordered_set<std::string_view>> many_keys;  // replaces keys_ once there are many
  };

  // Return false once failure_ is set.
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
  std::vector<std::string_view> keys_;  // keys of all open objects, in nesting order
  std::deque<std::string> decoded_;     // keys with escapes
  Status failure_;
};

}  // namespace headrace::base
