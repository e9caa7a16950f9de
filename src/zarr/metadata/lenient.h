// What a reader may let pass beyond the specifications, one named rule for each habit of writers in use.
//
// Nothing here is applied unless the user asked for it by name; the strict parsers see a document that has been
// repaired, and each repair is reported. docs/design/zarr.md lists them with their writers.
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

// The rules that are allowed, and what they did. The rows of names and texts are public: headrace/open_options.h.
class Lenient {
 public:
  // "endian-codec,missing-endian", "all", or "" for none. kInvalidArgument names a rule that there is not.
  static Result<Lenient> parse(std::string_view names);

  bool any() const noexcept { return allowed_ != 0; }
  bool allows(Leniency rule) const noexcept { return (allowed_ >> static_cast<unsigned>(rule) & 1) != 0; }
  // If the rule is allowed: true, and the use is recorded.
  bool use(Leniency rule, std::string_view what);

  std::vector<std::string> uses;  // "endian-codec: codecs[0] is called 'endian'", each once

 private:
  std::uint32_t allowed_ = 0;
};

// Repairs of a document as a whole, before it is parsed strictly. `document` is an object.
void repair_v3(base::Json& document, Lenient& lenient);
void repair_v2(base::Json& document, Lenient& lenient);
// Repairs of v3 codecs, which need the array's type and rank.
void repair_codecs(base::Json& codecs, const DataType& dtype, std::size_t rank, std::string_view where,
                   Lenient& lenient, int depth = 0);
// A fill value of an integer type that is written with a fraction of zero; `fill` as it should have been.
void repair_fill(base::Json& fill, const DataType& dtype, Lenient& lenient);

}  // namespace headrace::zarr
