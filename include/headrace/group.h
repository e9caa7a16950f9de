// Group: a node of a hierarchy that contains arrays and groups. open(): opens a node of either kind.
//
// Threads: every call from any thread; a Group is immutable once open.
#pragma once

#include <headrace/array.h>
#include <headrace/dtype.h>
#include <headrace/export.h>
#include <headrace/open_options.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace headrace {

struct GroupInfo {
  std::string path;  // inside the store; "" for the root
  int zarr_format = 0;
  std::string attributes_json;
  bool consolidated = false;  // members come from consolidated metadata, not from the store
  // v2 only: there is no `.zgroup`, but there are nodes below. (v3 has no implicit groups.)
  bool implicit = false;
};

// A node below a group, as a listing returns it.
struct Member {
  std::string path;  // inside the store
  bool is_array = false;
  int zarr_format = 0;
  std::vector<std::uint64_t> shape;  // arrays
  DataType dtype;                    // arrays
  // Arrays: what is wrong with the shape or data type, which are then empty. The rest of an array's metadata is not
  // checked until the array is opened.
  Status status;
};

class HEADRACE_API Group {
 public:
  // `path` inside the store; "" for its root. kNotFound: no node; kInvalidArgument: an array; kCorrupt: the metadata,
  // or the consolidated metadata, breaks its format.
  static Result<Group> open(const Store& store, std::string_view path = "", const OpenOptions& options = {});

  const GroupInfo& info() const noexcept;

  // members(): all nodes below, parents before children, siblings by name. children(): only those directly below. With
  // consolidated metadata the store is not accessed; without it every folder is listed and every document read.
  Result<std::vector<Member>> members() const;
  Result<std::vector<Member>> children() const;

  // Opens the node at `path`, relative to this group. With consolidated metadata the store is not accessed, and a node
  // missing from the metadata is kNotFound: open the group with OpenOptions::consolidated = false to look in
  // the store itself.
  Result<Array> array(std::string_view path) const;
  Result<Group> group(std::string_view path) const;

  class Impl;

 private:
  friend struct Access;
  explicit Group(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Opens the node at `path` inside the store ("" for its root): an array as Array::open does, or a group as Group::open
// does. Its metadata is read once. kNotFound: no node; otherwise fails as these two do.
HEADRACE_API Result<std::variant<Array, Group>> open(const Store& store, std::string_view path = "",
                                                     const OpenOptions& options = {});

}  // namespace headrace
