#include "reference_file.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/json_budget.h"
#include "reference_template.h"

namespace headrace::store {
namespace {

using base::Json;

Status corrupt(std::string what) { return Status(Code::kCorrupt, Layer::kStore, "reference file: " + std::move(what)); }
Status unsupported(std::string what) {
  return Status(Code::kUnsupported, Layer::kStore, "reference file: " + std::move(what));
}

// RFC 4648, section 4: whole groups of four, padded.
bool decode_base64(std::string_view text, std::string& out) {
  static constexpr auto kValues = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < letters.size(); ++i) {
      values[static_cast<unsigned char>(letters[i])] = static_cast<std::int8_t>(i);
    }
    return values;
  }();
  if (text.size() % 4 != 0) return false;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int value = kValues[static_cast<unsigned char>(text[i])];
    if (i >= text.size() - padding) value = 0;
    if (value < 0) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if (i % 4 == 3) {
      const std::size_t count = i + 1 == text.size() ? 3 - padding : 3;
      for (std::size_t k = 0; k < count; ++k) out += static_cast<char>(bits >> (16 - 8 * k) & 0xff);
      if (i + 1 == text.size() && padding > 0 && (bits & ((1u << 8 * padding) - 1)) != 0) return false;
      bits = 0;
    }
  }
  return true;
}

class Parser {
 public:
  Parser(std::string_view folder, ReferenceFile& out) : folder_(folder), out_(out) {
    out.folder_exists = folder.empty();
  }

  Status parse(const Json& document) {
    if (!document.is_object()) return corrupt("not a JSON object");
    const auto version = document.find("version");
    if (version == document.end() || !version->is_number()) {
      if (document.contains("refs") && document["refs"].is_object()) {
        return corrupt("\"refs\" without a \"version\"");
      }
      return add_all(document);  // version 0
    }
    if (*version == 0) {
      const auto refs = document.find("refs");
      return refs == document.end() ? corrupt("no \"refs\"") : add_all(*refs);
    }
    if (*version != 1) return unsupported("version " + version->dump().substr(0, 20) + " is not known; 0 and 1 are");
    for (const auto& [name, value] : document.items()) {
      if (name != "version" && name != "templates" && name != "gen" && name != "refs") {
        return unsupported("\"" + name.substr(0, 100) + "\" is not known");
      }
    }
    if (const auto templates = document.find("templates"); templates != document.end()) {
      HEADRACE_TRY(take_templates(*templates));
    }
    if (const auto refs = document.find("refs"); refs != document.end()) HEADRACE_TRY(add_all(*refs));
    if (const auto gen = document.find("gen"); gen != document.end()) {
      if (!gen->is_array()) return corrupt("\"gen\" is not a list");
      for (const Json& item : *gen) HEADRACE_TRY(generate(item));
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kMaxGenerated = std::uint64_t{4} << 20;
  static constexpr std::uint64_t kMaxText = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kMaxWork = std::uint64_t{8} << 30;  // limit for the text that one item of "gen"
                                                                     // covers
  static constexpr std::size_t kMaxName = 4096;                      // limit for a key and a file name, in bytes
  static constexpr std::uint64_t kTargetBytes = 640;
  static constexpr std::string_view kWhat = "the references of a reference file";

  Status take_templates(const Json& templates) {
    if (!templates.is_object()) return corrupt("\"templates\" is not an object");
    for (const auto& [name, value] : templates.items()) {
      if (!value.is_string()) return corrupt("template '" + name.substr(0, 100) + "' is not a string");
      const std::string& text = value.get_ref<const std::string&>();
      if (text.find("{{") != std::string::npos) return unsupported("templates with parameters are not supported");
      names_.texts.emplace(name, text);
    }
    return {};
  }

  Status add_all(const Json& refs) {
    if (!refs.is_object()) return corrupt("\"refs\" is not an object");
    for (const auto& [key, value] : refs.items()) {
      Reference reference;
      HEADRACE_TRY(parse_value(value, reference).with_key(std::string_view(key).substr(0, 200)));
      HEADRACE_TRY(add(key, reference));
    }
    return {};
  }

  Status parse_value(const Json& value, Reference& out) {
    if (value.is_string()) {
      const std::string& text = value.get_ref<const std::string&>();
      constexpr std::string_view kBase64 = "base64:";
      if (!text.starts_with(kBase64)) return add_inline(text, out);
      std::string bytes;
      if (!decode_base64(std::string_view(text).substr(kBase64.size()), bytes)) return corrupt("broken base64");
      return add_inline(bytes, out);
    }
    if (value.is_object()) return add_inline(value.dump(), out);
    if (!value.is_array() || (value.size() != 1 && value.size() != 3)) {
      return corrupt("a reference must be text, a document, [file] or [file, offset, length]");
    }
    if (value[0].is_null()) return unsupported("references without a file are not supported");
    if (!value[0].is_string()) return corrupt("a reference's file is not a string");
    std::string url;
    HEADRACE_TRY(expand_template(value[0].get_ref<const std::string&>(), names_, kMaxName, url));
    out.offset = 0;
    out.length = Reference::kToTheEnd;
    if (value.size() == 3) {
      if (!value[1].is_number_unsigned() || !value[2].is_number_unsigned()) {
        return corrupt("a reference's offset and length must be non-negative whole numbers");
      }
      out.offset = value[1].get<std::uint64_t>();
      out.length = value[2].get<std::uint64_t>();
      if (out.length == Reference::kToTheEnd) return corrupt("a reference's range is out of bounds");
    }
    return set_target(std::move(url), out);
  }

  Status add_inline(std::string_view bytes, Reference& out) {
    if (bytes.size() > kMaxText - out_.text.size()) {
      return Status(Code::kResourceExhausted, Layer::kStore, "reference file: more than 1 GiB of inline values");
    }
    HEADRACE_TRY(out_.memory.take(2 * bytes.size(), kWhat));  // twice, for the copy while the text grows
    out.target = Reference::kInline;
    out.offset = out_.text.size();
    out.length = bytes.size();
    out_.text += bytes;
    return {};
  }

  Status set_target(std::string url, Reference& out) {
    if (url.empty() || url.size() > kMaxName || url.find('\0') != std::string::npos) {
      return corrupt("a reference's file is neither a path nor a URL");
    }
    const std::uint64_t all = out.length == Reference::kToTheEnd ? 0 : out.length;
    if (out.offset > INT64_MAX || all > INT64_MAX - out.offset) return corrupt("a reference's range is out of bounds");
    auto found = targets_.find(url);
    if (found == targets_.end()) {
      // Stored here, in the list, in the map, and in the store's reason for not opening it.
      HEADRACE_TRY(out_.memory.take(kTargetBytes + 4 * url.size(), kWhat));
      found = targets_.emplace(url, static_cast<std::uint32_t>(out_.targets.size())).first;
      out_.targets.push_back(std::move(url));
    }
    out.target = found->second;
    return {};
  }

  Status add(std::string_view key, const Reference& reference) {
    if (!valid_key(key)) return {};
    if (!folder_.empty()) {
      out_.folder_is_object = out_.folder_is_object || key == folder_;
      if (key.size() <= folder_.size() || key.substr(0, folder_.size()) != folder_ || key[folder_.size()] != '/') {
        return {};
      }
      out_.folder_exists = true;
      key.remove_prefix(folder_.size() + 1);
    }
    HEADRACE_TRY(out_.memory.take(2 * (NameIndex::bytes_of(1, key.size()) + sizeof(Reference)), kWhat));
    bool is_new = false;
    const std::uint32_t number = out_.names.add(key, is_new);
    if (number == NameIndex::kNone) {
      return Status(Code::kResourceExhausted, Layer::kStore, "reference file: more keys than can be held");
    }
    if (is_new) {
      out_.references.push_back(reference);
    } else {
      out_.references[number] = reference;
    }
    return {};
  }

  // Values are counted before any is generated.
  struct Dimension {
    std::string name;
    const Json* list = nullptr;  // null: a range
    std::int64_t start = 0, step = 1;
    std::uint64_t count = 0;
    std::int64_t value(std::uint64_t i) const {
      if (list != nullptr) return (*list)[static_cast<std::size_t>(i)].get<std::int64_t>();
      // The result lies within the range even if the product wraps around.
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step));
    }
  };

