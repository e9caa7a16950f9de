// Property: the cost of a chunk on each path through the library is as recorded in tests/data/read_costs.txt:
// allocations, hits of fault points (system calls), and the counts of Stats. A change that makes chunks more expensive
// shows as a change of that file. After an intended change, HEADRACE_WRITE_READ_COSTS=1 rewrites it.
//
// Files are warm, one thread reads, and each number is the median of several rounds, so that nothing depends on timing.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/decode_index.h>
#include <headrace_bench/decode_batch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/dev_host/staged_decoder.h"
#include "base/access.h"
#include "base/fault.h"
#include "os/file_read.h"
#include "store/file_offers.h"
#include "support/alloc_counter.h"
#include "support/flat_array.h"
#include "support/forwarding_store.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"
#include "support/variable_model.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;
using Costs = std::map<std::string, std::int64_t>;  // costs that are absent are 0

// The file records the difference between reads of many and of few chunks, which excludes the fixed cost of a read.
constexpr std::uint64_t kFew = 128, kMany = 512, kChunkElements = 64, kWaveChunks = 32;
constexpr int kRounds = 5;
// Threads of an engine, a device or the pool make a few allocations more or less. One per wave would make 12 more, one
// per chunk 384.
constexpr std::int64_t kAllocationJitter = 6;
bool is_memory(const std::string& cost) { return cost == "allocations" || cost == "base.page_mmap"; }
// Too long for the small-string optimisation, as keys are.
const std::string kPath = "a-directory-with-a-long-name/array";

enum class Does : std::uint8_t { kRead, kStrings, kBatch, kIndex };

struct Row {
  Does does;
  const char* way;
  const char* device;
  const char* grid;

  std::string name() const {
    static constexpr const char* kDoes[] = {"read", "strings", "decode_batch", "decode_index"};
    return std::string(kDoes[static_cast<int>(does)]) + ' ' + way + ' ' + device + ' ' + grid;
  }
  bool is(const char* one) const { return std::string_view(way) == one; }
  bool maps() const { return is("mapped"); }
  // Whether the device decodes.
  bool decodes() const { return is("decoded") || maps(); }
};

// Only where the file system supports O_DIRECT.
constexpr Row kDirect[] = {{Does::kRead, "direct", "host", "raw"},
                           {Does::kRead, "direct", "host", "sharded_zstd"},
                           {Does::kRead, "direct", "host-staged", "raw"}};

std::vector<Row> rows() {
  std::vector<Row> out;
  for (const char* device : {"host", "host-staged"}) {
    for (const char* way : {"memory", "cached", "engine", "zip", "unpacked"}) {
      for (const char* grid : {"raw", "zstd", "sharded_raw", "sharded_zstd"}) {
        out.push_back({Does::kRead, way, device, grid});
      }
    }
    for (const char* way : {"memory", "cached"}) out.push_back({Does::kRead, way, device, "rectilinear"});
    for (const char* way : {"memory", "cached", "zip", "unpacked"}) {
      for (const char* grid : {"zstd", "sharded_zstd"}) out.push_back({Does::kBatch, way, device, grid});
    }
  }
  for (const char* way : {"decoded", "mapped"}) {
    for (const char* grid : {"raw", "zstd", "sharded_raw", "sharded_zstd"}) {
      if (way == std::string_view("decoded") && std::string_view(grid).ends_with("raw")) continue;
      out.push_back({Does::kRead, way, "host-staged", grid});
    }
  }
  out.push_back({Does::kStrings, "engine", "host", "strings"});
  for (const char* way : {"memory", "cached", "zip", "unpacked"}) {
    out.push_back({Does::kStrings, way, "host", "strings"});
    for (const char* grid : {"zstd", "sharded_zstd"}) out.push_back({Does::kIndex, way, "host", grid});
  }
  return out;
}

Layout layout_of(const std::string& grid) {
  for (const Layout layout : testing::kLayouts) {
    if (grid == testing::layout_name(layout)) return layout;
  }
  ADD_FAILURE() << grid;
  return Layout::kRaw;
}

std::string document(const std::string& shape, const std::string& type, const std::string& grid,
                     const std::string& codecs) {
  return R"({"zarr_format":3,"node_type":"array","shape":[)" + shape + R"(],"data_type":")" + type +
         R"(","chunk_grid":)" + grid + R"(,"chunk_key_encoding":{"name":"default"},"fill_value":)" +
         (type == "string" ? R"("")" : "0") + R"(,"codecs":[)" + codecs + "]}";
}

