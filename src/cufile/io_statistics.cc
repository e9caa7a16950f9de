#include "cufile/io_statistics.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include "base/clock.h"

namespace headrace::cufile {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void add(std::atomic<std::uint64_t>& counter, std::uint64_t value) noexcept { counter.fetch_add(value, kRelaxed); }

// Eight buckets per octave, so a percentile is accurate to an eighth.
std::size_t time_bucket(std::uint64_t ns, std::size_t buckets) noexcept {
  if (ns < 8) return static_cast<std::size_t>(ns);
  const unsigned octave = static_cast<unsigned>(std::bit_width(ns)) - 4;
  const std::size_t at = (std::size_t{octave} + 1) * 8 + static_cast<std::size_t>((ns >> octave) & 7);
  return std::min(at, buckets - 1);
}

double bucket_us(std::size_t at) noexcept {
  if (at < 8) return static_cast<double>(at) / 1e3;
  const std::size_t octave = at / 8 - 1;
  return static_cast<double>((8 + at % 8) << octave) * 1.0625 / 1e3;
}

// Requests up to 1 KB, up to 2 KB, and so on.
std::size_t size_bucket(std::uint64_t bytes, std::size_t buckets) noexcept {
  const std::uint64_t kb = (bytes + 1023) / 1024;
  return std::min<std::size_t>(kb <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(kb - 1)), buckets - 1);
}

std::uint64_t per_second(std::uint64_t count, std::uint64_t ns) noexcept {
  return ns == 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(count) * 1e9 / static_cast<double>(ns));
}

std::uint64_t mean_us(std::uint64_t ns, std::uint64_t count) noexcept { return count == 0 ? 0 : ns / count / 1000; }

}  // namespace

PathBytes PathBytes::of(const FileStats& stats) noexcept {
  return {stats.direct_bytes,         stats.buffered_bytes,         stats.mapped_bytes,
          stats.written_direct_bytes, stats.written_buffered_bytes, stats.bus_bytes};
}

PathBytes PathBytes::operator-(const PathBytes& earlier) const noexcept {
  return {direct - earlier.direct,
          buffered - earlier.buffered,
          mapped - earlier.mapped,
          written_direct - earlier.written_direct,
          written_buffered - earlier.written_buffered,
          bus - earlier.bus};
}

void IoStatistics::Set::clear() noexcept {
  for (auto* list : {&ok, &failed, &ns}) {
    for (Counter& counter : *list) counter.store(0, kRelaxed);
  }
  for (auto* list : {&read_sizes, &write_sizes}) {
    for (Counter& counter : *list) counter.store(0, kRelaxed);
  }
  for (Counter* counter :
       {&read_bytes, &write_bytes, &batch_read_bytes, &batch_write_bytes, &async_read_bytes, &async_write_bytes}) {
    counter->store(0, kRelaxed);
  }
}

std::size_t IoStatistics::own_shard() noexcept {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t own = next.fetch_add(1, kRelaxed) % kShards;
  return own;
}

void IoStatistics::count(Op op, bool ok, std::uint64_t nanoseconds) noexcept {
  Shard& shard = shards_[own_shard()];
  const auto at = static_cast<std::size_t>(op);
  const auto note = [&](Set& set) {
    add(ok ? set.ok[at] : set.failed[at], 1);
    if (nanoseconds != 0) add(set.ns[at], nanoseconds);
  };
  note(shard.always);
  if (running_.load(kRelaxed)) note(shard.asked);
}

