// Damaged chunks by the hundred million, made and decoded on the GPU.
//
//   decode_campaign [--count 1e6] [--seed N] [--codec ROW] [--groups REGEX] [--batch 131072] [--sample 512]
//                   [--largest 1048576] [--record FILE --commit ID] [--verbose] [--list]
//   decode_campaign --seed N --groups NAME --replay FIRST:COUNT[:ITEM]
//
// Every codec with device code takes part. Mutants depend on (seed, index) alone. Checked of each batch:
//   - nothing is written outside the outputs: canaries between them, addresses that are not mapped at the ends of every
//     window of 2 MiB; inputs and scratch end at such addresses too (a violation ends the process and names the batch);
//   - every chunk gets an outcome; sources that were left as they are decode exactly, those that are not valid do not;
//   - of one mutant in --sample: the outcome and every byte are those of the CPU's decoder, and its input is unchanged;
//   - the batch takes less than 10 times the time of as many copies of the valid chunk that takes longest; so do single
//     mutants.
// --plant BUG (canary, past-window, bytes, sample, input, outcome, verdict, slow) puts a bug behind the decoder of the
// first full batch; with --sample 1 each must end the campaign with 1. --replay makes one batch again exactly, or
// decodes one item of it alone in its place. Ends with 0, with 1 and what was found, with 4 where the device does not
// answer, with 77 without a GPU. The last line of stdout is a JSON object for docs/reference/campaigns.jsonl, which
// --record appends.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "campaign_kernels.cuh"
#include "device/device.h"
#include "support/decode_corpus.h"
#include "support/guarded_windows.h"

namespace headrace::test {
namespace {

using device::DecodeOutcome;
using device::DecodeReason;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr double kTimes = 10, kFloorMs = 0.05;  // a launch alone takes some microseconds, and varies

struct Options {
  std::uint64_t count = 1'000'000, seed = 1, sample = 512;
  std::uint32_t batch = 131072;
  std::size_t largest = kMiB;
  std::string codec, groups = ".", record, commit = "unknown";
  bool replay = false, verbose = false, list = false;
  Plant plant = Plant::kNone;
  std::uint64_t replay_first = 0;
  std::uint32_t replay_count = 0;
  std::int64_t replay_item = -1;
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "decode_campaign: %s\n", what.c_str());
  std::exit(1);
}
// What the process is doing, for whoever reads its last words.
std::string g_doing;
std::atomic<std::uint64_t> g_beats{0};

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) die(std::string(what) + ": " + cudaGetErrorString(error) + "; " + g_doing);
}
void must(const Status& status) {
  if (!status.ok()) die(status.to_string() + "; " + g_doing);
}
template <class T>
T take(Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

void in_parallel(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work) {
  const std::size_t threads = std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), count / 256 + 1);
  if (threads == 1) return work(0, count);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] { work(count * t / threads, count * (t + 1) / threads); });
  }
  for (std::thread& thread : running) thread.join();
}

