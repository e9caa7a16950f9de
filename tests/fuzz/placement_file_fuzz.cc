// The file of placement rates: what the parser accepts is what the writer writes, and survives a round trip.
#include <cmath>
#include <string_view>

#include "tests/fuzz/fuzz_check.h"
#include "transfer/placement/placement_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  using transfer::PlacementFile;
  const auto rates = PlacementFile::parse({reinterpret_cast<const char*>(data), size});
  if (!rates.ok()) {
    FUZZ_CHECK(!rates.status().message().empty());
    return 0;
  }
  FUZZ_CHECK(rates->size() <= PlacementFile::kMaxKinds);
  for (const auto& [kind, pair] : *rates) {
    FUZZ_CHECK(kind.size() <= PlacementFile::kMaxKindBytes);
    for (const double rate : pair) FUZZ_CHECK(std::isfinite(rate) && rate >= 1);
  }
  const auto again = PlacementFile::parse(PlacementFile::text_of(*rates));
  FUZZ_CHECK(again.ok() && again->size() == rates->size());
  return 0;
}
