// Every kind of store, filled with given objects, so that the contract of stores is tested on each. A store's folder
// names its filler: headrace_plugin(... UNDER_TEST x_under_test.h), a header with x_under_test().
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
  const char* name;  // the scheme, or "SCHEME_something" for another way of filling it
  bool writable;
  bool any_bytes;  // names need not be UTF-8
  // Returns the URL of a store in the empty directory `dir` that contains `objects`, or nothing if one is refused.
  std::string (*fill)(const std::string& dir, const Objects& objects);
  bool remote = false;  // objects offer ranges and are not on this machine
  bool lists = true;
};

// Local stores, in the order of the stores' table.
std::span<const StoreUnderTest> stores_under_test();
// User-supplied stores, by what they report and when they answer. They have no scheme: open_filled() opens them.
// Opening one of their objects makes no request, so a missing object is only detected by a read.
std::span<const StoreUnderTest> range_stores_under_test();
// Stores of the table that use servers, which the tests start.
std::vector<StoreUnderTest> remote_stores_under_test();
// All of them.
std::vector<StoreUnderTest> all_stores_under_test();
// Opens what fill() of any of them returned.
Result<std::shared_ptr<store::Store>> open_filled(const std::string& url);
Result<Store> open_filled(const Context& context, const std::string& url);
// REQUIRES: a store of that name is in one of the tables.
const StoreUnderTest& store_under_test(std::string_view name);
inline void PrintTo(const StoreUnderTest& row, std::ostream* out) { *out << row.name; }

// For writable stores: puts all objects into the store at `url`. Returns nothing if one is refused.
std::shared_ptr<store::Store> fill_by_put(const std::string& url, const Objects& objects);

// All objects of a store that contains only what was put into it.
Objects objects_of(store::Store& store, const std::string& prefix = "");

}  // namespace headrace::testing