template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count) {
    must(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(count * sizeof(T), 1)), "allocating");
  }
  explicit DeviceMemory(const std::vector<T>& from) : DeviceMemory(from.size()) {
    must(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copying the corpus");
  }
  ~DeviceMemory() { (void)cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

struct Counts {
  std::uint64_t executions = 0, ok = 0, host_only = 0, sampled = 0, offset_zero = 0, batches = 0;
  double worst_times = 0, decode_seconds = 0;
  std::map<unsigned, std::uint64_t> reasons;
  void add(const Counts& other) {
    executions += other.executions, ok += other.ok, host_only += other.host_only, sampled += other.sampled;
    offset_zero += other.offset_zero, batches += other.batches, decode_seconds += other.decode_seconds;
    worst_times = std::max(worst_times, other.worst_times);
    for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  }
};

// Windows of one size, kept from group to group.
class Arenas {
 public:
  GuardedWindows& get(const char* use, std::size_t count, std::size_t bytes) {
    auto& slot = windows_[use];
    if (slot == nullptr || slot->window_bytes() != bytes || slot->count() < count) {
      slot.reset();
      slot = std::make_unique<GuardedWindows>(count, bytes);
    }
    return *slot;
  }

 private:
  std::map<std::string, std::unique_ptr<GuardedWindows>> windows_;
};

class GroupCampaign {
 public:
  GroupCampaign(const Options& options, const CorpusGroup& group, device::Device& device, Arenas& arenas)
      : options_(options),
        group_(group),
        device_(device),
        capacity_(group.stage.capacity_bytes),
        decoder_(take(device.make_decoder({&group.stage, 1}))),
        device_stream_(take(device.create_stream())),
        device_event_(take(device.create_event())),
        wrong_(1) {
    flatten();
    const std::size_t in_slot = longest_ + MutationPlan::kMaxAppended + 16, out_slot = capacity_ + 64;
    in_window_ = (in_slot + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    out_window_ = (out_slot + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    constexpr std::size_t kArenaBytes = 192 * kMiB;
    const std::size_t windows = std::max<std::size_t>(4, kArenaBytes / std::max(in_window_, out_window_));
    in_ = &arenas.get("in", windows, in_window_);
    out_ = &arenas.get("out", windows, out_window_);
    most_per_ = static_cast<std::uint32_t>(std::min(in_window_ / in_slot, out_window_ / out_slot));
    most_items_ = static_cast<std::uint32_t>(std::min<std::size_t>(options.batch, windows * most_per_));
    batch_.in.slot = in_slot, batch_.in.jitter = 16, batch_.in.window_bytes = in_window_;
    batch_.out.slot = out_slot, batch_.out.jitter = 32, batch_.out.window_bytes = out_window_;
    batch_.in.base = in_->window(0), batch_.in.stride = in_->stride();
    batch_.out.base = out_->window(0), batch_.out.stride = out_->stride();
    batch_.seed = options.seed, batch_.capacity = capacity_, batch_.may_be_host_only = group.may_be_host_only;

    device::DecodeLimits limits;
    limits.items = most_items_;
    limits.largest_src_bytes = longest_ + MutationPlan::kMaxAppended;
    limits.src_bytes = limits.items * limits.largest_src_bytes;
    scratch_bytes_ = (decoder_->scratch_bytes(limits) + 255) / 256 * 256;
    // Down to this batch's own need it is cut in run(): its end is not mapped.
    scratch_ = &arenas.get("scratch", 1, (scratch_bytes_ + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
    must(cudaHostAlloc(reinterpret_cast<void**>(&outcomes_), most_items_ * sizeof(DecodeOutcome), 0), "allocating");
    items_.resize(most_items_);
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    must(cudaEventCreate(&begin_), "making an event");
    must(cudaEventCreate(&end_), "making an event");
    sample_step_ = static_cast<std::uint32_t>(
        std::max<std::uint64_t>(1, capacity_ > 65536 ? std::min<std::uint64_t>(options.sample, 64) : options.sample));
    const std::size_t rows = most_items_ / sample_step_ + 1;
    row_bytes_ = capacity_ + in_slot;
    rows_ = std::make_unique<DeviceMemory<unsigned char>>(rows * row_bytes_);
    must(cudaHostAlloc(reinterpret_cast<void**>(&host_rows_), rows * row_bytes_, 0), "allocating");
  }
  ~GroupCampaign() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
    cudaFreeHost(outcomes_);
    cudaFreeHost(host_rows_);
  }

  // `count` mutants from index `first` on. False if something is wrong, which is printed.
  bool run(std::uint64_t first, std::uint64_t count) {
    measure_valid();
    bool fine = true;
    for (std::uint32_t i = 0; i < std::min<std::uint64_t>(24, count / 1000) && fine; ++i) {
      fine = one_batch(first++, 1);
      --count;
    }
    for (std::uint64_t batch = 0; count > 0 && fine; ++batch) {
      std::uint64_t items = std::min<std::uint64_t>(count, most_items_);
      if (batch % 16 == 15) items = std::min<std::uint64_t>(items, 1 + mix(options_.seed ^ first) % 20000);
      fine = one_batch(first, static_cast<std::uint32_t>(items));
      first += items;
      count -= items;
    }
    return fine;
  }
  bool replay() {
    if (options_.replay_count == 0 || options_.replay_count > most_items_) die("--replay: no such batch");
    measure_valid();
    return one_batch(options_.replay_first, options_.replay_count, options_.replay_item);
  }

  Counts counts;

 private:
  void flatten() {
    std::vector<unsigned char> bytes, plain;
    std::vector<std::uint64_t> offset, plain_offset;
    std::vector<std::uint32_t> plain_bytes;
    for (const CorpusStream& stream : group_.streams) {
      const auto* const from = reinterpret_cast<const unsigned char*>(stream.encoded.data());
      const auto* const to = reinterpret_cast<const unsigned char*>(stream.plain.data());
      offset.push_back(bytes.size());
      length_.push_back(static_cast<std::uint32_t>(stream.encoded.size()));
      bytes.insert(bytes.end(), from, from + stream.encoded.size());
      plain_offset.push_back(plain.size());
      plain_bytes.push_back(stream.valid ? static_cast<std::uint32_t>(stream.plain.size()) : 0xFFFFFFFFu);
      plain.insert(plain.end(), to, to + stream.plain.size());
      longest_ = std::max(longest_, stream.encoded.size());
    }
    host_bytes_ = bytes, host_offset_ = offset;
    bytes_ = std::make_unique<DeviceMemory<unsigned char>>(bytes);
    plain_ = std::make_unique<DeviceMemory<unsigned char>>(plain);
    offset_ = std::make_unique<DeviceMemory<std::uint64_t>>(offset);
    plain_offset_ = std::make_unique<DeviceMemory<std::uint64_t>>(plain_offset);
    device_length_ = std::make_unique<DeviceMemory<std::uint32_t>>(length_);
    plain_bytes_ = std::make_unique<DeviceMemory<std::uint32_t>>(plain_bytes);
    const auto sources = static_cast<std::uint32_t>(length_.size());
    batch_.source = {bytes_->data(), offset_->data(), device_length_->data(), sources};
    batch_.plain = plain_->data(), batch_.plain_offset = plain_offset_->data(),
    batch_.plain_bytes = plain_bytes_->data();
    host_source_ = {host_bytes_.data(), host_offset_.data(), length_.data(), sources};
  }

  CampaignBatch lay_out(std::uint64_t first, std::uint32_t items, std::int64_t only_source) const {
    CampaignBatch batch = batch_;
    batch.first = first;
    batch.only_source = only_source;
    // Over all windows, so that many lie at an end.
    const auto windows = static_cast<std::uint32_t>(in_->count());
    const std::uint32_t per = std::min(most_per_, (items + windows - 1) / windows);
    batch.in.items = batch.out.items = items;
    batch.in.per = batch.out.per = per;
    return batch;
  }

  MutationPlan host_plan(const CampaignBatch& batch, std::uint32_t item) const {
    CampaignBatch host = batch;
    host.source = host_source_;
    return plan_of(host, item);
  }

  // Makes, decodes and waits: milliseconds of the decode.
  double decode(const CampaignBatch& batch, std::int64_t only_item = -1) {
    const std::uint32_t n = batch.in.items;
    device::DecodeLimits limits;
    in_parallel(n, [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        const auto item = static_cast<std::uint32_t>(i);
        const std::uint32_t bytes = host_plan(batch, item).bytes;
        items_[i] = {reinterpret_cast<const std::byte*>(batch.in.at(item, bytes)), bytes,
                     reinterpret_cast<std::byte*>(batch.out.at(item, capacity_))};
        outcomes_[i].word = 0;
      }
    });
    const std::span<const device::DecodeItem> items =
        only_item < 0 ? std::span<const device::DecodeItem>(items_.data(), n)
                      : std::span<const device::DecodeItem>(items_.data() + only_item, 1);
    limits.items = static_cast<std::uint32_t>(items.size());
    for (const device::DecodeItem& item : items) {
      limits.src_bytes += item.src_bytes;
      limits.largest_src_bytes = std::max(limits.largest_src_bytes, item.src_bytes);
    }
    const std::uint64_t scratch = (decoder_->scratch_bytes(limits) + 255) / 256 * 256;
    if (scratch > scratch_bytes_) die("a smaller batch wants more scratch; " + g_doing);
    unsigned char* const scratch_end = scratch_->window(0) + scratch_->window_bytes();
    fill_canaries<<<dim3(16, batch.out.windows()), 256, 0, stream_>>>(batch.out);
    must(cudaMemsetAsync(scratch_end - scratch, 0xA5, scratch, stream_), "spoiling the scratch");
    const unsigned parts = parts_of(longest_);
    make_mutants<<<dim3((n + 3) / 4, parts), 128, 0, stream_>>>(batch);
    must(cudaGetLastError(), "making mutants");
    must(cudaEventRecord(begin_, stream_), "recording");
    must(device_.wait_native(*device_stream_, stream_));
    must(decoder_->decode(items, {reinterpret_cast<std::byte*>(scratch_end - scratch), scratch},
                          {outcomes_ + (only_item < 0 ? 0 : only_item), items.size()}, *device_stream_));
    must(device_.record(*device_event_, *device_stream_));
    must(device_.make_native_wait(*device_event_, stream_));
    if (batch.only_source < 0 && n > 1 && options_.plant != Plant::kNone) plant(batch);
    must(cudaEventRecord(end_, stream_), "recording");
    must(cudaMemsetAsync(wrong_.data(), 0, 8, stream_), "clearing");
    check_canaries<<<dim3(64, batch.out.windows()), 256, 0, stream_>>>(batch.out, capacity_, wrong_.data());
    if (only_item < 0) {
      check_untouched<<<dim3((n + 3) / 4, parts_of(capacity_)), 128, 0, stream_>>>(
          batch, reinterpret_cast<const unsigned long long*>(outcomes_), wrong_.data());
    }
    must(cudaGetLastError(), "checking");
    must(cudaStreamSynchronize(stream_), "decoding");
    ++g_beats;
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin_, end_), "reading the clock");
    counts.decode_seconds += ms / 1e3;
    return ms;
  }
  void plant(const CampaignBatch& batch) {
    std::uint32_t item = 0;
    while (item + 1 < batch.in.items) {
      const MutationPlan plan = host_plan(batch, item);
      if (plan.untouched && plan.bytes > 0 && group_.streams[plan.base].valid) break;
      ++item;
    }
    plant_bug<<<1, 1, 0, stream_>>>(batch, options_.plant, item, reinterpret_cast<unsigned long long*>(outcomes_));
    must(cudaGetLastError(), "planting a bug");
  }
  static unsigned parts_of(std::size_t bytes) {
    return static_cast<unsigned>(std::min<std::size_t>(64, bytes / 8192 + 1));
  }

  // The valid source that takes longest: alone, and in full batches of those that take longest alone.
  void measure_valid() {
    g_doing = "timing the valid chunks of " + group_.name;
    std::vector<std::pair<double, std::int64_t>> valid;  // milliseconds alone
    for (std::size_t s = 0; s < group_.streams.size(); ++s) {
      if (!group_.streams[s].valid) continue;
      const auto source = static_cast<std::int64_t>(s);
      if (valid.empty()) (void)decode(lay_out(0, most_items_, source));  // grows buffers
      valid.emplace_back(decode(lay_out(0, 1, source)), source);
    }
    std::sort(valid.rbegin(), valid.rend());
    if (!valid.empty()) single_ms_ = valid.front().first;
    for (std::size_t i = 0; i < std::min<std::size_t>(valid.size(), 8); ++i) {
      full_ms_ = std::max(full_ms_, decode(lay_out(0, most_items_, valid[i].second)));
    }
  }

  bool one_batch(std::uint64_t first, std::uint32_t n, std::int64_t only_item = -1) {
    g_doing = "group " + group_.name + ": --seed " + std::to_string(options_.seed) + " --groups '^" + group_.name +
              "$' --replay " + std::to_string(first) + ":" + std::to_string(n) + " (--batch and --sample as here)";
    const CampaignBatch batch = lay_out(first, n, -1);
    const double ms = decode(batch, only_item);
    unsigned long long wrong = 0;
    must(cudaMemcpy(&wrong, wrong_.data(), 8, cudaMemcpyDeviceToHost), "fetching the verdict");
    ++counts.batches;
    counts.executions += n;
    if (wrong != 0) return report(wrong);
    if (only_item >= 0) {
      const DecodeOutcome outcome = outcomes_[only_item];
      std::printf("item %lld: %s at %llu\n", static_cast<long long>(only_item), decode_reason_text(outcome.reason()),
                  static_cast<unsigned long long>(outcome.position()));
      return true;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      const DecodeOutcome outcome = outcomes_[i];
      if (outcome.word == 0) return found("no outcome for item " + std::to_string(i));
      counts.ok += outcome.ok();
      counts.host_only += outcome.host_only();
      if (!outcome.ok()) ++counts.reasons[static_cast<unsigned>(outcome.reason())];
    }
    if (full_ms_ > 0) {
      const double allowed = std::max(n == 1 ? single_ms_ : full_ms_, kFloorMs);
      counts.worst_times = std::max(counts.worst_times, ms / allowed);
      if (ms > kTimes * allowed) {
        return found("took " + std::to_string(ms) + " ms, the longest valid takes " + std::to_string(allowed));
      }
    }
    return check_samples(batch);
  }

  // Outcome, bytes and input of some mutants against the CPU's decoder.
  bool check_samples(const CampaignBatch& batch) {
    const std::uint32_t n = batch.in.items;
    const std::uint32_t start = static_cast<std::uint32_t>(mix(batch.first) % std::min(sample_step_, n));
    const std::uint32_t samples = (n - start + sample_step_ - 1) / sample_step_;
    gather_samples<<<std::min(samples, 1024u), 256, 0, stream_>>>(batch, start, sample_step_, samples, row_bytes_,
                                                                  rows_->data());
    must(cudaGetLastError(), "gathering");
    must(cudaMemcpyAsync(host_rows_, rows_->data(), samples * row_bytes_, cudaMemcpyDeviceToHost, stream_),
         "gathering");
    must(cudaStreamSynchronize(stream_), "gathering");
    std::atomic<std::uint64_t> offset_zero{0};
    std::atomic<std::int64_t> bad{-1};
    const auto work = [&](std::size_t s) {
      const auto item = start + static_cast<std::uint32_t>(s) * sample_step_;
      const MutationPlan plan = host_plan(batch, item);
      const unsigned char* const row = host_rows_ + s * row_bytes_;
      const unsigned char* const input = row + capacity_;
      bool same = true;
      for (std::uint32_t i = 0; i < plan.bytes && same; ++i) same = input[i] == mutant_byte(host_source_, plan, i);
      const DecodeOutcome outcome = outcomes_[item];
      const CorpusStream cpu = decode_on_cpu(group_, {reinterpret_cast<const std::byte*>(input), plan.bytes});
      if (outcome.ok()) {
        same = same && cpu.valid && std::memcmp(row, cpu.plain.data(), cpu.plain.size()) == 0;
      } else if (cpu.valid && !(outcome.host_only() && group_.damaged_may_be_host_only)) {
        // liblz4 lets an offset of 0 pass and leaves the bytes as they were; the format forbids it.
        if (outcome.reason() == DecodeReason::kOffset) {
          ++offset_zero;
        } else {
          same = false;
        }
      }
      if (!same) bad = item;
    };
    std::vector<std::thread> threads;
    const std::size_t wanted = std::min<std::size_t>(std::thread::hardware_concurrency(), samples / 8 + 1);
    for (std::size_t t = 0; t < wanted; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t s = t; s < samples; s += wanted) work(s);
      });
    }
    for (std::thread& thread : threads) thread.join();
    counts.sampled += samples;
    counts.offset_zero += offset_zero;
    if (bad < 0) return true;
    const auto item = static_cast<std::uint32_t>(bad.load());
    const DecodeOutcome outcome = outcomes_[item];
    const std::string verdict = outcome.ok() ? "takes it"
                                             : std::string("says ") + decode_reason_text(outcome.reason()) + " at " +
                                                   std::to_string(outcome.position());
    return found("item " + std::to_string(item) + ": the GPU " + verdict +
                 ", and the CPU's verdict, its bytes or the input differ");
  }

  bool report(unsigned long long wrong) const {
    const auto kind = static_cast<Wrong>(wrong >> 56);
    const auto where = wrong & ((1ull << 56) - 1);
    switch (kind) {
      case Wrong::kCanary:
        return found("a byte outside the outputs was written: window " + std::to_string(where >> 32) + ", offset " +
                     std::to_string(where & 0xFFFFFFFFu));
      case Wrong::kRefusedValid:
        return found("item " + std::to_string(where) +
                     " is valid and was refused: " + decode_reason_text(outcomes_[where].reason()) + " at " +
                     std::to_string(outcomes_[where].position()));
      case Wrong::kWrongBytes:
        return found("item " + std::to_string(where) + " is valid and decoded to other bytes");
      case Wrong::kTookInvalid:
        return found("item " + std::to_string(where) + " is a source that is not valid and was taken");
      default:
        return found("item " + std::to_string(where) + " got no outcome");
    }
  }
  bool found(const std::string& what) const {
    std::printf("VIOLATION: %s; %s\n", what.c_str(), g_doing.c_str());
    return false;
  }

  const Options& options_;
  const CorpusGroup& group_;
  device::Device& device_;
  const std::size_t capacity_;
  std::unique_ptr<device::ChunkDecoder> decoder_;
  std::unique_ptr<device::Stream> device_stream_;
  std::unique_ptr<device::Event> device_event_;
  std::vector<unsigned char> host_bytes_;
  std::vector<std::uint64_t> host_offset_;
  std::vector<std::uint32_t> length_;
  std::size_t longest_ = 0;
  std::unique_ptr<DeviceMemory<unsigned char>> bytes_, plain_, rows_;
  std::unique_ptr<DeviceMemory<std::uint64_t>> offset_, plain_offset_;
  std::unique_ptr<DeviceMemory<std::uint32_t>> device_length_, plain_bytes_;
  MutationSource host_source_{};
  CampaignBatch batch_{};
  std::size_t in_window_ = 0, out_window_ = 0, row_bytes_ = 0;
  GuardedWindows *in_ = nullptr, *out_ = nullptr, *scratch_ = nullptr;
  std::uint32_t most_per_ = 1, most_items_ = 1, sample_step_ = 1;
  std::uint64_t scratch_bytes_ = 0;
  DecodeOutcome* outcomes_ = nullptr;
  unsigned char* host_rows_ = nullptr;
  std::vector<device::DecodeItem> items_;
  DeviceMemory<unsigned long long> wrong_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double full_ms_ = 0, single_ms_ = 0;
};

