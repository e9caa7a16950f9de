// Property: the tensor receives the same bytes whatever the engine, the device, the number of threads, the store and
// the strides of the destination, and they equal NumPy's slicing of the written values.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <random>

#include "base/access.h"
#include "device/device.h"
#include "io/engine.h"
#include "support/raw_array.h"
#include "support/sanitizer.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::RawArray;

struct Variant {
  std::string engine, device, store;
  unsigned threads;
};

std::vector<Variant> variants() {
  std::vector<std::string> engine_names = {"auto"}, device_names;
  for (const io::EngineRow& row : io::engines()) engine_names.push_back(row.name);
  for (const device::DeviceRow& row : device::devices()) {
    if (auto count = row.count(); count.ok() && *count > 0) device_names.push_back(row.kind);
  }
  std::vector<Variant> out;
  for (const auto& engine : engine_names) {
    for (const auto& device : device_names) {
      for (const testing::StoreUnderTest& store : testing::all_stores_under_test()) {
        if (store.writable && !support::kThreadSanitizer) out.push_back({engine, device, store.name, 1u});
        out.push_back({engine, device, store.name, 3u});
      }
    }
  }
  return support::all_or_every(5, std::move(out));
}

std::string variant_name(const ::testing::TestParamInfo<Variant>& info) {
  std::string name =
      info.param.engine + "_" + info.param.device + "_" + info.param.store + "_" + std::to_string(info.param.threads);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class Read : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    ContextOptions options;
    options.engine = GetParam().engine;
    options.threads = GetParam().threads;
    options.wave_bytes = 16 << 10;  // many waves even for small arrays
    options.host_budget_bytes = 64 << 20;
    auto made = Context::create(options);
    if (!made.ok() && (made.status().code() == Code::kUnsupported || made.status().code() == Code::kPermission)) {
      GTEST_SKIP() << GetParam().engine << " does not work here: " << made.status().to_string();
    }
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    context = std::make_unique<Context>(std::move(*made));
    auto opened_device = Device::open(GetParam().device);
    ASSERT_TRUE(opened_device.ok()) << opened_device.status().to_string();
    device = std::make_unique<Device>(std::move(*opened_device));
  }

  // Makes `store` a store of the kind under test with this array at `path`.
  void write(const std::string& path, const RawArray& array, std::vector<std::uint32_t>* expected) {
    auto memory = store::open_store("memory://read_conformance").value();
    ASSERT_TRUE(testing::write_raw_array(*memory, path, array, expected).ok());
    store.reset();
    directory = std::make_unique<support::TempDir>();
    std::string url;
    url = testing::store_under_test(GetParam().store).fill(directory->path(), testing::objects_of(*memory));
    auto opened = testing::open_filled(*context, url);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    store = std::make_unique<Store>(std::move(*opened));
  }

  // Reads `selection` into a tensor whose rows are `padding` elements apart and compares it with NumPy's result.
  void check(const std::string& path, const RawArray& array, const Selection& selection,
             const std::vector<std::uint32_t>& expected, std::uint64_t padding = 0) {
    auto opened = Array::open(*store, path);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    auto resolved = resolve_selection(selection, array.shape);
    ASSERT_TRUE(resolved.ok()) << resolved.status().to_string();
    TensorView tensor;
    tensor.shape = resolved->shape;
    std::uint64_t count = 1, span = 1;
    std::int64_t stride = 4;
    tensor.strides_bytes.resize(tensor.shape.size());
    for (std::size_t i = tensor.shape.size(); i-- > 0;) {
      count *= tensor.shape[i];
      tensor.strides_bytes[i] = stride;
      span = static_cast<std::uint64_t>(stride) / 4 * std::max<std::uint64_t>(tensor.shape[i], 1);
      stride = static_cast<std::int64_t>((span + padding) * 4);
    }
    const std::uint64_t room = static_cast<std::uint64_t>(stride) / 4 + 16;
    auto buffer = Buffer::allocate(*device, room * 4);
    ASSERT_TRUE(buffer.ok()) << buffer.status().to_string();
    tensor = {*buffer, opened->info().dtype, tensor.shape, tensor.strides_bytes};
    Stats stats;
    const Status status = opened->read(selection, tensor, *device, {}, &stats);
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<std::uint32_t> got(room);
    ASSERT_TRUE(buffer->copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), room * 4).ok());
    std::vector<std::uint64_t> at(tensor.shape.size(), 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t linear = 0, place = 0;
      std::size_t kept = 0;
      for (std::size_t d = 0; d < array.shape.size(); ++d) {
        const auto& dim = resolved->dims[d];
        const std::uint64_t k = dim.dropped ? 0 : at[kept];
        if (!dim.dropped) place += k * static_cast<std::uint64_t>(tensor.strides_bytes[kept++]) / 4;
        linear = linear * array.shape[d] + dim.start + k * dim.step;
      }
      ASSERT_EQ(got[place], expected[linear]) << "element " << i;
      testing::detail::advance(at, tensor.shape);
    }
    EXPECT_EQ(stats.decoded_bytes, count * 4);
  }

  std::unique_ptr<support::TempDir> directory;
  std::unique_ptr<Context> context;
  std::unique_ptr<Store> store;
  std::unique_ptr<Device> device;
};