// Objects by key. Numeric elements are FlatArray's; zstd cannot compress them, so sizes do not depend on its version.
testing::Objects objects_of(const std::string& grid, std::uint64_t chunks) {
  auto memory = store::open_store("memory://read_cost").value();
  const std::string elements = std::to_string(chunks * kChunkElements);
  const auto put = [&](const std::string& key, const std::string& text) {
    EXPECT_TRUE(memory->put(kPath + "/" + key, testing::to_bytes(text)).ok());
  };
  if (grid == "strings") {
    put("zarr.json",
        document(elements, "string",
                 R"({"name":"regular","configuration":{"chunk_shape":[)" + std::to_string(kChunkElements) + "]}}",
                 R"({"name":"vlen-utf8"})"));
    const std::string chunk = testing::encode_vlen(testing::Strings(kChunkElements, "a string"));
    for (std::uint64_t i = 0; i < chunks; ++i) put("c/" + std::to_string(i), chunk);
  } else if (grid == "rectilinear") {
    // Half of the elements are in chunks twice as large as FlatArray's.
    const std::uint64_t half = chunks / 2;
    const std::string runs = "[[" + std::to_string(2 * kChunkElements) + "," + std::to_string(half / 2) + "],[" +
                             std::to_string(kChunkElements) + "," + std::to_string(half) + "]]";
    put("zarr.json",
        document(elements, "uint32",
                 R"({"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[)" + runs + "]}}",
                 R"({"name":"bytes","configuration":{"endian":"little"}})"));
    const FlatArray large{.chunks = half / 2, .chunk_elements = 2 * kChunkElements};
    const FlatArray small{.chunks = chunks, .chunk_elements = kChunkElements};
    for (std::uint64_t i = 0; i < half / 2 + half; ++i) {
      const store::Bytes bytes = i < half / 2 ? large.encoded(i) : small.encoded(i + half / 2);
      EXPECT_TRUE(memory->put(kPath + "/c/" + std::to_string(i), bytes).ok());
    }
  } else {
    const FlatArray array{.layout = layout_of(grid), .chunks = chunks, .chunk_elements = kChunkElements};
    EXPECT_TRUE(testing::write_flat_array(*memory, kPath, array).ok());
  }
  return testing::objects_of(*memory);
}

const char* store_of(const Row& row) {
  if (row.is("memory")) return "memory";
  if (row.is("zip")) return "zip";
  return row.is("unpacked") ? "zip_deflated" : "file";
}

std::string fill(const char* store, const std::string& directory, const testing::Objects& objects) {
  for (const testing::StoreUnderTest& row : testing::stores_under_test()) {
    if (std::string_view(row.name) == store) return row.fill(directory, objects);
  }
  return {};
}

// The URL of a row's store. Files are written once and shared by all rows.
std::string url_of(const Row& row, std::uint64_t chunks) {
  struct Filled {
    support::TempDir directory;
    std::string url;
  };
  static std::map<std::string, std::unique_ptr<Filled>> all;
  const char* const store = store_of(row);
  std::unique_ptr<Filled>& filled = all[std::string(store) + row.grid + std::to_string(chunks)];
  // A store in memory exists only as long as it is open.
  if (filled == nullptr || row.is("memory")) {
    filled = std::make_unique<Filled>();
    filled->url = fill(store, filled->directory.path(), objects_of(row.grid, chunks));
    support::wait_until_unchanged();
  }
  return filled->url;
}

void add_stats(const Stats& stats, Costs& costs) {
  for (const auto& [name, value] : {std::pair{"chunks", stats.chunks},
                                    {"missing_chunks", stats.missing_chunks},
                                    {"gpu_chunks", stats.gpu_chunks},
                                    {"cpu_chunks", stats.cpu_chunks},
                                    {"returned_chunks", stats.returned_chunks},
                                    {"requests", stats.requests},
                                    {"objects_opened", stats.objects_opened},
                                    {"stored_bytes", stats.stored_bytes},
                                    {"read_bytes", stats.read_bytes},
                                    {"bus_bytes", stats.bus_bytes},
                                    {"decoded_bytes", stats.decoded_bytes},
                                    {"direct_bytes", stats.direct_bytes},
                                    {"engine_bytes", stats.engine_bytes},
                                    {"buffered_bytes", stats.buffered_bytes},
                                    {"memory_bytes", stats.memory_bytes},
                                    {"mapped_bytes", stats.mapped_bytes},
                                    {"store_bytes", stats.store_bytes},
                                    {"packed_bytes", stats.packed_bytes},
                                    {"waves", stats.waves}}) {
    costs[name] += static_cast<std::int64_t>(value);
  }
}

