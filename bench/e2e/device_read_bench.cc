// Reads whole arrays into device memory and reports the rate of every stage.
//
//   device_read_bench STORE [--device auto] [--repeat 5] [--warmup 1] [--engine auto] [--cold] [--no-direct] [--sha]
//                     [--keep-open] [--settle-ms N] [--warm-with OTHER-STORE] [--placement auto|gpu|cpu]
//
// Prints one JSON object per repetition: every Stats field, and wall seconds around Array::open and the blocking read.
// The tensor stays allocated. --cold drops the page cache before every read (needs root). --sha prints a final line
// with a checksum of the last tensor (FNV-1a over 64-bit words). --keep-open opens the array once, before the clock
// starts, as a training loop does. --settle-ms waits before each read. --spans writes the spans of each thread in the
// last read. --warm-with first reads another array, so that threads and pinned memory exist but nothing is known about
// STORE: with --warmup 0, this measures its first read.
#include <headrace/array.h>
#include <headrace/trace.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "device_read_bench: %s\n", what.c_str());
  std::exit(1);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Writes the last read as text: one span per line, in microseconds from its start.
void write_spans(const std::string& path, std::uint64_t start_ns, std::uint64_t end_ns) {
  auto trace = headrace::trace::take();
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (!trace.ok() || file == nullptr) die("--spans: cannot record, or cannot write " + path);
  const auto micros = [&](std::uint64_t ns) { return (static_cast<double>(ns) - static_cast<double>(start_ns)) / 1e3; };
  for (const auto& event : trace->events) {
    std::fprintf(file, "%9.1f %9.1f  %-14s %-9s %s%s %llu\n", micros(event.start_ns), micros(event.end_ns),
                 trace->tracks[event.track].name.c_str(), headrace::trace::stage_name(event.stage),
                 event.stage == headrace::trace::Stage::kWait ? "for " : "",
                 event.stage == headrace::trace::Stage::kWait ? headrace::trace::stage_name(event.waits_for) : "",
                 static_cast<unsigned long long>(event.bytes));
  }
  std::fprintf(file, "%9.1f end\n", micros(end_ns));
  std::fclose(file);
}

void drop_caches() {
  ::sync();
  std::FILE* file = std::fopen("/proc/sys/vm/drop_caches", "w");
  if (file == nullptr || std::fputs("3\n", file) < 0 || std::fclose(file) != 0)
    die("--cold needs root: cannot drop the page cache");
}

}  // namespace

