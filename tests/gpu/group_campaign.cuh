// Makes, decodes and checks the mutants of one group of the corpus. decode_campaign.cu lists the checks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "campaign_kernels.cuh"
#include "campaign_support.cuh"
#include "device/device.h"
#include "support/decode_corpus.h"
#include "support/guarded_windows.h"

namespace headrace::test {

using device::DecodeOutcome;
using device::DecodeReason;

inline constexpr double kTimes = 10, kFloorMs = 0.05;  // a launch alone takes a few microseconds, and varies

class GroupCampaign {
 public:
  GroupCampaign(const Options& options, const CorpusGroup& group, device::Device& device, Arenas& arenas)
      : options_(options),
        group_(group),
        device_(device),
        capacity_(group.stage.capacity_bytes),
        decoder_(take(make_decoder(group, device))),
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
    max_per_ = static_cast<std::uint32_t>(std::min(in_window_ / in_slot, out_window_ / out_slot));
    max_items_ = static_cast<std::uint32_t>(std::min<std::size_t>(options.batch, windows * max_per_));
    batch_.in.slot = in_slot, batch_.in.jitter = 16, batch_.in.window_bytes = in_window_;
    batch_.out.slot = out_slot, batch_.out.jitter = 32, batch_.out.window_bytes = out_window_;
    batch_.in.base = in_->window(0), batch_.in.stride = in_->stride();
    batch_.out.base = out_->window(0), batch_.out.stride = out_->stride();
    batch_.seed = options.seed, batch_.capacity = capacity_, batch_.may_be_host_only = group.may_be_host_only;

