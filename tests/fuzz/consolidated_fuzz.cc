// Consolidated metadata of both formats: either refused with a short message, or cut into nodes that lie within the
// document, in order. Each node is found by its path, and each is parsed or refused on its own.
#include <string>
#include <string_view>

#include "base/json.h"
#include "tests/fuzz/metadata_invariants.h"
#include "zarr/metadata/consolidated.h"
#include "zarr/metadata/node_io.h"
#include "zarr/metadata/node_path.h"

namespace {

using namespace headrace;

void check_nodes(const zarr::Consolidated& consolidated) {
  const auto& nodes = consolidated.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const zarr::ConsolidatedNode& node = nodes[i];
    FUZZ_CHECK(i == 0 || zarr::path_before(nodes[i - 1].path, node.path));
    FUZZ_CHECK(consolidated.find(node.path) == &node);
    FUZZ_CHECK(node.path.empty() ? consolidated.zarr_format() == 2
                                 : zarr::valid_node_path(node.path, consolidated.zarr_format()));
    FUZZ_CHECK(!node.document.empty() && node.document.front() == '{' && node.document.back() == '}');
    for (const zarr::ConsolidatedNode& below : consolidated.below(node.path)) {
      FUZZ_CHECK(node.path.empty() || below.path.substr(0, node.path.size() + 1) == node.path + "/");
    }
    auto parsed = zarr::parse_node(node, consolidated.zarr_format(), node.path, {});
    if (!parsed.ok()) continue;
    FUZZ_CHECK(parsed->array.has_value() == node.is_array && parsed->group.has_value() != node.is_array);
    if (parsed->array) {
      zarr::check_array(*parsed->array);
      FUZZ_CHECK(!node.shape.empty() && !node.data_type.empty());
      FUZZ_CHECK(base::parse_json(node.shape).ok() && base::parse_json(node.data_type).ok());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto v2 = zarr::Consolidated::parse_v2({bytes, bytes + size});
  if (v2.ok()) {
    check_nodes(**v2);
  } else {
    zarr::check_refusal(v2.status());
  }
  std::string rest;
  auto v3 = zarr::Consolidated::parse_v3({bytes, bytes + size}, {}, &rest);
  if (!v3.ok()) {
    zarr::check_refusal(v3.status());
    return 0;
  }
  auto group = zarr::parse_v3_group(rest);
  if (*v3 == nullptr) return 0;
  check_nodes(**v3);
  // Both ways to read such a document agree on whether it is a group with consolidated metadata.
  auto whole = zarr::parse_v3_group(text);
  if (whole.ok()) FUZZ_CHECK(whole->has_consolidated && group.ok() && group->attributes == whole->attributes);
  return 0;
}