int main(int argc, char** argv) {
  std::string path, device_name = "auto";
  headrace::ContextOptions options;
  options.host_budget_bytes = std::size_t{2} << 30;
  int repeat = 5, warmup = 1;
  bool sum = false, cold = false, keep_open = false;
  int settle_ms = 0;
  std::string warm_with, placement = "auto", spans;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--device" && more)
      device_name = argv[++i];
    else if (arg == "--repeat" && more)
      repeat = std::atoi(argv[++i]);
    else if (arg == "--warmup" && more)
      warmup = std::atoi(argv[++i]);
    else if (arg == "--engine" && more)
      options.engine = argv[++i];
    else if (arg == "--waves" && more)
      options.waves = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (arg == "--wave-mib" && more)
      options.wave_bytes = static_cast<std::size_t>(std::atoi(argv[++i])) << 20;
    else if (arg == "--threads" && more)
      options.threads = static_cast<unsigned>(std::atoi(argv[++i]));
    else if (arg == "--spans" && more)
      spans = argv[++i];
    else if (arg == "--cold")
      cold = true;
    else if (arg == "--keep-open")
      keep_open = true;
    else if (arg == "--settle-ms" && more)
      settle_ms = std::atoi(argv[++i]);
    else if (arg == "--warm-with" && more)
      warm_with = argv[++i];
    else if (arg == "--device-budget-mib" && more)
      options.device_budget_bytes = static_cast<std::size_t>(std::atoi(argv[++i])) << 20;
    else if (arg == "--host-budget-mib" && more)
      options.host_budget_bytes = static_cast<std::size_t>(std::atoi(argv[++i])) << 20;
    else if (arg == "--placement" && more)
      placement = argv[++i];
    else if (arg == "--no-direct")
      options.allow_direct = false;
    else if (arg == "--sha")
      sum = true;
    else if (path.empty() && arg[0] != '-')
      path = arg;
    else
      die("usage: device_read_bench STORE [--device auto] [--repeat 5] [--warmup 1] [--engine auto] [--waves N] "
          "[--wave-mib N] [--host-budget-mib 2048] [--device-budget-mib N] [--threads N] [--sha] [--spans FILE]");
  }
  headrace::ReadOptions read_options;
  if (placement != "auto") {
    read_options.placement = placement == "gpu" ? headrace::Placement::kGpu : headrace::Placement::kCpu;
  }
  auto context = headrace::Context::create(options);
  if (!context.ok()) die(context.status().to_string());
  auto device = headrace::Device::open(device_name);
  if (!device.ok()) die(device.status().to_string());
  auto store = headrace::Store::open(*context, path);
  if (!store.ok()) die(store.status().to_string());
  auto first = headrace::Array::open(*store);
  if (!first.ok()) die(first.status().to_string());
  auto buffer = headrace::Buffer::allocate(*device, first->info().decoded_bytes);
  if (!buffer.ok()) die(buffer.status().to_string());
  const headrace::TensorView tensor(*buffer, first->info().dtype, first->info().shape);
  if (!warm_with.empty()) {
    auto other = headrace::Store::open(*context, warm_with);
    if (!other.ok()) die(other.status().to_string());
    auto array = headrace::Array::open(*other);
    if (!array.ok()) die(array.status().to_string());
    if (array->info().decoded_bytes > buffer->size_bytes()) die("--warm-with: a larger array");
    const headrace::TensorView view(*buffer, array->info().dtype, array->info().shape);
    for (int i = 0; i < 3; ++i) {
      if (auto status = array->read({}, view, *device); !status.ok()) die(status.to_string());
    }
  }
  for (int i = -warmup; i < repeat; ++i) {
    headrace::Stats s;
    if (cold) drop_caches();
    if (settle_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(settle_ms));
    const bool traced = !spans.empty() && i + 3 >= repeat;  // the first recordings allocate their memory
    if (traced) (void)headrace::trace::start();
    const std::uint64_t start_ns = now_ns();
    const double start = now();
    auto array = keep_open ? headrace::Result<headrace::Array>(*first) : headrace::Array::open(*store);
    if (!array.ok()) die(array.status().to_string());
    const headrace::Status status = array->read({}, tensor, *device, read_options, &s);
    const double wall = now() - start;
    if (traced) write_spans(spans, start_ns, now_ns());
    if (!status.ok()) die(status.to_string());
    if (i < 0) continue;
    std::printf(
        "{\"device\": \"%s\", \"path\": \"%s\", \"engine\": \"%s\", \"wall_s\": %.6f, \"decoded_gb_s\": %.3f, "
        "\"chunks\": %llu, "
        "\"waves\": %llu, \"stored_bytes\": %llu, \"read_bytes\": %llu, \"bus_bytes\": %llu, \"decoded_bytes\": %llu, "
        "\"direct_bytes\": %llu, \"engine_bytes\": %llu, \"buffered_bytes\": %llu, \"plan_s\": %.6f, \"open_s\": %.6f, "
        "\"read_s\": %.6f, \"decode_s\": %.6f, \"assemble_s\": %.6f, \"copy_wait_s\": %.6f}\n",
        device->name().c_str(), s.path.c_str(), s.engine.c_str(), wall,
        static_cast<double>(s.decoded_bytes) / wall / 1e9, static_cast<unsigned long long>(s.chunks),
        static_cast<unsigned long long>(s.waves), static_cast<unsigned long long>(s.stored_bytes),
        static_cast<unsigned long long>(s.read_bytes), static_cast<unsigned long long>(s.bus_bytes),
        static_cast<unsigned long long>(s.decoded_bytes), static_cast<unsigned long long>(s.direct_bytes),
        static_cast<unsigned long long>(s.engine_bytes), static_cast<unsigned long long>(s.buffered_bytes),
        s.plan_seconds, s.open_seconds, s.read_seconds, s.decode_seconds, s.assemble_seconds, s.copy_seconds);
  }
  if (sum) {
    std::vector<std::byte> host(buffer->size_bytes());
    if (auto status = buffer->copy_to_host(0, host.data(), host.size()); !status.ok()) die(status.to_string());
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (std::size_t i = 0; i + 8 <= host.size(); i += 8) {
      std::uint64_t word = 0;
      std::copy_n(host.data() + i, 8, reinterpret_cast<std::byte*>(&word));
      hash = (hash ^ word) * 0x100000001b3ull;
    }
    std::printf("{\"checksum\": \"%016llx\"}\n", static_cast<unsigned long long>(hash));
  }
  return 0;
}
