// libcufile.so.0, blocking calls with host memory: data at any alignment, and the documented error for every misuse.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "cufile/session.h"
#include "support/cufile_file.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::close_driver;
using support::CufileFile;
using support::pattern;
using support::pattern_at;
using support::TempDir;

constexpr std::size_t kBytes = (std::size_t{3} << 20) + 1234;

class Cufile : public ::testing::Test {
 protected:
  void SetUp() override {
    close_driver();
    ASSERT_TRUE(dir_.ok());
    path_ = dir_ / "data";
    ASSERT_TRUE(support::write_file(path_, pattern(kBytes)));
  }
  void TearDown() override { close_driver(); }

  // Expects a call to return `value` with `error` in errno.
  template <class Call>
  static void expect(ssize_t value, int error, Call call) {
    errno = 0;
    EXPECT_EQ(call(), value);
    EXPECT_EQ(errno, error);
  }

  TempDir dir_;
  std::string path_;
};

void expect_pattern(const std::byte* memory, std::size_t bytes, std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (memory[i] == pattern_at(offset + i)) continue;
    ADD_FAILURE() << "byte " << i << " of a read at " << offset;
    return;
  }
}

TEST_F(Cufile, ReadsAndWritesAtAnyAlignment) {
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    CufileFile file(path_, flags);
    if (file.fd() < 0 && (flags & O_DIRECT) != 0) continue;  // the file system has no O_DIRECT
    ASSERT_EQ(file.error, CU_FILE_SUCCESS);
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{511}, std::size_t{4096}, std::size_t{65537}, kBytes / 2}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{4096}, std::size_t{77777}}) {
        for (const std::size_t skip : {std::size_t{0}, std::size_t{13}}) {
          std::vector<std::byte> memory(size + skip + 1, std::byte{0x5a});
          ASSERT_EQ(cuFileRead(file.handle(), memory.data(), size, static_cast<off_t>(at), static_cast<off_t>(skip)),
                    static_cast<ssize_t>(size));
          expect_pattern(memory.data() + skip, size, at);
          EXPECT_EQ(memory.back(), std::byte{0x5a});
        }
      }
    }
    CufileFile out(dir_ / "out", flags | O_CREAT);
    ASSERT_EQ(out.error, CU_FILE_SUCCESS);
    const auto bytes = pattern(100001);
    ASSERT_EQ(cuFileWrite(out.handle(), bytes.data(), 99990, 777, 11), 99990);
    std::vector<std::byte> back(99990);
    const int reader = ::open((dir_ / "out").c_str(), O_RDONLY);
    ASSERT_EQ(::pread(reader, back.data(), back.size(), 777), 99990);
    ::close(reader);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin() + 11));
    ::unlink((dir_ / "out").c_str());
  }
}

TEST_F(Cufile, OnlyTheEndOfTheFileMakesAReadShort) {
  CufileFile file(path_, O_RDONLY);
  std::vector<std::byte> memory(kBytes + 100);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), memory.size(), 0, 0), static_cast<ssize_t>(kBytes));
  expect_pattern(memory.data(), kBytes, 0);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 8192, kBytes - 100, 0), 100);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 8192, kBytes, 0), 0);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 8192, off_t{1} << 40, 0), 0);
  EXPECT_EQ(cuFileRead(file.handle(), memory.data(), 0, 0, 0), 0);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 0) << "the caller's position must not move";
}

