// Group: a node of a hierarchy that holds others. open(): whatever a node is.
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
  std::string path;  // in the store, "" for the root
  int zarr_format = 0;
  std::string attributes_json;
  bool consolidated = false;  // what lies below is taken from consolidated metadata, not from the store
  // v2 only: there is no `.zgroup`, but nodes lie below. (v3 has no implicit groups.)
  bool implicit = false;
};

// A node below a group, as a listing tells it.
struct Member {
  std::string path;  // in the store
  bool is_array = false;
  int zarr_format = 0;
  std::vector<std::uint64_t> shape;  // arrays
  DataType dtype;                    // arrays
  // Arrays: what is wrong with shape or data type (they are then empty). The rest of an array's metadata is looked at
  // when the array is opened.
  Status status;
};

class HEADRACE_API Group {
 public:
  // `path` inside the store, "" for its root. kNotFound: no node there; kInvalidArgument: an array; kCorrupt: metadata,
  // consolidated metadata included, that breaks its format.
  static Result<Group> open(const Store& store, std::string_view path = "", const OpenOptions& options = {});

  const GroupInfo& info() const noexcept;

  // Everything below, parents before children, siblings by name; or what lies directly below. With consolidated
  // metadata the store is not touched, else every folder is listed and every document read.
  Result<std::vector<Member>> members() const;
  Result<std::vector<Member>> children() const;

  // What lies at `path`, which is relative to this group. With consolidated metadata the store is not touched, and what
  // is not in there is kNotFound: open the group with OpenOptions::consolidated = false to look in the store itself.
  Result<Array> array(std::string_view path) const;
  Result<Group> group(std::string_view path) const;

  class Impl;

 private:
  friend struct Access;
  explicit Group(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// What lies at `path` inside the store, "" for its root: an array, opened as Array::open does, or a group, as
// Group::open. Its metadata are read once. kNotFound: no node there; else as these two fail.
HEADRACE_API Result<std::variant<Array, Group>> open(const Store& store, std::string_view path = "",
                                                     const OpenOptions& options = {});

}  // namespace headrace
