// Measures how fast a GPU decodes batches of chunks, device memory to device memory, beside nvCOMP in the same run.
//
//   decode_bench [--data FILE] [--nvcomp LIBRARY] [--only REGEX] [--repeat 5] [--total-mib 1024] [--distinct-mib 128]
//                [--packed] [--streaming] [--libdeflate] [--slow-ms 300] [--commit ID] [--list]
//
// Prints one JSON object per line on stdout, the first describing the machine; a short table on stderr. --data is a raw
// file of float32 (default: fields as `headrace gen` makes them). Rows are named CODEC/FILTER/DATA/CHUNKSxBYTES; --only
// selects among them. Rows ending in /index time decodes with the index that the first decode has collected, including
// its transfer to the device.
//
// --streaming makes the LZ4 blocks with liblz4's streaming call, as Python's lz4 package does, instead of the one-shot
// call of numcodecs; only blocks up to 64 KiB differ. --libdeflate makes the gzip and zlib streams with libdeflate
// instead of zlib; its blocks are larger. nvCOMP gets zlib streams without their header and checksum.
//
// --distinct-mib of data are repeated up to --total-mib. Every chunk's input and output has its own address; inputs are
// 256-byte aligned or, with --packed, contiguous as in a shard. Each output is compared with its source on the device
// before anything is timed. A write of 256 MiB clears the L2 before each repetition. `ms` is the time between two
// events around the work; a kernel blocks the stream until all of it is queued, for headrace and for nvCOMP. `wall_ms`
// is the host's time from filling in the items to checking all outcomes, without blocking; the other host times are
// parts of it. Rates are decoded bytes, 10^9 per second; medians.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"
#include "decode_data_bench.h"
#include "decode_peer_bench.h"
#include "decode_rows_bench.h"
#include "device/device.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB, kFlushBytes = 256 * kMiB, kAlignment = 256;
constexpr std::size_t kBlockHeader = 4;  // numcodecs' size prefix of an LZ4 block

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) die(std::string(what) + ": " + cudaGetErrorString(error));
}
void must(const Status& status) {
  if (!status.ok()) die(status.to_string());
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) die(result.status().to_string());
  return std::move(result).value();
}
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Device or pinned memory, owned by a scope.
template <class T>
class Memory {
 public:
  explicit Memory(std::size_t count, bool pinned = false) : pinned_(pinned) {
    const std::size_t bytes = std::max<std::size_t>(count * sizeof(T), 1);
    must(pinned ? cudaHostAlloc(reinterpret_cast<void**>(&data_), bytes, cudaHostAllocDefault)
                : cudaMalloc(reinterpret_cast<void**>(&data_), bytes),
         "allocating memory");
  }
  ~Memory() { (void)(pinned_ ? cudaFreeHost(data_) : cudaFree(data_)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  bool pinned_;
};

// Blocks the stream until the host sets `go`, or until a timeout.
__global__ void gate(const volatile unsigned* go, long long nanoseconds) {
  long long start = 0, time = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  } while (*go == 0 && time - start < nanoseconds);
}

struct Placement {
  std::uint64_t from, to, bytes;
};
__global__ void place(const unsigned char* blob, unsigned char* arena, const Placement* items, std::uint32_t count) {
  for (std::uint32_t i = blockIdx.y; i < count; i += gridDim.y) {
    const Placement item = items[i];
    for (std::uint64_t b = blockIdx.x * blockDim.x + threadIdx.x; b < item.bytes; b += gridDim.x * blockDim.x) {
      arena[item.to + b] = blob[item.from + b];
    }
  }
}

// Counts the 16-byte words in which the outputs differ from the `distinct` source chunks, repeated.
__global__ void count_differences(const uint4* out, const uint4* plain, std::uint64_t words, std::uint64_t plain_words,
                                  unsigned long long* differences) {
  unsigned long long mine = 0;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < words;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    const uint4 a = out[i], b = plain[i % plain_words];
    mine += (a.x != b.x) + (a.y != b.y) + (a.z != b.z) + (a.w != b.w);
  }
  if (mine != 0) atomicAdd(differences, mine);
}