void IoStatistics::transfer(Op kind, bool write, bool ok, std::uint64_t bytes, std::uint64_t nanoseconds, int gpu,
                            bool aligned, const PathBytes& paths) noexcept {
  Shard& shard = shards_[own_shard()];
  const bool asked = running_.load(kRelaxed);
  const auto at = static_cast<std::size_t>(kind);
  const auto note = [&](Set& set) {
    add(set.ok[at], 1);
    add(set.ns[at], nanoseconds);
    switch (kind) {
      case Op::kBatchEntry:
        add(write ? set.batch_write_bytes : set.batch_read_bytes, bytes);
        break;
      case Op::kAsync:
        add(write ? set.async_write_bytes : set.async_read_bytes, bytes);
        break;
      default:
        add(write ? set.write_bytes : set.read_bytes, bytes);
        break;
    }
    add((write ? set.write_sizes : set.read_sizes)[size_bucket(bytes, kSizeBuckets)], 1);
  };
  if (ok) note(shard.always);
  if (ok && asked) note(shard.asked);
  if (ok) add((write ? shard.write_times : shard.read_times)[time_bucket(nanoseconds, kTimeBuckets)], 1);
  add(shard.direct, paths.direct);
  add(shard.buffered, paths.buffered);
  add(shard.mapped, paths.mapped);
  add(shard.written_direct, paths.written_direct);
  add(shard.written_buffered, paths.written_buffered);
  add(shard.bus, paths.bus);
  if (!asked || level() < 3 || gpu < 0 || gpu >= CUFILE_MAX_GPUS) return;
  Gpu& on = gpus_[static_cast<std::size_t>(gpu)];
  if (!ok) return add(write ? on.write_errors : on.read_errors, 1);
  add(write ? on.writes : on.reads, 1);
  add(write ? on.write_bytes : on.read_bytes, bytes);
  add(write ? on.write_ns : on.read_ns, nanoseconds);
  if (!aligned) add(write ? on.unaligned_writes : on.unaligned_reads, 1);
}

void IoStatistics::registered(int gpu, std::int64_t bytes, bool ok) noexcept {
  if (gpu < 0 || gpu >= CUFILE_MAX_GPUS) return;
  Gpu& on = gpus_[static_cast<std::size_t>(gpu)];
  if (bytes < 0) {
    add(on.mmap_free, 1);
  } else {
    add(ok ? on.mmap : on.mmap_errors, 1);
  }
  if (ok) on.registered_bytes.fetch_add(bytes, kRelaxed);
}

CUfileOpError IoStatistics::set_level(int level) noexcept {
  if (level < 0 || level > 3) return CU_FILE_INVALID_VALUE;
  level_.store(level, kRelaxed);
  return CU_FILE_SUCCESS;
}

CUfileOpError IoStatistics::start() noexcept {
  if (!running_.exchange(true)) started_ns_.store(base::now_ns(), kRelaxed);
  return CU_FILE_SUCCESS;
}

CUfileOpError IoStatistics::stop() noexcept {
  if (running_.exchange(false)) add(collected_ns_, base::now_ns() - started_ns_.load(kRelaxed));
  return CU_FILE_SUCCESS;
}

CUfileOpError IoStatistics::reset() noexcept {
  for (Shard& shard : shards_) shard.asked.clear();
  for (Gpu& gpu : gpus_) {
    for (Counter* counter :
         {&gpu.reads, &gpu.writes, &gpu.read_errors, &gpu.write_errors, &gpu.read_bytes, &gpu.write_bytes, &gpu.read_ns,
          &gpu.write_ns, &gpu.unaligned_reads, &gpu.unaligned_writes, &gpu.mmap, &gpu.mmap_errors, &gpu.mmap_free}) {
      counter->store(0, kRelaxed);
    }
  }
  collected_ns_.store(0, kRelaxed);
  started_ns_.store(base::now_ns(), kRelaxed);
  return CU_FILE_SUCCESS;
}

std::uint64_t IoStatistics::collected_ns() const noexcept {
  const std::uint64_t running = running_.load(kRelaxed) ? base::now_ns() - started_ns_.load(kRelaxed) : 0;
  return collected_ns_.load(kRelaxed) + running;
}

std::uint64_t IoStatistics::sum(Counter Set::*member) const noexcept {
  std::uint64_t total = 0;
  for (const Shard& shard : shards_) total += (shard.asked.*member).load(kRelaxed);
  return total;
}

std::uint64_t IoStatistics::sum_op(std::array<Counter, kOps> Set::*member, Op op, bool asked) const noexcept {
  std::uint64_t total = 0;
  for (const Shard& shard : shards_) {
    const Set& set = asked ? shard.asked : shard.always;
    total += (set.*member)[static_cast<std::size_t>(op)].load(kRelaxed);
  }
  return total;
}

CUfileOpCounter_t IoStatistics::counter(Op op) const noexcept {
  return {sum_op(&Set::ok, op, true), sum_op(&Set::failed, op, true)};
}