TEST_F(Cufile, Lists) {
  CufileFile file(path_, O_RDWR);
  std::vector<std::byte> a(5000), b(70000), c(9000);
  const CUfileIOVec_t list[] = {{a.data(), a.size()}, {nullptr, 0}, {b.data(), b.size()}, {c.data(), c.size()}};
  const std::size_t total = a.size() + b.size() + c.size();
  EXPECT_EQ(cuFileReadv(file.handle(), list, 4, 99, 0), static_cast<ssize_t>(total));
  expect_pattern(a.data(), a.size(), 99);
  expect_pattern(b.data(), b.size(), 99 + a.size());
  expect_pattern(c.data(), c.size(), 99 + a.size() + b.size());
  EXPECT_EQ(cuFileReadv(file.handle(), list, 4, kBytes - 6000, 0), 6000);
  EXPECT_EQ(cuFileWritev(file.handle(), list, 4, kBytes, 0), static_cast<ssize_t>(total));
  EXPECT_EQ(cuFileReadv(file.handle(), nullptr, 0, 0, 0), 0);
  expect(-CU_FILE_INVALID_VALUE, CU_FILE_INVALID_VALUE, [&] { return cuFileReadv(file.handle(), list, 4, 0, 1); });
  expect(-1, EINVAL, [&] { return cuFileReadv(file.handle(), nullptr, 2, 0, 0); });
  const CUfileIOVec_t hole[] = {{a.data(), 10}, {nullptr, 10}};
  expect(-1, EINVAL, [&] { return cuFileReadv(file.handle(), hole, 2, 0, 0); });
}

TEST_F(Cufile, MisusesOfReadAndWrite) {
  CufileFile file(path_, O_RDWR), read_only(path_, O_RDONLY), write_only(path_, O_WRONLY);
  std::vector<std::byte> memory(8192);
  std::byte* const p = memory.data();
  expect(-1, EINVAL, [&] { return cuFileWrite(file.handle(), nullptr, 4096, 0, 0); });
  expect(-CU_FILE_INVALID_VALUE, CU_FILE_INVALID_VALUE, [&] { return cuFileWrite(file.handle(), p, 4096, -1, 0); });
  expect(-CU_FILE_INTERNAL_ERROR, CU_FILE_INTERNAL_ERROR, [&] { return cuFileWrite(file.handle(), p, 4096, 0, -1); });
  expect(-1, EINVAL, [&] { return cuFileWrite(nullptr, p, 4096, 0, 0); });
  expect(-1, EINVAL, [&] { return cuFileRead(reinterpret_cast<CUfileHandle_t>(0x1234), p, 4096, 0, 0); });
  expect(-1, EINVAL, [&] { return cuFileRead(&memory, p, 4096, 0, 0); });
  expect(-1, EIO, [&] { return cuFileWrite(read_only.handle(), p, 4096, 0, 0); });
  expect(-CU_FILE_INVALID_FILE_OPEN_FLAG, CU_FILE_INVALID_FILE_OPEN_FLAG,
         [&] { return cuFileRead(write_only.handle(), p, 4096, 0, 0); });
  EXPECT_EQ(cuFileWrite(write_only.handle(), p, 100, 0, 0), 100);
  const CUfileHandle_t closed = read_only.handle();
  cuFileHandleDeregister(closed);
  expect(-CU_FILE_HANDLE_NOT_REGISTERED, CU_FILE_HANDLE_NOT_REGISTERED,
         [&] { return cuFileRead(closed, p, 4096, 0, 0); });
  EXPECT_GT(cuFileUseCount(), 0);
  expect(-1, EFAULT, [&] { return cuFileRead(file.handle(), reinterpret_cast<void*>(16), 4096, 0, 0); });
  expect(-CU_FILE_INVALID_VALUE, CU_FILE_INVALID_VALUE,
         [&] { return cuFileRead(file.handle(), p, INT64_MAX, 4096, 0); });
  expect(-1, EFAULT, [&] { return cuFileRead(file.handle(), p, SIZE_MAX - 4096, 0, 0); });
}