// A batch in device memory: inputs in an arena, contiguous outputs.
class Batch {
 public:
  // `skip`, `cut`: bytes omitted at the beginning and end of each chunk.
  Batch(const EncodedChunks& source, std::size_t chunks, std::size_t skip, std::size_t cut, bool packed)
      : source(source), chunks(chunks), distinct(std::min(chunks, source.count())) {
    std::vector<Placement> places(chunks);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < chunks; ++i) {
      const std::size_t d = i % distinct;
      places[i] = {source.offset[d] + skip, end, source.bytes[d] - skip - cut};
      encoded_bytes += places[i].bytes;
      end += packed ? places[i].bytes : (places[i].bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    arena = std::make_unique<Memory<unsigned char>>(end);
    out = std::make_unique<Memory<unsigned char>>(chunks * source.chunk_bytes);
    plain_ = std::make_unique<Memory<unsigned char>>(distinct * source.chunk_bytes);
    const std::uint64_t used = source.offset[distinct - 1] + source.bytes[distinct - 1];
    Memory<unsigned char> blob(used);
    Memory<Placement> list(chunks);
    must(cudaMemcpy(blob.data(), source.encoded.data(), used, cudaMemcpyHostToDevice), "copying the chunks");
    must(cudaMemcpy(plain_->data(), source.plain.data(), distinct * source.chunk_bytes, cudaMemcpyHostToDevice),
         "copying the source");
    must(cudaMemcpy(list.data(), places.data(), chunks * sizeof(Placement), cudaMemcpyHostToDevice), "copying a list");
    const unsigned across = source.chunk_bytes > kMiB ? 64 : 1;
    place<<<dim3(across, static_cast<unsigned>(std::min<std::size_t>(chunks, 16384))), 256>>>(
        blob.data(), arena->data(), list.data(), static_cast<std::uint32_t>(chunks));
    must(cudaGetLastError(), "placing the chunks");
    must(cudaDeviceSynchronize(), "placing the chunks");
    for (const Placement& item : places) {
      at.push_back(arena->data() + item.to);
      bytes.push_back(item.bytes);
      largest = std::max(largest, item.bytes);
    }
  }

  std::size_t decoded_bytes() const { return chunks * source.chunk_bytes; }
  unsigned char* out_at(std::size_t i) const { return out->data() + i * source.chunk_bytes; }
  void spoil(cudaStream_t stream) const {
    must(cudaMemsetAsync(out->data(), 0xA5, decoded_bytes(), stream), "spoiling the outputs");
  }
  unsigned long long differences(cudaStream_t stream) const {
    Memory<unsigned long long> count(1);
    must(cudaMemsetAsync(count.data(), 0, 8, stream), "clearing a counter");
    count_differences<<<1056, 256, 0, stream>>>(reinterpret_cast<const uint4*>(out->data()),
                                                reinterpret_cast<const uint4*>(plain_->data()), decoded_bytes() / 16,
                                                distinct * source.chunk_bytes / 16, count.data());
    must(cudaGetLastError(), "comparing");
    unsigned long long found = 0;
    must(cudaMemcpyAsync(&found, count.data(), 8, cudaMemcpyDeviceToHost, stream), "comparing");
    must(cudaStreamSynchronize(stream), "comparing");
    return found;
  }

  const EncodedChunks& source;
  const std::size_t chunks, distinct;
  std::uint64_t encoded_bytes = 0, largest = 0;
  std::vector<unsigned char*> at;
  std::vector<std::uint64_t> bytes;
  std::unique_ptr<Memory<unsigned char>> arena, out;

 private:
  std::unique_ptr<Memory<unsigned char>> plain_;
};

// Times work that is queued between two events behind the gate.
class Clock {
 public:
  Clock() : go_(1, true), flush_(kFlushBytes) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    must(cudaEventCreate(&begin_), "making an event");
    must(cudaEventCreate(&end_), "making an event");
  }
  ~Clock() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream);
  }
  void clear_l2(int value) const {
    must(cudaMemsetAsync(flush_.data(), value, kFlushBytes, stream), "clearing the L2");
  }
  template <class Queue>
  double milliseconds(int repetition, const Queue& queue) {
    clear_l2(repetition);
    *go_.data() = 0;
    gate<<<1, 1, 0, stream>>>(go_.data(), 500'000'000);
    must(cudaGetLastError(), "launching the gate");
    must(cudaEventRecord(begin_, stream), "recording");
    queue();
    must(cudaEventRecord(end_, stream), "recording");
    *const_cast<volatile unsigned*>(go_.data()) = 1;
    must(cudaEventSynchronize(end_), "decoding");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin_, end_), "reading the clock");
    return ms;
  }
  cudaStream_t stream = nullptr;

 private:
  Memory<unsigned> go_;
  Memory<unsigned char> flush_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Records an event after each step of a decode.