// A kernel that never ends would hold the process for ever.
void watch() {
  std::thread([] {
    for (std::uint64_t seen = g_beats;;) {
      std::this_thread::sleep_for(std::chrono::seconds(30));
      if (seen == g_beats) {
        std::printf("VIOLATION: the device has not answered for 30 s; %s\n", g_doing.c_str());
        std::fflush(stdout);
        _exit(4);
      }
      seen = g_beats;
    }
  }).detach();
}

// How many mutants of all a group gets: most are small, where most of a format's branches are within reach.
double weight_of(const CorpusGroup& group) {
  const double bytes = static_cast<double>(std::max<std::uint64_t>(group.stage.capacity_bytes, 1024));
  // Most branches by far are in these.
  static const std::set<std::string> most = {"lz4", "blosc", "zstd", "gzip", "zlib"};
  const double codec = most.count(group.codec) != 0 ? 1 : 0.05;
  const double seed = group.name.find("/seed/") != std::string::npos ? 0.3 : 1;
  return codec * seed * (bytes <= 4096 ? 1 : 4096.0 / bytes * 0.5);
}

int campaign(const Options& options) {
  CorpusOptions corpus_options;
  corpus_options.codec = options.codec;
  corpus_options.largest = options.largest;
  std::vector<CorpusGroup> groups = make_decode_corpus(corpus_options);
  const std::regex wanted(options.groups);
  std::erase_if(groups, [&](const CorpusGroup& group) { return !std::regex_search(group.name, wanted); });
  if (options.list) {
    for (const CorpusGroup& group : groups) {
      const auto valid =
          std::count_if(group.streams.begin(), group.streams.end(), [](const auto& s) { return s.valid; });
      std::printf("%-40s %8llu bytes, %zu streams, %td valid, weight %.4f\n", group.name.c_str(),
                  static_cast<unsigned long long>(group.stage.capacity_bytes), group.streams.size(), valid,
                  weight_of(group));
    }
    return 0;
  }
  if (groups.empty()) die("no codec with device code has such a group");
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::fprintf(stderr, "decode_campaign: no GPU here\n");
    return 77;
  }
  const auto device = take(device::open_device("cuda"));
  Arenas arenas;
  watch();
  double weights = 0;
  for (const CorpusGroup& group : groups) weights += weight_of(group);
  const auto started = std::chrono::steady_clock::now();
  const auto seconds_since = [](auto start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::map<std::string, Counts> totals;
  std::map<std::string, double> seconds;
  bool fine = true;
  for (const CorpusGroup& group : groups) {
    if (!fine) break;
    const auto begin = std::chrono::steady_clock::now();
    GroupCampaign run(options, group, *device, arenas);
    const double share = weight_of(group) / weights;
    // Indices of groups do not meet: the same place in two groups is another mutation.
    const std::uint64_t first = mix(std::hash<std::string>{}(group.name)) >> 16;
    fine = options.replay ? run.replay()
                          : run.run(first, static_cast<std::uint64_t>(share * static_cast<double>(options.count)) + 1);
    totals[group.codec].add(run.counts);
    seconds[group.codec] += seconds_since(begin);
    if (options.verbose) {
      std::printf(
          "%-40s %10llu mutants, %9llu ok, %8llu host only, %7llu sampled, worst %.2f x, decode %.3f s of %.3f\n",
          group.name.c_str(), static_cast<unsigned long long>(run.counts.executions),
          static_cast<unsigned long long>(run.counts.ok), static_cast<unsigned long long>(run.counts.host_only),
          static_cast<unsigned long long>(run.counts.sampled), run.counts.worst_times, run.counts.decode_seconds,
          seconds_since(begin));
      std::fflush(stdout);
    }
  }
  if (options.replay) return fine ? 0 : 1;
  char date[16] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
  for (const auto& [codec, total] : totals) {
    base::Json reasons = base::Json::object();
    for (const auto& [reason, count] : total.reasons) {
      reasons[decode_reason_text(static_cast<DecodeReason>(reason))] = count;
    }
    const base::Json line = {{"target", codec + "_gpu"},
                             {"technique", "mutants decoded on the GPU"},
                             {"executions", total.executions},
                             {"seconds", static_cast<std::uint64_t>(seconds[codec] + 0.5)},
                             {"findings", fine ? 0 : 1},
                             {"commit", options.commit},
                             {"date", date},
                             {"machine", device->info().description},
                             {"seed", options.seed},
                             {"batches", total.batches},
                             {"ok", total.ok},
                             {"host_only", total.host_only},
                             {"compared_with_cpu", total.sampled},
                             {"offset_zero", total.offset_zero},
                             {"worst_times_valid", total.worst_times},
                             {"reasons", reasons}};
    std::printf("%s\n", line.dump().c_str());
    if (!options.record.empty()) {
      std::FILE* const file = std::fopen(options.record.c_str(), "a");
      if (file == nullptr) die("cannot append to " + options.record);
      std::fprintf(file, "%s\n", line.dump().c_str());
      std::fclose(file);
    }
  }
  std::printf("%.1f s in all\n", seconds_since(started));
  return fine ? 0 : 1;
}

}  // namespace
}  // namespace headrace::test

