// What the tests of users' stores share.
#pragma once

#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/flat_array.h"
#include "support/ranges_in_memory.h"
#include "support/stores_under_test.h"

namespace headrace::testing {

inline Objects objects_of(const FlatArray& array, const std::string& path = "") {
  auto memory = store::open_store("memory://byte_store_test").value();
  EXPECT_TRUE(write_flat_array(*memory, path, array).ok());
  return objects_of(*memory);
}

struct ReadOutcome {
  Status status;
  std::vector<std::uint32_t> elements;
  Stats stats;
};

class ByteStoreTest : public ::testing::Test {
 protected:
  static Context make_context(unsigned threads = 3) {
    ContextOptions options;
    options.threads = threads;
    options.wave_bytes = 16 << 10;
    options.host_budget_bytes = 64 << 20;
    return Context::create(options).value();
  }
  // `content`: FlatArray or NestedArray.
  template <class Content>
  static ReadOutcome read(const Context& context, std::shared_ptr<ByteStore> store, const Content& content,
                          const char* device_name = "host", const std::string& selection = "",
                          const ReadOptions& options = {}) {
    ReadOutcome out;
    const auto opened = Array::open(Store::open(context, std::move(store)).value());
    out.status = opened.ok() ? Status() : opened.status();
    if (!out.status.ok()) return out;
    return read(*opened, content, device_name, selection, options);
  }
  template <class Content>
  static ReadOutcome read(const Array& array, const Content& content, const char* device_name = "host",
                          const std::string& selection = "", const ReadOptions& options = {}) {
    ReadOutcome out;
    const Selection chosen = parse_selection(selection).value();
    const std::uint64_t count = resolve_selection(chosen, std::vector<std::uint64_t>{content.elements()})->shape[0];
    const Device device = Device::open(device_name).value();
    auto buffer = Buffer::allocate(device, count * 4).value();
    out.status = array.read(chosen, {buffer, array.info().dtype, {count}}, device, options, &out.stats);
    out.elements.resize(count);
    EXPECT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(out.elements.data()), count * 4).ok());
    return out;
  }
  // Reads what one thing was changed of; elements must be right where the read says so.
  ReadOutcome read_changed(const FlatArray& content, const RangeHabits& habits) {
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(content), habits);
    ReadOutcome out = read(context_, store, content);
    EXPECT_EQ(store->in_flight, 0u);
    return out;
  }
  static bool is_metadata(const RangeRead& read) { return read.key.find(".z") == 0 || read.key == "zarr.json"; }

  Context context_ = make_context();
};

}  // namespace headrace::testing
