#include <headrace/group.h>

#include <new>
#include <unordered_map>

#include "base/access.h"
#include "base/json_budget.h"
#include "transfer/context/context_impl.h"
#include "zarr/array/array_impl.h"
#include "zarr/hierarchy.h"
#include "zarr/metadata/metadata_text.h"
#include "zarr/metadata/node_path.h"

namespace headrace {

class Group::Impl {
 public:
  explicit Impl(Store owner) : store(std::move(owner)), memory(stored_memory()) {}

  const std::shared_ptr<base::MemoryBudget>& stored_memory() const {
    return Access::impl(store.context())->resources->stored_memory();
  }

  // The node at `path` (normalised): an open group, or the loaded metadata of an array.
  struct Loaded {
    std::shared_ptr<const Impl> group;  // null: it is an array
    zarr::LoadedNode array;
  };
  static Result<Loaded> load(const Store& store, const std::string& path, const OpenOptions& options);
  Result<std::vector<Member>> list(bool recursive) const;
  Result<std::vector<Member>> list_consolidated(bool recursive) const;
  // The node at `path`, relative to this group, from the consolidated metadata.
  Result<zarr::LoadedNode> find_consolidated(std::string_view path) const;
  Result<std::string> below(std::string_view path) const;

  const Store store;
  base::Charge memory;  // of `info`
  GroupInfo info;
  std::string lenient_names;
  zarr::Lenient lenient;
  // Consolidated metadata of the group at `base`, which is this group or one above it.
  std::shared_ptr<const zarr::Consolidated> consolidated;
  std::string base;
  std::string prefix;  // of this group in `consolidated`
};

namespace {

// A store has few distinct types, so each is parsed once.
class TypeCache {
 public:
  explicit TypeCache(int zarr_format) : zarr_format_(zarr_format) {}
  const Result<DataType>& get(std::string_view text) {
    const auto found = types_.find(text);
    if (found != types_.end()) return found->second;
    return types_.emplace(text, parse(text)).first->second;
  }

