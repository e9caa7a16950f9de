// What `headrace bench` is asked to do: units are fio's, a key that is wrong is named with its line and the one that
// was meant, job files inherit as fio's do, and the command line replaces what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tools/headrace/bench/bench_units.h"
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
  EXPECT_EQ(list[0].block_bytes, 65536u);
  EXPECT_TRUE(list[0].time_based && list[0].random && !list[0].write && !list[0].stonewall);
  EXPECT_EQ(list[1].block_bytes, 4u << 20);
  EXPECT_TRUE(list[1].stonewall);
  EXPECT_EQ(list[1].depth, 1u);
  EXPECT_EQ(list[2].depth, 7u);
  EXPECT_EQ(list[2].name, "renamed");
  const auto is_global = [&](const char* key) {
    return std::any_of(list[1].given.begin(), list[1].given.end(),
                       [&](const GivenOption& option) { return option.key == key && option.global; });
  };
  EXPECT_TRUE(is_global("filename"));
  EXPECT_FALSE(is_global("bs"));  // replaced by the job's own
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
            "j.fio line 4: rw: 'sideways' is not one of read, write, randread, randwrite");
  EXPECT_EQ(message("bs=4k\n[a]"), "j.fio line 1: a key before the first [section]");
  EXPECT_EQ(message("[a\n"), "j.fio line 1: a section is written [name]");
  EXPECT_EQ(message("[]\n"), "j.fio line 1: a section is written [name]");
  EXPECT_EQ(message("[global]\nbs=4k\n"), "j.fio line 2: the file has no job: no section but [global]");
  EXPECT_EQ(message(""), "j.fio line 1: the file has no job: no section but [global]");
  EXPECT_EQ(message("[a]\niodepth=0"), "j.fio line 2: iodepth: '0' is not between 1 and 65536");
  EXPECT_EQ(message("[a]\nfilename="), "j.fio line 2: filename: a value is missing");
  EXPECT_EQ(message("[a]\nsize=101%"), "j.fio line 2: size: '101' is not between 1 and 100");
  EXPECT_EQ(message("[a]\npath=tunnel").substr(0, 20), "j.fio line 2: path: ");
  EXPECT_EQ(message(std::string("[a]\nname=x\0y", 12)), "j.fio line 2: the line holds a zero byte");
  EXPECT_EQ(message(std::string((1 << 20) + 1, '\n')), "j.fio line 1: the job file is larger than 1 MiB");
}

TEST(Arguments, NameBeginsAJob) {
  const auto jobs = jobs_from_arguments(
      Arguments{{"filename", "f"}, {"name", "a"}, {"bs", "8k"}, {"name", "b"}, {"readwrite", "randread"}}, {});
  ASSERT_TRUE(jobs.ok());
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].block_bytes, 8192u);
  EXPECT_EQ((*jobs)[1].block_bytes, 4096u);
  EXPECT_EQ((*jobs)[1].filename, "f");
  EXPECT_TRUE((*jobs)[1].random);
  EXPECT_EQ(jobs_from_arguments(Arguments{{"bs", "8k"}}, {}).value().size(), 1u);
  EXPECT_EQ(jobs_from_arguments(Arguments{{"bs", "x"}}, {}).status().key(), "command line");
}

TEST(Arguments, ReplaceWhatJobFilesSay) {
  auto from_file = parse_job_file("[a]\nbs=4k\nsize=10%\n[b]\nbs=8k\n", "j.fio").value();
  const auto jobs = jobs_from_arguments(Arguments{{"size", "1m"}, {"bs", "16k"}}, from_file);
  ASSERT_TRUE(jobs.ok());
  for (const JobOptions& job : *jobs) {
    EXPECT_EQ(job.block_bytes, 16384u);
    EXPECT_EQ(job.size_bytes, 1u << 20);
    EXPECT_EQ(job.size_percent, 0u);
  }
  EXPECT_FALSE(jobs_from_arguments(Arguments{{"name", "c"}}, from_file).ok());
}

TEST(Options, ThatDoNotFitEachOtherAreRefused) {
  const auto check = [](const Arguments& arguments) {
    return check_options(jobs_from_arguments(arguments, {}).value().front());
  };
  EXPECT_TRUE(check({{"filename", "f"}}).ok());
  EXPECT_TRUE(check({{"filename", "f"}, {"rw", "write"}, {"verify", "crc32c"}, {"verify_interval", "512"}}).ok());
  for (const Arguments& arguments : std::vector<Arguments>{
           {},
           {{"filename", "f"}, {"paths", "l"}},
           {{"zarr", "z"}, {"rw", "write"}},
           {{"paths", "l"}, {"rw", "randwrite"}},
           {{"filename", "f"}, {"select", ":"}},
           {{"filename", "f"}, {"time_based", "1"}},
           {{"filename", "f"}, {"direct", "1"}, {"path", "mapped"}},
           {{"filename", "f"}, {"rw", "write"}, {"path", "mapped"}},
           {{"filename", "f"}, {"rw", "write"}, {"cache", "warm"}},
           {{"paths", "l"}, {"cache", "half"}},
           {{"filename", "f"}, {"end_fsync", "1"}},
           {{"filename", "f"}, {"bs", "1t"}, {"list", "1000"}},
           {{"filename", "f"}, {"bs", "1p"}, {"list", "1000000"}, {"iodepth", "65536"}},
           {{"filename", "f"}, {"bs", "1"}, {"list", "1048576"}, {"iodepth", "65536"}},
           {{"zarr", "z"}, {"verify", "crc32c"}},
           {{"zarr", "z"}, {"path", "direct"}},
           {{"filename", "f"}, {"verify", "crc32c"}, {"no_copy", "1"}},
           {{"filename", "f"}, {"verify", "crc32c"}, {"verify_interval", "48"}},
           {{"filename", "f"}, {"verify", "crc32c"}, {"verify_interval", "3000"}},
           {{"filename", "f"}, {"rw", "randwrite"}, {"verify", "crc32c"}, {"norandommap", "1"}},
           {{"filename", "f"}, {"rw", "write"}, {"verify", "crc32c"}, {"numjobs", "2"}, {"size", "1m"}},
       }) {
    const Status status = check(arguments);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << arguments.back().first;
    EXPECT_FALSE(status.message().empty());
  }
}

TEST(Options, FiosWordsForOurs) {
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
