// Metadata documents: parsing ends in a document that prints and parses back to itself, or in kCorrupt.
#include <string>

#include "base/json.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const base::JsonLimits limits{.max_bytes = 1 << 16, .max_depth = 32};
  const auto parsed = base::parse_json(text, limits);
  if (!parsed.ok()) {
    FUZZ_CHECK(parsed.status().code() == Code::kCorrupt);
    FUZZ_CHECK(!parsed.status().message().empty());
    return 0;
  }
  const std::string printed = parsed->dump();
  const auto again = base::parse_json(printed, {.max_bytes = printed.size(), .max_depth = 32});
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(*again == *parsed);
  return 0;
}