class StepClock final : public device::DecodeMarks {
 public:
  explicit StepClock(device::Device& device) : device_(device) {}
  void queued(const char* step, device::Stream& stream) noexcept override {
    marks_.push_back({step, take(device_.create_timed_event())});
    must(device_.record(*marks_.back().event, stream));
  }
  // Milliseconds by step; steps of equal name are added up. REQUIRES: the work is done.
  base::Json milliseconds() const {
    base::Json out = base::Json::object();
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      const double ms = take(device_.seconds_between(*marks_[i - 1].event, *marks_[i].event)) * 1e3;
      out[marks_[i].step] = out.value(marks_[i].step, 0.0) + ms;
    }
    return out;
  }

 private:
  struct Mark {
    const char* step;
    std::unique_ptr<device::Event> event;
  };
  device::Device& device_;
  std::vector<Mark> marks_;
};

struct Measured {
  base::Json json = base::Json::object();
  double rate = 0;  // decoded GB/s; 0 on failure
};

template <class Queue>
std::vector<double> repeat(Clock& clock, const DecodeOptions& options, const Queue& queue) {
  std::vector<double> ms{clock.milliseconds(0, queue)};
  if (ms[0] > options.slow_ms) return ms;
  ms.clear();
  for (int i = 1; i <= options.repeat; ++i) ms.push_back(clock.milliseconds(i, queue));
  return ms;
}

void note_times(Measured& out, const std::vector<double>& ms, std::size_t decoded) {
  out.json["ms"] = median(ms);
  out.json["ms_each"] = ms;
  out.rate = static_cast<double>(decoded) / median(ms) / 1e6;
  out.json["decoded_gb_s"] = out.rate;
}

