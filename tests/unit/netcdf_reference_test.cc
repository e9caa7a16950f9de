// A NetCDF-4 file written by the HDF5 library, read as Zarr through references: the values are netCDF4's
// (tests/data/netcdf4/ocean.expected.json), on every device and with every engine.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "device/device.h"
#include "io/engine.h"
#include "tools/headrace/sha256.h"

namespace headrace {
namespace {

std::string folder() {
  const char* source = std::getenv("HEADRACE_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/tests/data/netcdf4";
}

base::Json expected() {
  std::stringstream text;
  text << std::ifstream(folder() + "/ocean.expected.json").rdbuf();
  return base::parse_json(text.str()).value();
}

std::string digest(const Array& array, const Device& device, const ReadOptions& options, Stats& stats) {
  const DataType dtype = result_dtype(array.info().dtype, options).value();
  std::uint64_t bytes = dtype.item_bytes;
  for (const std::uint64_t extent : array.info().shape) bytes *= extent;
  auto buffer = Buffer::allocate(device, static_cast<std::size_t>(bytes)).value();
  const Status status = array.read({}, {buffer, dtype, array.info().shape}, device, options, &stats);
  EXPECT_TRUE(status.ok()) << status.to_string();
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  EXPECT_TRUE(buffer.copy_to_host(0, out.data(), out.size()).ok());
  cli::Sha256 hash;
  hash.update(out);
  return hash.finish();
}

TEST(NetcdfReference, GivesTheValuesOfTheNetcdfLibrary) {
  const base::Json all = expected();
  ASSERT_EQ(all.size(), 9u);
  std::vector<std::string> engines = {"auto"};
  for (const io::EngineRow& row : io::engines()) engines.emplace_back(row.name);
  for (const std::string& engine : engines) {
    ContextOptions native;
    native.engine = engine;
    native.threads = 2;
    auto context = Context::create(native);
    if (!context.ok()) continue;  // the engines' own tests count this
    auto store = Store::open(*context, "reference://" + folder() + "/ocean.json");
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    for (const char* kind : {"host", "host-staged"}) {
      const Device device = Device::open(kind).value();
      for (const auto& [name, about] : all.items()) {
        SCOPED_TRACE(engine + " " + kind + " " + name);
        auto array = Array::open(*store, name);
        ASSERT_TRUE(array.ok()) << array.status().to_string();
        EXPECT_EQ(base::Json(array->info().shape), about["shape"]);
        Stats stats;
        EXPECT_EQ(digest(*array, device, {}, stats), about["sha256"].get<std::string>());
        EXPECT_EQ(stats.missing_chunks, name == "sparse" ? 3u : 0u);
        if (!about.contains("scale")) continue;
        ReadOptions scaled;
        scaled.dtype = "float64";
        scaled.scale = about["scale"];
        scaled.offset = about["offset"];
        EXPECT_EQ(digest(*array, device, scaled, stats), about["scaled_float64_sha256"].get<std::string>());
      }
    }
  }
}

TEST(NetcdfReference, TheTreeIsThatOfTheFile) {
  ContextOptions native;
  native.threads = 1;
  auto context = Context::create(native).value();
  auto store = Store::open(context, "reference://" + folder() + "/ocean.json").value();
  auto nodes = list_nodes(store);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  std::size_t arrays = 0;
  for (const Node& node : *nodes) {
    EXPECT_TRUE(node.status.ok()) << node.status.to_string();
    if (node.path == "salinity") {
      EXPECT_NE(node.attributes_json.find("scale_factor"), std::string::npos);
    }
    arrays += node.is_array ? 1 : 0;
  }
  EXPECT_EQ(arrays, 9u);
  auto inside = Store::open(context, "reference://" + folder() + "/ocean.json/deep/count").value();
  EXPECT_EQ(Array::open(inside)->info().shape, std::vector<std::uint64_t>{3});
}

}  // namespace
}  // namespace headrace
