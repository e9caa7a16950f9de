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
  std::vector<std::pair<std::string, std::int64_t>> numbers = {};  // dimensions of `gen` with their current values
};

// Appends `text` with every {{...}} expanded, but at most `most_bytes` + 1 bytes, so that the caller detects an excess.
// kCorrupt: an unknown name, unbalanced braces, or 64-bit overflow; kUnsupported: any other use of Jinja.
Status expand_template(std::string_view text, const TemplateNames& names, std::size_t most_bytes, std::string& out);

}  // namespace headrace::store
