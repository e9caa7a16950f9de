// The public Store handle, and walking a hierarchy.
#include "zarr/hierarchy.h"

#include <headrace/array.h>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <new>
#include <set>

#include "base/access.h"
#include "store/file_offers.h"
#include "store/range_store.h"
#include "transfer/context/context_impl.h"
#include "zarr/array/array_impl.h"
#include "zarr/metadata/node_path.h"

namespace headrace {

Result<Store> Store::open(const Context& context, std::string_view url) { return open(context, url, {}); }

Result<Store> Store::open(const Context& context, std::string_view url, std::span<const StorageOption> options) {
  try {
    HEADRACE_TRY(Access::impl(context)->resources->check_usable());
    HEADRACE_TRY_ASSIGN(auto impl,
                        store::open_store(url, {Access::impl(context)->resources->stored_memory(), options}));
    return Access::make<Store>(context, std::move(impl));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<Store> Store::open(const Context& context, std::shared_ptr<ByteStore> store) {
  try {
    HEADRACE_TRY(Access::impl(context)->resources->check_usable());
    if (store == nullptr) return Status(Code::kInvalidArgument, Layer::kApi, "the store is null");
    return Access::make<Store>(context, std::make_shared<store::RangeStore>(std::move(store)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

std::string Store::url() const { return impl_->url(); }

std::shared_ptr<ByteStore> Store::ranges() const { return {impl_, impl_->ranges()}; }

Result<std::vector<std::byte>> Store::get(std::string_view key, std::uint64_t limit) const {
  try {
    // System calls take the key as it is, so it must be NUL-terminated.
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
    store::FileOffers* const files = impl_->files();
    return files != nullptr && files->at_hand(std::string(key), limit);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

namespace zarr {
namespace {

constexpr std::size_t kMaxDepth = 64;

// One walk through a hierarchy.
class Walk {
 public:
  Walk(store::Store& store, const LoadOptions& options, bool recursive, const VisitNode& visit)
      : store_(store), options_(options), recursive_(recursive), visit_(visit), memory_(options.memory) {}

  Status run(const std::string& path) {
    if (recursive_) HEADRACE_TRY(see(path).status());
    HEADRACE_TRY(folder(path, 0, true, false));
    // Links are followed last, after everything here has been visited under its own path.
    while (!links_.empty()) {
      const Link link = std::move(links_.front());
      links_.pop_front();
      HEADRACE_TRY(child(link.path, link.depth, link.below_broken));
    }
    return {};
  }

 private:
  struct Link {
    std::string path;
    std::size_t depth;
    bool below_broken;
  };

  // Whether `path` is the first visited path to its directory.
  Result<bool> see(const std::string& path) {
    store::FileOffers* const files = store_.files();
    const auto id = files != nullptr ? files->identify_directory(path) : std::nullopt;
    if (!id) return true;
    constexpr std::uint64_t kSetBytes = 64;
    HEADRACE_TRY(memory_.take(kSetBytes, "walking a hierarchy"));
    return seen_.insert(*id).second;
  }

  // `depth`: of `path` below the start of the walk. `below_broken`: a node above cannot be opened.
  Status folder(const std::string& path, std::size_t depth, bool required, bool below_broken) {
    base::Charge listing(options_.memory);
    auto entries = store_.list(path, &listing);
    if (!entries.ok()) {
      const bool passed_over = !required && entries.status().code() != Code::kResourceExhausted;
      return passed_over ? Status() : std::move(entries).status();
    }
    for (const store::Entry& entry : *entries) {
      if (!entry.is_directory) continue;
      const std::string path_of_child = join_path(path, entry.name);
      if (!valid_node_path(path_of_child, 2)) continue;
      if (entry.is_link && recursive_) {
        HEADRACE_TRY(memory_.take(sizeof(Link) + path_of_child.size(), "walking a hierarchy"));
        links_.push_back({path_of_child, depth + 1, below_broken});
      } else {
        HEADRACE_TRY(child(path_of_child, depth + 1, below_broken));
      }
    }
    return {};
  }

  Status child(const std::string& path, std::size_t depth, bool below_broken) {
    auto loaded = load_node(store_, path, options_);
    const bool is_array = loaded.ok() && loaded->array.has_value();
    const Code code = loaded.status().code();
    // A v3 document at a path that is invalid in v3 does not make a node.
    bool is_node = loaded.ok() || (code != Code::kNotFound && code != Code::kInvalidArgument);
    // The broken node may be an array, and a folder in it without access permission may hold its chunks.
    if (below_broken && code == Code::kPermission) is_node = false;
    below_broken = below_broken || (is_node && !loaded.ok());
    if (is_node) HEADRACE_TRY(visit_(path, std::move(loaded)));
    if (!recursive_ || is_array) return {};
    HEADRACE_TRY_ASSIGN(const bool first, see(path));
    if (!first) return {};
    if (depth < kMaxDepth) return folder(path, depth, false, below_broken);
    return visit_(path, Status(Code::kUnsupported, Layer::kZarr,
                               "nested deeper than " + std::to_string(kMaxDepth) +
                                   " folders: deeper nodes are not listed; open this folder itself")
                            .with_key(path));
  }

  store::Store& store_;
  const LoadOptions& options_;
  const bool recursive_;
  const VisitNode& visit_;
  base::Charge memory_;
  std::set<store::DirectoryId> seen_;
  std::deque<Link> links_;
};

}  // namespace

Status walk_below(store::Store& store, const std::string& path, const LoadOptions& options, bool recursive,
                  const VisitNode& visit) {
  return Walk(store, options, recursive, visit).run(path);
}

namespace {

// Whether a folder directly below `path` has one of these documents.
bool has_child_with(store::Store& store, const std::string& path, const LoadOptions& options,
                    std::initializer_list<const char*> documents) {
  constexpr std::size_t kMaxEntries = 1000;
  base::Charge listing(options.memory);
  auto entries = store.list(path, &listing);
  if (!entries.ok()) return false;
  const std::size_t count = std::min(entries->size(), kMaxEntries);
  for (std::size_t i = 0; i < count; ++i) {
    const store::Entry& entry = (*entries)[i];
    const std::string child = join_path(path, entry.name);
    if (!entry.is_directory || !valid_node_path(child, 2)) continue;
    for (const char* name : documents) {
      if (store::has_object(store, join_path(child, name))) return true;
    }
  }
  return false;
}

}  // namespace

bool is_implied_v2_group(store::Store& store, const std::string& path, const LoadOptions& options) {
  return has_child_with(store, path, options, {".zarray", ".zgroup"});
}

bool is_folder_of_v3(store::Store& store, const std::string& path, const LoadOptions& options) {
  return has_child_with(store, path, options, {"zarr.json"});
}

}  // namespace zarr

namespace {

constexpr std::uint64_t kNodeBytes = 4096;  // of an open array, without what its metadata decide

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
    HEADRACE_TRY(Access::impl(store.context())->resources->check_usable());
    HEADRACE_TRY_ASSIGN(const std::string path, zarr::normalize_path(given_path));
    zarr::LoadOptions load;
    HEADRACE_TRY_ASSIGN(load.lenient, zarr::Lenient::parse(options.lenient));
    load.consolidated = options.consolidated;
    load.memory = Access::impl(store.context())->resources->stored_memory();
    std::vector<Node> nodes;
    base::Charge listed(load.memory);  // the caller owns them after the return
    const auto add = [&](std::string where, Result<zarr::LoadedNode> loaded) -> Status {
      HEADRACE_TRY(listed.take(kNodeBytes + where.size(), "a list of nodes"));
      nodes.push_back(make_node(store, std::move(where), std::move(loaded)));
      return listed.take(nodes.back().attributes_json.size(), "a list of nodes");
    };
    std::shared_ptr<const zarr::Consolidated> consolidated;
    auto root = zarr::load_node(*Access::impl(store), path, load);
    const bool no_node = !root.ok() && root.status().code() == Code::kNotFound;
    const bool v2_group = no_node && zarr::is_implied_v2_group(*Access::impl(store), path, load);
    if (v2_group || (no_node && zarr::is_folder_of_v3(*Access::impl(store), path, load))) {
      nodes.emplace_back();
      nodes.back().path = path;
      nodes.back().zarr_format = v2_group ? 2 : 0;
      nodes.back().attributes_json = "{}";
    } else if (!root.ok()) {
      return std::move(root).status();
    } else {
      consolidated = root->consolidated;
      HEADRACE_TRY(add(path, std::move(root)));
    }
    if (nodes.front().is_array) return nodes;
    if (consolidated != nullptr) {
      for (const zarr::ConsolidatedNode& node : consolidated->nodes()) {
        if (node.path.empty()) continue;
        const std::string full = zarr::join_path(path, node.path);
        HEADRACE_TRY(add(full, zarr::parse_node(node, consolidated->zarr_format(), full, load)));
      }
      return nodes;
    }
    load.consolidated = false;  // consolidated metadata of groups below would only repeat what is walked
    HEADRACE_TRY(zarr::walk_below(*Access::impl(store), path, load, true, add));
    zarr::sort_by_path(nodes);
    return nodes;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
