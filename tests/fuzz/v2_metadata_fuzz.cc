// Zarr v2 documents: each parser either returns metadata that satisfies the invariants, or refuses with a short
// message.
#include <string_view>

#include "tests/fuzz/metadata_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto array = zarr::parse_v2_array(text);
  if (array.ok()) {
    FUZZ_CHECK(array->zarr_format == 2);
    FUZZ_CHECK(array->v2_order == 'C' || array->v2_order == 'F');
    FUZZ_CHECK(!array->v2_big_endian || array->dtype.uniform_swap_width() > 1);
    zarr::check_array(*array);
  } else {
    zarr::check_refusal(array.status());
  }
  zarr::check_lenient(array, text, zarr::parse_v2_array);
  auto group = zarr::parse_v2_group(text);
  if (!group.ok()) zarr::check_refusal(group.status());
  auto attributes = zarr::parse_v2_attributes(text);
  if (!attributes.ok()) zarr::check_refusal(attributes.status());
  return 0;
}
