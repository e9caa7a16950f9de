// Stores as the public API shows them, and walking a hierarchy.
#include <headrace/array.h>

#include <new>

#include "store/store.h"
#include "transfer/context_impl.h"
#include "zarr/array_impl.h"
#include "zarr/node_io.h"

namespace headrace {

Result<Store> Store::open(const Context& context, std::string_view url) {
  try {
    HEADRACE_TRY(context.impl()->resources->check_usable());
    HEADRACE_TRY_ASSIGN(auto impl, store::open_store(url));
    return Store(context, std::move(impl));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

std::string Store::url() const { return impl_->url(); }

namespace {

constexpr std::size_t kMaxDepth = 64;  // a symbolic link may lead back up

// Appends the node at `path` and what is below it. Folders that are no nodes are passed over: v2 groups may be implied
// by nothing but their children, v3 has no implied groups, and neither hides a node below.
Status walk(const Store& store, const std::string& path, std::size_t depth, bool required, std::vector<Node>& nodes) {
  auto loaded = zarr::load_node(*store.impl(), path);
  bool is_array = false;
  if (loaded.ok() || loaded.status().code() != Code::kNotFound) {
    Node node;
    node.path = path;
    if (!loaded.ok()) {
      if (required) return std::move(loaded).status();
      node.status = std::move(loaded).status();
    } else if (loaded->array) {
      is_array = node.is_array = true;
      node.zarr_format = loaded->array->zarr_format;
      auto array = Array::open(store, path);
      if (array.ok()) {
        node.attributes_json = array->info().attributes_json;
        node.array = std::move(*array);
      } else {
        node.status = std::move(array).status();
      }
    } else {
      node.zarr_format = loaded->group->zarr_format;
      node.attributes_json = loaded->group->attributes.dump(-1, ' ', false, base::Json::error_handler_t::replace);
    }
    nodes.push_back(std::move(node));
  } else if (required) {
    return std::move(loaded).status();
  }
  if (is_array || depth >= kMaxDepth) return {};
  auto entries = store.impl()->list(path);
  if (!entries.ok()) return required ? std::move(entries).status() : Status();
  for (const store::Entry& entry : *entries) {
    if (!entry.is_directory) continue;
    const std::string child = path.empty() ? entry.name : path + "/" + entry.name;
    if (!store::valid_key(child)) continue;
    HEADRACE_TRY(walk(store, child, depth + 1, false, nodes));
  }
  return {};
}

}  // namespace

Result<std::vector<Node>> list_nodes(const Store& store, std::string_view path) {
  try {
    HEADRACE_TRY(store.context().impl()->resources->check_usable());
    std::vector<Node> nodes;
    HEADRACE_TRY(walk(store, std::string(path), 0, true, nodes));
    return nodes;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
