// fio's keys that have no effect here: keys that are accepted, with a note of what they do not do, and keys that are
// rejected because they would change the measurement, with a replacement.
#pragma once

#include <headrace/status.h>

#include <span>
#include <string_view>

namespace headrace::bench {

struct OtherFioKey {
  const char* name;
  const char* alias;  // "" for none
  // Accepted values: "" a flag, "*" anything, "#" a number, size or time with unit; otherwise words separated by '|'.
  // nullptr: the key is rejected with any value.
  const char* values;
  const char* text;  // what it does not do, or what to use instead
};
std::span<const OtherFioKey> other_fio_keys();

// The same for options that belong to no job, such as --terse-version.
std::span<const OtherFioKey> other_fio_arguments();

// Returns nullptr for any other key.
const OtherFioKey* find_other_fio_key(std::string_view name);

// Whether fio accepts the value and it has no effect here.
Status check_other_value(const OtherFioKey& key, std::string_view value);

}  // namespace headrace::bench
