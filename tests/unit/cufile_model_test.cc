// libcufile.so.0: a hundred thousand random reads, writes and batches give the same results as a model of the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "support/cufile_file.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::close_driver;
using support::CufileFile;
using support::TempDir;

constexpr std::size_t kFiles = 3, kMaxBytes = std::size_t{3} << 19, kBatch = 16;

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < kFiles; ++i) {
      names_[i] = dir_ / ("file" + std::to_string(i));
      bytes_[i] = support::pattern(below(kMaxBytes / 2), i);
      EXPECT_TRUE(support::write_file(names_[i], bytes_[i]));
      open(i);
    }
    for (auto& memory : memory_) memory.resize(kMaxBytes + 8192);
    EXPECT_EQ(cuFileBatchIOSetUp(&batch_, kBatch).err, CU_FILE_SUCCESS);
  }
  ~Model() { cuFileBatchIODestroy(batch_); }

  void step() {
    switch (below(40)) {
      case 0: {  // the same files through other handles
        const std::size_t i = below(kFiles);
        handles_[i].clear();
        open(i);
        break;
      }
      case 1:
      case 2:
        run_batch();
        break;
      case 3:
        register_buffer();
        break;
      default:
        run_one();
    }
  }

 private:
  struct Request {
    std::size_t file, handle, memory, size, skip;
    off_t at;
    bool write;
  };
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void open(std::size_t i) {
    for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
      handles_[i].push_back(std::make_unique<CufileFile>(names_[i], flags));
      if (handles_[i].back()->error != CU_FILE_SUCCESS) handles_[i].pop_back();  // the file system has no O_DIRECT
    }
    ASSERT_FALSE(handles_[i].empty());
  }

  // Mostly small requests, a few of many parts; offsets are odd, at page ends and beyond the end of the file.
  Request draw(std::size_t memory) {
    Request out{};
    out.file = below(kFiles);
    out.handle = below(handles_[out.file].size());
    out.memory = memory;
    out.write = below(3) == 0;
    const std::size_t large = below(60) == 0 ? kMaxBytes / 2 : below(8) == 0 ? 200000 : 6000;
    out.size = below(large);
    out.skip = below(2) == 0 ? 0 : below(5000);
    out.at = static_cast<off_t>(below(kMaxBytes - out.size));
    if (below(3) == 0) out.at &= ~off_t{4095};
    if (below(3) == 0) out.size &= ~std::size_t{4095};
    return out;
  }

  std::size_t expected(const Request& request) const {
    const auto at = static_cast<std::size_t>(request.at);
    const std::size_t there = bytes_[request.file].size();
    return request.write ? request.size : at >= there ? 0 : std::min(request.size, there - at);
  }

  void prepare(const Request& request) {
    std::byte* const memory = memory_[request.memory].data() + request.skip;
    const auto fill = static_cast<std::uint8_t>(random_());
    if (request.write) {
      for (std::size_t i = 0; i < request.size; ++i) memory[i] = static_cast<std::byte>(fill + i * 7 + (i >> 9));
    } else {
      std::memset(memory, fill, request.size + 1);
    }
  }

  void check(const Request& request, std::int64_t got) {
    const std::size_t want = expected(request);
    ASSERT_EQ(got, static_cast<std::int64_t>(want))
        << (request.write ? "write" : "read") << " of " << request.size << " at " << request.at;
    const std::byte* const memory = memory_[request.memory].data() + request.skip;
    std::vector<std::byte>& bytes = bytes_[request.file];
    const auto at = static_cast<std::size_t>(request.at);
    if (request.write) {
      if (want == 0) return;
      bytes.resize(std::max(bytes.size(), at + want));
      std::memcpy(bytes.data() + at, memory, want);
    } else if (want > 0) {
      ASSERT_EQ(std::memcmp(bytes.data() + at, memory, want), 0) << "read of " << request.size << " at " << request.at;
    }
  }

  void run_one() {
    const Request request = draw(0);
    prepare(request);
    const CUfileHandle_t handle = handles_[request.file][request.handle]->handle();
    void* const base = memory_[0].data();
    const auto skip = static_cast<off_t>(request.skip);
    std::int64_t got = 0;
    if (below(10) == 0) {
      size_t size = request.size;
      off_t at = request.at, from = skip;
      ssize_t moved = -7;
      const auto queue = request.write ? &cuFileWriteAsync : &cuFileReadAsync;
      ASSERT_EQ(queue(handle, base, &size, &at, &from, &moved, nullptr).err, CU_FILE_SUCCESS);
      got = moved;
    } else {
      got = request.write ? cuFileWrite(handle, base, request.size, request.at, skip)
                          : cuFileRead(handle, base, request.size, request.at, skip);
    }
    check(request, got);
  }

  // A batch whose order does not matter: reads of one file, and writes of another that do not overlap.
  void run_batch() {
    const std::size_t count = 1 + below(kBatch);
    std::vector<Request> requests;
    std::vector<CUfileIOParams_t> entries(count);
    std::memset(entries.data(), 0, count * sizeof entries[0]);
    std::size_t next = below(4000);
    for (std::size_t i = 0; i < count; ++i) {
      Request request = draw(i % memory_.size());
      request.size = below(20000);
      request.skip = i / memory_.size() * 20001;
      request.write = request.file == 0;
      if (request.write) {
        request.at = static_cast<off_t>(next);
        next += request.size;
      }
      prepare(request);
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = handles_[request.file][request.handle]->handle();
      entries[i].opcode = request.write ? CUFILE_WRITE : CUFILE_READ;
      entries[i].cookie = reinterpret_cast<void*>(i);
      entries[i].u.batch.devPtr_base = memory_[request.memory].data();
      entries[i].u.batch.devPtr_offset = static_cast<off_t>(request.skip);
      entries[i].u.batch.file_offset = request.at;
      entries[i].u.batch.size = request.size;
      requests.push_back(request);
    }
    ASSERT_EQ(cuFileBatchIOSubmit(batch_, static_cast<unsigned>(count), entries.data(), 0).err, CU_FILE_SUCCESS);
    std::vector<std::int64_t> results(count, -7);
    for (std::size_t seen = 0; seen < count;) {
      CUfileIOEvents_t events[kBatch];
      unsigned room = 1 + static_cast<unsigned>(below(kBatch));
      ASSERT_EQ(cuFileBatchIOGetStatus(batch_, 1, &room, events, nullptr).err, CU_FILE_SUCCESS);
      for (unsigned i = 0; i < room; ++i) {
        ASSERT_EQ(events[i].status, CUFILE_COMPLETE);
        results[reinterpret_cast<std::size_t>(events[i].cookie)] = static_cast<std::int64_t>(events[i].ret);
      }
      seen += room;
    }
    for (std::size_t i = 0; i < count; ++i) check(requests[i], results[i]);
  }

  void register_buffer() {
    void* const base = memory_[below(memory_.size())].data();
    if (cuFileBufDeregister(base).err == CU_FILE_SUCCESS) return;
    ASSERT_EQ(cuFileBufRegister(base, kMaxBytes + 8192, 0).err, CU_FILE_SUCCESS);
  }

  std::mt19937_64 random_;
  TempDir dir_;
  std::string names_[kFiles];
  std::vector<std::byte> bytes_[kFiles];
  std::vector<std::unique_ptr<CufileFile>> handles_[kFiles];
  std::array<std::vector<std::byte>, 4> memory_;
  CUfileBatchHandle_t batch_ = nullptr;
};

TEST(CufileModel, RandomOperations) {
  close_driver();
  const int steps = support::kThreadSanitizer ? 10000 : 100000;
  {
    Model model(20261122);
    for (int i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) model.step();
  }
  close_driver();
}

}  // namespace
}  // namespace headrace
