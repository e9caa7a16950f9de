// zarr.json documents: each parser either returns metadata that satisfies the invariants, or refuses with a short
// message. Sharding configurations found in the document are parsed too.
#include <string_view>

#include "tests/fuzz/metadata_invariants.h"

namespace {

void check_sharding(const headrace::zarr::ArrayMetadata& array) {
  using namespace headrace;
  std::vector<std::uint64_t> shape = array.chunk_shape;
  std::vector<zarr::CodecSpec> codecs = array.codecs;
  while (codecs[0].name == "sharding_indexed") {
    auto sharding = zarr::parse_sharding(codecs[0].config, shape);
    if (!sharding.ok()) return zarr::check_refusal(sharding.status());
    FUZZ_CHECK(sharding->inner_shape.size() == shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      FUZZ_CHECK(sharding->inner_shape[i] > 0 && shape[i] % sharding->inner_shape[i] == 0);
    }
    FUZZ_CHECK(!sharding->codecs.empty() && !sharding->index_codecs.empty());
    shape = sharding->inner_shape;
    codecs = sharding->codecs;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto type = zarr::parse_v3_node_type(text);
  auto array = zarr::parse_v3_array(text);
  auto group = zarr::parse_v3_group(text);
  zarr::check_lenient(array, text, zarr::parse_v3_array);
  if (!type.ok()) {
    zarr::check_refusal(type.status());
    FUZZ_CHECK(!array.ok() && !group.ok());
    return 0;
  }
  FUZZ_CHECK(*type == "array" || *type == "group");
  FUZZ_CHECK(!(array.ok() && group.ok()));
  if (!group.ok()) zarr::check_refusal(group.status());
  if (!array.ok()) {
    zarr::check_refusal(array.status());
    return 0;
  }
  FUZZ_CHECK(*type == "array" && array->zarr_format == 3 && !array->codecs.empty());
  zarr::check_array(*array);
  check_sharding(*array);
  std::string key;
  zarr::append_chunk_key(array->keys, array->shape.data(), array->shape.size(), key);
  FUZZ_CHECK(!key.empty() && key.find("..") == std::string::npos && key.find("//") == std::string::npos);
  return 0;
}
