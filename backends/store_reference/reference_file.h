// Reference files: JSON that maps a store's keys to ranges of other files.
//
// kerchunk's "References specification", versions 0 and 1 (https://fsspec.github.io/kerchunk/spec.html). A value is
// text, "base64:" followed by encoded data, a JSON document, [file] or [file, offset, length]. In version 1,
// `templates` may be plain text that replaces {{name}}, and `gen` may use {{...}} with whole numbers, dimension names,
// + - * // % and parentheses. Other uses of Jinja are rejected by name.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/name_index.h"

namespace headrace::store {

struct Reference {
  static constexpr std::uint32_t kInline = ~std::uint32_t{0};
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};

  std::uint32_t target = kInline;        // index into ReferenceFile::targets
  std::uint64_t offset = 0, length = 0;  // in that file, or in ReferenceFile::text
};

struct ReferenceFile {
  // Names relative to the requested folder; names outside it, and names that are not valid keys, are omitted.
  NameIndex names;
  std::vector<Reference> references;  // by number of the name
  std::vector<std::string> targets;   // as written, with templates expanded
  std::string text;                   // all inline values
  bool folder_exists = false;
  bool folder_is_object = false;
  base::Charge memory;  // for all of this, and for what a store keeps per target
};

// `folder`: "" or a valid key. kCorrupt, kUnsupported; kResourceExhausted, also if the budget of out.memory is too
// small. Throws std::bad_alloc.
Status parse_reference_file(std::string_view text, std::string_view folder, ReferenceFile& out);

}  // namespace headrace::store
