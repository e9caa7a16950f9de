// Every kind of store, filled with given objects: what is to hold of stores is tested on each. A store's folder says
// how: headrace_plugin(... UNDER_TEST x_under_test.h), a header with x_under_test().
#pragma once

#include <headrace/array.h>

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace headrace::testing {

using Objects = std::map<std::string, store::Bytes>;

struct StoreUnderTest {
  const char* name;  // the scheme, or "SCHEME_something" for another way to fill it
  bool writable;
  bool any_bytes;  // names need not be UTF-8
  // The URL of a store in the empty directory `dir` that holds `objects`; nothing if one of them is refused.
  std::string (*fill)(const std::string& dir, const Objects& objects);
  bool remote = false;  // its objects offer ranges, and are not of this machine
  bool lists = true;
};

// Those of this machine, in the order of the stores' table.
std::span<const StoreUnderTest> stores_under_test();
// Stores of a user's, by what they tell and when they answer. They have no scheme: open_filled() opens them. Opening
// their objects asks nobody: whether there is one shows when it is read.
std::span<const StoreUnderTest> range_stores_under_test();
// Those of the stores' table that ask servers, which the tests start.
std::vector<StoreUnderTest> remote_stores_under_test();
// All of them.
std::vector<StoreUnderTest> all_stores_under_test();
// What fill() of any of them gave.
Result<std::shared_ptr<store::Store>> open_filled(const std::string& url);
Result<Store> open_filled(const Context& context, const std::string& url);
// REQUIRES: there is one of that name, in either table.
const StoreUnderTest& store_under_test(std::string_view name);
inline void PrintTo(const StoreUnderTest& row, std::ostream* out) { *out << row.name; }

// For stores that can be written: puts all into the store at `url`. Nothing if one is refused.
std::shared_ptr<store::Store> fill_by_put(const std::string& url, const Objects& objects);

// All objects of a store that is only what somebody has put into it.
Objects objects_of(store::Store& store, const std::string& prefix = "");

}  // namespace headrace::testing
