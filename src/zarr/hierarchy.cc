// Stores as the public API shows them, and walking a hierarchy.
#include "zarr/hierarchy.h"

#include <headrace/array.h>

#include <algorithm>
#include <new>

#include "transfer/context_impl.h"
#include "zarr/array_impl.h"
#include "zarr/node_path.h"

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

Result<std::vector<std::byte>> Store::get(std::string_view key, std::uint64_t limit) const {
  try {
    // Keys are handed to the kernel as they are.
    return impl_->get(std::string(key), limit);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status Store::put(std::string_view key, std::span<const std::byte> bytes) const {
  try {
    return impl_->put(std::string(key), bytes);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

bool Store::at_hand(std::string_view key, std::uint64_t limit) const {
  try {
    return impl_->at_hand(std::string(key), limit);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

namespace zarr {
namespace {

constexpr std::size_t kMaxDepth = 64;  // a symbolic link may lead back up

Status walk(store::Store& store, const std::string& path, const LoadOptions& options, std::size_t depth, bool recursive,
            bool required, const VisitNode& visit) {
  auto entries = store.list(path);
  if (!entries.ok()) return required ? std::move(entries).status() : Status();
  for (const store::Entry& entry : *entries) {
    if (!entry.is_directory) continue;
    const std::string child = join_path(path, entry.name);
    if (!valid_node_path(child, 2)) continue;
    auto loaded = load_node(store, child, options);
    const bool is_array = loaded.ok() && loaded->array.has_value();
    const Code code = loaded.status().code();
    // A v3 document at a path that no node of v3 can have is none.
    const bool is_node = loaded.ok() || (code != Code::kNotFound && code != Code::kInvalidArgument);
    if (is_node) visit(child, std::move(loaded));
    if (recursive && !is_array && depth < kMaxDepth) {
      HEADRACE_TRY(walk(store, child, options, depth + 1, true, false, visit));
    }
  }
  return {};
}

}  // namespace

Status walk_below(store::Store& store, const std::string& path, const LoadOptions& options, bool recursive,
                  const VisitNode& visit) {
  return walk(store, path, options, 0, recursive, true, visit);
}

bool is_implied_v2_group(store::Store& store, const std::string& path) {
  constexpr std::size_t kMostEntries = 1000;
  auto entries = store.list(path);
  if (!entries.ok()) return false;
  const std::size_t count = std::min(entries->size(), kMostEntries);
  for (std::size_t i = 0; i < count; ++i) {
    const store::Entry& entry = (*entries)[i];
    const std::string child = join_path(path, entry.name);
    if (!entry.is_directory || !valid_node_path(child, 2)) continue;
    for (const char* name : {".zarray", ".zgroup"}) {
      store::Object object;
      if (store.open(join_path(child, name), object).ok()) return true;
    }
  }
  return false;
}

}  // namespace zarr

namespace {

Node make_node(const Store& store, std::string path, Result<zarr::LoadedNode> loaded) {
  Node node;
  node.path = std::move(path);
  if (!loaded.ok()) {
    node.status = std::move(loaded).status();
    return node;
  }
  if (loaded->group) {
    node.zarr_format = loaded->group->zarr_format;
    node.attributes_json = loaded->group->attributes.dump(-1, ' ', false, base::Json::error_handler_t::replace);
    return node;
  }
  node.is_array = true;
  node.zarr_format = loaded->array->zarr_format;
  auto array = Array::Impl::make(store, node.path, std::move(*loaded));
  if (array.ok()) {
    node.attributes_json = array->info().attributes_json;
    node.array = std::move(*array);
  } else {
    node.status = std::move(array).status();
  }
  return node;
}

}  // namespace

Result<std::vector<Node>> list_nodes(const Store& store, std::string_view given_path, const OpenOptions& options) {
  try {
    HEADRACE_TRY(store.context().impl()->resources->check_usable());
    HEADRACE_TRY_ASSIGN(const std::string path, zarr::normalize_path(given_path));
    zarr::LoadOptions load;
    HEADRACE_TRY_ASSIGN(load.lenient, zarr::Lenient::parse(options.lenient));
    load.consolidated = options.consolidated;
    std::vector<Node> nodes;
    std::shared_ptr<const zarr::Consolidated> consolidated;
    auto root = zarr::load_node(*store.impl(), path, load);
    if (!root.ok() && root.status().code() == Code::kNotFound && zarr::is_implied_v2_group(*store.impl(), path)) {
      nodes.emplace_back();
      nodes.back().path = path;
      nodes.back().zarr_format = 2;
      nodes.back().attributes_json = "{}";
    } else if (!root.ok()) {
      return std::move(root).status();
    } else {
      consolidated = root->consolidated;
      nodes.push_back(make_node(store, path, std::move(root)));
    }
    if (nodes.front().is_array) return nodes;
    if (consolidated != nullptr) {
      for (const zarr::ConsolidatedNode& node : consolidated->nodes()) {
        if (node.path.empty()) continue;
        const std::string full = zarr::join_path(path, node.path);
        nodes.push_back(
            make_node(store, full, zarr::parse_node(node, consolidated->zarr_format(), full, load.lenient)));
      }
      return nodes;
    }
    load.consolidated = false;  // that of groups further below would only repeat what is walked
    HEADRACE_TRY(zarr::walk_below(*store.impl(), path, load, true,
                                  [&](const std::string& child, Result<zarr::LoadedNode> loaded) {
                                    nodes.push_back(make_node(store, child, std::move(loaded)));
                                  }));
    return nodes;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
