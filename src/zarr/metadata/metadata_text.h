// What the metadata parsers share: reading members of a JSON object, and saying what is wrong with them.
//
// Messages name the field, what is allowed there and what was found, shortened. They are bounded however large the
// document is.
//
// Threads: pure functions.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace headrace::zarr {

class Lenient;

// Of an axis, and of an element's bytes.
inline constexpr std::uint64_t kMaxExtent = std::numeric_limits<std::int64_t>::max();

Status corrupt(std::string message);
Status unsupported(std::string message);  // the message begins with the name of the feature
Status element_too_large(std::string_view where);

// The value as compact JSON, cut after about 80 bytes.
std::string shorten(const base::Json& value);
// `text` in single quotes, cut likewise.
std::string quote(std::string_view text);
// kCorrupt: "<what> must be <allowed>, not <value>".
Status wrong_value(std::string_view what, std::string_view allowed, const base::Json& value);

// Json's own comparison with a literal makes a Json of it inside a noexcept function: out of memory there is the end.
inline bool is_text(const base::Json& value, std::string_view text) noexcept {
  const auto* string = value.get_ptr<const base::Json::string_t*>();
  return string != nullptr && *string == text;
}

// base::parse_json for documents of writers who put bare NaN, Infinity and -Infinity, which JSON does not have, into
// user attributes: there they become the strings Zarr uses for such numbers. `keys`: members of the document within
// which they are accepted; empty: everywhere.
Result<base::Json> parse_json_with_nan(std::string_view text, const std::vector<std::string_view>& keys);
// The same, or base::parse_json where `keys` is null; with what `lenient` allows of documents that are no JSON (null:
// nothing).
Result<base::Json> parse_lenient_json(std::string_view text, const std::vector<std::string_view>* keys,
                                      Lenient* lenient);

// The member `key` of an object. kCorrupt if there is none. REQUIRES: object.is_object().
Result<const base::Json*> required_member(const base::Json& object, std::string_view key, std::string_view where);
// kCorrupt if `object` has a member that is not in `allowed`.
Status refuse_other_members(const base::Json& object, const std::vector<std::string_view>& allowed,
                            std::string_view where);

// Whether the value says `"must_understand": false`, and so may be ignored by a reader that does not know it.
bool may_be_ignored(const base::Json& value);

// An integer within [low, high]; neither 1.0 nor true is one.
Result<std::uint64_t> read_integer(const base::Json& value, std::uint64_t low, std::uint64_t high,
                                   std::string_view what);
// A list of extents, each 0 to 2^63 - 1. kUnsupported for more than kMaxRank.
Result<std::vector<std::uint64_t>> read_extents(const base::Json& value, std::string_view what);

// Checks a chunk shape against its array: same rank, extent above 0 where the array has elements, and a size in bytes
// that fits a signed 64-bit integer. `key` names the field in messages.
Status check_chunk_shape(const std::vector<std::uint64_t>& chunk_shape, const std::vector<std::uint64_t>& shape,
                         std::uint64_t item_bytes, std::string_view key);

// Reverses the bytes within each width, which turns a big-endian element into a little-endian one and back.
void swap_element(const std::vector<DataType::SwapRun>& runs, std::vector<std::byte>& element);

// Datetime and timedelta units, NumPy's spelling ("us" for "μs"); empty if there is no such unit.
std::string_view time_unit(std::string_view text);

// Parts of data types that both formats build.
// A few bytes of metadata must not make us allocate gigabytes for one element.
inline constexpr std::uint64_t kMaxItemBytes = std::uint64_t{16} << 20;
inline constexpr int kMaxStructDepth = 24;
DataType time_type(TypeKind kind, std::string_view unit, std::uint64_t scale);
DataType bytes_type(std::uint32_t item_bytes);
DataType unicode_type(std::uint32_t item_bytes);  // REQUIRES: a multiple of 4
DataType raw_type(std::uint32_t item_bytes);
DataType variable_type(TypeKind kind);  // kString "string" or kVariableBytes "bytes"
// For check_chunk_shape: what an element takes while a chunk is decoded.
std::uint64_t decoding_bytes(const DataType& type);
// Appends `count` copies of `field`'s type (a scalar or a sub-array) to a structured type, at its end.
// kUnsupported where the element would become too large or its layout too long a list.
Status append_field(DataType& type, DataType::Field field);
// Drops what append_field kept for a type that turned out to have no big-endian field.
void finish_struct(DataType& type);

}  // namespace headrace::zarr