// One array that is read in one way, repeatedly.
class Subject {
 public:
  Subject(const Row& row, const Store& store) : row_(row), array_(Array::open(store, kPath).value()) {}

  // The costs of one round.
  Costs round() {
    Costs before = hits();
    const support::AllocScope scope;
    Stats stats;
    const Status status = run(stats);
    const std::uint64_t allocations = scope.allocations();
    EXPECT_TRUE(status.ok()) << status.to_string();
    Costs costs = hits();
    for (auto& [point, count] : costs) count -= before[point];
    if (support::kAllocCounterWorks) costs["allocations"] = static_cast<std::int64_t>(allocations);
    add_stats(stats, costs);
    return costs;
  }
  // The median of each cost, but the minimum of allocations, after two warm-up rounds, or more while slabs are being
  // pinned in the background: a read that lacks some creates an event.
  Costs measure() {
    if (row_.maps()) wait_for_mappings();
    for (int i = 0, warm = 2; i < warm; ++i) {
      if (round()["dev_host.create_event"] == 0 || i > 100) continue;
      warm = i + 2;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::map<std::string, std::vector<std::int64_t>> all;
    for (int i = 0; i < kRounds; ++i) {
      for (const auto& [name, value] : round()) all[name].push_back(value);
    }
    Costs out;
    for (auto& [name, values] : all) {
      values.resize(kRounds);
      std::sort(values.begin(), values.end());
      out[name] = values[is_memory(name) ? 0 : kRounds / 2];
    }
    return out;
  }

 private:
  static Costs hits() {
    Costs out;
    for (const base::FaultCount& count : base::fault_counts()) out[count.point] = static_cast<std::int64_t>(count.hits);
    return out;
  }
  Status run(Stats& stats) {
    if (row_.does == Does::kStrings) {
      auto strings = array_.read_variable({});
      if (strings.ok()) stats = strings->stats;
      return std::move(strings).status();
    }
    if (row_.does == Does::kBatch) {
      const auto batch = DecodeBatch::load(array_, {}, device_);
      if (!batch.ok()) return batch.status();
      stats.chunks = batch->chunk_count();
      stats.stored_bytes = batch->encoded_bytes();
      return {};
    }
    if (row_.does == Does::kIndex) {
      const auto built = build_decode_index(array_, indices_.path());
      if (!built.ok()) return built.status();
      stats.chunks = built->indexed + built->small;
      stats.stored_bytes = built->stored_bytes;
      return {};
    }
    const std::uint64_t elements = array_.info().shape[0];
    if (!buffer_.data()) buffer_ = Buffer::allocate(device_, static_cast<std::size_t>(elements) * 4).value();
    ReadOptions options;
    options.placement = row_.decodes() ? Placement::kGpu : Placement::kCpu;
    return array_.read({}, {buffer_, array_.info().dtype, {elements}}, device_, options, &stats);
  }
  // Mappings are made in the background, once files are old enough.
  void wait_for_mappings() {
    for (int i = 0; i < 1000; ++i) {
      Stats stats;
      ASSERT_TRUE(run(stats).ok());
      if (stats.mapped_bytes >= stats.stored_bytes) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ADD_FAILURE() << "the file was never fully mapped";
  }

  const Row row_;
  const Array array_;
  const Device device_ = Device::open(row_.device).value();
  support::TempDir indices_;
  Buffer buffer_;
};

Context make_context(const Row& row) {
  ContextOptions options;
  options.threads = 1;
  const bool cold = row.is("engine") || row.is("direct");  // these rows read cold data
  options.engine = cold ? "threads" : "auto";
  options.allow_direct = row.is("direct");
  options.waves = 3;
  options.wave_bytes = kWaveChunks * kChunkElements * 4;
  options.host_budget_bytes = std::size_t{16} << 20;
  options.allow_mapped = row.maps();
  return Context::create(options).value();
}

struct DeviceDecodes {
  explicit DeviceDecodes(bool on) { device::staged_decode_model().any_codec = on; }
  ~DeviceDecodes() { device::staged_decode_model().any_codec = false; }
};

Costs difference(const Costs& many, const Costs& few) {
  Costs out;
  for (const auto& [name, value] : many) {
    const std::int64_t more = value - (few.contains(name) ? few.at(name) : 0);
    if (is_memory(name) ? more > kAllocationJitter : more != 0) out[name] = more;
  }
  return out;
}

// `wrap` puts a store of the test in front of the one that is read.
template <class Wrap>
Costs costs_of(const Row& row, const Wrap& wrap) {
  const DeviceDecodes decodes(row.decodes() || row.does == Does::kBatch);
  const Context context = make_context(row);
  Costs costs[2];
  for (const bool many : {false, true}) {
    const Store store = Access::make<Store>(context, wrap(store::open_store(url_of(row, many ? kMany : kFew)).value()));
    costs[many] = Subject(row, store).measure();
  }
  Costs out = difference(costs[1], costs[0]);
  // How many batches the pool's thread takes varies, so the count is rounded.
  if (row.does == Does::kStrings) {
    constexpr std::int64_t kUnit = (kMany - kFew) / 4;
    std::int64_t& allocations = out["allocations"];
    allocations = (allocations + kUnit / 2) / kUnit * kUnit;
    if (allocations == 0) out.erase("allocations");
  }
  // How much is read around a range depends on the disk's block size.
  if (row.is("direct"))
    std::erase_if(
        out, [](const auto& cost) { return cost.first.starts_with("read_") || cost.first.starts_with("direct_"); });
  return out;
}

Costs costs_of(const Row& row) {
  return costs_of(row, [](std::shared_ptr<store::Store> store) { return store; });
}

std::string costs_file() {
  const char* const root = std::getenv("HEADRACE_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/data/read_costs.txt";
}

// One row per line: "NAME: COST NUMBER, COST NUMBER".
std::map<std::string, Costs> recorded() {
  std::map<std::string, Costs> out;
  std::ifstream file(costs_file());
  EXPECT_TRUE(file) << costs_file();
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with('#') || colon == std::string::npos) continue;
    Costs& costs = out[line.substr(0, colon)];
    std::istringstream rest(line.substr(colon + 2));
    std::int64_t value = 0;
    for (std::string name; rest >> name >> value; rest.ignore(1, ',')) costs[name] = value;
  }
  return out;
}

std::string text_of(const std::string& name, const Costs& costs) {
  std::string out = name + ":";
  for (const auto& [cost, value] : costs) {
    out += (out.back() == ':' ? " " : ", ") + cost + " " + std::to_string(value);
  }
  return out + "\n";
}

// Whether this build and file system count this cost.
bool comparable(const std::string& cost) {
  if (cost == "allocations") return support::kAllocCounterWorks;
  if (cost.find('.') == std::string::npos) return true;
  if (!base::kFaultPointsCompiled) return false;
  // A file system that cannot report what is cached needs a second call.
  static const bool says = [] {
    const support::TempDir directory;
    const std::byte one[1] = {};
    EXPECT_TRUE(support::write_file(directory / "file", one));
    base::arm_fault({.point = "base.preadv2", .nth = 1});
    store::ByteSource object;
    EXPECT_TRUE(store::open_store(directory.path()).value()->open("file", object).ok());
    std::byte read[1];
    std::uint64_t moved = 0;
    int error = 0;
    const bool once = os::read_cached(object.file().fd, 0, read, moved, error) == os::CachedRead::kDone;
    base::disarm_faults();
    return once;
  }();
  return says || cost != "base.preadv2";
}

// One line for each cost that differs from the recorded one. Fewer allocations are no difference, since some compilers
// and libraries avoid a few.
std::vector<std::string> differences(const Costs& before, const Costs& now) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> both;
  for (const auto& [name, value] : before) both[name].first = value;
  for (const auto& [name, value] : now) both[name].second = value;
  std::vector<std::string> out;
  for (const auto& [name, values] : both) {
    const auto& [was, is] = values;
    if (was == is || !comparable(name) || (is_memory(name) && is <= was + kAllocationJitter)) continue;
    out.push_back(name + ": " + std::to_string(was) + " in the file, " + std::to_string(is) + " now");
  }
  return out;
}

