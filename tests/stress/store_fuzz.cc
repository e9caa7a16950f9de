// Random stores of every kind, valid ones and ones with a changed meaning, read by every engine, device and path.
//
// store_fuzz [--seed 1] [--first 0] [--count 1000 | --seconds S] [--jobs N] [--kind A,B] [--device host,host-staged]
//   [--dir /dev/shm] [--disk DIR] [--findings 10] [--record FILE --commit ID]
//
// store_fuzz --seed S --first I --count 1 --kind K     repeats the case of a finding
//
// Case I depends only on the seed, the kinds and I. It makes a random array (format, shapes, nested shards, type,
// codecs, missing chunks) and may change its meaning (an index entry, a length, a key, a member of the document, a ZIP
// directory, a range of a reference file; some change between two reads or during one). It then reads random selections
// into destinations surrounded by canaries. A short reader that shares no code with the library computes the expected
// result. Each read must return the right elements, or an error that names a bad chunk; with collect_errors every other
// chunk is exact; nothing else is written; memory stays within the budget plus 256 MiB.
//
// store_fuzz --soak SECONDS [--seed 1] [--jobs THREADS] [--device host,cuda:0,cuda:1] [--dir DIR]
//
// Several threads read larger arrays while pages are dropped, reads cancelled and stores rewritten (soak.h).
//
// Exit status: 0; 1 with findings; 2 for wrong arguments. The last line of stdout is a JSON object for
// docs/reference/campaigns.jsonl; --record appends it. Cases run in separate processes, so a crash or a hang is a
// finding too. --disk names a directory on a file system with a page cache, for some reads of uncached files.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "soak.h"
#include "workers.h"

namespace headrace::stress {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

int main_of(int argc, char** argv) {
  RunOptions options;
  options.rig.devices = {"host", "host-staged"};
  const char* const temporary = std::getenv("TMPDIR");
  options.rig.directory = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary != nullptr ? temporary : "/tmp";
  bool counted = false, placed = false;
  double soak_seconds = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || i + 1 == argc) {
      std::fprintf(stderr,
                   "usage: store_fuzz [--seed N] [--first N] [--count N] [--seconds S] [--jobs N] [--kind A,B]\n"
                   "                  [--device A,B] [--dir DIR] [--disk DIR] [--findings N]\n");
      return 2;
    }
    const char* const value = argv[++i];
    if (name == "--seed")
      options.seed = std::strtoull(value, nullptr, 10);
    else if (name == "--first")
      options.first = std::strtoull(value, nullptr, 10);
    else if (name == "--count")
      options.count = static_cast<std::uint64_t>(std::strtod(value, nullptr)), counted = true;
    else if (name == "--seconds")
      options.seconds = std::strtod(value, nullptr);
    else if (name == "--jobs")
      options.jobs = static_cast<unsigned>(std::max(1, std::atoi(value)));
    else if (name == "--record")
      options.record.file = value;
    else if (name == "--commit")
      options.record.commit = value;
    else if (name == "--soak")
      soak_seconds = std::strtod(value, nullptr);
    else if (name == "--kind")
      options.kinds = value;
    else if (name == "--device")
      options.rig.devices = split(value);
    else if (name == "--dir")
      options.rig.directory = value, placed = true;
    else if (name == "--disk")
      options.rig.disk = value;
    else if (name == "--findings")
      options.max_findings = std::strtoull(value, nullptr, 10);
    else {
      std::fprintf(stderr, "store_fuzz: no option '%s'\n", name.c_str());
      return 2;
    }
  }
  if (soak_seconds > 0) {
    SoakOptions soak;
    soak.seed = options.seed;
    soak.seconds = soak_seconds;
    soak.threads = options.jobs > 1 ? options.jobs : soak.threads;
    soak.max_findings = options.max_findings;
    soak.rig = options.rig;
    soak.record = options.record;
    // A file system where pages can be dropped.
    if (!placed) soak.rig.directory = temporary != nullptr ? temporary : "/tmp";
    soak.rig.max_bytes = std::size_t{16} << 20;
    return run_soak(soak);
  }
  if (options.seconds > 0 && !counted) options.count = ~std::uint64_t{0} / 2;
  return run_cases(options);
}

}  // namespace
}  // namespace headrace::stress

int main(int argc, char** argv) { return headrace::stress::main_of(argc, argv); }
