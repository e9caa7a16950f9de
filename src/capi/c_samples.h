// Handles of samples, orders, splits and schemas, and helpers for lists in option structs.
#pragma once

#include <headrace/crops.h>
#include <headrace/loader_c.h>
#include <headrace/loader_schema.h>
#include <headrace/order.h>
#include <headrace/split.h>
#include <headrace/windows.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "capi/c_call.h"

struct hr_windows {
  std::variant<headrace::Windows, headrace::Crops> value;
};
struct hr_order {
  headrace::Order value;
};
struct hr_split {
  headrace::Split value;
};
struct hr_schema {
  headrace::LoaderSchema value;
};

namespace headrace::capi {

// `list` must not be null if `count` is not 0.
inline Status require_list(const void* list, std::size_t count, const char* name) {
  if (list != nullptr || count == 0) return {};
  return invalid("the argument '" + std::string(name) + "' is null but should have " + std::to_string(count) +
                 " entries: pass them, or a count of 0");
}

// Checks that `value` is one of 0, 1, ... last.
inline Status require_choice(std::uint64_t value, std::uint64_t last, const std::string& name, const char* prefix) {
  if (value <= last) return {};
  return invalid(name + " is " + std::to_string(value) + ", which is not one of " + prefix + "...");
}

// Copies a line of text to a caller's buffer of `bytes`; a null buffer asks only for the size.
inline Status give_line(const std::string& line, char* text, std::size_t bytes, std::size_t* needed) {
  if (needed != nullptr) *needed = line.size() + 1;
  if (text == nullptr) return {};
  if (bytes <= line.size()) {
    return invalid("the argument 'bytes' is " + std::to_string(bytes) + ", but the loader's state needs " +
                   std::to_string(line.size() + 1) + " bytes");
  }
  std::memcpy(text, line.c_str(), line.size() + 1);
  return {};
}

// The fields that hr_split_options and hr_loader_options share.
template <class Options>
Status take_split(const Options& from, SplitOptions& out) {
  static_assert(static_cast<int>(Tail::kDrop) == HR_TAIL_DROP && static_cast<int>(Tail::kPad) == HR_TAIL_PAD &&
                static_cast<int>(Tail::kWrap) == HR_TAIL_WRAP);
  out.rank = from.rank;
  if (from.world != 0) out.world = from.world;
  if (from.reader_group != 0) out.reader_group = from.reader_group;
  if (from.batch_size != 0) out.batch_size = from.batch_size;
  HEADRACE_TRY(require_choice(from.tail, HR_TAIL_WRAP, "options->tail", "HR_TAIL_"));
  out.tail = static_cast<Tail>(from.tail);
  return {};
}

}  // namespace headrace::capi