Measured measure_ours(device::Device& device, Clock& clock, const DecodeOptions& options, const std::string& codec_name,
                      const Batch& batch, bool with_index = false) {
  Measured out;
  const auto failed = [&](const std::string& why) {
    out.json["error"] = why;
    return out;
  };
  codec::CodecArgs context;
  context.zarr_format = 2;
  // Blosc's inner codec is part of its configuration; separate launches decode it.
  const bool blosc = codec_name.starts_with("blosc-");
  base::Json configuration = base::Json::object();
  if (blosc) configuration["cname"] = codec_name.substr(6);
  auto codec = codec::make_codec(blosc ? "blosc" : codec_name, configuration, context);
  if (!codec.ok()) return failed(codec.status().to_string());
  device::DecodeStage stage;
  stage.capacity_bytes = batch.source.chunk_bytes;
  const codec::StreamCoder* const coder = codec->coder();
  if (coder == nullptr || !coder->describe_for_device(stage))
    return failed("codec '" + codec_name + "' has no device code");
  auto made = device.make_decoder({&stage, 1});
  if (!made.ok()) return failed(made.status().to_string());
  device::ChunkDecoder& decoder = **made;

  device::DecodeLimits limits;
  limits.items = static_cast<std::uint32_t>(batch.chunks);
  limits.src_bytes = batch.encoded_bytes;
  limits.largest_src_bytes = batch.largest;
  const std::uint64_t scratch_bytes = decoder.scratch_bytes(limits);
  out.json["scratch_bytes"] = scratch_bytes;
  out.json["scratch_share"] = static_cast<double>(scratch_bytes) / static_cast<double>(batch.decoded_bytes());
  Memory<std::byte> scratch(scratch_bytes);
  Memory<device::DecodeOutcome> outcome_memory(batch.chunks, true);
  const std::span<std::byte> scratch_span(scratch.data(), scratch_bytes);
  const std::span<device::DecodeOutcome> outcomes(outcome_memory.data(), batch.chunks);
  auto stream = take(device.create_stream());
  auto event = take(device.create_event());
  device::DecodeIndices indices;
  const auto index_area =
      with_index ? static_cast<std::size_t>(device::DecodeIndices::bytes(batch.chunks, decoder.index_stride())) : 0;
  Memory<std::byte> index_host(index_area, true), index_device(index_area);
  if (with_index) {
    if (decoder.index_stride() == 0) return failed("codec '" + codec_name + "' has no decode index");
    indices = {index_host.data(), index_device.data(), decoder.index_stride(), limits.items};
    for (std::size_t i = 0; i < batch.chunks; ++i) indices.given(i) = device::kIndexCollect;
  }
  std::vector<device::DecodeItem> items(batch.chunks);
  const auto fill = [&] {
    for (std::size_t i = 0; i < batch.chunks; ++i) {
      items[i] = {reinterpret_cast<const std::byte*>(batch.at[i]), batch.bytes[i],
                  reinterpret_cast<std::byte*>(batch.out_at(i))};
    }
  };
  const auto bad_outcomes = [&] {
    std::size_t bad = 0;
    for (const device::DecodeOutcome& outcome : outcomes) bad += outcome.ok() ? 0 : 1;
    return bad;
  };
  fill();
  const auto queue = [&] {
    must(device.wait_native(*stream, clock.stream));
    must(decoder.decode(items, scratch_span, outcomes, *stream, nullptr, indices));
    must(device.record(*event, *stream));
    must(device.make_native_wait(*event, clock.stream));
  };
  // Two warm-up runs, since the first grows the descriptor buffers.
  for (int warm = 0; warm < 2; ++warm) {
    std::fill(outcomes.begin(), outcomes.end(), device::DecodeOutcome{0});
    batch.spoil(clock.stream);
    queue();
    must(cudaStreamSynchronize(clock.stream), "decoding");
    if (!with_index || warm != 0) continue;
    std::uint64_t bytes = 0, indexed = 0;
    for (std::size_t i = 0; i < batch.chunks; ++i) {
      const std::uint32_t made = indices.made(i);
      const bool any = made != device::kIndexNothing && made < device::kIndexUseless;
      indices.given(i) = any ? made : device::kIndexNone;
      bytes += any ? made : 0;
      indexed += any ? 1 : 0;
    }
    out.json["index_bytes"] = bytes;
    out.json["index_share"] = static_cast<double>(bytes) / static_cast<double>(batch.decoded_bytes());
    out.json["indexed_chunks"] = indexed;
  }
  for (std::size_t i = 0; with_index && i < batch.chunks; ++i) {
    if (indices.made(i) != device::kIndexNothing) return failed("an index was refused by the decode after");
  }
  const std::size_t bad = bad_outcomes();
  const unsigned long long differences = batch.differences(clock.stream);
  out.json["exact"] = bad == 0 && differences == 0;
  if (bad != 0 || differences != 0) {
    const auto first = std::find_if(outcomes.begin(), outcomes.end(), [](const auto& o) { return !o.ok(); });
    return failed(std::to_string(bad) + " chunks failed, " + std::to_string(differences) + " words differ" +
                  (first == outcomes.end() ? ""
                                           : std::string(", first: ") + decode_reason_text(first->reason()) + " at " +
                                                 std::to_string(first->position())));
  }
  note_times(out, repeat(clock, options, queue), batch.decoded_bytes());

  // Time per step, with events between steps. This prevents overlap, so the sum exceeds `ms`.
  clock.clear_l2(0);
  StepClock steps(device);
  must(device.wait_native(*stream, clock.stream));
  steps.queued("", *stream);
  must(decoder.decode(items, scratch_span, outcomes, *stream, &steps));
  must(device.record(*event, *stream));
  must(device.synchronize(*event));
  out.json["steps_ms"] = steps.milliseconds();

  std::vector<double> call, host, wall;
  for (int i = 0; i < options.repeat; ++i) {
    clock.clear_l2(i);
    must(cudaStreamSynchronize(clock.stream), "clearing the L2");
    const double start = now();
    fill();
    const double filled = now();
    must(decoder.decode(items, scratch_span, outcomes, *stream, nullptr, indices));
    const double called = now();
    must(device.record(*event, *stream));
    const double queued = now();
    must(device.synchronize(*event));
    const double synchronized = now();
    if (bad_outcomes() != 0) die("a chunk that decoded does not any more");
    const double end = now();
    call.push_back((called - filled) * 1e6);
    host.push_back((queued - start + end - synchronized) * 1e6);
    wall.push_back((end - start) * 1e3);
  }
  const auto chunks = static_cast<double>(batch.chunks);
  out.json["wall_ms"] = median(wall);
  out.json["host_call_us"] = median(call);
  out.json["host_call_us_per_chunk"] = median(call) / chunks;
  out.json["host_all_us_per_chunk"] = median(host) / chunks;
  return out;
}

