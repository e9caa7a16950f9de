#include "job_result.h"

#include <algorithm>

namespace headrace::bench {

void DecodeResult::add(const DecodeResult& other) {
  chunks += other.chunks;
  encoded_bytes += other.encoded_bytes;
  decoded_bytes += other.decoded_bytes;
  scratch_bytes += other.scratch_bytes;
  times += other.times;
}

void DirectionResult::add(const DirectionResult& other) {
  requests += other.requests;
  ios += other.ios;
  bytes += other.bytes;
  submit.merge(other.submit);
  complete.merge(other.complete);
  total.merge(other.total);
  bandwidth.merge(other.bandwidth);
  iops.merge(other.iops);
}

std::string JobResult::all_notes() const {
  std::string out = stats.notes;
  for (const std::string& note : notes) out += note + "\n";
  return out;
}

JobResult merge_results(const std::vector<JobResult>& results) {
  JobResult sum = results.front();
  for (std::size_t i = 1; i < results.size(); ++i) {
    const JobResult& one = results[i];
    sum.threads += one.threads;
    if (sum.status.ok()) sum.status = one.status;
    sum.seconds = std::max(sum.seconds, one.seconds);
    sum.read.add(one.read);
    sum.write.add(one.write);
    sum.sync.merge(one.sync);
    FileStats& stats = sum.stats;
    stats.requests += one.stats.requests;
    stats.ranges += one.stats.ranges;
    stats.waves += one.stats.waves;
    stats.system_calls += one.stats.system_calls;
    stats.direct_bytes += one.stats.direct_bytes;
    stats.straight_bytes += one.stats.straight_bytes;
    stats.buffered_bytes += one.stats.buffered_bytes;
    stats.mapped_bytes += one.stats.mapped_bytes;
    stats.written_direct_bytes += one.stats.written_direct_bytes;
    stats.written_buffered_bytes += one.stats.written_buffered_bytes;
    stats.bus_bytes += one.stats.bus_bytes;
    if (stats.engine.empty()) stats.engine = one.stats.engine;
    if (stats.notes.empty()) stats.notes = one.stats.notes;
    for (const std::string& note : one.notes) {
      if (std::find(sum.notes.begin(), sum.notes.end(), note) == sum.notes.end()) sum.notes.push_back(note);
    }
    sum.interrupted = sum.interrupted || one.interrupted;
    if (one.array && sum.array) {
      *sum.array += *one.array;
    } else if (one.array) {
      sum.array = one.array;
    }
    if (one.decode && sum.decode) {
      sum.decode->add(*one.decode);
    } else if (one.decode) {
      sum.decode = one.decode;
    }
    sum.cpu.user_seconds += one.cpu.user_seconds;
    sum.cpu.system_seconds += one.cpu.system_seconds;
    sum.cpu.process_seconds = std::max(sum.cpu.process_seconds, one.cpu.process_seconds);
    sum.cpu.context_switches += one.cpu.context_switches;
    sum.cpu.major_faults += one.cpu.major_faults;
    sum.cpu.minor_faults += one.cpu.minor_faults;
    sum.passes.clear();  // passes of different threads do not coincide
    sum.verify.blocks += one.verify.blocks;
    sum.verify.bad += one.verify.bad;
    for (const VerifyFault& fault : one.verify.faults) {
      if (sum.verify.faults.size() < 16) sum.verify.faults.push_back(fault);
    }
  }
  return sum;
}

}  // namespace headrace::bench
