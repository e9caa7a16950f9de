// Parts of chunks on the GPU: cuts parts out of mutants of one group on the CPU, as a read does, decodes them on the
// GPU, and compares each with what the CPU makes of the part and of the whole (support/part_mutants.h).
//
// Every second batch is joined on the device: the parts' bodies are copied out of whole streams in device memory, and
// their heads come from the host, as for chunks that a Loader caches as they are stored.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "campaign_support.cuh"
#include "device/device.h"
#include "support/decode_corpus.h"
#include "support/guarded_windows.h"
#include "support/part_mutants.h"

namespace headrace::test {

class PartCampaign {
 public:
  static bool takes(const CorpusGroup& group) { return group.cpu->part_table_bytes() > 0; }

  PartCampaign(const Options& options, const CorpusGroup& group, device::Device& device, Arenas& arenas)
      : options_(options),
        group_(group),
        device_(device),
        mutants_(group),
        decoder_(take(make_decoder(group, device))),
        stream_(take(device.create_stream())),
        event_(take(device.create_event())) {
    const std::size_t capacity = group.stage.capacity_bytes;
    in_slot_ = mutants_.longest() + 32, out_slot_ = capacity + 64;
    const std::size_t in_window = round_up(in_slot_, 2 * kMiB), out_window = round_up(out_slot_, 2 * kMiB);
    constexpr std::size_t kArenaBytes = 64 * kMiB;
    windows_ = std::max<std::size_t>(4, kArenaBytes / std::max(in_window, out_window));
    in_ = &arenas.get("in", windows_, in_window);
    out_ = &arenas.get("out", windows_, out_window);
    whole_ = &arenas.get("whole", windows_, in_window);
    // The same items per window on both sides.
    const std::size_t per = std::min(in_window / in_slot_, out_window / out_slot_);
    per_ = static_cast<std::uint32_t>(per);
    max_items_ = static_cast<std::uint32_t>(std::min<std::size_t>({options.batch, windows_ * per, 16384}));
    device::DecodeLimits limits;
    limits.items = max_items_;
    limits.largest_src_bytes = mutants_.longest();
    limits.src_bytes = limits.items * limits.largest_src_bytes;
    scratch_bytes_ = round_up(decoder_->scratch_bytes(limits), 256);
    scratch_ = &arenas.get("scratch", 1, round_up(scratch_bytes_, 2 * kMiB));
    must(cudaHostAlloc(reinterpret_cast<void**>(&outcomes_), max_items_ * sizeof(device::DecodeOutcome), 0),
         "allocating");
    const std::size_t largest = std::max(in_window, out_window);
    must(cudaHostAlloc(reinterpret_cast<void**>(&host_), windows_ * largest, 0), "allocating");
    host_stride_ = largest;
    made_.resize(max_items_);
  }
  ~PartCampaign() {
    cudaFreeHost(outcomes_);
    cudaFreeHost(host_);
  }

  // Runs `count` mutants from index `first` on. Prints a violation and returns false.
  bool run(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t batch = 0; count > 0; ++batch) {
      std::uint64_t items = std::min<std::uint64_t>(count, max_items_);
      if (batch % 16 == 15) items = std::min<std::uint64_t>(items, 1 + mix(options_.seed ^ first) % 200);
      if (!one_batch(first, static_cast<std::uint32_t>(items))) return false;
      first += items;
      count -= items;
    }
    return true;
  }
  bool replay() {
    if (options_.replay_count == 0 || options_.replay_count > max_items_) die("--replay: no such batch");
    return one_batch(options_.replay_first, options_.replay_count);
  }

  Counts counts;

 private:
  static std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

