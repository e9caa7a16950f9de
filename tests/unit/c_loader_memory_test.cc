// Whichever allocation of a C API loader call fails, the call returns an error and nothing leaks.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "support/alloc_counter.h"
#include "unit/c_loader_testing.h"

namespace headrace {
namespace {

using namespace testing;

class CLoaderMemory : public CLoaderTest {
 protected:
  // Calls `call` without a place for its message and frees its handle; each of its allocations fails in turn.
  template <class Handle>
  void refuse_each(const std::function<hr_code(Handle**)>& call) {
    if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
    std::uint64_t refusals = 0;
    for (std::uint64_t n = 0; n < 10'000; ++n) {
      Handle* handle = nullptr;
      support::fail_at_in_this_thread(n);
      const hr_code code = call(&handle);
      const bool refused = support::stop_failing() != 0;
      const Owned<Handle> owned(handle);
      if (!refused) {
        EXPECT_EQ(code, HR_OK);
        EXPECT_GT(refusals, 0u);
        return;
      }
      ++refusals;
      // Some allocations are optional: a call may succeed with less.
      ASSERT_TRUE(code == HR_RESOURCE_EXHAUSTED || code == HR_OK) << "request " << n << " gave " << code;
      ASSERT_EQ(handle != nullptr, code == HR_OK) << "request " << n;
    }
    FAIL() << "a call that never ends well";
  }
};
INSTANTIATE_TEST_SUITE_P(All, CLoaderMemory, ::testing::Values("host", "host-staged"), loader_device_name);

TEST_P(CLoaderMemory, AllocationFailuresAreErrors) {
  const std::vector<hr_dim_value> sizes = c_dims(kShape);
  const hr_dim_value input[] = {{"time", 2}}, size[] = {{"lat", 5}};
  const hr_window_output outputs[] = {{"a name that does not fit the string's own buffer", "time", 0, 0, 0}};
  hr_window_options options = HR_WINDOW_OPTIONS_INIT;
  options.input_dims = input;
  options.input_dims_count = 1;
  options.outputs = outputs;
  options.outputs_count = 1;
  refuse_each<hr_windows>(
      [&](hr_windows** out) { return hr_windows_create(sizes.data(), sizes.size(), &options, out, nullptr); });
  hr_crop_options crops = HR_CROP_OPTIONS_INIT;
  crops.dims = size;
  crops.dims_count = 1;
  refuse_each<hr_windows>([&](hr_windows** out) { return hr_windows_crop(windows_.get(), &crops, out, nullptr); });
  refuse_each<hr_windows>(
      [&](hr_windows** out) { return hr_windows_restrict(windows_.get(), "time", 0, 2, out, nullptr); });
  refuse_each<hr_windows>([&](hr_windows** out) {
    const double weights[] = {1, 1};
    hr_windows* parts[2] = {nullptr, nullptr};
    const hr_code code = hr_windows_divide(windows_.get(), "time", weights, 2, 0, parts, nullptr, nullptr, nullptr);
    *out = parts[0];
    hr_windows_free(parts[1]);
    return code;
  });
  refuse_each<hr_order>(
      [&](hr_order** out) { return hr_order_block_shuffle(windows_.get(), c_array_.get(), 2, out, nullptr); });
  refuse_each<hr_split>([&](hr_split** out) { return hr_split_create(nullptr, 10, 0, out, nullptr); });
  refuse_each<hr_loader>([&](hr_loader** out) {
    const hr_loader_array* const arrays[] = {&c_one_};
    return hr_loader_create(c_device_.get(), arrays, 1, nullptr, out, nullptr);
  });
  const auto loader = loader_of({&c_one_});
  refuse_each<hr_schema>([&](hr_schema** out) { return hr_schema_create(out, nullptr); });
  refuse_each<hr_schema>([&](hr_schema** out) { return hr_windows_schema(windows_.get(), out, nullptr); });
  refuse_each<hr_schema>([&](hr_schema** out) { return hr_loader_schema(loader.get(), out, nullptr); });
}

// After a refused call, the next one returns the same batch, also at the end of an epoch.
TEST_P(CLoaderMemory, NoBatchIsLost) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "sanitizers keep malloc for themselves";
  for (std::uint64_t n = 0;; ++n) {
    ASSERT_LT(n, 1'000u);
    const auto loader = loader_of({&c_one_});
    bool any_refused = false;
    for (std::uint64_t ends = 0, number = 0; ends < 2;) {
      hr_batch* batch = nullptr;
      hr_error* error = nullptr;
      while (hr_loader_wait_for(loader.get(), 1'000'000) == 0) continue;
      support::fail_at_in_this_thread(n);
      hr_code code = hr_loader_next(loader.get(), &batch, &error);
      const bool refused = support::stop_failing() != 0;
      any_refused = any_refused || refused;
      if (code != HR_OK) {
        ASSERT_TRUE(refused);
        ASSERT_EQ(code, HR_RESOURCE_EXHAUSTED) << hr_error_message(error);
        ASSERT_EQ(batch, nullptr);
        hr_error_free(error);
        code = hr_loader_next(loader.get(), &batch, nullptr);
      }
      ASSERT_EQ(code, HR_OK);
      const Owned<hr_batch> owned(batch);
      if (batch == nullptr) {
        ASSERT_EQ(number, hr_loader_batches(loader.get())) << "request " << n;
        number = 0;
        ++ends;
        continue;
      }
      ASSERT_EQ(hr_batch_number(batch), number) << "request " << n;
      ASSERT_EQ(samples_of(batch), std::vector<std::uint64_t>{number});
      ++number;
    }
    if (!any_refused) break;
    ASSERT_LT(n, 500u);
  }
}

}  // namespace
}  // namespace headrace
