#include "report/run_facts.h"

#include <headrace/headrace.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <thread>

#include "cli_common.h"
#include "remote_options.h"

namespace headrace::cli {
namespace {

// The command line, quoted for a shell.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  std::string out, before;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('\0', at), words.size());
    const std::string given = words.substr(at, end - at), word = shown_word(given, before);
    before = given;
    at = end + 1;
    if (!out.empty()) out += ' ';
    if (!word.empty() && word.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#!~") == std::string::npos) {
      out += word;
      continue;
    }
    out += '\'';
    for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    out += '\'';
  }
  return out;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

ReportTable run_facts() {
  ReportTable table{"This run", {{"command", command_line()}, {"headrace", hr_version()}}};
  char text[64];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  if (::gmtime_r(&now, &utc) != nullptr && std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc) > 0) {
    table.rows.push_back({"written", text});
  }
  struct utsname names {};
  if (::uname(&names) == 0) {
    table.rows.push_back({"machine", names.nodename});
    table.rows.push_back({"system", std::string(names.sysname) + " " + names.release + " " + names.machine});
  }
  std::string cpus = std::to_string(std::max(1u, std::thread::hardware_concurrency())) + " CPUs";
  if (const std::string name = processor(); !name.empty()) cpus += ", " + name;
  table.rows.push_back({"processor", cpus});
  table.rows.push_back({"memory of the machine", human_bytes(host_memory_bytes())});
  return table;
}

const char* stage_meaning(trace::Stage stage) {
  switch (stage) {
    case trace::Stage::kPlan:
      return "working out which chunks, and which bytes of them, are wanted; indexes of shards are read here";
    case trace::Stage::kOpen:
      return "opening files, and handing requests to the I/O engine";
    case trace::Stage::kRead:
      return "bytes on their way from storage or the page cache";
    case trace::Stage::kWait:
      return "threads with nothing to do until another stage goes on";
    case trace::Stage::kCopy:
      return "bytes on their way over the bus to the device";
    case trace::Stage::kDecode:
      return "decompressing, and whatever else makes elements of stored bytes";
    case trace::Stage::kAssemble:
      return "putting elements into their places; for a device, queueing that work";
    case trace::Stage::kRegister:
      return "making memory known to the kernel's I/O or to the device, once for as long as it is kept; a process's "
             "first "
             "read pays most of it";
    case trace::Stage::kWrite:
      return "writing the output";
  }
  return "";
}

std::string track_meaning(const std::string& name) {
  if (name == "worker") return "a thread that reads, decodes and places chunks";
  if (name == "I/O") return "the thread that hands requests to the I/O engine and takes its answers";
  if (name == "I/O in flight") return "requests that the I/O engine has";
  if (name == "mapper")
    return "the thread that makes cached parts of files known to the device, which then reads them itself";
  if (name == "device") return "copies and decoding that the device has been given";
  if (name == "run") return "the program itself: from the begin of the run to its end, and what it wrote";
  return "";
}

std::string advice(const std::array<trace::StageTotals, trace::kStageCount>& totals, double wall_seconds) {
  std::size_t first = 0;
  double explained = 0;
  for (std::size_t s = 0; s < totals.size(); ++s) {
    explained += totals[s].limiting_seconds;
    if (totals[s].limiting_seconds > totals[first].limiting_seconds) first = s;
  }
  // Same threshold as in Trace::bottleneck(): smaller shares explain nothing.
  if (wall_seconds <= 0 || explained < 0.5 * wall_seconds) return "";
  switch (static_cast<trace::Stage>(first)) {
    case trace::Stage::kPlan:
      return "Much time went into finding chunks: fewer, larger chunks or shards, or fewer reads of more each, help.";
    case trace::Stage::kOpen:
      return "Much time went into opening files: larger chunks, or sharding, mean fewer of them.";
    case trace::Stage::kRead:
      return "Storage held it back: compare with what 'headrace doctor' and 'headrace bench' measure there. Where that "
             "is "
             "reached, read less (a narrower selection, chunks that fit it, a codec that packs more) or from a warm "
             "page "
             "cache.";
    case trace::Stage::kCopy:
      return "The bus or the device held it back. Where chunks were decoded by the CPU, a codec that the device "
             "decodes "
             "sends fewer bytes ('headrace info' marks them).";
    case trace::Stage::kDecode:
      return "Decoding held it back: more threads (--threads), a codec that decodes faster (Blosc with lz4, zstd), or "
             "a "
             "device that decodes (--device cuda) help.";
    case trace::Stage::kAssemble:
      return "Putting elements into their places held it back: chunks whose last axes are read whole are placed "
             "faster.";
    case trace::Stage::kRegister:
      return "Making memory known to the system held it back. That is done once: a process that reads more, or keeps "
             "its "
             "context open, does not pay it again.";
    case trace::Stage::kWrite:
      return "Writing held it back: a faster place for the output, or none (--sha256 checks without).";
    case trace::Stage::kWait:
      break;
  }
  return "";
}

}  // namespace headrace::cli
