// Measures the cost of opening. `open/consolidated_*`: opens a group of 10,000 arrays with consolidated metadata from
// files, and lists it (shape and data type of each array); `open/every_array` also opens each array.
// `open/array_of_1e6_chunks`: opens one array from files. `slice/1e12_elements`: plans and reads one of 10^12 elements,
// none of them stored.
#include <benchmark/benchmark.h>
#include <headrace/array.h>
#include <headrace/group.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/access.h"
#include "tests/support/raw_array.h"

namespace {

using namespace headrace;

constexpr int kArrays = 10000;

[[noreturn]] void die(const Status& status) {
  std::fprintf(stderr, "open_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) die(result.status());
  return std::move(*result);
}

// As zarr-python writes documents, indented by two spaces, with attributes as xarray writes them.
std::string v3_array(int i) {
  return R"({
          "shape": [)" +
         std::to_string(100 + i % 17) + R"(, 721, 1440],
          "data_type": "float32",
          "chunk_grid": {
            "name": "regular",
            "configuration": {
              "chunk_shape": [1, 721, 1440]
            }
          },
          "chunk_key_encoding": {
            "name": "default",
            "configuration": {
              "separator": "/"
            }
          },
          "fill_value": "NaN",
          "codecs": [
            {
              "name": "bytes",
              "configuration": {
                "endian": "little"
              }
            },
            {
              "name": "zstd",
              "configuration": {
                "level": 0,
                "checksum": false
              }
            }
          ],
          "attributes": {
            "units": "K",
            "long_name": "temperature number )" +
         std::to_string(i) + R"(",
            "standard_name": "air_temperature",
            "_FillValue": "AAAAAAAA+H8="
          },
          "dimension_names": ["time", "latitude", "longitude"],
          "zarr_format": 3,
          "node_type": "array",
          "storage_transformers": []
        })";
}

std::string v2_array(int i) {
  return R"({
            "chunks": [1, 721, 1440],
            "compressor": {
                "blocksize": 0,
                "clevel": 5,
                "cname": "lz4",
                "id": "blosc",
                "shuffle": 1
            },
            "dtype": "<f4",
            "fill_value": "NaN",
            "filters": null,
            "order": "C",
            "shape": [)" +
         std::to_string(100 + i % 17) + R"(, 721, 1440],
            "zarr_format": 2
        })";
}

struct Fixture {
  Fixture() {
    root = std::filesystem::temp_directory_path() / ("headrace_open_bench_" + std::to_string(::getpid()));
    std::filesystem::create_directories(root);
    ContextOptions options;
    options.threads = 2;
    context = must(Context::create(options));
    store = must(Store::open(*context, root.string()));
    std::string v3 = R"({"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": {
      "kind": "inline", "must_understand": false, "metadata": {)";
    std::string v2 = R"({"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2})";
    for (int i = 0; i < kArrays; ++i) {
      const std::string name = "group_" + std::to_string(i / 100) + "/array_" + std::to_string(i);
      if (i % 100 == 0) {
        const std::string group = "group_" + std::to_string(i / 100);
        v3 += (i == 0 ? "\"" : ",\"") + group + R"(": {"zarr_format": 3, "node_type": "group", "attributes": {}})";
        v2 += ",\"" + group + R"(/.zgroup": {"zarr_format": 2})";
      }
      v3 += ",\n        \"" + name + "\": " + v3_array(i);
      v2 += ",\n        \"" + name + "/.zarray\": " + v2_array(i) + ",\n        \"" + name +
            R"(/.zattrs": {"_ARRAY_DIMENSIONS": ["time", "latitude", "longitude"], "units": "K"})";
    }
    put("v3/zarr.json", v3 + "}}}");
    put("v2/.zmetadata", v2 + "}}");
    put("v2/.zgroup", R"({"zarr_format": 2})");
    put("chunks/zarr.json", array_of("[1000000]", "[1]"));
    put("huge/zarr.json", array_of("[1000000, 1000000]", "[100, 100]"));
    std::printf("zarr.json: %zu bytes, .zmetadata: %zu bytes\n", v3.size(), v2.size());
  }
  ~Fixture() { std::filesystem::remove_all(root); }

  void put(const std::string& key, const std::string& text) {
    if (Status s = testing::put_text(*Access::impl(*store), key, text); !s.ok()) die(s);
  }
  static std::string array_of(const std::string& shape, const std::string& chunk) {
    return R"({"zarr_format":3,"node_type":"array","shape":)" + shape +
           R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" + chunk +
           R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":7,)"
           R"("codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})";
  }

  std::filesystem::path root;
  std::optional<Context> context;
  std::optional<Store> store;
};

Fixture& fixture() {
  static Fixture f;
  return f;
}

void open_consolidated(benchmark::State& state, const char* path) {
  Fixture& f = fixture();
  for (auto _ : state) {
    Group group = must(Group::open(*f.store, path));
    const auto members = must(group.members());
    int arrays = 0;
    for (const Member& member : members) arrays += member.is_array && member.status.ok() && member.shape.size() == 3;
    if (arrays != kArrays) die(Status(Code::kInternal, Layer::kZarr, "arrays are missing"));
  }
}

void open_every_array(benchmark::State& state) {
  Fixture& f = fixture();
  for (auto _ : state) {
    const auto nodes = must(list_nodes(*f.store, "v3"));
    int arrays = 0;
    for (const Node& node : nodes) arrays += node.array ? 1 : 0;
    if (arrays != kArrays) die(Status(Code::kInternal, Layer::kZarr, "arrays are missing"));
  }
}

void open_array(benchmark::State& state) {
  Fixture& f = fixture();
  for (auto _ : state) {
    const Array array = must(Array::open(*f.store, "chunks"));
    if (array.info().chunk_count != 1000000) die(Status(Code::kInternal, Layer::kZarr, "not the array"));
  }
}

void slice(benchmark::State& state) {
  Fixture& f = fixture();
  auto device = must(Device::open("host"));
  const Selection selection = must(parse_selection("999999, -1"));
  for (auto _ : state) {
    const Array array = must(Array::open(*f.store, "huge"));
    std::uint32_t element = 0;
    if (Status s = array.read(selection, {std::span(&element, 1), {}}, device); !s.ok()) die(s);
    if (element != 7) die(Status(Code::kInternal, Layer::kZarr, "not the fill value"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("open/consolidated_v3", open_consolidated, "v3")
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  benchmark::RegisterBenchmark("open/consolidated_v2", open_consolidated, "v2")
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  benchmark::RegisterBenchmark("open/every_array", open_every_array)->Unit(benchmark::kMillisecond)->UseRealTime();
  benchmark::RegisterBenchmark("open/array_of_1e6_chunks", open_array)->Unit(benchmark::kMicrosecond)->UseRealTime();
  benchmark::RegisterBenchmark("slice/1e12_elements", slice)->Unit(benchmark::kMicrosecond)->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