CUfileOpError IoStatistics::get(CUfileStatsLevel1_t* out) const noexcept {
  if (out == nullptr || level() < 1) return CU_FILE_INVALID_VALUE;
  const std::uint64_t ns = collected_ns();
  CUfileStatsLevel1_t s;
  std::memset(&s, 0, sizeof s);
  s.read_ops = counter(Op::kRead);
  s.write_ops = counter(Op::kWrite);
  s.hdl_register_ops = counter(Op::kHandleRegister);
  s.hdl_deregister_ops = counter(Op::kHandleDeregister);
  s.buf_register_ops = counter(Op::kBufferRegister);
  s.buf_deregister_ops = counter(Op::kBufferDeregister);
  s.read_bytes = sum(&Set::read_bytes) + sum(&Set::async_read_bytes);
  s.write_bytes = sum(&Set::write_bytes) + sum(&Set::async_write_bytes);
  const std::uint64_t read_ns = sum_op(&Set::ns, Op::kRead, true), write_ns = sum_op(&Set::ns, Op::kWrite, true);
  s.read_bw_bytes_per_sec = per_second(s.read_bytes, ns);
  s.write_bw_bytes_per_sec = per_second(s.write_bytes, ns);
  s.read_lat_avg_us = mean_us(read_ns, s.read_ops.ok);
  s.write_lat_avg_us = mean_us(write_ns, s.write_ops.ok);
  s.read_ops_per_sec = per_second(s.read_ops.ok, ns);
  s.write_ops_per_sec = per_second(s.write_ops.ok, ns);
  s.read_lat_sum_us = read_ns / 1000;
  s.write_lat_sum_us = write_ns / 1000;
  s.batch_submit_ops = counter(Op::kBatchSubmit);
  s.batch_complete_ops = counter(Op::kBatchComplete);
  s.batch_setup_ops = counter(Op::kBatchSetUp);
  s.batch_cancel_ops = counter(Op::kBatchCancel);
  s.batch_destroy_ops = counter(Op::kBatchDestroy);
  s.batch_enqueued_ops = s.batch_posix_enqueued_ops = counter(Op::kBatchEntry);
  s.batch_processed_ops = s.batch_posix_processed_ops = s.batch_enqueued_ops;
  s.batch_total_submit_ops = s.batch_submit_ops;
  s.batch_read_bytes = sum(&Set::batch_read_bytes);
  s.batch_write_bytes = sum(&Set::batch_write_bytes);
  s.batch_read_bw_bytes = per_second(s.batch_read_bytes, ns);
  s.batch_write_bw_bytes = per_second(s.batch_write_bytes, ns);
  const std::uint64_t submit_ns = sum_op(&Set::ns, Op::kBatchSubmit, true);
  const std::uint64_t complete_ns = sum_op(&Set::ns, Op::kBatchEntry, true);
  s.batch_submit_lat_avg_us = mean_us(submit_ns, s.batch_submit_ops.ok);
  s.batch_completion_lat_avg_us = mean_us(complete_ns, s.batch_processed_ops.ok);
  s.batch_submit_ops_per_sec = per_second(s.batch_submit_ops.ok, ns);
  s.batch_complete_ops_per_sec = per_second(s.batch_complete_ops.ok, ns);
  s.batch_submit_lat_sum_us = submit_ns / 1000;
  s.batch_completion_lat_sum_us = complete_ns / 1000;
  s.last_batch_read_bytes = s.batch_read_bytes;
  s.last_batch_write_bytes = s.batch_write_bytes;
  *out = s;
  return CU_FILE_SUCCESS;
}

CUfileOpError IoStatistics::get(CUfileStatsLevel2_t* out) const noexcept {
  if (out == nullptr || level() < 2) return CU_FILE_INVALID_VALUE;
  CUfileStatsLevel2_t s;
  std::memset(&s, 0, sizeof s);
  (void)get(&s.basic);
  for (const Shard& shard : shards_) {
    for (std::size_t i = 0; i < kSizeBuckets; ++i) {
      s.read_size_kb_hist[i] += shard.asked.read_sizes[i].load(kRelaxed);
      s.write_size_kb_hist[i] += shard.asked.write_sizes[i].load(kRelaxed);
    }
  }
  *out = s;
  return CU_FILE_SUCCESS;
}

bool anything_counted(const CUfilePerGpuStats_t& gpu) noexcept {
  return gpu.n_total_reads + gpu.n_total_writes + gpu.n_reads_err + gpu.n_writes_err + gpu.n_mmap + gpu.n_mmap_err != 0;
}

