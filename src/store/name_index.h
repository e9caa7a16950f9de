// NameIndex: the names in a single-file store such as an archive, with allocation-free lookup and listing by folder.
//
// Names may be untrusted, so the hash is keyed with a per-process secret that prevents deliberate collisions. Lookups
// compare bytes; nothing is decoded or normalised.
//
// Threads: add() by one thread, before any listing and any lookup by another thread; the rest from any thread.
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
  static constexpr std::uint32_t kMaxNames = std::uint32_t{1} << 28;

  NameIndex();

  // Returns the number of `name`, which counts names in the order they were first added; `is_new` false: it existed. A
  // name that ends in '/' is an empty directory. kNone: too many names. Throws std::bad_alloc.
  std::uint32_t add(std::string_view name, bool& is_new);

  // Reserves memory for that many names with that many bytes in total. Throws std::bad_alloc.
  void reserve(std::uint64_t names, std::uint64_t bytes);
  // Memory for names added after reserve(), including the sorted list. Names added without it may take twice that.
  static constexpr std::uint64_t bytes_of(std::uint64_t names, std::uint64_t bytes) noexcept {
    return bytes + names * (sizeof(Name) + 5 * sizeof(std::uint32_t));
  }

  // The number of `name`, or kNone. Allocates nothing.
  std::uint32_t find(std::string_view name) const noexcept;
  std::string_view name(std::uint32_t number) const noexcept;
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(names_.size()); }

  // Direct children of the folder `prefix` ("" = root), sorted; kNotFound if no name lies below it.
  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge = nullptr) const;

 private:
  std::uint64_t hash(std::string_view name) const noexcept;
  void grow();

  std::uint64_t key_[2];
  std::vector<char> text_;
  std::vector<Name> names_;
  std::vector<std::uint32_t> slots_;  // open-addressing hash table; kNone: free
  mutable std::once_flag sorting_;
  mutable std::vector<std::uint32_t> sorted_;  // built at the first listing
};

}  // namespace headrace::store
