#include "base/json.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/json_budget.h"

namespace headrace::base {
namespace {

// Builds the document from parser events, so that depth, duplicate keys and unusable numbers are refused as they
// appear, not after a hostile document has been built.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  // Heap bytes of a value (while its vector grows), of a string, of a container, and of a member.
  static constexpr std::size_t kValueBytes = 48, kStringBytes = 48, kContainerBytes = 64, kMemberBytes = 96;

  StrictBuilder(const JsonLimits& limits, Charge* charge)
      : max_depth_(limits.max_depth), room_(limits.max_values_bytes), charge_(charge) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return take(kStringBytes + value.size()) && add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!take(kMemberBytes + name.size())) return false;
    if (stack_.back()->contains(name)) {
      std::size_t end = std::min<std::size_t>(name.size(), 80);
      while (end < name.size() && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
      return fail("key '" + name.substr(0, end) + "' appears twice");
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& exception) override {
    // The library's text is "[json.exception...] parse error at line 1, column 2: ..."; only the part after
    // "]" is useful.
    std::string text = exception.what();
    if (auto bracket = text.find("] "); bracket != std::string::npos) text.erase(0, bracket + 2);
    if (text.size() > 200) text.resize(200);
    // The text quotes the last input read, which need not be UTF-8. Messages must be.
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
    }
    return fail(std::move(text));
  }

  Json root;
  std::string error;
  bool too_large = false;
  Status refused;  // by the budget, if it refused

 private:
  // Without this, a text with two bytes per value would become many times its size.
  bool take(std::size_t bytes) {
    if (bytes <= room_) {
      room_ -= bytes;
      if (charge_ == nullptr) return true;
      refused = charge_->take(bytes, "the values of a JSON document");
      return refused.ok() || fail("its values take too much memory");
    }
    too_large = true;
    return fail("its values take too much memory");
  }
  bool fail(std::string what) {
    if (error.empty()) error = std::move(what);
    return false;
  }
  template <class T>
  Json* place(T&& value) {
    if (stack_.empty()) {
      root = std::forward<T>(value);
      return &root;
    }
    Json* parent = stack_.back();
    if (parent->is_array()) {
      parent->push_back(std::forward<T>(value));
      return &parent->back();
    }
    Json& slot = (*parent)[std::move(key_)];
    slot = std::forward<T>(value);
    return &slot;
  }
  template <class T>
  bool add(T&& value) {
    if (!take(kValueBytes)) return false;
    place(std::forward<T>(value));
    return true;
  }
  bool open(Json&& container) {
    if (!take(kValueBytes + kContainerBytes)) return false;
    if (static_cast<int>(stack_.size()) >= max_depth_) {
      return fail("nested deeper than " + std::to_string(max_depth_) + " levels");
    }
    stack_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  int max_depth_;
  std::size_t room_;
  Charge* charge_;
  std::string key_;
  std::vector<Json*> stack_;
};

Result<Json> parse(std::string_view text, const JsonLimits& limits, Charge* charge) {
  if (text.size() > limits.max_bytes) {
    return Status(Code::kResourceExhausted, Layer::kBase,
                  "JSON document of " + std::to_string(text.size()) + " bytes is above the limit of " +
                      std::to_string(limits.max_bytes) + "; large values belong in arrays, not in attributes");
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return Status(Code::kCorrupt, Layer::kBase, "JSON document starts with a byte order mark");
  }
  // The library takes a NUL for the end of input and would ignore what follows.
  if (text.find('\0') != std::string_view::npos) {
    return Status(Code::kCorrupt, Layer::kBase, "not valid JSON: it contains a NUL byte");
  }
  StrictBuilder builder(limits, charge);
  if (!Json::sax_parse(text.begin(), text.end(), &builder) || !builder.error.empty()) {
    if (!builder.refused.ok()) return std::move(builder.refused);
    if (builder.too_large) {
      return Status(Code::kResourceExhausted, Layer::kBase,
                    "the values of a JSON document of " + std::to_string(text.size()) + " bytes would take more than " +
                        std::to_string(limits.max_values_bytes) + " bytes of memory");
    }
    return Status(Code::kCorrupt, Layer::kBase, "not valid JSON: " + builder.error);
  }
  return std::move(builder.root);
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) { return parse(text, limits, nullptr); }

Result<Json> parse_json(std::string_view text, const JsonLimits& limits, Charge& charge) {
  return parse(text, limits, &charge);
}

std::uint64_t max_parse_bytes(std::uint64_t text_bytes, const JsonLimits& limits) noexcept {
  // "[]," has three bytes and is the most expensive value per byte. Deeper nesting costs more, but is bounded.
  constexpr std::uint64_t kDearest = (StrictBuilder::kValueBytes + StrictBuilder::kContainerBytes) / 3 + 1;
  constexpr std::uint64_t kNesting = 64 << 10, kCopies = 2;
  const std::uint64_t text = std::min<std::uint64_t>(text_bytes, limits.max_bytes);
  return kCopies * text + std::min<std::uint64_t>(kDearest * text + kNesting, limits.max_values_bytes);
}

}  // namespace headrace::base