CUfileOpError IoStatistics::get(CUfileStatsLevel3_t* out) const noexcept {
  if (out == nullptr || level() < 3) return CU_FILE_INVALID_VALUE;
  const std::uint64_t ns = collected_ns();
  std::memset(out, 0, sizeof *out);
  (void)get(&out->detailed);
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const Gpu& gpu = gpus_[i];
    CUfilePerGpuStats_t& s = out->per_gpu_stats[i];
    s.read_bytes = gpu.read_bytes.load(kRelaxed);
    s.read_bw_bytes_per_sec = per_second(s.read_bytes, ns);
    s.read_duration_us = gpu.read_ns.load(kRelaxed) / 1000;
    s.n_total_reads = s.n_posix_reads = gpu.reads.load(kRelaxed);
    s.n_unaligned_reads = gpu.unaligned_reads.load(kRelaxed);
    s.n_reads_err = gpu.read_errors.load(kRelaxed);
    s.writes_bytes = gpu.write_bytes.load(kRelaxed);
    s.write_bw_bytes_per_sec = per_second(s.writes_bytes, ns);
    s.write_duration_us = gpu.write_ns.load(kRelaxed) / 1000;
    s.n_total_writes = s.n_posix_writes = gpu.writes.load(kRelaxed);
    s.n_unaligned_writes = gpu.unaligned_writes.load(kRelaxed);
    s.n_writes_err = gpu.write_errors.load(kRelaxed);
    s.n_mmap = s.n_mmap_ok = gpu.mmap.load(kRelaxed);
    s.n_mmap_err = gpu.mmap_errors.load(kRelaxed);
    s.n_mmap_free = gpu.mmap_free.load(kRelaxed);
    s.reg_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(gpu.registered_bytes.load(kRelaxed), 0));
    if (anything_counted(s)) out->num_gpus = static_cast<std::uint32_t>(i + 1);
  }
  return CU_FILE_SUCCESS;
}

std::string IoStatistics::report() const {
  static constexpr const char* kOpNames[kOps] = {"read",
                                                 "write",
                                                 "handle_register",
                                                 "handle_deregister",
                                                 "buffer_register",
                                                 "buffer_deregister",
                                                 "batch_submit",
                                                 "batch_status",
                                                 "batch_setup",
                                                 "batch_cancel",
                                                 "batch_destroy",
                                                 "batch_entry",
                                                 "stream_operation"};
  std::string out;
  const auto line = [&](const std::string& name, const std::string& value) { out += name + " " + value + "\n"; };
  for (std::size_t i = 0; i < kOps; ++i) {
    const Op op = static_cast<Op>(i);
    line(std::string("calls.") + kOpNames[i], std::to_string(sum_op(&Set::ok, op, false)));
    line(std::string("failed.") + kOpNames[i], std::to_string(sum_op(&Set::failed, op, false)));
  }
  const auto total = [&](Counter Shard::*member) {
    std::uint64_t bytes = 0;
    for (const Shard& shard : shards_) bytes += (shard.*member).load(kRelaxed);
    return std::to_string(bytes);
  };
  line("bytes.read_mapped", total(&Shard::mapped));
  line("bytes.read_buffered", total(&Shard::buffered));
  line("bytes.read_direct", total(&Shard::direct));
  line("bytes.written_buffered", total(&Shard::written_buffered));
  line("bytes.written_direct", total(&Shard::written_direct));
  line("bytes.over_the_bus", total(&Shard::bus));
  const auto percentiles = [&](const std::string& name, std::array<Counter, kTimeBuckets> Shard::*member) {
    std::array<std::uint64_t, kTimeBuckets> counts{};
    std::uint64_t all = 0;
    for (const Shard& shard : shards_) {
      for (std::size_t i = 0; i < kTimeBuckets; ++i) counts[i] += (shard.*member)[i].load(kRelaxed);
    }
    for (const std::uint64_t count : counts) all += count;
    if (all == 0) return;
    for (const auto& [label, share] : {std::pair{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1.0}}) {
      std::size_t at = 0;
      for (std::uint64_t seen = 0; at < kTimeBuckets; ++at) {
        seen += counts[at];
        if (static_cast<double>(seen) >= share * static_cast<double>(all)) break;
      }
      char value[32];
      std::snprintf(value, sizeof value, "%.1f", bucket_us(std::min(at, kTimeBuckets - 1)));
      line("latency_us." + name + "." + label, value);
    }
  };
  percentiles("read", &Shard::read_times);
  percentiles("write", &Shard::write_times);
  return out;
}

}  // namespace headrace::cufile
