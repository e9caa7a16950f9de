#include "soak.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "rewrite.h"
#include "support/steady_watch.h"
#include "support/writer_times.h"

namespace headrace::stress {
namespace {

using Clock = std::chrono::steady_clock;

// An array on disk. One that changes has two versions; elements of either are right.
struct SoakArray {
  ArraySpec spec;
  std::unique_ptr<ChunkCode> code;
  std::string directory;
  Stored stored[2];
  Meaning meaning[2];
  int versions = 1;
  How how = How::kRenamed;
  support::WriterTimes times;
};

struct OpenArray {
  Array array;
  std::int64_t opened;  // WriterTimes::now()
};

class Soak {
 public:
  explicit Soak(const SoakOptions& options) : options_(options), started_(Clock::now()) {}
  int run();

 private:
  bool over() const {
    return findings_ >= options_.max_findings ||
           std::chrono::duration<double>(Clock::now() - started_).count() > options_.seconds;
  }
  void make_array(unsigned number);
  void read(unsigned thread);
  void rewrite();
  void drop_pages();
  void watch();
  void report(const SoakArray& array, const std::string& what);
  void summary();

  const SoakOptions options_;
  support::SteadyWatch steady_{options_.seconds};
  Clock::time_point started_;
  std::string directory_;
  std::vector<std::unique_ptr<SoakArray>> arrays_;
  std::vector<Context> contexts_;
  std::atomic<std::uint64_t> findings_{0}, rewritten_{0}, dropped_{0};
  std::mutex mutex_;
  Counts counts_;
};

void Soak::make_array(unsigned number) {
  Dice dice(options_.seed, number);
  auto made = std::make_unique<SoakArray>();
  SoakArray& array = *made;
  SpecOptions wanted;
  wanted.max_elements = std::uint64_t{1} << 20;
  wanted.max_chunks = 60;
  wanted.min_elements = std::uint64_t{1} << 18;
  array.spec = make_spec(dice, wanted);
  array.versions = number % 3 == 2 ? 2 : 1;
  if (array.versions == 2 && dice.one_in(2) && array.spec.format == 3) {
    // Without a checksum, half-written data cannot be detected.
    array.how = How::kInPlace;
    array.spec.codecs.checked = true;
  }
  array.code = std::make_unique<ChunkCode>(array.spec);
  for (int version = 0; version < array.versions; ++version) {
    WriteOptions write;
    write.values_seed = dice.next();
    write.layout_seed = dice.next();
    write.missing_one_in = array.versions == 1 && dice.one_in(3) ? 5 : 0;
    array.stored[version] = write_array(array.spec, *array.code, write);
    array.meaning[version] = read_meaning(array.spec, *array.code, array.stored[version].objects);
  }
  Objects objects;
  const std::string document = array.spec.document();
  const auto text = std::as_bytes(std::span(document));
  objects[array.spec.document_key()] = Bytes(text.begin(), text.end());
  for (const auto& [key, object] : array.stored[0].objects) objects[key] = object.bytes;
  array.directory = directory_ + "/" + std::to_string(number);
  fresh_directory(array.directory);
  place_files(array.directory, objects);
  if (array.versions == 1) array.stored[0].sites.clear();
  arrays_.push_back(std::move(made));
}

void Soak::report(const SoakArray& array, const std::string& what) {
  ++findings_;
  const std::lock_guard lock(mutex_);
  std::printf("FINDING %s\n  array %s, %s\n", what.c_str(), array.directory.c_str(), array.spec.document().c_str());
  std::fflush(stdout);
}

void Soak::read(unsigned thread) {
  Dice dice(options_.seed, 1'000'000 + thread);
  Rig rig(options_.rig, contexts_);
  std::map<std::pair<std::size_t, std::size_t>, OpenArray> open;
  while (!over()) {
    const auto number = static_cast<std::size_t>(dice.below(arrays_.size()));
    const SoakArray& array = *arrays_[number];
    const auto which = static_cast<std::size_t>(dice.below(contexts_.size()));
    auto found = open.find({number, which});
    if (found == open.end() || dice.one_in(10)) {
      const std::int64_t now = support::WriterTimes::now();
      auto store = Store::open(contexts_[which], array.directory);
      OpenOptions options;
      options.revalidate = dice.one_in(2);
      auto opened = store.ok() ? Array::open(*store, "", options) : Result<Array>(store.status());
      if (!opened.ok()) {
        report(array, "a good array was refused: " + opened.status().to_string());
        continue;
      }
      found = open.insert_or_assign({number, which}, OpenArray{std::move(*opened), now}).first;
    }
    ReadPlan plan = rig.plan(dice);
    plan.may_fail = array.versions == 2;
    plan.cancelled = dice.one_in(20);
    const std::uint64_t room = options_.rig.max_bytes / array.spec.type.bytes / 2;
    const std::uint64_t most = dice.one_in(8) ? room : std::min<std::uint64_t>(room, 60000);
    const Picked picked = pick(dice, array.spec.shape, most);
    std::vector<const Meaning*> meanings = {&array.meaning[0]};
    if (array.versions == 2) meanings.push_back(&array.meaning[1]);
    const std::int64_t started = support::WriterTimes::now();
    const std::string wrong = rig.read(found->second.array, picked, meanings, plan);
    if (wrong.empty()) continue;
    // docs/reference/changing_stores.md: a write that leaves no time stamp at its end is not noticed.
    if (array.how == How::kInPlace && wrong.starts_with("element") &&
        (array.times.held_up_since(started) || array.times.unnoticed_since(found->second.opened))) {
      ++rig.counts.not_judged;
      open.erase(found);
      continue;
    }
    report(array, wrong);
  }
  const std::lock_guard lock(mutex_);
  counts_.add(rig.counts);
}

void Soak::rewrite() {
  Dice dice(options_.seed, 2'000'000);
  while (!over()) {
    SoakArray& array = *dice.of(arrays_);
    if (array.versions == 2) {
      for (const auto& [key, object] : array.stored[dice.below(2)].objects) {
        if (!dice.one_in(3)) continue;
        array.times.begin();
        replace_file(array.directory + "/" + key, object.bytes, array.how);
        array.times.end();
        ++rewritten_;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Soak::drop_pages() {
  Dice dice(options_.seed, 3'000'000);
  while (!over()) {
    const SoakArray& array = *dice.of(arrays_);
    for (const auto& [key, object] : array.stored[0].objects) {
      if (dice.one_in(4)) drop_cached(array.directory + "/" + key), ++dropped_;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Soak::watch() {
  while (!over()) {
    steady_.sample(std::chrono::duration<double>(Clock::now() - started_).count(), support::held_now());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const std::string growth = steady_.growth();
  if (growth.empty()) return;
  ++findings_;
  std::printf("FINDING between the second and the last quarter %s\n", growth.c_str());
}

void Soak::summary() {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::string devices;
  for (const std::string& name : options_.rig.devices) devices += (devices.empty() ? "\"" : ", \"") + name + "\"";
  const support::Held &before = steady_.second_quarter(), &after = steady_.last_quarter();
  char line[1536];
  std::snprintf(
      line, sizeof line,
      "{\"target\": \"store_soak\", \"technique\": \"soak\", \"seed\": %llu, \"devices\": [%s], \"executions\": %llu, "
      "\"seconds\": %.0f, \"findings\": %llu, \"elements\": %llu, \"failed_reads\": %llu, \"cancelled\": %llu, "
      "\"refused_chunks\": %llu, \"not_judged\": %llu, \"device_chunks\": %llu, \"mapped_bytes\": %llu, "
      "\"direct_bytes\": %llu, "
      "\"buffered_bytes\": %llu, \"files_rewritten\": %llu, \"files_dropped_from_cache\": %llu, "
      "\"second_quarter\": {\"resident_bytes\": %llu, \"descriptors\": %llu, \"threads\": %llu}, "
      "\"last_quarter\": {\"resident_bytes\": %llu, \"descriptors\": %llu, \"threads\": %llu}}",
      number(options_.seed), devices.c_str(), number(counts_.reads),
      std::chrono::duration<double>(Clock::now() - started_).count(), number(findings_), number(counts_.elements),
      number(counts_.failed), number(counts_.cancelled), number(counts_.refused_chunks), number(counts_.not_judged),
      number(counts_.device_chunks), number(counts_.mapped_bytes), number(counts_.direct_bytes),
      number(counts_.buffered_bytes), number(rewritten_), number(dropped_), number(before.memory_bytes),
      number(before.descriptors), number(before.threads), number(after.memory_bytes), number(after.descriptors),
      number(after.threads));
  print_result(line, options_.record);
}

int Soak::run() {
  directory_ = options_.rig.directory + "/store_soak." + std::to_string(::getpid());
  contexts_ = make_contexts();
  // Like a program that sets only budgets. The default budgets of gigabytes take hours to fill; until then, leaked
  // memory cannot be told from cached memory.
  ContextOptions bounded;
  bounded.host_budget_bytes = std::size_t{64} << 20;
  bounded.device_budget_bytes = std::size_t{512} << 20;  // a device needs many times a chunk's size to decode it
  bounded.stored_budget_bytes = std::size_t{64} << 20;
  if (auto usual = Context::create(bounded); usual.ok()) contexts_.push_back(std::move(*usual));
  for (unsigned i = 0; i < options_.arrays; ++i) make_array(i);
  started_ = Clock::now();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options_.threads; ++i) threads.emplace_back([this, i] { read(i); });
  threads.emplace_back([this] { rewrite(); });
  threads.emplace_back([this] { drop_pages(); });
  watch();
  for (std::thread& thread : threads) thread.join();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
  summary();
  return findings_ > 0 ? 1 : 0;
}

}  // namespace

int run_soak(const SoakOptions& options) { return Soak(options).run(); }

}  // namespace headrace::stress
