// What a reader may accept beyond the specifications. Each rule covers one known habit of existing writers.
//
// A rule applies only if the user enables it by name. The strict parsers see the repaired document, and every repair is
// reported. docs/design/zarr.md lists the rules and the writers that need them.
//
// Threads: plain values.
#pragma once

#include <headrace/dtype.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace headrace::zarr {

enum class Leniency : std::uint8_t {
  kEndianCodec,
  kMissingEndian,
  kMissingBytesCodec,
  kSkipCodec,
  kCodecAsString,
  kTransposeLetter,
  kFormatAsFloat,
  kUnknownMembers,
  kMissingMembers,
  kNullFillValue,
  kIntegerFillAsFloat,
  kMissingByteOrder,
  kBareNonFinite,
  kByteOrderMark,
  kReservedNames,
};

// The enabled rules, and the repairs made under them. Names and descriptions are public: headrace/open_options.h.
class Lenient {
 public:
  // "endian-codec,missing-endian", "all", or "" for none. kInvalidArgument names an unknown rule.
  static Result<Lenient> parse(std::string_view names);

  bool any() const noexcept { return allowed_ != 0; }
  bool allows(Leniency rule) const noexcept { return (allowed_ >> static_cast<unsigned>(rule) & 1) != 0; }
  // Returns whether the rule is enabled; if so, records the use.
  bool use(Leniency rule, std::string_view what);

  std::vector<std::string> uses;  // "endian-codec: codecs[0] is called 'endian'"; no duplicates

 private:
  std::uint32_t allowed_ = 0;
};

// Repair a whole document before it is parsed strictly. `document` is an object.
void repair_v3(base::Json& document, Lenient& lenient);
void repair_v2(base::Json& document, Lenient& lenient);
// Repairs v3 codecs. This needs the array's type and rank.
void repair_codecs(base::Json& codecs, const DataType& dtype, std::size_t rank, std::string_view where,
                   Lenient& lenient, int depth = 0);
// Turns an integer type's fill value written with a zero fraction (0.0) into the integer.
void repair_fill(base::Json& fill, const DataType& dtype, Lenient& lenient);

}  // namespace headrace::zarr
