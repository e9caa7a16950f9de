#include "zarr/node_io.h"

#include "zarr/metadata_text.h"

namespace headrace::zarr {
namespace {

constexpr std::uint64_t kMaxDocumentBytes = std::uint64_t{256} << 20;

std::string join(std::string_view path, std::string_view name) {
  std::string key(path);
  if (!key.empty()) key += '/';
  key += name;
  return key;
}

std::string_view as_text(const store::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<LoadedNode> load_node(store::Store& store, std::string_view path) {
  if (!path.empty()) HEADRACE_TRY(store::check_key(path));
  LoadedNode node;
  node.key = join(path, "zarr.json");
  if (auto document = store.get(node.key, kMaxDocumentBytes); document.ok()) {
    auto type = parse_v3_node_type(as_text(*document));
    if (!type.ok()) return std::move(type).status().with_key(node.key);
    if (is_text(*type, "array")) {
      auto array = parse_v3_array(as_text(*document));
      if (!array.ok()) return std::move(array).status().with_key(node.key);
      node.array = std::move(*array);
    } else {
      auto group = parse_v3_group(as_text(*document));
      if (!group.ok()) return std::move(group).status().with_key(node.key);
      node.group = std::move(*group);
    }
    return node;
  } else if (document.status().code() != Code::kNotFound) {
    return std::move(document).status();
  }

  base::Json attributes = base::Json::object();
  const std::string attributes_key = join(path, ".zattrs");
  const auto load_attributes = [&]() -> Status {
    auto document = store.get(attributes_key, kMaxDocumentBytes);
    if (!document.ok()) return document.status().code() == Code::kNotFound ? Status() : std::move(document).status();
    auto parsed = parse_v2_attributes(as_text(*document));
    if (!parsed.ok()) return std::move(parsed).status().with_key(attributes_key);
    attributes = std::move(*parsed);
    return {};
  };
  node.key = join(path, ".zarray");
  if (auto document = store.get(node.key, kMaxDocumentBytes); document.ok()) {
    auto array = parse_v2_array(as_text(*document));
    if (!array.ok()) return std::move(array).status().with_key(node.key);
    HEADRACE_TRY(load_attributes());
    array->attributes = std::move(attributes);
    // xarray and netCDF name v2 dimensions in this attribute; anything else it may hold is the user's own.
    if (auto names = array->attributes.find("_ARRAY_DIMENSIONS");
        names != array->attributes.end() && names->is_array() && names->size() == array->shape.size()) {
      for (const auto& name : *names) {
        if (name.is_string()) array->dimension_names.emplace_back(name.get<std::string>());
      }
      if (array->dimension_names.size() != array->shape.size()) array->dimension_names.clear();
    }
    node.array = std::move(*array);
    return node;
  } else if (document.status().code() != Code::kNotFound) {
    return std::move(document).status();
  }
  node.key = join(path, ".zgroup");
  if (auto document = store.get(node.key, kMaxDocumentBytes); document.ok()) {
    auto group = parse_v2_group(as_text(*document));
    if (!group.ok()) return std::move(group).status().with_key(node.key);
    HEADRACE_TRY(load_attributes());
    group->attributes = std::move(attributes);
    node.group = std::move(*group);
    return node;
  } else if (document.status().code() != Code::kNotFound) {
    return std::move(document).status();
  }
  return Status(Code::kNotFound, Layer::kZarr,
                "no Zarr node here: neither zarr.json, .zarray nor .zgroup exists at '" + std::string(path) + "' in " +
                    store.url());
}

}  // namespace headrace::zarr
