// LoaderSchema: what decides which samples a loader gives and in which order, as one digest for each named parameter.
//
// A loader's state is of use only to a loader with the same schema. Digests are kept one by one, so that a difference
// can be named. They are the same on every machine; they protect from mistakes, not from forgery.
//
// Threads: a value.
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

// A value for each of some dimensions, in the order given: {{"time", 4}, {"lat", 64}}.
template <class T>
using ByDim = std::vector<std::pair<std::string, T>>;

class HEADRACE_API LoaderSchema {
 public:
  // Sets the digest of one parameter; a second time it is replaced.
  void set(std::string_view name, std::uint64_t digest);
  // What `other` has is set here, too.
  void add(const LoaderSchema& other);
  const std::map<std::string, std::uint64_t, std::less<>>& digests() const noexcept { return digests_; }

  // The names whose digests differ or that only one of the two has, ascending. Empty: the same schema.
  std::vector<std::string> differences(const LoaderSchema& other) const;
  bool operator==(const LoaderSchema& other) const noexcept { return digests_ == other.digests_; }

 private:
  std::map<std::string, std::uint64_t, std::less<>> digests_;
};

}  // namespace headrace