 private:
  Result<DataType> parse(std::string_view text) const {
    HEADRACE_TRY_ASSIGN(const base::Json value, base::parse_json(text));
    if (zarr_format_ == 3) return zarr::parse_v3_dtype(value);
    bool big_endian = false;
    return zarr::parse_v2_dtype(value, big_endian);
  }
  int zarr_format_;
  std::unordered_map<std::string_view, Result<DataType>> types_;
};

// Memory of a member while the list grows.
std::uint64_t member_bytes(std::string_view path) { return 2 * sizeof(Member) + path.size() + 1; }
// Memory of a member's shape and type, from the length of their text.
std::uint64_t member_bytes(const zarr::ConsolidatedNode& node) {
  constexpr std::uint64_t kPerByte = sizeof(DataType::Field) / 8;  // ["a","b"],
  return 4 * node.shape.size() + kPerByte * node.data_type.size();
}

Status fill_in(const zarr::ConsolidatedNode& node, TypeCache& types, base::Charge& parsing, Member& member) {
  if (node.shape.empty()) return zarr::corrupt("the array has no 'shape', which is required");
  if (node.data_type.empty()) return zarr::corrupt("the array has no data type, which is required");
  HEADRACE_TRY_ASSIGN(const base::Json shape, base::parse_json(node.shape, {}, parsing));
  HEADRACE_TRY_ASSIGN(auto extents, zarr::read_extents(shape, "shape"));
  const Result<DataType>& type = types.get(node.data_type);
  if (!type.ok()) return type.status();
  member.shape = std::move(extents);
  member.dtype = *type;
  return {};
}

}  // namespace

Result<std::vector<Member>> Group::Impl::list_consolidated(bool recursive) const {
  std::vector<Member> members;
  const int format = consolidated->zarr_format();
  TypeCache types(format);
  const std::size_t skip = prefix.empty() ? 0 : prefix.size() + 1;
  base::Charge listed(stored_memory());  // the caller owns them after the return
  constexpr std::string_view kWhat = "a list of members";
  const auto add = [&](std::string_view path) -> Status {
    std::string full = zarr::join_path(base, path);
    HEADRACE_TRY(listed.take(member_bytes(full), kWhat));
    Member& member = members.emplace_back();
    member.path = std::move(full);
    member.zarr_format = format;
    return {};
  };
  std::string last;  // path (in `consolidated`) of the member added last
  const auto nodes = consolidated->below(prefix);
  for (const zarr::ConsolidatedNode& node : nodes) {
    // v2: adds groups that this node implies.
    for (std::size_t slash = node.path.find('/', skip); format == 2 && slash != std::string::npos;
         slash = node.path.find('/', slash + 1)) {
      const std::string_view parent = std::string_view(node.path).substr(0, slash);
      const bool known = last == parent || (last.size() > slash && last[slash] == '/' &&
                                            std::string_view(last).substr(0, slash) == parent);
      if (!known) HEADRACE_TRY(add(last = parent));
      if (!recursive) break;
    }
    if (!recursive && node.path.find('/', skip) != std::string::npos) continue;
    HEADRACE_TRY(add(node.path));
    Member& member = members.back();
    member.is_array = node.is_array;
    if (node.is_array) {
      HEADRACE_TRY(listed.take(member_bytes(node), kWhat));
      base::Charge parsing(stored_memory());
      member.status = fill_in(node, types, parsing, member);
      if (!member.status.ok()) member.status = std::move(member.status).with_key(member.path);
    }
    last = node.path;
  }
  return members;
}

Result<std::vector<Member>> Group::Impl::list(bool recursive) const {
  if (consolidated != nullptr) return list_consolidated(recursive);
  std::vector<Member> members;
  base::Charge listed(stored_memory());
  zarr::LoadOptions load;
  load.lenient = lenient;
  load.memory = stored_memory();
  const auto visit = [&](const std::string& path, Result<zarr::LoadedNode> loaded) -> Status {
    std::uint64_t bytes = member_bytes(path);
    if (loaded.ok() && loaded->array) bytes += zarr::kept_bytes(*loaded->array);
    HEADRACE_TRY(listed.take(bytes, "a list of members"));
    Member& member = members.emplace_back();
    member.path = path;
    if (!loaded.ok()) {
      member.status = std::move(loaded).status();
    } else if (loaded->array) {
      member.is_array = true;
      member.zarr_format = loaded->array->zarr_format;
      member.shape = std::move(loaded->array->shape);
      member.dtype = std::move(loaded->array->dtype);
    } else {
      member.zarr_format = loaded->group->zarr_format;
    }
    return {};
  };
  HEADRACE_TRY(zarr::walk_below(*Access::impl(store), info.path, load, recursive, visit));
  zarr::sort_by_path(members);
  return members;
}

Result<std::string> Group::Impl::below(std::string_view path) const {
  HEADRACE_TRY_ASSIGN(std::string relative, zarr::normalize_path(path));
  if (relative.empty()) {
    return Status(Code::kInvalidArgument, Layer::kZarr, "the path below a group is empty").with_key(info.path);
  }
  return relative;
}

Result<zarr::LoadedNode> Group::Impl::find_consolidated(std::string_view path) const {
  const std::string wanted = zarr::join_path(prefix, path);
  const std::string full = zarr::join_path(base, wanted);
  if (const zarr::ConsolidatedNode* node = consolidated->find(wanted)) {
    zarr::LoadOptions load;
    load.lenient = lenient;
    load.memory = stored_memory();
    return zarr::parse_node(*node, consolidated->zarr_format(), full, load);
  }
  return Status(Code::kNotFound, Layer::kZarr,
                "the consolidated metadata of the group at '" + base +
                    "' has no such node; to look in the store itself, open the group without it "
                    "(OpenOptions::consolidated = false, --no-consolidated)")
      .with_key(full);
}

const GroupInfo& Group::info() const noexcept { return impl_->info; }

Result<Group::Impl::Loaded> Group::Impl::load(const Store& store, const std::string& path, const OpenOptions& options) {
  HEADRACE_TRY(Access::impl(store.context())->resources->check_usable());
  auto impl = std::make_shared<Impl>(store);
  zarr::LoadOptions load;
  HEADRACE_TRY_ASSIGN(load.lenient, zarr::Lenient::parse(options.lenient));
  load.consolidated = options.consolidated;
  load.memory = impl->stored_memory();
  impl->lenient = load.lenient;
  impl->lenient_names = options.lenient;
  auto node = zarr::load_node(*Access::impl(store), path, load);
  if (!node.ok() && node.status().code() == Code::kNotFound &&
      zarr::is_implied_v2_group(*Access::impl(store), path, load)) {
    impl->info = {path, 2, "{}", false, true};
    return Loaded{std::move(impl), {}};
  }
  if (!node.ok()) return std::move(node).status();
  if (node->array) return Loaded{nullptr, std::move(*node)};
  impl->consolidated = std::move(node->consolidated);
  impl->base = path;
  impl->info = {path, node->group->zarr_format,
                node->group->attributes.dump(-1, ' ', false, base::Json::error_handler_t::replace),
                impl->consolidated != nullptr, false};
  HEADRACE_TRY(impl->memory.take(impl->info.attributes_json.size(), "a group's attributes"));
  return Loaded{std::move(impl), {}};
}

Result<Group> Group::open(const Store& store, std::string_view given_path, const OpenOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(const std::string path, zarr::normalize_path(given_path));
    HEADRACE_TRY_ASSIGN(auto node, Impl::load(store, path, options));
    if (node.group == nullptr) {
      return Status(Code::kInvalidArgument, Layer::kZarr, "this is an array, not a group").with_key(node.array.key);
    }
    return Group(std::move(node.group));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<std::variant<Array, Group>> open(const Store& store, std::string_view given_path, const OpenOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(std::string path, zarr::normalize_path(given_path));
    HEADRACE_TRY_ASSIGN(auto node, Group::Impl::load(store, path, options));
    if (node.group != nullptr) return std::variant<Array, Group>(Access::make<Group>(std::move(node.group)));
    HEADRACE_TRY_ASSIGN(Array array, Array::Impl::make(store, std::move(path), std::move(node.array), options));
    return std::variant<Array, Group>(std::move(array));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<std::vector<Member>> Group::members() const {
  try {
    return impl_->list(true);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<std::vector<Member>> Group::children() const {
  try {
    return impl_->list(false);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<Array> Group::array(std::string_view path) const {
  try {
    HEADRACE_TRY(Access::impl(impl_->store.context())->resources->check_usable());
    HEADRACE_TRY_ASSIGN(const std::string relative, impl_->below(path));
    const std::string full = zarr::join_path(impl_->info.path, relative);
    zarr::LoadOptions load;
    load.lenient = impl_->lenient;
    load.memory = impl_->stored_memory();
    auto node = impl_->consolidated != nullptr ? impl_->find_consolidated(relative)
                                               : zarr::load_node(*Access::impl(impl_->store), full, load);
    if (!node.ok()) return std::move(node).status();
    return Array::Impl::make(impl_->store, full, std::move(*node));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<Group> Group::group(std::string_view path) const {
  try {
    HEADRACE_TRY_ASSIGN(const std::string relative, impl_->below(path));
    const std::string full = zarr::join_path(impl_->info.path, relative);
    if (impl_->consolidated == nullptr) return Group::open(impl_->store, full, {impl_->lenient_names, false});
    auto impl = std::make_shared<Impl>(impl_->store);
    impl->lenient = impl_->lenient;
    impl->lenient_names = impl_->lenient_names;
    impl->consolidated = impl_->consolidated;
    impl->base = impl_->base;
    impl->prefix = zarr::join_path(impl_->prefix, relative);
    impl->info = {full, impl_->consolidated->zarr_format(), "{}", true, false};
    auto node = impl_->find_consolidated(relative);
    if (node.ok() && node->array) {
      return Status(Code::kInvalidArgument, Layer::kZarr, "this is an array, not a group").with_key(full);
    }
    if (node.ok()) {
      impl->info.attributes_json = node->group->attributes.dump(-1, ' ', false, base::Json::error_handler_t::replace);
      HEADRACE_TRY(impl->memory.take(impl->info.attributes_json.size(), "a group's attributes"));
    } else if (node.status().code() == Code::kNotFound && impl_->consolidated->zarr_format() == 2 &&
               impl_->consolidated->has_below(impl->prefix)) {
      impl->info.implicit = true;
    } else {
      return std::move(node).status();
    }
    return Group(std::shared_ptr<const Impl>(std::move(impl)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
