// Property: while an array a hundred times as large as the budget is read, the process grows by at most the budget.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>

#include "support/alloc_counter.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

constexpr std::size_t kBudget = std::size_t{8} << 20;

std::uint64_t status_bytes(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string name; file >> name;) {
    if (name != field + ":") continue;
    std::uint64_t kib = 0;
    file >> kib;
    return kib << 10;
  }
  return 0;
}

// Resets the peak resident size; false if the kernel does not allow it.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.flush();
  return file.good();
}

// The folder of an array, made once for all variants, since it has ten thousand names. All are links to one chunk of
// zeros: the content does not matter here.
const std::string& folder_of(const FlatArray& array) {
  static const support::TempDir directory;
  static std::map<Layout, std::string> folders;
  const auto [found, fresh] = folders.try_emplace(array.layout, directory / testing::layout_name(array.layout));
  const std::string& folder = found->second;
  if (!fresh) return folder;
  const std::vector<std::uint32_t> values(array.chunk_elements, 0);
  store::Bytes chunk(ZSTD_compressBound(values.size() * 4));
  chunk.resize(ZSTD_compress(chunk.data(), chunk.size(), values.data(), values.size() * 4, 1));
  if (array.layout == Layout::kRaw) chunk.assign(values.size() * 4, std::byte{0});
  std::filesystem::create_directory(folder);
  const std::string metadata = array.metadata(), first = folder + "/" + array.key(0);
  EXPECT_TRUE(support::write_file(folder + "/" + array.metadata_key(),
                                  std::as_bytes(std::span(metadata.data(), metadata.size()))));
  EXPECT_TRUE(support::write_file(first, chunk));
  for (std::uint64_t i = 1; i < array.chunks; ++i) {
    std::filesystem::create_hard_link(first, folder + "/" + array.key(i));
  }
  return folder;
}

struct Variant {
  const char* device;
  const char* engine;
  Layout layout;
};

class MemoryBudget : public ::testing::TestWithParam<Variant> {};

TEST_P(MemoryBudget, HoldsForAnArrayAHundredTimesAsLarge) {
  if (!support::kAllocCounterWorks) GTEST_SKIP() << "a sanitizer's own memory counts as the process's";
  const bool staged = std::string_view(GetParam().device) != "host";
  const FlatArray array{.layout = GetParam().layout, .chunks = 100 * kBudget / (64 << 10), .chunk_elements = 16 << 10};
  ContextOptions options;
  options.threads = 2;
  options.engine = GetParam().engine;
  options.host_budget_bytes = kBudget;
  options.device_budget_bytes = kBudget;
  auto context = Context::create(options).value();
  const std::string& folder = folder_of(array);
  ASSERT_FALSE(HasFailure());
  auto store = Store::open(context, folder).value();
  auto opened = Array::open(store).value();
  auto device = Device::open(GetParam().device).value();
  auto buffer = Buffer::allocate(device, array.elements() * 4).value();
  if (!staged) std::memset(buffer.data(), 1, array.elements() * 4);
  // Touches the device's memory, which for host-staged is part of the process.
  if (staged) {
    ASSERT_TRUE(opened.read({}, {buffer, opened.info().dtype, {array.elements()}}, device).ok());
  }
  if (!reset_peak()) GTEST_SKIP() << "the kernel does not let the peak be reset";
  const std::uint64_t before = status_bytes("VmRSS");
  ASSERT_GT(before, array.elements() * 4);
  // A new context, so that memory pooled by the first read is not measured.
  auto fresh = Context::create(options).value();
  auto again = Array::open(Store::open(fresh, folder).value()).value();
  Stats stats;
  const Status status = again.read({}, {buffer, again.info().dtype, {array.elements()}}, device, {}, &stats);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const std::uint64_t grown = status_bytes("VmHWM") - before;
  EXPECT_EQ(stats.chunks, array.chunks);
  EXPECT_GE(stats.decoded_bytes, 100 * kBudget);
  // host-staged has its "device" slabs in this process too.
  EXPECT_LE(static_cast<double>(grown), 1.1 * static_cast<double>(kBudget) + (staged ? kBudget : 0));
  RecordProperty("grown_bytes", std::to_string(grown));
}

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const char* device : {"host", "host-staged"}) {
    for (const char* engine : {"auto", "io_uring", "threads"}) {
      for (const Layout layout : {Layout::kRaw, Layout::kZstd}) out.push_back({device, engine, layout});
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, MemoryBudget, ::testing::ValuesIn(variants()), [](const auto& about) {
  std::string name =
      std::string(about.param.device) + "_" + about.param.engine + "_" + testing::layout_name(about.param.layout);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace headrace
