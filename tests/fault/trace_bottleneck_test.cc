// When one stage is slowed down, the trace of the read names it as the bottleneck, for every stage.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/trace.h>

#include "base/access.h"
#include "base/fault.h"
#include "support/flat_array.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using testing::FlatArray;
using testing::Layout;

struct Slow {
  const char* point;
  const char* device;
  const char* engine;
  Layout layout;
  trace::Stage stage;
  unsigned threads = 2;
  Placement placement = Placement::kAuto;
};

class TraceBottleneck : public ::testing::TestWithParam<Slow> {};

TEST_P(TraceBottleneck, IsTheStageThatWasMadeSlow) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const Slow& slow = GetParam();
  support::TempDir directory;
  const FlatArray array{.layout = slow.layout, .chunks = 48, .chunk_elements = 1024, .shard_chunks = 8};
  ContextOptions options;
  options.threads = slow.threads;
  options.engine = slow.engine;
  options.wave_bytes = 4096;  // one chunk: as many waves as chunks
  auto context = Context::create(options).value();
  auto store = Store::open(context, directory.path()).value();
  ASSERT_TRUE(testing::write_flat_array(*Access::impl(store), "", array).ok());
  auto opened = Array::open(store).value();
  auto device = Device::open(slow.device).value();
  // Takes every second element, so that no chunk is decoded in place.
  const Selection selection = parse_selection("::2").value();
  auto buffer = Buffer::allocate(device, array.elements() * 2).value();
  const TensorView tensor(buffer, opened.info().dtype, {array.elements() / 2});
  ReadOptions read_options;
  read_options.placement = slow.placement;
  ASSERT_TRUE(opened.read(selection, tensor, device, read_options).ok());  // allocates memory and starts the engine

  base::arm_delay(slow.point, std::chrono::milliseconds(15));
  ASSERT_TRUE(trace::start().ok());
  const Status status = opened.read(selection, tensor, device, read_options);
  const trace::Trace trace = trace::take().value();
  base::arm_delay("", {});
  ASSERT_TRUE(status.ok()) << status.to_string();

  const std::string sentence = trace.bottleneck().value();
  EXPECT_EQ(sentence.find("The bottleneck is " + std::string(trace::stage_name(slow.stage)) + ":"), 0u) << sentence;
  // These stages run outside the workers or on only one, so idle workers record what they wait for.
  const std::string_view point = slow.point;
  if (point == "transfer.plan" || point == "transfer.engine_read" || point == "dev_host.copy") {
    std::uint64_t waited_ns = 0;
    for (const trace::SpanRecord& event : trace.events) {
      if (event.stage == trace::Stage::kWait && event.waits_for == slow.stage) {
        waited_ns += event.end_ns - event.start_ns;
      }
    }
    EXPECT_GT(static_cast<double>(waited_ns) * 1e-9, 0.3 * trace.wall_seconds());
  }
  const auto totals = trace.totals().value();
  EXPECT_GT(totals[static_cast<std::size_t>(slow.stage)].busy_seconds, 0.5 * trace.wall_seconds());
  double limits = 0;
  for (const trace::StageTotals& total : totals) {
    EXPECT_LE(total.busy_seconds, trace.wall_seconds() * 1.000001);
    limits += total.limiting_seconds;
  }
  EXPECT_LE(limits, trace.wall_seconds() * 1.000001);

  std::vector<std::uint32_t> got(array.elements() / 2);
  ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok());
  const auto all = array.expected();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], all[2 * i]);
}

INSTANTIATE_TEST_SUITE_P(
    Stages, TraceBottleneck,
    ::testing::Values(Slow{"transfer.plan", "host", "auto", Layout::kZstd, trace::Stage::kPlan},
                      Slow{"transfer.open", "host", "auto", Layout::kZstd, trace::Stage::kOpen},
                      Slow{"transfer.read", "host", "auto", Layout::kZstd, trace::Stage::kRead},
                      Slow{"transfer.engine_read", "host", "threads", Layout::kZstd, trace::Stage::kRead},
                      Slow{"transfer.engine_read", "host-staged", "io_uring", Layout::kRaw, trace::Stage::kRead},
                      Slow{"transfer.decode", "host", "auto", Layout::kZstd, trace::Stage::kDecode},
                      // On the CPU: a decoding device does not pass this point, and measured rates sometimes choose it.
                      Slow{"transfer.decode", "host-staged", "threads", Layout::kShardedZstd, trace::Stage::kDecode, 2,
                           Placement::kCpu},
                      Slow{"transfer.assemble", "host", "auto", Layout::kRaw, trace::Stage::kAssemble},
                      Slow{"dev_host.copy", "host-staged", "auto", Layout::kZstd, trace::Stage::kCopy},
                      Slow{"dev_host.copy", "host-staged", "threads", Layout::kRaw, trace::Stage::kCopy, 1}),
    [](const auto& about) {
      std::string name = std::string(about.param.point) + "_" + about.param.device + "_" + about.param.engine;
      for (char& c : name) {
        if (c == '.' || c == '-') c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace headrace
