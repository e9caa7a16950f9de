// libcufile.so.0, batches: every entry completes exactly once, refused batches run nothing, and destroying batches is
// safe.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "support/cufile_file.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::close_driver;
using support::CufileFile;
using support::pattern;
using support::pattern_at;
using support::TempDir;

constexpr std::size_t kBytes = std::size_t{2} << 20;

class CufileBatch : public ::testing::Test {
 protected:
  void SetUp() override {
    close_driver();
    ASSERT_TRUE(dir_.ok());
    ASSERT_TRUE(support::write_file(dir_ / "data", pattern(kBytes)));
    file_.emplace(dir_ / "data", O_RDWR);
    ASSERT_EQ(file_->error, CU_FILE_SUCCESS);
    ASSERT_EQ(cuFileBatchIOSetUp(&batch_, 32).err, CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileBatchIODestroy(batch_);
    file_.reset();
    close_driver();
  }
  CUfileIOParams_t entry(void* base, std::size_t size, off_t file_offset, off_t offset, std::uintptr_t cookie,
                         int opcode = CUFILE_READ) {
    CUfileIOParams_t out;
    std::memset(&out, 0, sizeof out);
    out.mode = CUFILE_BATCH;
    out.u.batch.devPtr_base = base;
    out.u.batch.size = size;
    out.u.batch.file_offset = file_offset;
    out.u.batch.devPtr_offset = offset;
    out.fh = file_->handle();
    out.opcode = static_cast<CUfileOpcode_t>(opcode);
    out.cookie = reinterpret_cast<void*>(cookie);
    return out;
  }
  // Reaps everything in flight.
  std::vector<CUfileIOEvents_t> reap(unsigned least) {
    std::vector<CUfileIOEvents_t> events(64);
    unsigned count = 64;
    EXPECT_EQ(cuFileBatchIOGetStatus(batch_, least, &count, events.data(), nullptr).err, CU_FILE_SUCCESS);
    events.resize(count);
    return events;
  }

  TempDir dir_;
  std::optional<CufileFile> file_;
  CUfileBatchHandle_t batch_ = nullptr;
};

TEST_F(CufileBatch, ReadsAndWrites) {
  std::vector<std::byte> memory(32 * 65536);
  std::vector<CUfileIOParams_t> entries;
  for (unsigned i = 0; i < 32; ++i)
    entries.push_back(entry(memory.data(), 50000, 1000 + i * 60000, i * 65536, 100 + i));
  ASSERT_EQ(cuFileBatchIOSubmit(batch_, 32, entries.data(), 0).err, CU_FILE_SUCCESS);
  std::memset(entries.data(), 0xff, entries.size() * sizeof entries[0]);  // the call has copied them
  std::set<std::uintptr_t> cookies;
  for (const CUfileIOEvents_t& event : reap(32)) {
    EXPECT_EQ(event.status, CUFILE_COMPLETE);
    EXPECT_EQ(event.ret, 50000u);
    cookies.insert(reinterpret_cast<std::uintptr_t>(event.cookie));
  }
  ASSERT_EQ(cookies.size(), 32u);
  for (unsigned i = 0; i < 32; ++i) {
    for (std::size_t at = 0; at < 50000; at += 777) {
      ASSERT_EQ(memory[i * 65536 + at], pattern_at(1000 + i * 60000 + at)) << i;
    }
  }
  entries = {entry(memory.data(), 4096, 10, 5, 1, CUFILE_WRITE),
             entry(memory.data(), 4096, 9000, 70000, 2, CUFILE_WRITE)};
  ASSERT_EQ(cuFileBatchIOSubmit(batch_, 2, entries.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(reap(2).size(), 2u);
  std::vector<std::byte> back(4096);
  ASSERT_EQ(::pread(file_->fd(), back.data(), 4096, 9000), 4096);
  EXPECT_EQ(std::memcmp(back.data(), memory.data() + 70000, 4096), 0);
}

TEST_F(CufileBatch, FailuresAreThoseOfTheirEntries) {
  std::vector<std::byte> memory(65536), small(4096);
  ASSERT_EQ(cuFileBufRegister(small.data(), 4096, 0).err, CU_FILE_SUCCESS);
  CUfileIOParams_t entries[] = {entry(memory.data(), 4096, 0, 0, 0),
                                entry(memory.data(), 4096, off_t{1} << 40, 0, 1),
                                entry(memory.data(), 4096, kBytes - 100, 4096, 2),
                                entry(memory.data(), 4096, 0, 8192, 3, 9),
                                entry(nullptr, 4096, 0, 0, 4),
                                entry(small.data(), 8192, 0, 0, 5),
                                entry(reinterpret_cast<void*>(64), 4096, 0, 0, 6),
                                entry(memory.data(), 0, 0, 0, 7)};
  ASSERT_EQ(cuFileBatchIOSubmit(batch_, 8, entries, 0).err, CU_FILE_SUCCESS);
  const std::pair<int, long> expected[] = {{CUFILE_COMPLETE, 4096},  {CUFILE_COMPLETE, 0},     {CUFILE_COMPLETE, 100},
                                           {CUFILE_FAILED, -EINVAL}, {CUFILE_FAILED, -EINVAL}, {CUFILE_FAILED, -5017},
                                           {CUFILE_FAILED, -EFAULT}, {CUFILE_COMPLETE, 0}};
  const auto events = reap(8);
  ASSERT_EQ(events.size(), 8u);
  for (const CUfileIOEvents_t& event : events) {
    const auto at = reinterpret_cast<std::uintptr_t>(event.cookie);
    EXPECT_EQ(event.status, expected[at].first) << at;
    EXPECT_EQ(static_cast<long>(event.ret), expected[at].second) << at;
  }
}

TEST_F(CufileBatch, RefusedSubmitsRunNothing) {
  std::vector<std::byte> memory(8192, std::byte{0x77});
  CUfileIOParams_t entries[33];
  for (CUfileIOParams_t& each : entries) each = entry(memory.data(), 4096, 0, 0, 1);
  const auto submit = [&](unsigned count) { return cuFileBatchIOSubmit(batch_, count, entries, 0).err; };
  EXPECT_EQ(submit(0), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit(33), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOSubmit(batch_, 1, nullptr, 0).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOSubmit(nullptr, 1, entries, 0).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOSubmit(&memory, 1, entries, 0).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  entries[1].mode = static_cast<CUfileBatchMode_t>(0);
  EXPECT_EQ(submit(2), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  entries[1].mode = CUFILE_BATCH;
  entries[1].fh = reinterpret_cast<CUfileHandle_t>(0x1234);
  EXPECT_EQ(submit(2), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(reap(0).size(), 0u);
  EXPECT_EQ(memory[0], std::byte{0x77});
  // The capacity is unchanged. It is regained when events are reaped, not when entries complete.
  entries[1] = entries[0];
  EXPECT_EQ(submit(32), CU_FILE_SUCCESS);
  EXPECT_EQ(submit(1), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  CUfileIOEvents_t events[10];
  unsigned count = 10;
  EXPECT_EQ(cuFileBatchIOGetStatus(batch_, 10, &count, events, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(count, 10u);
  EXPECT_EQ(submit(11), CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(submit(10), CU_FILE_SUCCESS);
  EXPECT_EQ(reap(32).size(), 32u);
}

TEST_F(CufileBatch, SetUpAndStatusArguments) {
  CUfileBatchHandle_t other = nullptr;
  EXPECT_EQ(cuFileBatchIOSetUp(&other, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOSetUp(&other, 257).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOSetUp(nullptr, 4).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOSetUp(&other, 128).err, CU_FILE_SUCCESS);
  CUfileIOEvents_t events[8];
  unsigned count = 8;
  EXPECT_EQ(cuFileBatchIOGetStatus(other, 9, &count, events, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOGetStatus(other, 0, nullptr, events, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOGetStatus(other, 0, &count, nullptr, nullptr).err, CU_FILE_INVALID_VALUE);
  // Nothing is in flight, so the call does not wait, whatever the timeout.
  EXPECT_EQ(cuFileBatchIOGetStatus(other, 8, &count, events, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(count, 0u);
  for (const auto& [seconds, nanoseconds] : {std::pair{0l, 0l}, {-5l, 0l}, {0l, 5'000'000'000l}, {0l, -7l}}) {
    struct timespec time = {seconds, nanoseconds};
    count = 8;
    EXPECT_EQ(cuFileBatchIOGetStatus(other, 0, &count, events, &time).err, CU_FILE_SUCCESS);
  }
  EXPECT_EQ(cuFileBatchIOCancel(other).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBatchIOCancel(nullptr).err, CU_FILE_SUCCESS);
  cuFileBatchIODestroy(other);
  cuFileBatchIODestroy(other);
  cuFileBatchIODestroy(nullptr);
  count = 8;
  EXPECT_EQ(cuFileBatchIOGetStatus(other, 0, &count, events, nullptr).err, CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR);
  EXPECT_EQ(cuFileBatchIOCancel(other).err, CU_FILE_INTERNAL_BATCH_CANCEL_ERROR);
}

TEST_F(CufileBatch, NothingTouchesMemoryAfterDestroy) {
  for (int round = 0; round < 30; ++round) {
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(cuFileBatchIOSetUp(&batch, 16).err, CU_FILE_SUCCESS);
    {
      std::vector<std::byte> memory(16 * 65536);
      std::vector<CUfileIOParams_t> entries;
      for (unsigned i = 0; i < 16; ++i) entries.push_back(entry(memory.data(), 65536, i * 65536, i * 65536, i));
      ASSERT_EQ(cuFileBatchIOSubmit(batch, 16, entries.data(), 0).err, CU_FILE_SUCCESS);
      if (round % 2 == 0) {
        EXPECT_EQ(cuFileBatchIOCancel(batch).err, CU_FILE_SUCCESS);
      }
      round % 3 == 0 ? close_driver() : cuFileBatchIODestroy(batch);
    }
    if (round % 3 == 0) {
      file_.emplace(dir_ / "data", O_RDWR);
      ASSERT_EQ(file_->error, CU_FILE_SUCCESS);
    }
  }
}

TEST_F(CufileBatch, ManyBatchesAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      CUfileBatchHandle_t batch = nullptr;
      ASSERT_EQ(cuFileBatchIOSetUp(&batch, 8).err, CU_FILE_SUCCESS);
      std::vector<std::byte> memory(8 * 8192);
      for (int round = 0; round < 40; ++round) {
        std::vector<CUfileIOParams_t> entries;
        const off_t at = t * 1000 + round * 3;
        for (unsigned i = 0; i < 8; ++i) entries.push_back(entry(memory.data(), 8192, at + i * 8192, i * 8192, i));
        ASSERT_EQ(cuFileBatchIOSubmit(batch, 8, entries.data(), 0).err, CU_FILE_SUCCESS);
        unsigned seen = 0;
        while (seen < 8) {
          CUfileIOEvents_t events[8];
          unsigned count = 8;
          struct timespec time = {0, 100'000};
          ASSERT_EQ(cuFileBatchIOGetStatus(batch, 1, &count, events, &time).err, CU_FILE_SUCCESS);
          for (unsigned i = 0; i < count; ++i) ASSERT_EQ(events[i].status, CUFILE_COMPLETE);
          seen += count;
        }
        ASSERT_EQ(memory[70], pattern_at(static_cast<std::uint64_t>(at) + 70));
        ASSERT_EQ(memory.back(), pattern_at(static_cast<std::uint64_t>(at) + memory.size() - 1));
      }
      cuFileBatchIODestroy(batch);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace headrace
