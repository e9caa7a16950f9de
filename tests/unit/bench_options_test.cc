// The options of `headrace bench`: units are fio's, a wrong key is reported with its line and the likely intended key,
// job files inherit as fio's do, and the command line overrides them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tools/headrace/bench/bench_units.h"
#include "tools/headrace/bench/fio_keys.h"
#include "tools/headrace/bench/job_file.h"
#include "tools/headrace/bench/job_options.h"

namespace headrace::bench {
namespace {

using Arguments = std::vector<std::pair<std::string, std::string>>;

TEST(Units, SizesArePowersOf1024) {
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, std::uint64_t>>{{"0", 0},
                                                          {"512", 512},
                                                          {"4k", 4096},
                                                          {"4K", 4096},
                                                          {"4kb", 4096},
                                                          {"4KiB", 4096},
                                                          {"3m", 3u << 20},
                                                          {"2g", 2ull << 30},
                                                          {"1t", 1ull << 40},
                                                          {"1p", 1ull << 50},
                                                          {"8191p", 8191ull << 50},
                                                          {"9223372036854775807", INT64_MAX},
                                                          {"7b", 7}}) {
    const auto size = parse_size(text);
    ASSERT_TRUE(size.ok()) << text;
    EXPECT_EQ(*size, bytes) << text;
  }
  for (const char* text :
       {"", "k", "4x", "4kk", "-1", "+1", "1.5k", " 4k", "8192p", "9223372036854775808", "4 k", "0x10"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
  EXPECT_EQ(size_text(4096), "4KiB");
  EXPECT_EQ(size_text(1000), "1000");
  EXPECT_EQ(size_text(3u << 20), "3MiB");
  EXPECT_EQ(size_text(0), "0");
}

TEST(Units, DurationsAreSeconds) {
  for (const auto& [text, seconds] : std::vector<std::pair<std::string, double>>{
           {"30", 30}, {"1.5", 1.5}, {"30s", 30}, {"500ms", 0.5}, {"200us", 2e-4}, {"2m", 120}, {"1h", 3600}}) {
    const auto duration = parse_duration(text);
    ASSERT_TRUE(duration.ok()) << text;
    EXPECT_DOUBLE_EQ(*duration, seconds) << text;
  }
  for (const char* text : {"", "s", "1e3", "-1", "1.2.3", "1w", "inf", "nan", "99999999999"}) {
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  }
}

TEST(Units, PercentilesAreSortedAndInRange) {
  EXPECT_EQ(parse_percentiles("99:50:99.9").value(), (std::vector<double>{50, 99, 99.9}));
  for (const char* text : {"", "0", "101", "50:", ":50", "50,99", "nan", "-1"}) {
    EXPECT_FALSE(parse_percentiles(text).ok()) << text;
  }
}

TEST(JobFile, SectionsInheritFromGlobal) {
  const auto jobs = parse_job_file(
      "; a comment\n"
      "# another\n"
      "[global]\n"
      "filename=/data/a#b   # kept: no blank before the sign\n"
      "bs = 64k\r\n"
      "time_based\n"
      "\n"
      "[first job]\n"
      "rw=randread\n"
      "[second]\n"
      "stonewall\n"
      "bs=4m ; its own\n"
      "[global]\n"
      "iodepth=7\n"
      "[third]\n"
      "name=renamed\n",
      "j.fio");
  ASSERT_TRUE(jobs.ok()) << jobs.status().to_string();
  ASSERT_EQ(jobs->size(), 3u);
  const std::vector<JobOptions>& list = *jobs;
  EXPECT_EQ(list[0].name, "first job");
  EXPECT_EQ(list[0].filename, "/data/a#b");
  EXPECT_EQ(list[0].sizes[0].smallest(), 65536u);
  EXPECT_TRUE(list[0].time_based && list[0].random && !list[0].write && !list[0].stonewall);
  EXPECT_EQ(list[1].sizes[0].smallest(), 4u << 20);
  EXPECT_TRUE(list[1].stonewall);
  EXPECT_EQ(list[1].depth, 1u);
  EXPECT_EQ(list[2].depth, 7u);
  EXPECT_EQ(list[2].name, "renamed");
  const auto is_global = [&](const char* key) {
    return std::any_of(list[1].given.begin(), list[1].given.end(),
                       [&](const GivenOption& option) { return option.key == key && option.global; });
  };
  EXPECT_TRUE(is_global("filename"));
  EXPECT_FALSE(is_global("bs"));  // overridden by the job
}

TEST(JobFile, ErrorsNameFileLineAndKey) {
  const auto message = [](std::string_view text) {
    const auto jobs = parse_job_file(text, "j.fio");
    EXPECT_FALSE(jobs.ok()) << text;
    EXPECT_EQ(jobs.status().code(), Code::kInvalidArgument);
    return jobs.status().key() + ": " + jobs.status().message();
  };
  EXPECT_EQ(message("[a]\nfilename=x\nblocksze=4k\n"),
            "j.fio line 3: unknown key 'blocksze', did you mean 'blocksize'?");
  EXPECT_EQ(message("[a]\nzzzzzz=1"), "j.fio line 2: unknown key 'zzzzzz'");
  EXPECT_EQ(message("[a]\n\n\nrw=sideways\n"),
            "j.fio line 4: rw: 'sideways' is not one of read, write, randread, randwrite, rw, randrw");
  EXPECT_EQ(message("bs=4k\n[a]"), "j.fio line 1: a key before the first [section]");
  EXPECT_EQ(message("[a\n"), "j.fio line 1: a section is written [name]");
  EXPECT_EQ(message("[]\n"), "j.fio line 1: a section is written [name]");
  EXPECT_EQ(message("[global]\nbs=4k\n"), "j.fio line 2: the file has no job: no section but [global]");
  EXPECT_EQ(message(""), "j.fio line 1: the file has no job: no section but [global]");
  EXPECT_EQ(message("[a]\niodepth=0"), "j.fio line 2: iodepth: '0' is not between 1 and 65536");
  EXPECT_EQ(message("[a]\nfilename="), "j.fio line 2: filename: a value is missing");
  EXPECT_EQ(message("[a]\nsize=101%"), "j.fio line 2: size: '101' is not between 1 and 100");
  EXPECT_EQ(message("[a]\npath=tunnel").substr(0, 20), "j.fio line 2: path: ");
  EXPECT_EQ(message(std::string("[a]\nname=x\0y", 12)), "j.fio line 2: the line contains a zero byte");
  EXPECT_EQ(message(std::string((1 << 20) + 1, '\n')), "j.fio line 1: the job file is larger than 1 MiB");
}

TEST(Arguments, NameStartsAJob) {
  const auto jobs = jobs_from_arguments(
      Arguments{{"filename", "f"}, {"name", "a"}, {"bs", "8k"}, {"name", "b"}, {"readwrite", "randread"}}, {});
  ASSERT_TRUE(jobs.ok());
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].sizes[0].smallest(), 8192u);
  EXPECT_EQ((*jobs)[1].sizes[0].smallest(), 4096u);
  EXPECT_EQ((*jobs)[1].filename, "f");
  EXPECT_TRUE((*jobs)[1].random);
  EXPECT_EQ(jobs_from_arguments(Arguments{{"bs", "8k"}}, {}).value().size(), 1u);
  EXPECT_EQ(jobs_from_arguments(Arguments{{"bs", "x"}}, {}).status().key(), "command line");
}

TEST(Arguments, OverrideJobFiles) {
  auto from_file = parse_job_file("[a]\nbs=4k\nsize=10%\n[b]\nbs=8k\n", "j.fio").value();
  const auto jobs = jobs_from_arguments(Arguments{{"size", "1m"}, {"bs", "16k"}}, from_file);
  ASSERT_TRUE(jobs.ok());
  for (const JobOptions& job : *jobs) {
    EXPECT_EQ(job.sizes[0].smallest(), 16384u);
    EXPECT_EQ(job.size_bytes, 1u << 20);
    EXPECT_EQ(job.size_percent, 0u);
  }
  EXPECT_FALSE(jobs_from_arguments(Arguments{{"name", "c"}}, from_file).ok());
}

TEST(Options, ContradictingOptionsAreRefused) {
  const auto check = [](const Arguments& arguments) {
    return check_options(jobs_from_arguments(arguments, {}).value().front());
  };
  EXPECT_TRUE(check({{"filename", "f"}}).ok());
  EXPECT_TRUE(check({{"filename", "f"}, {"rw", "write"}, {"verify", "crc32c"}, {"verify_interval", "512"}}).ok());
  for (const char* rw : {"rw", "randrw"}) {
    EXPECT_TRUE(check({{"filename", "f"}, {"rw", rw}, {"verify", "md5"}, {"bs", "4k,16k"}, {"norandommap", "1"}}).ok());
  }
  for (const auto& [key, value] :
       {std::pair{"bs", "4k-16k"}, {"random_distribution", "zipf:1.2"}, {"norandommap", "1"}}) {
    EXPECT_TRUE(check({{"filename", "f"}, {"rw", "randwrite"}, {"verify", "md5"}, {key, value}}).ok()) << key;
  }
  for (const Arguments& arguments : std::vector<Arguments>{
           {},
           {{"filename", "f"}, {"paths", "l"}},
           {{"zarr", "z"}, {"rw", "write"}},
           {{"paths", "l"}, {"rw", "randwrite"}},
           {{"filename", "f"}, {"select", ":"}},
           {{"filename", "f"}, {"direct", "1"}, {"path", "mapped"}},
           {{"filename", "f"}, {"rw", "write"}, {"path", "mapped"}},
           {{"filename", "f"}, {"rw", "write"}, {"cache", "warm"}},
           {{"paths", "l"}, {"cache", "half"}},
           {{"filename", "f"}, {"rw", "randrw"}, {"verify", "crc32c"}, {"verify_only", "1"}},
           {{"filename", "f"}, {"rw", "randrw"}, {"verify", "crc32c"}, {"bs", "4k,6k"}},
           {{"filename", "f"}, {"rw", "randrw"}, {"verify", "crc32c"}, {"ba", "512"}},
           {{"filename", "f"}, {"rw", "rw:512"}, {"verify", "crc32c"}},
           {{"filename", "f"}, {"rw", "randrw"}, {"verify", "crc32c"}, {"numjobs", "2"}, {"size", "1m"}},
           {{"filename", "f"}, {"rw", "randwrite"}, {"verify", "crc32c"}, {"norandommap", "1"}, {"ba", "512"}},
           {{"filename", "f"}, {"verify", "sha256"}, {"verify_interval", "64"}},
           {{"filename", "f"}, {"verify", "pattern"}},
           {{"filename", "f"}, {"rw", "write"}, {"ioengine", "mmap"}},
           {{"filename", "f"}, {"direct", "1"}, {"ioengine", "mmap"}},
           {{"filename", "f"}, {"rw", "randrw"}, {"serialize_overlap", "1"}, {"norandommap", "1"}},
           {{"zarr", "z"}, {"rate", "1m"}},
           {{"filename", "f"}, {"write_bw_log", "l"}, {"log_max_value", "1"}},
           {{"filename", "f"}, {"bs", "1t"}, {"list", "1000"}},
           {{"filename", "f"}, {"bs", "1p"}, {"list", "1000000"}, {"iodepth", "65536"}},
           {{"filename", "f"}, {"bs", "1"}, {"list", "1048576"}, {"iodepth", "65536"}},
           {{"zarr", "z"}, {"verify", "crc32c"}},
           {{"zarr", "z"}, {"path", "direct"}},
           {{"filename", "f"}, {"verify", "crc32c"}, {"no_copy", "1"}},
           {{"filename", "f"}, {"verify", "crc32c"}, {"verify_interval", "48"}},
           {{"filename", "f"}, {"verify", "crc32c"}, {"verify_interval", "3000"}},
           {{"filename", "f"}, {"rw", "write"}, {"verify", "crc32c"}, {"numjobs", "2"}, {"size", "1m"}},
       }) {
    const Status status = check(arguments);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << arguments.back().first;
    EXPECT_FALSE(status.message().empty());
  }
}

TEST(Options, IneffectiveOptionsAreNotedAndMisleadingOnesRefused) {
  const auto parsed = [](const char* key, const char* value) {
    return jobs_from_arguments(Arguments{{"filename", "f"}, {key, value}}, {});
  };
  for (const OtherFioKey& key : other_fio_keys()) {
    EXPECT_EQ(find_job_key(key.name), nullptr) << key.name;
    EXPECT_NE(std::string(key.text), "") << key.name;
    if (key.values == nullptr) {
      const auto refused = parsed(key.name, "1");
      ASSERT_FALSE(refused.ok()) << key.name;
      EXPECT_EQ(refused.status().message(), std::string(key.name) + " is not supported: " + key.text);
      continue;
    }
    std::string value(key.values);
    value = value == "#" || value == "*" ? "1" : value.substr(0, value.find('|'));
    auto taken = parsed(key.name, value.c_str());
    ASSERT_TRUE(taken.ok()) << key.name << ": " << taken.status().to_string();
    ASSERT_EQ(taken->front().notes.size(), 1u) << key.name;
    EXPECT_EQ(taken->front().notes[0].key, key.name);
    EXPECT_FALSE(std::string(key.values) != "*" && parsed(key.name, "no such value").ok()) << key.name;
  }
  // Each once, however often it is given.
  auto twice =
      jobs_from_arguments(Arguments{{"filename", "f"}, {"thread", "1"}, {"thread", ""}, {"end_fsync", "1"}}, {});
  ASSERT_TRUE(twice.ok());
  JobOptions& job = twice->front();
  note_idle_options(job);
  note_idle_options(job);
  ASSERT_EQ(job.notes.size(), 2u);
  EXPECT_EQ(job.notes[1].text, "has no effect: nothing is written");
  EXPECT_FALSE(as_run(job).end_fsync);
}

TEST(Options, DirectionsAndBlocks) {
  const auto job = [](const Arguments& arguments) { return jobs_from_arguments(arguments, {}).value().front(); };
  JobOptions mixed = job({{"rw", "randrw"}, {"rwmixwrite", "30"}, {"bs", "4k,64k"}});
  EXPECT_TRUE(mixed.mixed() && mixed.random);
  EXPECT_EQ(mixed.read_percent, 70u);
  EXPECT_EQ(mixed.smallest_block(), 4096u);
  EXPECT_EQ(mixed.largest_block(), 65536u);
  EXPECT_EQ(job({{"bs", ",8k"}}).sizes[0].smallest(), 4096u);
  EXPECT_EQ(job({{"bs", ",8k"}}).sizes[1].smallest(), 8192u);
  EXPECT_EQ(job({{"rw", "randread:8"}}).sequential_run, 8u);
  EXPECT_EQ(job({{"rw", "write:4k"}}).hole_bytes, 4096u);
  EXPECT_EQ(job({{"offset", "10%"}}).offset.of(1000), 100u);
  EXPECT_EQ(job({{"rate", ",5m"}}).rate[0], 0u);
  EXPECT_EQ(job({{"rate", ",5m"}}).rate[1], 5u << 20);
  EXPECT_EQ(job({{"cpus_allowed", "0-2,7"}}).cpus, (std::vector<unsigned>{0, 1, 2, 7}));
  for (const Arguments& wrong : std::vector<Arguments>{{{"bs", "8k-4k"}},
                                                       {{"bs", "0-4k"}},
                                                       {{"bs", "4k,8k,16k,32k"}},
                                                       {{"bs", ","}},
                                                       {{"bssplit", "4k/60:64k/41"}},
                                                       {{"bssplit", "4k/60:64k/30"}},
                                                       {{"bssplit", "4k/-1"}},
                                                       {{"bssplit", ""}},
                                                       {{"rwmixread", "101"}},
                                                       {{"rw", "randread:0"}},
                                                       {{"rw", "trim"}},
                                                       {{"offset", "101%"}},
                                                       {{"cpus_allowed", "3-1"}},
                                                       {{"cpus_allowed", "99999999999"}},
                                                       {{"random_distribution", "zipf:0"}},
                                                       {{"random_distribution", "pareto:1"}},
                                                       {{"random_distribution", "zoned"}},
                                                       {{"random_distribution", "zoned:"}},
                                                       {{"random_distribution", "zoned:50/10:40/90"}},
                                                       {{"random_distribution", "zoned:50/20:50/90"}},
                                                       {{"random_distribution", "zoned:50/10:/90"}},
                                                       {{"random_distribution", "zoned:50/-1:50/90"}},
                                                       {{"random_distribution", "zoned:101/50"}},
                                                       {{"random_distribution", "zoned_abs:50/1m:50/"}},
                                                       {{"random_distribution", "zoned_abs:50/0:50/1m"}},
                                                       {{"random_distribution", "zoned_abs:50/4096p:50/4096p"}},
                                                       {{"verify_pattern", "0x"}},
                                                       {{"verify_pattern", "\"open"}},
                                                       {{"buffer_pattern", "%o"}},
                                                       {{"nrfiles", "0"}},
                                                       {{"filesize", "2k-1k"}},
                                                       {{"ioengine", "splice"}}}) {
    EXPECT_FALSE(jobs_from_arguments(wrong, {}).ok()) << wrong.front().first << "=" << wrong.front().second;
  }
}

TEST(JobFile, VariablesOfTheEnvironment) {
  ::setenv("HRTESTBLOCK", "64k", 1);
  ::unsetenv("HRTESTNONE");
  const auto jobs =
      parse_job_file("[a]\nbs=${HRTESTBLOCK}\nsize=$pagesize\nfilename=/x/$other${HRTESTBLOCK}\n", "j.fio");
  ASSERT_TRUE(jobs.ok()) << jobs.status().to_string();
  EXPECT_EQ(jobs->front().sizes[0].smallest(), 65536u);
  EXPECT_GE(jobs->front().size_bytes, 4096u);
  EXPECT_EQ(jobs->front().filename, "/x/$other64k");
  for (const char* wrong : {"[a]\nbs=${HRTESTNONE}\n", "[a]\nbs=${}\n", "[a]\nbs=${HRTEST\n"}) {
    const auto none = parse_job_file(wrong, "j.fio");
    ASSERT_FALSE(none.ok()) << wrong;
    EXPECT_EQ(none.status().key(), "j.fio line 2");
  }
  ::unsetenv("HRTESTBLOCK");
}

TEST(Options, FioSynonyms) {
  const auto job = [](const Arguments& arguments) { return jobs_from_arguments(arguments, {}).value().front(); };
  EXPECT_EQ(job({{"direct", "1"}}).chosen_path(), Path::kDirect);
  EXPECT_EQ(job({{"direct", "0"}}).chosen_path(), Path::kAuto);
  EXPECT_EQ(job({{"direct", "0"}, {"path", "mapped"}}).chosen_path(), Path::kMapped);
  EXPECT_EQ(job({{"invalidate", "1"}}).cache, CacheState::kCold);
  EXPECT_EQ(job({{"cache", "warm"}, {"invalidate", "0"}}).cache, CacheState::kWarm);
  EXPECT_EQ(job({{"ioengine", "libaio"}}).engine, "aio");
  EXPECT_EQ(job({{"iodepth_batch", "4"}}).batch_submit, 4u);
}

TEST(Options, EveryKeyHasHelpAndTheNearestKeyIsItself) {
  for (const JobKey& key : job_keys()) {
    EXPECT_EQ(find_job_key(key.name), &key) << key.name;
    EXPECT_NE(std::string(key.help), "");
    EXPECT_EQ(nearest_key(key.name), key.name);
  }
  EXPECT_EQ(nearest_key("io-depth"), "iodepth");
  EXPECT_EQ(nearest_key("frobnication"), "");
  EXPECT_EQ(nearest_key(std::string(5000, 'x')), "");
  const char* const extra[] = {"output-format"};
  EXPECT_EQ(nearest_key("outputformat", extra), "output-format");
}

}  // namespace
}  // namespace headrace::bench
