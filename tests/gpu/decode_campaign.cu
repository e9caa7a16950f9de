// Makes damaged chunks by the hundred million and decodes them on the GPU.
//
// decode_campaign [--count 1e6] [--seed N] [--codec ROW] [--groups REGEX] [--batch 131072] [--sample 512]
//   [--largest 1048576] [--record FILE --commit ID] [--verbose] [--list] [--parts]
//
// decode_campaign --seed N --groups NAME [--parts] --replay FIRST:COUNT[:ITEM]
//
// Every codec with device code takes part. Mutants depend only on (seed, index). Each batch is checked:
// - Nothing is written outside the outputs: canaries lie between them, and both ends of every 2 MiB window are
//   unmapped. Inputs and scratch end at unmapped addresses too. A violation ends the process and names the batch.
// - Every chunk gets an outcome; unmodified valid sources decode exactly, and invalid ones do not decode.
// - One mutant in --sample has the outcome and bytes of the CPU's decoder, and its input is unchanged.
// - Codecs with decode indexes decode the batch again, half with the sources' indexes, half with damaged ones: verdicts
//   and bytes are the same, and an unmodified source accepts its own index.
// - Codecs that decode beginnings decode the batch again with fewer bytes wanted: the canaries are intact, and
//   unmodified sources yield the bytes wanted.
// - The batch takes less than 10 times as long as the same number of copies of the slowest valid chunk; so do single
//   mutants.
//
// Of codecs with parts (Blosc), an eighth as many mutants, but no more than 400,000 a group, are cut on the CPU as
// reads cut them, for random and hostile intervals, and the parts are decoded: part_campaign.cuh. --parts runs nothing
// else.
//
// --plant BUG (canary, past-window, bytes, sample, input, outcome, verdict, slow, index) plants a bug after the
// decoding of the first full batch; with --sample 1, each must end the campaign with exit status 1. --replay repeats
// one batch exactly, or decodes a single item of it in its place.
//
// Exit status: 0, or 1 and a report of what was found, 4 if the device does not respond, 77 without a GPU. The last
// line of stdout is a JSON object for docs/reference/campaigns.jsonl; --record appends it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "group_campaign.cuh"
#include "part_campaign.cuh"

namespace headrace::test {
namespace {

// The CPU cuts and judges every part.
constexpr std::uint64_t kMaxParts = 400'000;

// Without this, a kernel that never ends would block the process for ever.
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

// A group's share of all mutants. Most are small, because small chunks reach most of a format's branches.
double weight_of(const CorpusGroup& group) {
  const double bytes = static_cast<double>(std::max<std::uint64_t>(group.stage.capacity_bytes, 1024));
  // These codecs have by far the most branches.
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
    const auto count = static_cast<std::uint64_t>(weight_of(group) / weights * static_cast<double>(options.count)) + 1;
    // Each group has its own range of indexes, so that equal positions in two groups get different mutations.
    const std::uint64_t first = mix(std::hash<std::string>{}(group.name)) >> 16;
    const auto campaign_of = [&](auto&& run, const std::string& target, std::uint64_t mutants) {
      const auto begin = std::chrono::steady_clock::now();
      const bool good = options.replay ? run.replay() : run.run(first, mutants);
      totals[target].add(run.counts);
      seconds[target] += seconds_since(begin);
      if (!options.verbose) return good;
      std::printf(
          "%-40s %10llu mutants, %9llu ok, %8llu host only, %7llu sampled, worst %.2f x, decode %.3f s of %.3f\n",
          (group.name + (target == group.codec ? "" : " parts")).c_str(),
          static_cast<unsigned long long>(run.counts.executions), static_cast<unsigned long long>(run.counts.ok),
          static_cast<unsigned long long>(run.counts.host_only), static_cast<unsigned long long>(run.counts.sampled),
          run.counts.worst_times, run.counts.decode_seconds, seconds_since(begin));
      std::fflush(stdout);
      return good;
    };
    if (!options.parts) fine = campaign_of(GroupCampaign(options, group, *device, arenas), group.codec, count);
    if (fine && PartCampaign::takes(group) && (options.parts || !options.replay)) {
      const std::uint64_t parts = options.parts ? count : std::min(count / 8 + 1, kMaxParts);
      fine = campaign_of(PartCampaign(options, group, *device, arenas), group.codec + "_parts", parts);
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
                             {"with_index", total.with_index},
                             {"index_refused", total.index_refused},
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
                                   "input", "outcome", "verdict",     "slow",  "index"};
      const auto name = std::find(std::begin(names), std::end(names), value());
      if (name == std::end(names)) die("--plant: no such bug");
      options.plant = static_cast<Plant>(name - names);
    } else if (arg == "--verbose") {
      options.verbose = true;
    } else if (arg == "--parts") {
      options.parts = true;
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