int main(int argc, char** argv) {
  using namespace headrace::test;
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) die(arg + " needs a value");
      return std::string(argv[++i]);
    };
    const auto number = [&] { return static_cast<std::uint64_t>(std::atof(value().c_str())); };
    if (arg == "--count") {
      options.count = number();
    } else if (arg == "--seed") {
      options.seed = std::strtoull(value().c_str(), nullptr, 10);
    } else if (arg == "--codec") {
      options.codec = value();
    } else if (arg == "--groups") {
      options.groups = value();
    } else if (arg == "--batch") {
      options.batch = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, number()));
    } else if (arg == "--sample") {
      options.sample = std::max<std::uint64_t>(1, number());
    } else if (arg == "--largest") {
      options.largest = number();
    } else if (arg == "--record") {
      options.record = value();
    } else if (arg == "--commit") {
      options.commit = value();
    } else if (arg == "--plant") {
      const std::string names[] = {"",      "canary",  "past-window", "bytes", "sample",
                                   "input", "outcome", "verdict",     "slow"};
      const auto name = std::find(std::begin(names), std::end(names), value());
      if (name == std::end(names)) die("--plant: no such bug");
      options.plant = static_cast<Plant>(name - names);
    } else if (arg == "--verbose") {
      options.verbose = true;
    } else if (arg == "--list") {
      options.list = true;
    } else if (arg == "--replay") {
      unsigned long long first = 0;
      long long item = -1;
      options.replay = std::sscanf(value().c_str(), "%llu:%u:%lld", &first, &options.replay_count, &item) >= 2;
      if (!options.replay) die("--replay FIRST:COUNT[:ITEM]");
      options.replay_first = first;
      options.replay_item = item;
    } else {
      die("unknown argument " + arg + "; the head of decode_campaign.cu says what there is");
    }
  }
  const int result = campaign(options);
  std::fflush(stdout);
  return result;
}