Measured measure_nvcomp(const NvcompDecoder& peer, Clock& clock, const DecodeOptions& options, const Batch& batch) {
  Measured out;
  std::string why;
  std::size_t workspace_bytes = 0;
  if (!peer.workspace(batch.chunks, batch.source.chunk_bytes, workspace_bytes, clock.stream, why)) {
    out.json["error"] = why;
    return out;
  }
  out.json["scratch_bytes"] = workspace_bytes;
  const std::size_t n = batch.chunks;
  Memory<unsigned char> workspace(workspace_bytes);
  Memory<std::uint64_t> lists(4 * n), produced(n);
  Memory<int> statuses(n);
  std::vector<std::uint64_t> host(4 * n);
  for (std::size_t i = 0; i < n; ++i) {
    host[i] = reinterpret_cast<std::uint64_t>(batch.at[i]);
    host[n + i] = batch.bytes[i];
    host[2 * n + i] = batch.source.chunk_bytes;
    host[3 * n + i] = reinterpret_cast<std::uint64_t>(batch.out_at(i));
  }
  must(cudaMemcpy(lists.data(), host.data(), 4 * n * 8, cudaMemcpyHostToDevice), "copying lists");
  must(cudaMemset(statuses.data(), 0xFF, n * sizeof(int)), "clearing statuses");
  const auto queue = [&] {
    const int status = peer.decode(
        reinterpret_cast<const void* const*>(lists.data()), reinterpret_cast<const std::size_t*>(lists.data() + n),
        reinterpret_cast<const std::size_t*>(lists.data() + 2 * n), reinterpret_cast<std::size_t*>(produced.data()), n,
        workspace.data(), workspace_bytes, reinterpret_cast<void* const*>(lists.data() + 3 * n), statuses.data(),
        clock.stream);
    if (status != 0) die("nvCOMP's status " + std::to_string(status));
  };
  batch.spoil(clock.stream);
  queue();
  must(cudaStreamSynchronize(clock.stream), "nvCOMP decoding");
  std::vector<int> got(n);
  must(cudaMemcpy(got.data(), statuses.data(), n * sizeof(int), cudaMemcpyDeviceToHost), "fetching statuses");
  const auto bad = std::count_if(got.begin(), got.end(), [](int status) { return status != 0; });
  const unsigned long long differences = batch.differences(clock.stream);
  out.json["exact"] = bad == 0 && differences == 0;
  if (bad != 0 || differences != 0) {
    out.json["error"] = std::to_string(bad) + " chunks failed, " + std::to_string(differences) + " words differ";
    return out;
  }
  note_times(out, repeat(clock, options, queue), batch.decoded_bytes());
  std::vector<double> call;
  for (int i = 0; i < options.repeat; ++i) {
    if (median(out.json["ms_each"].get<std::vector<double>>()) > options.slow_ms && i > 0) break;
    const double start = now();
    queue();
    call.push_back((now() - start) * 1e6);
    must(cudaStreamSynchronize(clock.stream), "nvCOMP decoding");
  }
  out.json["host_call_us_per_chunk"] = median(call) / static_cast<double>(n);
  return out;
}

class Bench {
 public:
  Bench(DecodeOptions options, std::string command) : options_(std::move(options)) {
    device_ = take(device::open_device("cuda"));
    const std::size_t bytes = options_.distinct_mib * kMiB;
    std::string origin, why;
    values_["era5"] = load_fields(options_.data, bytes, origin);
    values_["round"] = values_["era5"];
    round_mantissas(values_["round"], 7);
    values_["random"] = random_bytes(bytes);
    if (!options_.nvcomp.empty()) {
      for (const auto& [codec, format] : {std::pair{"lz4", "LZ4"}, std::pair{"zstd", "Zstd"},
                                          std::pair{"zlib", "Deflate"}, std::pair{"gzip", "Gzip"}}) {
        if (!peers_[codec].load(options_.nvcomp, format, why)) die("nvCOMP: " + why);
      }
    }
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    base::Json about = {{"program", "decode_bench"},
                        {"command", command},
                        {"commit", options_.commit},
                        {"device", device_->info().description},
                        {"cuda_driver", driver},
                        {"cuda_runtime", runtime},
                        {"nvcomp", peers_.empty() ? base::Json() : base::Json(peers_["lz4"].version())},
                        {"era5", origin},
                        {"round", "era5 with 7 bits of mantissa"},
                        {"random", "uniform random bytes"},
                        {"distinct_bytes", bytes},
                        {"repeat", options_.repeat},
                        {"inputs", options_.packed ? "packed" : "aligned to 256 bytes"}};
    print(about);
  }