  // Where part `k` of the batch lies. As in WindowRange, the first of a window begins at its left end and the last ends
  // at its right end; parts have sizes of their own.
  struct Place {
    std::size_t window = 0, offset = 0;
  };
  Place place_of(std::uint32_t k, std::uint32_t count, std::size_t slot, std::size_t bytes,
                 std::size_t window_bytes) const {
    const std::uint32_t window = k / spread_, within = k % spread_;
    const std::uint32_t here = std::min(count - window * spread_, spread_);
    if (here == 1 ? window % 2 == 1 : within + 1 == here) return {window, window_bytes - bytes};
    return {window, within == 0 ? 0 : within * slot + mix(within) % 16};
  }
  Place in_place(std::uint32_t k) const {
    return place_of(k, parts(), in_slot_, part(k).container.size(), in_->window_bytes());
  }
  Place out_place(std::uint32_t k) const {
    return place_of(k, parts(), out_slot_, static_cast<std::size_t>(part(k).part.decoded_bytes), out_->window_bytes());
  }
  static std::byte* address(const GuardedWindows& windows, const Place& place) {
    return reinterpret_cast<std::byte*>(windows.window(place.window)) + place.offset;
  }
  unsigned char* host(std::size_t window) const { return host_ + window * host_stride_; }
  std::uint32_t parts() const { return static_cast<std::uint32_t>(cut_.size()); }
  const PartMutant& part(std::uint32_t k) const { return made_[cut_[k]]; }
  std::size_t windows_used() const { return (cut_.size() + spread_ - 1) / spread_; }

