// Reference files: JSON that says where the objects of a store lie in other files.
//
// kerchunk's "References specification", versions 0 and 1 (https://fsspec.github.io/kerchunk/spec.html). A value is
// text, "base64:" and what it encodes, a JSON document, [file] or [file, offset, length]. Of version 1, `templates` may
// be plain text put in place of {{name}}, and `gen` may use {{...}} of whole numbers, dimension names, + - * // % and
// parentheses. What needs more of Jinja is refused by name.
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
  // Of names below the folder that was asked for, without it. Names that no key can have are left out.
  NameIndex names;
  std::vector<Reference> references;  // by the names' numbers
  std::vector<std::string> targets;   // as written, templates put in
  std::string text;                   // of all inline values
  bool folder_exists = false;
  bool folder_is_object = false;
  base::Charge memory;  // of all of this, and of what a store makes of each target
};

// `folder`: "" or a valid key. kCorrupt, kUnsupported; kResourceExhausted also where
// out.memory's budget has too little left. Throws std::bad_alloc.
Status parse_reference_file(std::string_view text, std::string_view folder, ReferenceFile& out);

}  // namespace headrace::store
