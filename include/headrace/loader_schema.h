// LoaderSchema: identifies which samples a loader delivers and in which order, by one digest per named parameter.
//
// A loader's state is valid only for a loader with the same schema. One digest per parameter makes it possible to name
// a difference. Digests are the same on every machine. They protect from mistakes, not from forgery.
//
// Threads: a plain value.
// Fails:   functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace {

// One value per dimension, for some dimensions, in the order given: {{"time", 4}, {"lat", 64}}.
template <class T>
using ByDim = std::vector<std::pair<std::string, T>>;

class HEADRACE_API LoaderSchema {
 public:
  // Sets the digest of a parameter, replacing an earlier one.
  void set(std::string_view name, std::uint64_t digest);
  // Sets all digests of `other` here too.
  void add(const LoaderSchema& other);
  const std::map<std::string, std::uint64_t, std::less<>>& digests() const noexcept { return digests_; }

  // The names whose digests differ or exist in only one of the two, ascending. Empty: the schemas are equal.
  std::vector<std::string> differences(const LoaderSchema& other) const;
  bool operator==(const LoaderSchema& other) const noexcept { return digests_ == other.digests_; }

 private:
  std::map<std::string, std::uint64_t, std::less<>> digests_;
};

}  // namespace headrace
