// Metadata documents: parsing ends in a document that survives printing and parsing again, or in kCorrupt. The scanner
// agrees with the parser on which documents are JSON, and on their members.
#include <string>

#include "base/json.h"
#include "base/json_scan.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using headrace::base::Json;

// Scans the top-level object and its members, as consolidated metadata is scanned.
void check_scanner(std::string_view text, const headrace::base::JsonLimits& limits,
                   const headrace::Result<Json>& parsed) {
  using namespace headrace;
  base::JsonScanner whole(text, false, limits);
  auto value = whole.skip_value();
  const Status end = whole.finish();
  FUZZ_CHECK((value.ok() && end.ok()) == parsed.ok());
  if (!parsed.ok()) {
    FUZZ_CHECK(end.code() == parsed.status().code() && !end.message().empty());
    return;
  }
  auto same = base::parse_json(*value, limits);
  FUZZ_CHECK(same.ok() && *same == *parsed);

  base::JsonScanner members(text, false, limits);
  auto entered = members.enter_object();
  FUZZ_CHECK(entered.ok() && *entered == parsed->is_object());
  if (!*entered) return;
  std::size_t count = 0;
  std::string_view key;
  for (;; ++count) {
    auto more = members.next_key(key);
    FUZZ_CHECK(more.ok());
    if (!*more) break;
    const std::string name(key);
    auto member = members.skip_value();
    FUZZ_CHECK(member.ok() && parsed->contains(name));
    auto part = base::parse_json(*member, limits);
    FUZZ_CHECK(part.ok() && *part == parsed->at(name));
  }
  FUZZ_CHECK(count == parsed->size() && members.finish().ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const base::JsonLimits limits{.max_bytes = 1 << 16, .max_depth = 32};
  const auto parsed = base::parse_json(text, limits);
  check_scanner(text, limits, parsed);
  if (!parsed.ok()) {
    FUZZ_CHECK(parsed.status().code() == (size > limits.max_bytes ? Code::kResourceExhausted : Code::kCorrupt));
    FUZZ_CHECK(!parsed.status().message().empty());
    return 0;
  }
  const std::string printed = parsed->dump();
  const auto again = base::parse_json(printed, {.max_bytes = printed.size(), .max_depth = 32});
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(*again == *parsed);
  return 0;
}