void expect_recorded(const Row& row, std::map<std::string, Costs>& known) {
  const auto found = known.find(row.name());
  ASSERT_NE(found, known.end()) << row.name() << " is not in " << costs_file();
  const Costs costs = costs_of(row);
  EXPECT_EQ(differences(found->second, costs), std::vector<std::string>())
      << text_of(row.name(), costs) << "if the new cost is intended, run with HEADRACE_WRITE_READ_COSTS=1";
  known.erase(found);
}

bool reads_direct() {
  const support::TempDir directory;
  EXPECT_TRUE(support::write_file(directory / "file", testing::to_bytes("bytes")));
  const auto store = store::open_store(directory.path()).value();
  store::ByteSource object;
  EXPECT_TRUE(store->open("file", object).ok());
  const Result<int> direct = store->files()->open_direct("file", object);
  if (direct.ok()) os::close_descriptor(*direct);
  return direct.ok();
}

TEST(ReadCost, IsAsRecorded) {
  if (std::getenv("HEADRACE_WRITE_READ_COSTS") != nullptr) {
    ASSERT_TRUE(support::kAllocCounterWorks && base::kFaultPointsCompiled) << "only a dev build counts everything";
    std::string text = "# What " + std::to_string(kMany - kFew) + " chunks of " + std::to_string(kChunkElements * 4) +
                       " bytes cost: operation, way, device, grid. Written by read_cost_test.\n";
    ASSERT_TRUE(reads_direct());
    for (const Row& row : rows()) text += text_of(row.name(), costs_of(row));
    for (const Row& row : kDirect) text += text_of(row.name(), costs_of(row));
    ASSERT_TRUE(support::write_file(costs_file(), std::as_bytes(std::span(text))));
  }
  std::map<std::string, Costs> known = recorded();
  for (const Row& row : rows()) expect_recorded(row, known);
  for (const Row& row : kDirect) known.erase(row.name());
  EXPECT_TRUE(known.empty()) << known.begin()->first << " is in the file but is no row of this test";
}

