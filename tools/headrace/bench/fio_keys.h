// Keys that fio has and that do nothing here: those that may stay in a job file, with what they do not do, and those
// that would change what is measured, with what to use in their place.
#pragma once

#include <headrace/status.h>

#include <span>
#include <string_view>

namespace headrace::bench {

struct OtherFioKey {
  const char* name;
  const char* alias;  // "" for none
  // What a value may be: "" a flag, "*" anything, "#" a number, size or time with unit; else the words, '|' between
  // them. nullptr: the key is refused whatever its value.
  const char* values;
  const char* text;  // what it does not do, or what to use in its place
};
std::span<const OtherFioKey> other_fio_keys();

// The same of the options that are not a job's: --terse-version and its like.
std::span<const OtherFioKey> other_fio_arguments();

// nullptr for a key that is not among them.
const OtherFioKey* find_other_fio_key(std::string_view name);

// Whether the value is one that fio's key takes and that changes nothing here.
Status check_other_value(const OtherFioKey& key, std::string_view value);

}  // namespace headrace::bench
