// Shared by the metadata parsers: reading members of a JSON object, and describing what is wrong with them.
//
// Messages name the field, the allowed values and the (shortened) value found. Their length is bounded, however large
// the document is.
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

// Upper bound of an axis's extent and of a chunk's size in bytes.
inline constexpr std::uint64_t kMaxExtent = std::numeric_limits<std::int64_t>::max();

Status corrupt(std::string message);
Status unsupported(std::string message);  // the message begins with the name of the feature
Status element_too_large(std::string_view where);

// The value as compact JSON, cut after about 80 bytes.
std::string shorten(const base::Json& value);
// `text` in single quotes, cut the same way.
std::string quote(std::string_view text);
// kCorrupt: "<what> must be <allowed>, not <value>".
Status wrong_value(std::string_view what, std::string_view allowed, const base::Json& value);

// Json's operator== with a literal builds a Json inside a noexcept function, so running out of memory there terminates.
inline bool is_text(const base::Json& value, std::string_view text) noexcept {
  const auto* string = value.get_ptr<const base::Json::string_t*>();
  return string != nullptr && *string == text;
}

// base::parse_json for documents with bare NaN, Infinity and -Infinity, which are not JSON but which some writers put
// into user attributes. They become the strings that Zarr uses for such numbers. `keys`: members of the document within
// which they are accepted; empty: everywhere.
Result<base::Json> parse_json_with_nan(std::string_view text, const std::vector<std::string_view>& keys);
// parse_json_with_nan, or base::parse_json if `keys` is null, plus the deviations from JSON that `lenient` allows
// (null: none).
Result<base::Json> parse_lenient_json(std::string_view text, const std::vector<std::string_view>* keys,
                                      Lenient* lenient);

// The member `key` of an object; kCorrupt if it is missing. REQUIRES: object.is_object().
Result<const base::Json*> required_member(const base::Json& object, std::string_view key, std::string_view where);
// kCorrupt if `object` has a member that is not in `allowed`.
Status refuse_other_members(const base::Json& object, const std::vector<std::string_view>& allowed,
                            std::string_view where);

// Whether the value has `"must_understand": false`, so a reader that does not know it may ignore it.
bool may_be_ignored(const base::Json& value);

// An integer within [low, high]. Neither 1.0 nor true counts as one.
Result<std::uint64_t> read_integer(const base::Json& value, std::uint64_t low, std::uint64_t high,
                                   std::string_view what);
// A list of extents, each 0 to 2^63 - 1. kUnsupported if there are more than kMaxRank.
Result<std::vector<std::uint64_t>> read_extents(const base::Json& value, std::string_view what);

// Checks a chunk shape against its array: same rank, extents above 0 where the array has elements, and a size in bytes
// that fits a signed 64-bit integer. `key` names the field in messages.
Status check_chunk_shape(const std::vector<std::uint64_t>& chunk_shape, const std::vector<std::uint64_t>& shape,
                         std::uint64_t item_bytes, std::string_view key);

// Reverses the bytes within each width. This converts an element between big-endian and little-endian.
void swap_element(const std::vector<DataType::SwapRun>& runs, std::vector<std::byte>& element);

// Unit of a datetime or timedelta in NumPy's spelling ("us" for "μs"); empty if `text` is not a unit.
std::string_view time_unit(std::string_view text);

// Data types that both formats build.
// A few bytes of metadata must not cause an allocation of gigabytes for one element.
inline constexpr std::uint64_t kMaxItemBytes = std::uint64_t{16} << 20;
inline constexpr int kMaxStructDepth = 24;
DataType time_type(TypeKind kind, std::string_view unit, std::uint64_t scale);
DataType bytes_type(std::uint32_t item_bytes);
DataType unicode_type(std::uint32_t item_bytes);  // REQUIRES: a multiple of 4
DataType raw_type(std::uint32_t item_bytes);
DataType variable_type(TypeKind kind);  // kString "string" or kVariableBytes "bytes"
// Bytes per element while a chunk is decoded, for check_chunk_shape.
std::uint64_t decoding_bytes(const DataType& type);
// Appends a field (a scalar or a sub-array) to a structured type.
// kUnsupported: the element would become too large, or its list of swap runs too long.
Status append_field(DataType& type, DataType::Field field);
// Drops the stored swap runs of a type that has no big-endian field.
void finish_struct(DataType& type);

}  // namespace headrace::zarr
