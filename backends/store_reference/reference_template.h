// The part of Jinja that reference files commonly use: names and whole-number arithmetic between {{ and }}.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headrace::store {

struct TemplateNames {
  std::unordered_map<std::string, std::string> texts;              // templates
  std::vector<std::pair<std::string, std::int64_t>> numbers = {};  // of `gen`: one value at a time
};

// Appends `text` with every {{...}} replaced; of what is longer than `most_bytes` no more than that and one byte, which
// tells the caller. kCorrupt: an unknown name, braces that do not match, arithmetic that leaves 64 bits; kUnsupported:
// more of Jinja than that.
Status expand_template(std::string_view text, const TemplateNames& names, std::size_t most_bytes, std::string& out);

}  // namespace headrace::store