  bool one_batch(std::uint64_t first, std::uint32_t n) {
    g_doing = "parts of group " + group_.name + ": --seed " + std::to_string(options_.seed) + " --groups '^" +
              group_.name + "$' --parts --replay " + std::to_string(first) + ":" + std::to_string(n);
    std::mutex mutex;
    std::string wrong;
    in_parallel(n, [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        const std::string what = mutants_.make(options_.seed, first + i, made_[i]);
        if (what.empty()) continue;
        std::lock_guard lock(mutex);
        wrong = "mutant " + std::to_string(first + i) + ": " + what;
      }
    });
    ++counts.batches;
    counts.executions += n;
    if (!wrong.empty()) return found(wrong);
    cut_.clear();
    for (std::uint32_t i = 0; i < n; ++i) {
      if (made_[i].is_cut) cut_.push_back(i);
    }
    if (cut_.empty()) return true;
    const auto windows = static_cast<std::uint32_t>(windows_);
    spread_ = std::min(per_, (parts() + windows - 1) / windows);
    const bool joined = first / max_items_ % 2 == 1;
    decode(joined);
    return check(first, joined);
  }

  void decode(bool joined) {
    const std::uint32_t n = parts();
    upload(*out_, [](std::uint32_t, unsigned char*) {});  // nothing but canaries
    upload(*in_, [&](std::uint32_t k, unsigned char* to) {
      const PartMutant& mutant = part(k);
      if (joined) return;  // the device has to put it there
      std::memcpy(to, mutant.container.data(), mutant.container.size());
    });
    if (joined) join();
    items_.clear();
    device::DecodeLimits limits;
    limits.items = n;
    for (std::uint32_t k = 0; k < n; ++k) {
      const PartMutant& mutant = part(k);
      items_.push_back({address(*in_, in_place(k)), mutant.container.size(), address(*out_, out_place(k)),
                        mutant.part.decoded_bytes, 0});
      limits.src_bytes += mutant.container.size();
      limits.largest_src_bytes = std::max<std::uint64_t>(limits.largest_src_bytes, mutant.container.size());
      outcomes_[k].word = 0;
    }
    const std::uint64_t scratch = round_up(decoder_->scratch_bytes(limits), 256);
    if (scratch > scratch_bytes_) die("a smaller batch wants more scratch; " + g_doing);
    unsigned char* const scratch_end = scratch_->window(0) + scratch_->window_bytes();
    must(cudaMemset(scratch_end - scratch, 0xA5, scratch), "spoiling the scratch");
    must(cudaDeviceSynchronize(), "preparing a batch");
    const auto begin = std::chrono::steady_clock::now();
    must(decoder_->decode(items_, {reinterpret_cast<std::byte*>(scratch_end - scratch), scratch}, {outcomes_, n},
                          *stream_, nullptr, {}));
    must(device_.record(*event_, *stream_));
    must(device_.synchronize(*event_));
    counts.decode_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++g_beats;
  }

  // Puts the parts together as DeviceSink does for cached chunks: one copy for the heads, one call for the bodies.
  void join() {
    upload(
        *whole_,
        [&](std::uint32_t k, unsigned char* to) { std::memcpy(to, part(k).stream.data(), part(k).stream.size()); },
        true);
    heads_.clear();
    moves_.clear();
    std::size_t at = 0;
    for (std::uint32_t k = 0; k < parts(); ++k) {
      const PartMutant& mutant = part(k);
      std::byte* const to = address(*in_, in_place(k));
      // The host's copy of the windows is free to hold the heads, since the upload has ended.
      unsigned char* const head = host_ + at;
      std::memcpy(head, mutant.container.data(), mutant.part.head_bytes);
      heads_.push_back({reinterpret_cast<const std::byte*>(head), to, mutant.part.head_bytes});
      at += mutant.part.head_bytes;
      if (mutant.part.bytes == 0) continue;
      device::Box move;
      move.rank = 1;
      move.dim[0] = {.extent = mutant.part.bytes, .src_stride_bytes = 1, .dst_stride_bytes = 1};
      move.src = address(*whole_, whole_place(k)) + mutant.part.begin;
      move.dst = to + mutant.part.head_bytes;
      moves_.push_back(move);
    }
    must(device_.copy_to_device(heads_, *stream_));
    if (!moves_.empty()) must(device_.assemble(moves_, {.element_bytes = 1}, nullptr, *stream_));
    must(device_.record(*event_, *stream_));
    must(device_.synchronize(*event_));
  }
  Place whole_place(std::uint32_t k) const {
    return place_of(k, parts(), in_slot_, part(k).stream.size(), whole_->window_bytes());
  }

  // Canaries depend on the address, and inputs lie among them, too.
  template <class Put>
  void upload(GuardedWindows& to, const Put& put, bool whole = false) {
    in_parallel(
        windows_used(),
        [&](std::size_t from, std::size_t end) {
          for (std::size_t w = from; w < end; ++w) {
            fill(host(w), reinterpret_cast<std::uint64_t>(to.window(w)), to.window_bytes());
          }
        },
        1);
    for (std::uint32_t k = 0; k < parts(); ++k) {
      const Place place = whole ? whole_place(k) : in_place(k);
      put(k, host(place.window) + place.offset);
    }
    for (std::size_t w = 0; w < windows_used(); ++w) {
      must(cudaMemcpy(to.window(w), host(w), to.window_bytes(), cudaMemcpyHostToDevice), "uploading parts");
    }
  }
  static void fill(unsigned char* to, std::uint64_t address, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 8) {
      const std::uint64_t word = mix((address + i) >> 3);
      std::memcpy(to + i, &word, 8);
    }
  }
  void download(const GuardedWindows& from) {
    for (std::size_t w = 0; w < windows_used(); ++w) {
      must(cudaMemcpy(host(w), from.window(w), from.window_bytes(), cudaMemcpyDeviceToHost), "fetching windows");
    }
  }

  bool check(std::uint64_t first, bool joined) {
    plant();
    download(*in_);
    for (std::uint32_t k = 0; k < parts(); ++k) {
      const Place place = in_place(k);
      const PartMutant& mutant = part(k);
      if (std::memcmp(host(place.window) + place.offset, mutant.container.data(), mutant.container.size()) != 0) {
        return found("mutant " + std::to_string(first + cut_[k]) +
                     (joined ? ": the part was joined wrongly, or changed" : ": the part was changed"));
      }
    }
    download(*out_);
    std::mutex mutex;
    std::string wrong;
    std::atomic<std::uint64_t> decoded{0}, host_only{0};
    in_parallel(parts(), [&](std::size_t from, std::size_t to) {
      PartMutants::Judge judge(group_);
      for (std::size_t i = from; i < to; ++i) {
        const auto k = static_cast<std::uint32_t>(i);
        const Place place = out_place(k);
        const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(host(place.window) + place.offset),
                                               static_cast<std::size_t>(part(k).part.decoded_bytes));
        decoded += outcomes_[k].ok() ? 1 : 0;
        host_only += outcomes_[k].host_only() ? 1 : 0;
        const std::string what = judge.check(part(k), outcomes_[k], bytes);
        if (what.empty()) continue;
        std::lock_guard lock(mutex);
        wrong = "mutant " + std::to_string(first + cut_[k]) + ": " + what;
      }
    });
    counts.sampled += parts();
    counts.ok += decoded;
    counts.host_only += host_only;
    for (std::uint32_t k = 0; k < parts(); ++k) {
      if (!outcomes_[k].ok()) ++counts.reasons[static_cast<unsigned>(outcomes_[k].reason())];
    }
    if (!wrong.empty()) return found(wrong);
    in_parallel(
        windows_used(),
        [&](std::size_t from, std::size_t to) {
          std::vector<unsigned char> want(out_->window_bytes());
          for (std::size_t w = from; w < to; ++w) {
            const std::string what = check_canaries(w, want);
            if (what.empty()) continue;
            std::lock_guard lock(mutex);
            wrong = what;
          }
        },
        1);
    return wrong.empty() || found(wrong);
  }

  // What lies between the outputs of a window. The outputs themselves become zeros.
  std::string check_canaries(std::size_t window, std::vector<unsigned char>& want) {
    fill(want.data(), reinterpret_cast<std::uint64_t>(out_->window(window)), want.size());
    for (std::uint32_t k = static_cast<std::uint32_t>(window) * spread_; k < parts() && k < (window + 1) * spread_;
         ++k) {
      const std::size_t offset = out_place(k).offset, bytes = static_cast<std::size_t>(part(k).part.decoded_bytes);
      std::memset(want.data() + offset, 0, bytes);
      std::memset(host(window) + offset, 0, bytes);
    }
    const auto [at, same] = std::mismatch(want.begin(), want.end(), host(window));
    if (at == want.end()) return {};
    return "a byte outside the outputs was written: window " + std::to_string(window) + ", offset " +
           std::to_string(at - want.begin());
  }

  // Bugs behind the decoder, each of which check() must find.
  void plant() {
    if (options_.plant == Plant::kNone) return;
    std::uint32_t k = 0;
    while (k + 1 < parts() && !outcomes_[k].ok()) ++k;
    std::byte* const out = address(*out_, out_place(k));
    const std::size_t bytes = static_cast<std::size_t>(part(k).part.decoded_bytes);
    const auto flip = [](std::byte* at) {
      unsigned char value = 0;
      must(cudaMemcpy(&value, at, 1, cudaMemcpyDeviceToHost), "planting a bug");
      value ^= 1;
      must(cudaMemcpy(at, &value, 1, cudaMemcpyHostToDevice), "planting a bug");
    };
    switch (options_.plant) {
      case Plant::kCanary:
        flip(out_place(k).offset == 0 ? out + bytes : out - 1);
        break;
      case Plant::kBytes:
        flip(out + bytes - 1);
        break;
      case Plant::kInput:
        flip(address(*in_, in_place(k)));
        break;
      case Plant::kOutcome:
        outcomes_[k].word = 0;
        break;
      case Plant::kVerdict:
        for (k = 0; k + 1 < parts() && outcomes_[k].ok(); ++k) {
        }
        outcomes_[k].word = device::DecodeOutcome::kOk;
        break;
      default:
        break;
    }
  }

  bool found(const std::string& what) const {
    std::printf("VIOLATION: %s; %s\n", what.c_str(), g_doing.c_str());
    return false;
  }

  const Options& options_;
  const CorpusGroup& group_;
  device::Device& device_;
  const PartMutants mutants_;
  std::unique_ptr<device::ChunkDecoder> decoder_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> event_;
  GuardedWindows *in_ = nullptr, *out_ = nullptr, *whole_ = nullptr, *scratch_ = nullptr;
  std::size_t windows_ = 0, in_slot_ = 0, out_slot_ = 0, host_stride_ = 0;
  std::uint64_t scratch_bytes_ = 0;
  std::uint32_t per_ = 1, max_items_ = 1;
  std::uint32_t spread_ = 1;  // parts per window in this batch
  device::DecodeOutcome* outcomes_ = nullptr;
  unsigned char* host_ = nullptr;  // the windows of one use, as the host sees them
  std::vector<PartMutant> made_;
  std::vector<std::uint32_t> cut_;  // the mutants of the batch that could be cut
  std::vector<device::DecodeItem> items_;
  std::vector<device::Piece> heads_;
  std::vector<device::Box> moves_;
};

}  // namespace headrace::test