TEST(ReadCost, OfDirectReadsIsAsRecorded) {
  if (!reads_direct()) GTEST_SKIP() << "the file system refuses O_DIRECT";
  std::map<std::string, Costs> known = recorded();
  for (const Row& row : kDirect) expect_recorded(row, known);
}

// A store that does additional work for each object that it opens.
class Planted final : public testing::ForwardingStore {
 public:
  enum class What : std::uint8_t { kNothing, kAllocation, kCall };
  Planted(std::shared_ptr<store::Store> behind, What what) : ForwardingStore(std::move(behind)), what_(what) {}
  Status open_for_reuse(std::string_view key, store::ByteSource& out) override {
    if (what_ == What::kAllocation) kept_ = std::make_unique<std::byte[]>(key.size());
    if (what_ == What::kCall) (void)HEADRACE_FAULT("base.fstat", 0);
    return ForwardingStore::open_for_reuse(key, out);
  }

 private:
  const What what_;
  std::unique_ptr<std::byte[]> kept_;
};

// Positive control: additional costs are detected.
TEST(ReadCost, APlantedCallOrAllocationIsSeen) {
  using What = Planted::What;
  const std::map<std::string, Costs> known = recorded();
  for (const Row& row : {Row{Does::kRead, "cached", "host", "raw"}, Row{Does::kRead, "memory", "host-staged", "zstd"},
                         Row{Does::kIndex, "cached", "host", "zstd"}}) {
    for (const What what : {What::kNothing, What::kAllocation, What::kCall}) {
      SCOPED_TRACE(row.name() + ' ' + std::to_string(static_cast<int>(what)));
      const Costs costs = costs_of(
          row, [&](std::shared_ptr<store::Store> store) { return std::make_shared<Planted>(std::move(store), what); });
      const std::vector<std::string> found = differences(known.at(row.name()), costs);
      const bool counted = what == What::kAllocation ? support::kAllocCounterWorks
                           : what == What::kCall     ? base::kFaultPointsCompiled
                                                     : false;
      ASSERT_EQ(found.size(), counted ? 1u : 0u) << (found.empty() ? "" : found[0]);
      if (counted) {
        EXPECT_TRUE(found[0].starts_with(what == What::kCall ? "base.fstat: " : "allocations: ")) << found[0];
      }
    }
  }
}

TEST(ReadCost, EveryCostIsCompared) {
  for (const auto& [name, costs] : recorded()) {
    for (const auto& [cost, value] : costs) {
      if (!comparable(cost)) continue;
      Costs more = costs, none = costs;
      more[cost] += kAllocationJitter + 1;
      EXPECT_EQ(differences(costs, more).size(), 1u) << name << ' ' << cost;
      none.erase(cost);
      EXPECT_EQ(differences(none, costs).size(), value > kAllocationJitter || !is_memory(cost) ? 1u : 0u)
          << name << ' ' << cost;
    }
  }
}

}  // namespace
}  // namespace headrace