    device::DecodeLimits limits;
    limits.items = max_items_;
    limits.largest_src_bytes = longest_ + MutationPlan::kMaxAppended;
    limits.src_bytes = limits.items * limits.largest_src_bytes;
    scratch_bytes_ = (decoder_->scratch_bytes(limits) + 255) / 256 * 256;
    // run() cuts this to each batch's need, so that the scratch ends at an unmapped address.
    scratch_ = &arenas.get("scratch", 1, (scratch_bytes_ + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
    must(cudaHostAlloc(reinterpret_cast<void**>(&outcomes_), max_items_ * sizeof(DecodeOutcome), 0), "allocating");
    if (group.stage.exact) index_stride_ = decoder_->index_stride();
    if (index_stride_ != 0) {
      const std::uint64_t bytes = index_bytes(max_items_);
      must(cudaHostAlloc(reinterpret_cast<void**>(&indices_.pinned), bytes, 0), "allocating");
      index_window_ = &arenas.get("index", 1, (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
      indices_.stride = index_stride_;
      sums_ = std::make_unique<DeviceMemory<unsigned long long>>(2 * std::size_t{max_items_});
    }
    items_.resize(max_items_);
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    must(cudaEventCreate(&begin_), "making an event");
    must(cudaEventCreate(&end_), "making an event");
    sample_step_ = static_cast<std::uint32_t>(
        std::max<std::uint64_t>(1, capacity_ > 65536 ? std::min<std::uint64_t>(options.sample, 64) : options.sample));
    const std::size_t rows = max_items_ / sample_step_ + 1;
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
    cudaFreeHost(indices_.pinned);
  }

  // Runs `count` mutants from index `first` on. Prints a violation and returns false.
  bool run(std::uint64_t first, std::uint64_t count) {
    measure_valid();
    collect_indices();
    bool fine = true;
    for (std::uint32_t i = 0; i < std::min<std::uint64_t>(24, count / 1000) && fine; ++i) {
      fine = one_batch(first++, 1);
      --count;
    }
    for (std::uint64_t batch = 0; count > 0 && fine; ++batch) {
      std::uint64_t items = std::min<std::uint64_t>(count, max_items_);
      if (batch % 16 == 15) items = std::min<std::uint64_t>(items, 1 + mix(options_.seed ^ first) % 20000);
      fine = one_batch(first, static_cast<std::uint32_t>(items));
      first += items;
      count -= items;
    }
    return fine;
  }
  bool replay() {
    if (options_.replay_count == 0 || options_.replay_count > max_items_) die("--replay: no such batch");
    measure_valid();
    collect_indices();
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
    // Spreads the items over all windows, so that many lie at an end.
    const auto windows = static_cast<std::uint32_t>(in_->count());
    const std::uint32_t per = std::min(max_per_, (items + windows - 1) / windows);
    batch.in.items = batch.out.items = items;
    batch.in.per = batch.out.per = per;
    return batch;
  }

  MutationPlan host_plan(const CampaignBatch& batch, std::uint32_t item) const {
    CampaignBatch host = batch;
    host.source = host_source_;
    return plan_of(host, item);
  }

  // Makes and decodes a batch and waits; returns the milliseconds of the decode. With indexes, indices_ must be filled
  // in.
  double decode(const CampaignBatch& batch, std::int64_t only_item = -1, bool with_indices = false) {
    const std::uint32_t n = batch.in.items;
    device::DecodeLimits limits;
    in_parallel(n, [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        const auto item = static_cast<std::uint32_t>(i);
        const std::uint32_t bytes = host_plan(batch, item).bytes;
        items_[i] = {reinterpret_cast<const std::byte*>(batch.in.at(item, bytes)), bytes,
                     reinterpret_cast<std::byte*>(batch.out.at(item, capacity_)), 0, batch.enough};
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
    device::DecodeIndices indices;
    if (with_indices) {
      const std::uint64_t bytes = index_bytes(n);
      unsigned char* const end = index_window_->window(0) + index_window_->window_bytes();
      must(cudaMemsetAsync(end - bytes, 0xA5, bytes, stream_), "spoiling the indices");
      indices = indices_;
      indices.on_device = reinterpret_cast<std::byte*>(end - bytes);
    }
    const unsigned parts = parts_of(longest_);
    make_mutants<<<dim3((n + 3) / 4, parts), 128, 0, stream_>>>(batch);
    must(cudaGetLastError(), "making mutants");
    must(cudaEventRecord(begin_, stream_), "recording");
    must(device_.wait_native(*device_stream_, stream_));
    must(decoder_->decode(items, {reinterpret_cast<std::byte*>(scratch_end - scratch), scratch},
                          {outcomes_ + (only_item < 0 ? 0 : only_item), items.size()}, *device_stream_, nullptr,
                          indices));
    must(device_.record(*device_event_, *device_stream_));
    must(device_.make_native_wait(*device_event_, stream_));
    const bool planted = options_.plant != Plant::kNone && (options_.plant == Plant::kIndex) == with_indices;
    if (batch.only_source < 0 && n > 1 && planted) plant(batch);
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

  // Measures the slowest valid source: alone, and in full batches of the sources that are slowest alone.
  void measure_valid() {
    g_doing = "timing the valid chunks of " + group_.name;
    std::vector<std::pair<double, std::int64_t>> valid;  // milliseconds when decoded alone
    for (std::size_t s = 0; s < group_.streams.size(); ++s) {
      if (!group_.streams[s].valid) continue;
      const auto source = static_cast<std::int64_t>(s);
      if (valid.empty()) (void)decode(lay_out(0, max_items_, source));  // grows buffers
      valid.emplace_back(decode(lay_out(0, 1, source)), source);
    }
    std::sort(valid.rbegin(), valid.rend());
    if (!valid.empty()) single_ms_ = valid.front().first;
    for (std::size_t i = 0; i < std::min<std::size_t>(valid.size(), 8); ++i) {
      full_ms_ = std::max(full_ms_, decode(lay_out(0, max_items_, valid[i].second)));
    }
  }

  bool one_batch(std::uint64_t first, std::uint32_t n, std::int64_t only_item = -1) {
    g_doing = "group " + group_.name + ": --seed " + std::to_string(options_.seed) + " --groups '^" + group_.name +
              "$' --replay " + std::to_string(first) + ":" + std::to_string(n) + " (--batch and --sample as here)";
    const CampaignBatch batch = lay_out(first, n, -1);
    double ms = decode(batch, only_item);
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
      ms = confirmed(ms, allowed, [&] { return decode(batch, only_item); });
      counts.worst_times = std::max(counts.worst_times, ms / allowed);
      if (ms > kTimes * allowed) {
        return found("took " + std::to_string(ms) + " ms, the longest valid takes " + std::to_string(allowed) +
                     slowest_alone(batch));
      }
    }
    return (n == 1 || index_stride_ == 0 || same_with_indices(batch)) && check_samples(batch) && same_beginnings(batch);
  }

  std::string slowest_alone(const CampaignBatch& batch) {
    constexpr double kMaxMs = 5000;
    std::pair<double, std::uint32_t> worst;
    double all_ms = 0;
    std::uint32_t tried = 0;
    for (; tried < batch.in.items && all_ms < kMaxMs; ++tried) {
      const double ms = decode(batch, tried);
      worst = std::max(worst, {ms, tried});
      all_ms += ms;
    }
    return "; of the first " + std::to_string(tried) + " items, item " + std::to_string(worst.second) +
           " takes longest alone: " + std::to_string(worst.first) + " ms";
  }

  // Decodes the batch again with only the beginnings wanted; checks canaries, outcomes, and the bytes of unmodified
  // sources.
  bool same_beginnings(CampaignBatch batch) {
    if (!decoder_->ends_early() || capacity_ == 0) return true;
    batch.enough = 1 + mix(options_.seed ^ batch.first ^ capacity_) % capacity_;
    (void)decode(batch);
    unsigned long long wrong = 0;
    must(cudaMemcpy(&wrong, wrong_.data(), 8, cudaMemcpyDeviceToHost), "fetching the verdict");
    if (wrong != 0) return report(wrong);
    for (std::uint32_t i = 0; i < batch.in.items; ++i) {
      if (outcomes_[i].word == 0) return found("no outcome for the beginning of item " + std::to_string(i));
    }
    return true;
  }

  // Repeats slow measurements, since the host may be descheduled between two launches. A chunk that is really slow is
  // slow every time.
  template <class Again>
  static double confirmed(double ms, double allowed, Again&& again) {
    for (int i = 0; i < 2 && ms > kTimes * allowed; ++i) ms = std::min(ms, again());
    return ms;
  }

  static std::uint64_t index_bytes(std::uint32_t items, std::uint64_t stride) {
    const std::uint64_t bytes = device::DecodeIndices::bytes(items, stride);
    return (bytes + device::DecodeIndices::kAlignment - 1) / device::DecodeIndices::kAlignment *
           device::DecodeIndices::kAlignment;
  }
  std::uint64_t index_bytes(std::uint32_t items) const { return index_bytes(items, index_stride_); }

  // Collects the decoder's index of each valid source.
  void collect_indices() {
    if (index_stride_ == 0) return;
    g_doing = "collecting decode indices of " + group_.name;
    source_index_.resize(group_.streams.size());
    for (std::size_t s = 0; s < group_.streams.size(); ++s) {
      if (!group_.streams[s].valid) continue;
      indices_.items = 1;
      indices_.given(0) = device::kIndexCollect;
      (void)decode(lay_out(0, 1, static_cast<std::int64_t>(s)), -1, true);
      const std::uint32_t made = indices_.made(0);
      if (!outcomes_[0].ok() || made == device::kIndexNothing || made > index_stride_) continue;
      source_index_[s].assign(indices_.entries(0), indices_.entries(0) + made);
    }
  }

  // Half of the mutants get the index of the source of their head; the others get a modified one, or noise of any
  // length. Returns whether the item must accept its index, provided its source is unmodified.
  bool give_index(const CampaignBatch& batch, std::uint32_t item) const {
    const std::vector<std::byte>& own = source_index_[host_plan(batch, item).base];
    const std::uint64_t draw = mix(batch.seed ^ mix(batch.first + item + 0x1DEC5));
    std::byte* const entries = indices_.entries(item);
    std::copy(own.begin(), own.end(), entries);
    indices_.given(item) = static_cast<std::uint32_t>(own.size());  // 0: kIndexNone
    if (draw % 2 == 0) return !own.empty();
    if (own.empty() || draw / 2 % 8 == 0) {
      const std::uint64_t bytes = 1 + (draw >> 8) % index_stride_;
      for (std::uint64_t k = 0; k < bytes; ++k) entries[k] = static_cast<std::byte>(mix(draw + k));
      indices_.given(item) = static_cast<std::uint32_t>(bytes);
      return false;
    }
    for (std::uint64_t k = 0; k <= (draw >> 4) % 4; ++k) {
      const std::uint64_t change = mix(draw + k);
      entries[change % own.size()] ^= static_cast<std::byte>(1 + (change >> 32) % 255);
    }
    return false;
  }

  // Decodes the batch again with good and bad indexes; verdicts and bytes must be the same.
  bool same_with_indices(const CampaignBatch& batch) {
    const std::uint32_t n = batch.in.items;
    const std::vector<DecodeOutcome> without(outcomes_, outcomes_ + n);
    must(cudaMemsetAsync(sums_->data(), 0, 2 * sizeof(unsigned long long) * n, stream_), "clearing");
    const dim3 blocks((n + 3) / 4, parts_of(capacity_));
    const auto* const words = reinterpret_cast<const unsigned long long*>(outcomes_);
    sum_outputs<<<blocks, 128, 0, stream_>>>(batch, words, sums_->data());
    must(cudaGetLastError(), "summing");
    must(cudaStreamSynchronize(stream_), "summing");
    std::vector<char> must_do(n);
    indices_.items = n;
    in_parallel(n, [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) must_do[i] = give_index(batch, static_cast<std::uint32_t>(i));
    });
    double ms = decode(batch, -1, true);
    unsigned long long wrong = 0;
    must(cudaMemcpy(&wrong, wrong_.data(), 8, cudaMemcpyDeviceToHost), "fetching the verdict");
    if (wrong != 0) return report(wrong);
    if (full_ms_ > 0) {
      const double allowed = std::max(full_ms_, kFloorMs);
      ms = confirmed(ms, allowed, [&] { return decode(batch, -1, true); });
      if (ms > kTimes * allowed) {
        return found("took " + std::to_string(ms) + " ms with indices, the longest valid takes " +
                     std::to_string(allowed));
      }
    }
    sum_outputs<<<blocks, 128, 0, stream_>>>(batch, words, sums_->data() + n);
    must(cudaGetLastError(), "summing");
    std::vector<unsigned long long> sums(2 * std::size_t{n});
    must(cudaMemcpyAsync(sums.data(), sums_->data(), sums.size() * 8, cudaMemcpyDeviceToHost, stream_), "fetching");
    must(cudaStreamSynchronize(stream_), "fetching");
    for (std::uint32_t i = 0; i < n; ++i) {
      const DecodeOutcome outcome = outcomes_[i];
      // Which of several faults is found first, and so whether the CPU is asked, depends on the order of steps.
      if (outcome.ok() != without[i].ok() || sums[i] != sums[n + i]) {
        return found("item " + std::to_string(i) + " has another verdict or other bytes with an index");
      }
      if (indices_.given(i) == device::kIndexNone) continue;
      ++counts.with_index;
      if (!outcome.ok()) continue;
      counts.index_refused += indices_.made(i) == device::kIndexBad;
      if (must_do[i] && indices_.made(i) != device::kIndexNothing && host_plan(batch, i).untouched) {
        return found("item " + std::to_string(i) + " was left as it is, and its own index was refused");
      }
    }
    return true;
  }

  // Compares outcome, bytes and input of some mutants with the CPU's decoder.
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
        // liblz4 accepts an offset of 0 and leaves the bytes unchanged; the format forbids it.
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
  std::uint32_t max_per_ = 1, max_items_ = 1, sample_step_ = 1;
  std::uint64_t scratch_bytes_ = 0;
  DecodeOutcome* outcomes_ = nullptr;
  std::uint64_t index_stride_ = 0;                    // 0: the codec has no decode indexes
  device::DecodeIndices indices_;                     // of the batch; decode() sets the device address
  std::vector<std::vector<std::byte>> source_index_;  // by source; empty: none
  GuardedWindows* index_window_ = nullptr;
  std::unique_ptr<DeviceMemory<unsigned long long>> sums_;  // by item: without indexes, then with them
  unsigned char* host_rows_ = nullptr;
  std::vector<device::DecodeItem> items_;
  DeviceMemory<unsigned long long> wrong_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double full_ms_ = 0, single_ms_ = 0;
};

}  // namespace headrace::test