  void run(const Row& row) {
    const EncodedChunks& source = encoded(row);
    base::Json json = {{"row", row.name()},
                       {"codec", row.codec},
                       {"filter", filter_text(row.filter)},
                       {"values", row.values},
                       {"chunk_bytes", row.chunk_bytes},
                       {"chunks", row.chunks},
                       {"encoder", source.library}};
    Measured ours;
    {
      const Batch batch(source, row.chunks, 0, 0, options_.packed);
      json["distinct"] = batch.distinct;
      json["ratio"] = static_cast<double>(batch.decoded_bytes()) / static_cast<double>(batch.encoded_bytes);
      ours = measure_ours(*device_, clock_, options_, row.codec, batch, row.index);
    }
    for (auto& [key, value] : ours.json.items()) json[key] = value;
    std::fprintf(stderr, "%-44s %8.2f GB/s", row.name().c_str(), ours.rate);
    if (const auto found = peers_.find(row.codec); found != peers_.end() && !row.index) {
      const bool zlib = row.codec == "zlib";
      const Batch batch(source, row.chunks,
                        row.codec == "lz4" ? kBlockHeader
                        : zlib             ? 2
                                           : 0,
                        zlib ? 4 : 0, options_.packed);
      const Measured peer = measure_nvcomp(found->second, clock_, options_, batch);
      json["nvcomp"] = peer.json;
      if (peer.rate > 0 && ours.rate > 0) json["times_nvcomp"] = ours.rate / peer.rate;
      std::fprintf(stderr, "  nvCOMP %8.3f, x %.2f", peer.rate, ours.rate / peer.rate);
    }
    if (row.codec.starts_with("blosc-")) {
      const EncodedChunks& streams = bare(row);
      if (streams.count() > 0) {
        const std::string inner = row.codec.substr(6);
        const std::size_t count = std::max<std::size_t>(1, row.chunk_bytes * row.chunks / streams.chunk_bytes);
        const Batch batch(streams, count, 0, 0, options_.packed);
        Measured alone = measure_ours(*device_, clock_, options_, inner, batch);
        alone.json["chunks"] = count;
        alone.json["chunk_bytes"] = streams.chunk_bytes;
        json["bare_" + inner] = alone.json;
        if (alone.rate > 0 && ours.rate > 0) json["share_of_bare"] = ours.rate / alone.rate;
        std::fprintf(stderr, "  bare %s %8.2f (%zu x %zu), share %.2f", inner.c_str(), alone.rate, count,
                     streams.chunk_bytes, ours.rate / alone.rate);
      }
    }
    std::fprintf(stderr, "%s\n", json.contains("error") ? ("  " + json["error"].get<std::string>()).c_str() : "");
    print(json);
  }

 private:
  static void print(const base::Json& json) {
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
  }
  // The last set is cached, since rows with equal data are consecutive.
  const EncodedChunks& encoded(const Row& row) {
    const std::string key = row.codec + filter_text(row.filter) + row.values + std::to_string(row.chunk_bytes);
    if (key != key_) {
      chunks_ = encode(row.codec, values_.at(row.values), row.chunk_bytes, row.filter, options_.streaming,
                       options_.libdeflate);
      streams_ = {};
      key_ = key;
    }
    return chunks_;
  }
  const EncodedChunks& bare(const Row& row) {
    if (streams_.count() == 0) streams_ = bare_streams(chunks_, row.codec.substr(6));
    return streams_;
  }

  DecodeOptions options_;
  std::shared_ptr<device::Device> device_;
  Clock clock_;
  std::map<std::string, NvcompDecoder> peers_;  // by codec
  std::map<std::string, Bytes> values_;
  std::string key_;
  EncodedChunks chunks_, streams_;
};

}  // namespace
}  // namespace headrace::bench

int main(int argc, char** argv) {
  using namespace headrace::bench;
  std::string command;
  const DecodeOptions options = parse_decode_options(argc, argv, command);
  const std::vector<Row> rows = chosen_rows(options);
  if (options.list) {
    for (const Row& row : rows) std::printf("%s\n", row.name().c_str());
    return 0;
  }
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "decode_bench: no GPU here\n");
    return 77;
  }
  Bench bench(options, command);
  for (const Row& row : rows) bench.run(row);
  return 0;
}
