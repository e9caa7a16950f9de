// An array learns what its groups cost a worker, for host memory and for GPUs apart.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include "base/access.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"
#include "zarr/array/array_impl.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

class GroupCostsOfArrays : public ::testing::TestWithParam<Layout> {};

TEST_P(GroupCostsOfArrays, AreLearntByTheReadsOfAnArray) {
  const support::TempDir directory;
  const Context context = Context::create({.threads = 2}).value();
  const Store store = Store::open(context, directory.path()).value();
  const FlatArray content{.layout = GetParam(), .chunks = 100};
  ASSERT_TRUE(write_flat_array(*Access::impl(store), "", content).ok());
  const Array array = Array::open(store).value();
  const auto cost = [&](std::size_t staged) { return Access::impl(array)->group_costs[staged]->mean_ns(); };
  const auto read = [&](const char* name) {
    const Device device = Device::open(name).value();
    const Buffer buffer = Buffer::allocate(device, content.elements() * 4).value();
    const Status status = array.read({}, {buffer, array.info().dtype, {content.elements()}}, device);
    EXPECT_TRUE(status.ok()) << status.to_string();
  };
  EXPECT_EQ(cost(0) + cost(1), 0u);
  read("host");
  EXPECT_GT(cost(0), 0u);
  EXPECT_EQ(cost(1), 0u);
  read("host-staged");
  EXPECT_GT(cost(1), 0u);
  const Array again = Array::open(store).value();
  EXPECT_EQ(Access::impl(again)->group_costs[0]->mean_ns(), 0u) << "another array";
}

INSTANTIATE_TEST_SUITE_P(Layouts, GroupCostsOfArrays, ::testing::ValuesIn(testing::kLayouts),
                         [](const auto& row) { return std::string(testing::layout_name(row.param)); });

}  // namespace
}  // namespace headrace