  static bool is_whole_number(const Json& value) {
    return value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  }

  // "dimensions": {"i": {"start": 0, "stop": 5, "step": 1}, "j": [1, 5, 7]}
  Status take_dimension(const Json& value, Dimension& out) {
    if (value.is_array()) {
      for (const Json& item : value) {
        if (!is_whole_number(item)) {
          return unsupported("dimensions of \"gen\" that are not whole numbers are not supported");
        }
      }
      out.list = &value;
      out.count = value.size();
      return {};
    }
    if (!value.is_object()) return corrupt("a dimension of \"gen\" is neither a list nor a range");
    std::int64_t range[3] = {0, 0, 1};
    static constexpr const char* kNames[3] = {"start", "stop", "step"};
    for (int i = 0; i < 3; ++i) {
      const auto found = value.find(kNames[i]);
      if (found == value.end()) {
        if (i == 1) return corrupt("a range of \"gen\" has no \"stop\"");
        continue;
      }
      if (!is_whole_number(*found)) return corrupt("a range of \"gen\" is not made of whole numbers");
      range[i] = found->get<std::int64_t>();
    }
    const auto [start, stop, step] = range;
    if (step == 0) return corrupt("a range of \"gen\" has the step 0");
    out.start = start;
    out.step = step;
    if (step > 0 ? start >= stop : start <= stop) return {};
    const auto difference = [](std::int64_t a, std::int64_t b) {
      return static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b);
    };
    const std::uint64_t length = step > 0 ? difference(stop, start) : difference(start, stop);
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : difference(0, step);
    out.count = (length - 1) / stride + 1;
    return {};
  }

  static Status too_many() {
    return Status(Code::kResourceExhausted, Layer::kStore,
                  "reference file: \"gen\" makes more than " + std::to_string(kMaxGenerated) + " references");
  }

  static Status too_much_work(std::uint64_t count) {
    return Status(Code::kResourceExhausted, Layer::kStore,
                  "reference file: an item of \"gen\" makes " + std::to_string(count) +
                      " references, too many for texts and dimensions as long as its own");
  }

  Status text_of(const Json& item, const char* name, bool required, std::optional<std::string>& out) {
    const auto found = item.find(name);
    if (found == item.end()) {
      return required ? corrupt(std::string("an item of \"gen\" has no \"") + name + "\"") : Status();
    }
    if (found->is_string()) {
      out = found->get<std::string>();
    } else if (found->is_number_unsigned()) {
      out = found->dump();
    } else {
      return corrupt(std::string("\"") + name + "\" of \"gen\" is not a string");
    }
    return {};
  }

  Status expand_number(const std::string& text, std::uint64_t& value) {
    std::string digits;
    HEADRACE_TRY(expand_template(text, names_, kMaxName, digits));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return corrupt("\"gen\" makes '" + digits.substr(0, 100) + "', which is not an offset or length");
    }
    return {};
  }

  Status generate(const Json& item) {
    if (!item.is_object()) return corrupt("an item of \"gen\" is not an object");
    for (const auto& [name, value] : item.items()) {
      if (name != "key" && name != "url" && name != "offset" && name != "length" && name != "dimensions") {
        return unsupported("\"" + name.substr(0, 100) + "\" of \"gen\" is not known");
      }
    }
    std::optional<std::string> key, url, offset, length;
    HEADRACE_TRY(text_of(item, "key", true, key));
    HEADRACE_TRY(text_of(item, "url", true, url));
    HEADRACE_TRY(text_of(item, "offset", false, offset));
    HEADRACE_TRY(text_of(item, "length", false, length));
    if (offset.has_value() != length.has_value()) return corrupt("\"gen\" with one of \"offset\" and \"length\"");
    const auto given = item.find("dimensions");
    if (given == item.end() || !given->is_object() || given->empty()) return corrupt("\"gen\" without \"dimensions\"");
    std::vector<Dimension> dimensions;
    for (const auto& [name, value] : given->items()) {
      dimensions.push_back({.name = name});
      HEADRACE_TRY(take_dimension(value, dimensions.back()));
    }
    std::uint64_t count = 1;
    for (const Dimension& dimension : dimensions) {
      if (dimension.count == 0) return {};  // before the product of the others can overflow
    }
    for (const Dimension& dimension : dimensions) {
      if (__builtin_mul_overflow(count, dimension.count, &count) || count > kMaxGenerated - generated_) {
        return too_many();
      }
    }
    generated_ += count;
    const std::uint64_t text_bytes = key->size() + url->size() + (offset ? offset->size() + length->size() : 0);
    if (count * (text_bytes + dimensions.size() * sizeof(Dimension)) > kMaxWork) return too_much_work(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      names_.numbers.clear();
      std::uint64_t rest = i;
      for (const Dimension& dimension : dimensions) {
        names_.numbers.emplace_back(dimension.name, dimension.value(rest % dimension.count));
        rest /= dimension.count;
      }
      std::string name, file;
      HEADRACE_TRY(expand_template(*key, names_, kMaxName, name));
      HEADRACE_TRY(expand_template(*url, names_, kMaxName, file));
      Reference reference;
      reference.length = Reference::kToTheEnd;
      if (offset) {
        HEADRACE_TRY(expand_number(*offset, reference.offset));
        HEADRACE_TRY(expand_number(*length, reference.length));
        if (reference.length == Reference::kToTheEnd) return corrupt("a reference's range is out of bounds");
      }
      text_made_ += name.size() + file.size();
      if (text_made_ > kMaxText) {
        return Status(Code::kResourceExhausted, Layer::kStore, "reference file: \"gen\" makes more than 1 GiB of text");
      }
      HEADRACE_TRY(set_target(std::move(file), reference));
      HEADRACE_TRY(add(name, reference));
    }
    names_.numbers.clear();
    return {};
  }

  const std::string_view folder_;
  ReferenceFile& out_;
  TemplateNames names_;
  std::unordered_map<std::string, std::uint32_t> targets_;
  std::uint64_t generated_ = 0, text_made_ = 0;
};

}  // namespace

Status parse_reference_file(std::string_view text, std::string_view folder, ReferenceFile& out) {
  base::JsonLimits limits;
  limits.max_bytes = base::kLargeDocumentBytes;
  base::Charge values(out.memory.budget());
  auto document = base::parse_json(text, limits, values);
  if (!document.ok()) return std::move(document).status();
  return Parser(folder, out).parse(*document);
}

}  // namespace headrace::store
