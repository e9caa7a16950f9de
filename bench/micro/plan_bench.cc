// Measures planning per chunk, without reading: a selection of 1,000,000 chunks is handed out in waves, and each chunk
// is described to the worker that would read it. `read_absent` is the whole read on one thread: a key is looked up in
// an in-memory store and found missing, and one element is filled. items_per_second counts chunks.
#include <benchmark/benchmark.h>
#include <headrace/array.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/access.h"
#include "tests/support/raw_array.h"
#include "zarr/plan/planner.h"

namespace {

using namespace headrace;

constexpr std::uint64_t kSide = 1000;  // the number of chunks is its square
constexpr std::size_t kWaveTasks = 4096;

[[noreturn]] void die(const Status& status) {
  std::fprintf(stderr, "plan_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}

// kSide x kSide chunks of 4 x 4 elements; sharded: shards of 100 x 100 chunks, all of them stored.
struct Fixture {
  explicit Fixture(bool sharded) {
    ContextOptions options;
    options.threads = 1;
    context = Context::create(options).value();
    store = Store::open(*context, sharded ? "memory://sharded" : "memory://chunks").value();
    testing::RawArray about;
    about.shape = {4 * kSide, 4 * kSide};
    about.chunk = {4, 4};
    about.missing_every = 1;
    if (sharded) {
      about.chunk = {400, 400};
      about.inner = {4, 4};
      about.missing_every = 0;
    }
    std::string shape = "[" + std::to_string(4 * kSide) + "," + std::to_string(4 * kSide) + "]";
    if (sharded) {
      if (Status s = testing::write_raw_array(*Access::impl(*store), "", about); !s.ok()) die(s);
    } else if (Status s = testing::put_text(
                   *Access::impl(*store), "zarr.json",
                   R"({"zarr_format":3,"node_type":"array","shape":)" + shape +
                       R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4,4]}},)"
                       R"("chunk_key_encoding":{"name":"default"},"fill_value":7,)"
                       R"("codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})");
               !s.ok()) {
      die(s);
    }
    array = Array::open(*store).value();
    tensor.resize(16 * kSide * kSide);
    view = {tensor, {4 * kSide, 4 * kSide}};
    view_with_strides = view;
    view_with_strides.strides_bytes = {static_cast<std::int64_t>(16 * kSide), 4};
  }
  std::optional<Context> context;
  std::optional<Store> store;
  std::optional<Array> array;
  std::vector<std::uint32_t> tensor;
  TensorView view, view_with_strides;
};

Fixture& fixture(bool sharded) {
  static Fixture chunks(false), shards(true);
  return sharded ? shards : chunks;
}

// Fills the next wave; false at the end. No store is accessed.
bool fill(transfer::Plan& plan, transfer::WaveTasks& wave) {
  struct Nobody final : transfer::LookupListener {
    void lookup_done() noexcept override {}
  } nobody;
  wave.clear();
  const Result<transfer::More> more = plan.fill(wave, nobody);
  if (!more.ok()) die(more.status());
  return *more == transfer::More::kYes;
}

void plan(benchmark::State& state, bool sharded) {
  Fixture& f = fixture(sharded);
  const std::vector<std::uint64_t> shape = f.array->info().shape;
  const auto selection = resolve_selection({}, shape).value();
  transfer::WaveTasks wave;
  wave.max_tasks = kWaveTasks;
  transfer::TaskDetail detail;
  std::uint64_t chunks = 0;
  for (auto _ : state) {
    auto made =
        zarr::make_plan(Access::impl(*f.array), selection, f.view_with_strides,
                        {f.array->info().dtype, Access::impl(*f.array)->element_op, Access::impl(*f.array)->fill, {}});
    if (!made.ok()) die(made.status());
    for (bool more = true; more;) {
      more = fill(**made, wave);
      for (const transfer::TaskGroup& group : wave.groups) {
        for (std::uint32_t i = 0; i < group.task_count; ++i) {
          (*made)->describe(group, wave.tasks[group.first_task + i], detail);
          benchmark::DoNotOptimize(detail.box);
          ++chunks;
        }
      }
    }
  }
  if (chunks != state.iterations() * kSide * kSide) die(Status(Code::kInternal, Layer::kZarr, "chunks were left out"));
  state.SetItemsProcessed(static_cast<std::int64_t>(chunks));
}

// 1,000,000 random elements of 10^9 chunks: makes the plan, and describes each box of each chunk. Items are elements.
void plan_random(benchmark::State& state, bool points) {
  Fixture& f = fixture(false);
  static auto store = Store::open(*f.context, "memory://huge").value();
  static const bool written =
      testing::put_text(*Access::impl(store), "zarr.json",
                        R"({"zarr_format":3,"node_type":"array","shape":[1000000000000],"data_type":"uint32",)"
                        R"("chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1000]}},"fill_value":7,)"
                        R"("chunk_key_encoding":{"name":"default"},)"
                        R"("codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})")
          .ok();
  if (!written) die(Status(Code::kInternal, Layer::kZarr, "cannot write"));
  auto array = Array::open(store).value();
  constexpr std::size_t kCount = 1'000'000;
  std::vector<std::int64_t> where(kCount);
  std::uint64_t random = 1;
  for (auto& index : where) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    index = static_cast<std::int64_t>((random >> 20) % 1'000'000'000'000u);
  }
  const Selection selection = points ? headrace::points({where}) : Selection{index_list(where)};
  const TensorView view(f.tensor, {kCount}, {4});
  transfer::WaveTasks wave;
  wave.max_tasks = kWaveTasks;
  transfer::TaskDetail detail;
  std::uint64_t elements = 0;
  for (auto _ : state) {
    const auto resolved = array.resolve(selection).value();
    auto made = zarr::make_plan(Access::impl(array), resolved, view,
                                {array.info().dtype, Access::impl(array)->element_op, Access::impl(array)->fill, {}});
    if (!made.ok()) die(made.status());
    for (bool more = true; more;) {
      more = fill(**made, wave);
      for (const transfer::TaskGroup& group : wave.groups) {
        (*made)->describe(group, wave.tasks[group.first_task], detail);
        do {
          elements += detail.box.element_count();
        } while ((*made)->next_box(detail));
      }
    }
  }
  if (elements != state.iterations() * kCount) die(Status(Code::kInternal, Layer::kZarr, "elements were left out"));
  state.SetItemsProcessed(static_cast<std::int64_t>(elements));
}

void read_absent(benchmark::State& state) {
  Fixture& f = fixture(false);
  auto device = Device::open("host").value();
  for (auto _ : state) {
    if (Status s = f.array->read({}, f.view, device); !s.ok()) die(s);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kSide * kSide));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("plan/chunk_an_object", plan, false)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("plan/sharded", plan, true)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("plan/random_list", plan_random, false)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("plan/random_points", plan_random, true)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("read_absent", read_absent)->Unit(benchmark::kMillisecond)->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