TEST_F(Cufile, RegisteredBuffersHoldTheProgramToTheirLength) {
  CufileFile file(path_, O_RDWR);
  std::vector<std::byte> memory(65536);
  std::byte* const p = memory.data();
  EXPECT_EQ(cuFileBufRegister(p, 32768, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(p, 32768, 0).err, CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuFileBufRegister(p + 4096, 4096, 77).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(file.handle(), p, 32768, 0, 0), 32768);
  for (const auto& [size, skip] : {std::pair{32769, 0}, {4096, 32768}, {8192, 28672}, {1, 40000}}) {
    expect(-CU_FILE_INVALID_MAPPING_RANGE, CU_FILE_INVALID_MAPPING_RANGE,
           [&] { return cuFileRead(file.handle(), p, static_cast<std::size_t>(size), 0, skip); });
  }
  // An address inside a registered buffer counts as unregistered.
  EXPECT_EQ(cuFileRead(file.handle(), p + 256, 40000, 0, 0), 40000);
  EXPECT_EQ(cuFileBufDeregister(p + 4096).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufDeregister(p + 4096).err, CU_FILE_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuFileBufDeregister(p).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(file.handle(), p, 65536, 0, 0), 65536);
  EXPECT_EQ(cuFileBufRegister(nullptr, 4096, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBufRegister(p, 0, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBufDeregister(nullptr).err, CU_FILE_INVALID_VALUE);
}

TEST_F(Cufile, FilesThatCannotBeRegistered) {
  CUfileHandle_t handle = nullptr;
  const auto attempt = [&](int fd, int type = 1) {
    CUfileDescr_t descriptor{};
    descriptor.type = static_cast<CUfileFileHandleType>(type);
    descriptor.handle.fd = fd;
    return cuFileHandleRegister(&handle, &descriptor).err;
  };
  const int fd = ::open(path_.c_str(), O_RDWR);
  EXPECT_EQ(attempt(-1), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(attempt(987), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(attempt(fd, 2), CU_FILE_IO_NOT_SUPPORTED);
  EXPECT_EQ(attempt(fd, 3), CU_FILE_IO_NOT_SUPPORTED);
  EXPECT_EQ(attempt(fd, 7), CU_FILE_IO_NOT_SUPPORTED);
  EXPECT_EQ(attempt(fd, 0), CU_FILE_IO_NOT_SUPPORTED);
  const int folder = ::open(dir_.path().c_str(), O_RDONLY), null = ::open("/dev/null", O_RDWR);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(attempt(folder), CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(attempt(ends[0]), CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(attempt(null), CU_FILE_INVALID_FILE_TYPE);
  const int append = ::open(path_.c_str(), O_WRONLY | O_APPEND), name_only = ::open(path_.c_str(), O_PATH);
  EXPECT_EQ(attempt(append), CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_EQ(attempt(name_only), CU_FILE_INVALID_FILE_OPEN_FLAG);
  CUfileDescr_t descriptor{};
  EXPECT_EQ(cuFileHandleRegister(nullptr, &descriptor).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileHandleRegister(&handle, nullptr).err, CU_FILE_INVALID_VALUE);
  // Registration is by descriptor, not by file.
  const int twin = ::dup(fd);
  EXPECT_EQ(attempt(fd), CU_FILE_SUCCESS);
  EXPECT_EQ(attempt(fd), CU_FILE_HANDLE_ALREADY_REGISTERED);
  EXPECT_EQ(attempt(twin), CU_FILE_SUCCESS);
  cuFileHandleDeregister(nullptr);
  cuFileHandleDeregister(&handle);
  for (const int each : {fd, folder, null, ends[0], ends[1], append, name_only, twin}) ::close(each);
}

TEST_F(Cufile, AnAdoptedFileOutlivesItsNameAndDescriptor) {
  CUfileHandle_t handle = nullptr;
  CUfileDescr_t descriptor{};
  descriptor.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descriptor.handle.fd = ::open(path_.c_str(), O_RDONLY | O_DIRECT);
  if (descriptor.handle.fd < 0) descriptor.handle.fd = ::open(path_.c_str(), O_RDONLY);
  ::unlink(path_.c_str());
  ASSERT_EQ(cuFileHandleRegister(&handle, &descriptor).err, CU_FILE_SUCCESS);
  ::close(descriptor.handle.fd);
  std::vector<std::byte> memory(10000);
  EXPECT_EQ(cuFileRead(handle, memory.data(), memory.size(), 17, 0), 10000);
  expect_pattern(memory.data(), memory.size(), 17);
  const std::size_t before = support::open_descriptors();
  cuFileHandleDeregister(handle);
  EXPECT_LT(support::open_descriptors(), before) << "a closed handle keeps its file open";
  const int memory_file = ::memfd_create("data", MFD_CLOEXEC);
  descriptor.handle.fd = memory_file;
  ASSERT_EQ(cuFileHandleRegister(&handle, &descriptor).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileWrite(handle, memory.data(), memory.size(), 0, 0), 10000);
  ::close(memory_file);
}

TEST_F(Cufile, TheDriverIsCounted) {
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  std::byte memory[16];
  EXPECT_EQ(cuFileBufDeregister(memory).err, CU_FILE_DRIVER_CLOSING);
  EXPECT_EQ(cuFileHandleRegister(nullptr, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(cuFileBufRegister(nullptr, 0, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 2);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(cuFileReadAsync(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Cufile, TheLastCloseDropsEverything) {
  CufileFile file(path_, O_RDONLY);
  std::vector<std::byte> memory(8192);
  ASSERT_EQ(cuFileBufRegister(memory.data(), 4096, 0).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileRead(file.handle(), memory.data(), 4096, 0, 0), 4096);
  close_driver();
  expect(-CU_FILE_HANDLE_NOT_REGISTERED, CU_FILE_HANDLE_NOT_REGISTERED,
         [&] { return cuFileRead(file.handle(), memory.data(), 4096, 0, 0); });
  CufileFile again(path_, O_RDONLY);
  ASSERT_EQ(again.error, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(again.handle(), memory.data(), 8192, 0, 0), 8192) << "the buffer is still registered";
}

TEST_F(Cufile, ThreadsRacingOnFirstUse) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        ready.fetch_add(1);
        while (ready.load() < 8) std::this_thread::yield();
        CufileFile file(path_, i % 2 == 0 ? O_RDONLY : O_RDWR);
        ASSERT_EQ(file.error, CU_FILE_SUCCESS);
        std::vector<std::byte> memory(300000);
        const off_t at = 1000 * i;
        ASSERT_EQ(cuFileRead(file.handle(), memory.data(), memory.size(), at, 0), 300000);
        expect_pattern(memory.data(), memory.size(), static_cast<std::uint64_t>(at));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(cuFileUseCount(), 1);
    EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  }
}

TEST_F(Cufile, ClosingWhileOthersReadIsSafe) {
  for (int round = 0; round < 10; ++round) {
    CufileFile file(path_, O_RDONLY);
    ASSERT_EQ(file.error, CU_FILE_SUCCESS);
    const CUfileHandle_t handle = file.handle();
    std::atomic<bool> started{false};
    std::thread reader([&] {
      std::vector<std::byte> memory(1 << 20);
      for (int i = 0; i < 200; ++i) {
        const ssize_t got = cuFileRead(handle, memory.data(), memory.size(), 0, 0);
        started = true;
        if (got < 0) {
          EXPECT_EQ(got, -CU_FILE_HANDLE_NOT_REGISTERED);
          return;
        }
        ASSERT_EQ(got, 1 << 20);
      }
    });
    while (!started) std::this_thread::yield();
    round % 2 == 0 ? file.deregister() : close_driver();
    reader.join();
  }
}

TEST_F(Cufile, ADescriptorThatCannotBeDuplicatedIsReported) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  base::arm_fault({"base.adopt", base::FaultKind::kErrno, EMFILE, 0, true});
  CufileFile none(path_, O_RDONLY);
  EXPECT_EQ(none.error, CU_FILE_GETNEWFD_FAILED);
  base::disarm_faults();
  base::arm_fault({"base.pread", base::FaultKind::kErrno, EIO, 0, true});
  CufileFile file(path_, O_RDONLY);
  std::byte memory[100];
  const ssize_t got = cuFileRead(file.handle(), memory, sizeof memory, 0, 0);
  base::disarm_faults();
  EXPECT_EQ(got, -1);
}

// Memory of two devices is never confused, even if there are several kinds.
TEST(CufileQueues, EachDeviceOfEachKindHasItsOwn) {
  std::set<int> keys = {cufile::queue_key({})};
  std::size_t places = 1;
  for (const device::DeviceRow& row : device::devices()) {
    for (const int number : {0, 1, 7}) {
      ++places;
      keys.insert(
          cufile::queue_key({.kind = device::MemoryPlace::Kind::kDevice, .device_kind = row.kind, .device = number}));
    }
  }
  EXPECT_EQ(keys.size(), places);
}

}  // namespace
}  // namespace headrace