TEST_P(Read, RandomArraysAndSelections) {
  std::mt19937_64 random(11);
  // Read-only stores run with one number of threads instead of two.
  const int all_rounds = GetParam().store == "file" || GetParam().store == "memory" ? 24 : 12;
  // Data races do not depend on the shapes, and AddressSanitizer sees the same code for each.
  const int rounds = support::kThreadSanitizer || support::kAddressSanitizer ? all_rounds / 6 : all_rounds;
  for (int round = 0; round < rounds; ++round) {
    RawArray array;
    const std::size_t rank = random() % 5;
    array.v2 = random() % 3 == 0;
    const bool sharded = !array.v2 && random() % 2 == 0;
    for (std::size_t d = 0; d < rank; ++d) {
      array.shape.push_back(1 + random() % (rank > 2 ? 11 : 60));
      const std::uint64_t inner = 1 + random() % 7;
      array.chunk.push_back(sharded ? inner * (1 + random() % 4) : inner);
      if (sharded) array.inner.push_back(inner);
    }
    array.seed = static_cast<std::uint32_t>(round);
    array.missing_every = static_cast<int>(random() % 3 == 0 ? 3 : 0);
    if (sharded && rank == 0) array.inner.clear();
    std::vector<std::uint32_t> expected;
    const std::string path = "round" + std::to_string(round);
    ASSERT_NO_FATAL_FAILURE(write(path, array, &expected));
    for (int pick = 0; pick < 6; ++pick) {
      Selection selection;
      for (std::size_t d = 0; d < rank && pick > 0; ++d) {
        SelectionItem item;
        if (random() % 4 == 0) {
          item.kind = SelectionItem::Kind::kIndex;
          item.start = static_cast<std::int64_t>(random() % array.shape[d]);
        } else {
          item.start = static_cast<std::int64_t>(random() % array.shape[d]);
          item.stop = static_cast<std::int64_t>(*item.start + random() % (array.shape[d] + 3));
          item.step = static_cast<std::int64_t>(1 + random() % 4);
        }
        selection.push_back(item);
      }
      SCOPED_TRACE("round " + std::to_string(round) + " selection " + std::to_string(pick));
      check(path, array, selection, expected, pick % 2 == 0 ? 0 : 3);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Read, ::testing::ValuesIn(variants()), variant_name);

// tmpfs has no O_DIRECT before Linux 6.6, and never has a block device.
TEST(ReadFromTmpfs, EveryEngineReads) {
  support::TempDir directory("/dev/shm");
  if (!directory.ok()) GTEST_SKIP() << "/dev/shm is not writable";
  for (const io::EngineRow& row : io::engines()) {
    SCOPED_TRACE(row.name);
    ContextOptions options;
    options.threads = 2;
    options.engine = row.name;
    auto context = Context::create(options).value();
    auto store = Store::open(context, directory.path()).value();
    std::vector<std::uint32_t> expected;
    const testing::RawArray about{.shape = {50, 70}, .chunk = {20, 30}, .inner = {10, 10}};
    ASSERT_TRUE(testing::write_raw_array(*Access::impl(store), "", about, &expected).ok());
    auto array = Array::open(store).value();
    auto device = Device::open("host").value();
    std::vector<std::uint32_t> got(about.elements());
    const Status status = array.read({}, {got, {50, 70}}, device);
    if (status.code() == Code::kUnsupported) continue;  // seccomp or an old kernel: the engine tests count such skips
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace headrace
