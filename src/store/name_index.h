// NameIndex: the names of a store that is one file, such as an archive: looked up without allocating, listed by folder.
//
// Names may come from strangers: the hash is keyed by a secret of the process, so that no set of names collides on
// purpose. Lookups compare bytes; nothing is decoded or normalised.
//
// Threads: add() by one thread, before anything is listed or another thread looks; the rest from any thread.
// Owns:    the names.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace headrace::store {

class NameIndex {
  struct Name {
    std::size_t begin, length;
  };

 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kMostNames = std::uint32_t{1} << 28;

  NameIndex();

  // The number of `name`, which is its position in the order of first additions; `is_new` false: it was there. A name
  // that ends in '/' is an empty directory. kNone: there are too many names. Throws std::bad_alloc.
  std::uint32_t add(std::string_view name, bool& is_new);

  // Memory for so many names of so many bytes in all. Throws std::bad_alloc.
  void reserve(std::uint64_t names, std::uint64_t bytes);
  // What names take, the sorted list included, with reserve() for them. Of names that are added one by one, twice that.
  static constexpr std::uint64_t bytes_of(std::uint64_t names, std::uint64_t bytes) noexcept {
    return bytes + names * (sizeof(Name) + 5 * sizeof(std::uint32_t));
  }

  // The number of `name`, or kNone. Allocates nothing.
  std::uint32_t find(std::string_view name) const noexcept;
  std::string_view name(std::uint32_t number) const noexcept;
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(names_.size()); }

  // Direct children of the folder `prefix` ("" = root), sorted; kNotFound where no name lies below it.
  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge = nullptr) const;

 private:
  std::uint64_t hash(std::string_view name) const noexcept;
  void grow();

  std::uint64_t key_[2];
  std::vector<char> text_;
  std::vector<Name> names_;
  std::vector<std::uint32_t> slots_;  // hash table, open addressing; kNone: free
  mutable std::once_flag sorting_;
  mutable std::vector<std::uint32_t> sorted_;  // made when first listed
};

}  // namespace headrace::store
