// Helpers shared by the tests of user-supplied stores.
#pragma once

#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/byte_store.h>

#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/read_shape.h"
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

// A store that states its preferred request shape.
struct ShapedStore final : ByteStore, base::ReadShaper {
  explicit ShapedStore(Objects objects, const RangeHabits& habits) : behind(std::move(objects), habits) {}
  std::string url() const override { return behind.url(); }
  Status start(std::span<RangeRead* const> reads) override { return behind.start(reads); }
  void cancel(std::span<RangeRead* const> reads) noexcept override { behind.cancel(reads); }
  base::ReadShape read_shape(bool steady) const noexcept override {
    base::ReadShape out = shape;
    if (steady) out.gap_bytes = 7;
    return out;
  }
  RangeStoreInMemory behind;
  base::ReadShape shape;
};

// Falsifies one answer in `every`, chosen at random, in any way an answer can be wrong.
class RandomLies {
 public:
  RandomLies(std::uint64_t seed, std::uint64_t every) : dice_(seed), every_(every) {}

  void tell(RangeRead& read) {
    std::lock_guard lock(mutex_);
    if (dice_() % every_ != 0) return;
    static constexpr std::uint64_t kMax = ~std::uint64_t{0};
    static constexpr std::uint64_t kCounts[] = {
        0, 1, 64, 100, kMax, kMax - 1, std::uint64_t{1} << 40, std::uint64_t{1} << 62};
    static constexpr Code kCodes[] = {Code::kIo, Code::kResourceExhausted, Code::kCancelled, Code::kAgainExhausted};
    const std::uint64_t count = kCounts[dice_() % std::size(kCounts)];
    switch (dice_() % 5) {
      case 0:
        read.bytes = count;
        break;
      case 1:
        read.object_bytes = count;
        break;
      case 2:
        read.found_version = "v" + std::to_string(count);
        break;
      case 3:
        read.status = Status(kCodes[dice_() % std::size(kCodes)], Layer::kStore, "planted");
        break;
      default:
        read.bytes = dice_() % (read.out.size() + 1);
        break;
    }
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 dice_;  // guarded by mutex_
  const std::uint64_t every_;
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
  // `content` is a FlatArray or a NestedArray.
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
  // Reads from a store with these habits; if the read succeeds, its elements must be right.
  ReadOutcome read_changed(const FlatArray& content, const RangeHabits& habits) {
    auto store = std::make_shared<RangeStoreInMemory>(objects_of(content), habits);
    ReadOutcome out = read(context_, store, content);
    EXPECT_EQ(store->in_flight, 0u);
    return out;
  }
  // Cancelling a read while at least `started` ranges are in flight asks the store to cancel them. The read ends when
  // the last of them ends, whether or not the store honours the request.
  void expect_cancelling_is_passed_on(const FlatArray& content, std::size_t started, unsigned threads = 3) {
    const Context context = make_context(threads);
    for (const bool ignores : {false, true}) {
      RangeHabits habits;
      habits.delay = std::chrono::milliseconds(ignores ? 300 : 60'000);
      Objects objects = objects_of(content);
      const store::Bytes& metadata = objects[content.metadata_key()];
      const std::string document(reinterpret_cast<const char*>(metadata.data()), metadata.size());
      auto store = std::make_shared<RangeStoreInMemory>(objects, habits);
      store->ignores_cancel = ignores;
      const Store open = Store::open(context, store).value();
      const Array array = Array::from_document(open, "", content.sharded() ? 3 : 2, document).value();
      std::vector<std::uint32_t> elements(content.elements());
      auto completion = array.read_async({}, {elements, {content.elements()}}, Device::open("host").value()).value();
      while (store->started < started) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      completion.cancel();
      ASSERT_TRUE(completion.wait_for(std::chrono::seconds(20)));
      EXPECT_EQ(completion.wait().code(), Code::kCancelled);
      EXPECT_GE(store->cancelled, started);
      EXPECT_EQ(store->in_flight, 0u) << "a read ends with the last of its ranges";
    }
  }
  static bool is_metadata(const RangeRead& read) { return read.key.find(".z") == 0 || read.key == "zarr.json"; }

  Context context_ = make_context();
};

}  // namespace headrace::testing
