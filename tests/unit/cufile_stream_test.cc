// libcufile.so.0, stream-ordered I/O: on the host's default stream, and on streams of the simulated GPU, where it must
// run between the work queued before and after it.
#include <gtest/gtest.h>
#include <headrace/device.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/access.h"
#include "cufile/driver.h"
#include "cufile/stream_operation.h"
#include "device/device.h"
#include "support/cufile_file.h"
#include "support/forwarding_device.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using support::close_driver;
using support::CufileFile;
using support::pattern;
using support::pattern_at;
using support::TempDir;

constexpr std::size_t kBytes = (std::size_t{9} << 20) + 777;

class CufileStream : public ::testing::Test {
 protected:
  void SetUp() override {
    close_driver();
    ASSERT_TRUE(dir_.ok());
    ASSERT_TRUE(support::write_file(dir_ / "data", pattern(kBytes)));
    file_.emplace(dir_ / "data", O_RDWR);
    ASSERT_EQ(file_->error, CU_FILE_SUCCESS);
  }
  void TearDown() override {
    file_.reset();
    close_driver();
  }
  CUfileOpError read(void* base, CUstream stream = nullptr) {
    return cuFileReadAsync(file_->handle(), base, &size_, &at_, &skip_, &got_, stream).err;
  }
  CUfileOpError write(void* base, CUstream stream = nullptr) {
    return cuFileWriteAsync(file_->handle(), base, &size_, &at_, &skip_, &got_, stream).err;
  }

  TempDir dir_;
  std::optional<CufileFile> file_;
  size_t size_ = 4096;
  off_t at_ = 0, skip_ = 0;
  ssize_t got_ = -7;
};

TEST_F(CufileStream, OnTheDefaultStreamOfTheHost) {
  std::vector<std::byte> memory(20000);
  at_ = 55, skip_ = 100, size_ = 10000;
  ASSERT_EQ(read(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, 10000);
  EXPECT_EQ(memory[100], pattern_at(55));
  EXPECT_EQ(memory[10099], pattern_at(55 + 9999));
  at_ = kBytes - 5, size_ = 100;
  ASSERT_EQ(read(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, 5);
  size_ = 0;
  ASSERT_EQ(read(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, 0);
  size_ = 300, at_ = 7, skip_ = 9;
  ASSERT_EQ(write(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, 300);
  std::vector<std::byte> back(300);
  ASSERT_EQ(::pread(file_->fd(), back.data(), 300, 7), 300);
  EXPECT_EQ(std::memcmp(back.data(), memory.data() + 9, 300), 0);
}

TEST_F(CufileStream, MisusesShowAtOnceOrInTheResult) {
  std::vector<std::byte> memory(8192);
  const CUfileHandle_t handle = file_->handle();
  EXPECT_EQ(cuFileReadAsync(handle, nullptr, &size_, &at_, &skip_, &got_, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileReadAsync(handle, memory.data(), nullptr, &at_, &skip_, &got_, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileReadAsync(handle, memory.data(), &size_, nullptr, &skip_, &got_, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileReadAsync(handle, memory.data(), &size_, &at_, nullptr, &got_, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileReadAsync(handle, memory.data(), &size_, &at_, &skip_, nullptr, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileReadAsync(nullptr, memory.data(), &size_, &at_, &skip_, &got_, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(got_, -7);
  at_ = -1;
  EXPECT_EQ(read(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, -CU_FILE_INVALID_VALUE);
  at_ = 0, skip_ = -4;
  EXPECT_EQ(read(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, -CU_FILE_INTERNAL_ERROR);
  skip_ = 0;
  ASSERT_EQ(cuFileBufRegister(memory.data(), 1000, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(read(memory.data()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, -CU_FILE_INVALID_MAPPING_SIZE);
  // No device could own this stream.
  int stream = 0;
  EXPECT_EQ(read(memory.data() + 16, reinterpret_cast<CUstream>(&stream)), CU_FILE_ASYNC_NOT_SUPPORTED);
}

TEST_F(CufileStream, Registration) {
  int a = 0, b = 0;
  const auto one = reinterpret_cast<CUstream>(&a), two = reinterpret_cast<CUstream>(&b);
  EXPECT_EQ(cuFileStreamRegister(one, 15).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamRegister(one, 15).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamRegister(two, 16).err, CU_FILE_SUCCESS);  // unknown flags are ignored
  EXPECT_EQ(cuFileStreamDeregister(one).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamDeregister(one).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamDeregister(two).err, CU_FILE_SUCCESS);
}

// Memory that the library treats as inaccessible to the CPU, with streams that run later.
class CufileStaged : public CufileStream {
 protected:
  void SetUp() override {
    CufileStream::SetUp();
    auto device = Device::open("host-staged");
    ASSERT_TRUE(device.ok());
    device_ = Access::impl(*device);
    auto buffer = Buffer::allocate(*device, kBytes + 4096);
    ASSERT_TRUE(buffer.ok());
    buffer_ = std::move(*buffer);
    auto stream = device_->create_stream();
    ASSERT_TRUE(stream.ok());
    stream_ = std::move(*stream);
    auto event = device_->create_event();
    ASSERT_TRUE(event.ok());
    event_ = std::move(*event);
  }
  void TearDown() override {
    stream_.reset();
    buffer_ = Buffer();
    CufileStream::TearDown();
  }
  CUstream stream() { return static_cast<CUstream>(device_->native_handle(*stream_)); }
  void synchronize() {
    ASSERT_TRUE(device_->record(*event_, *stream_).ok());
    ASSERT_TRUE(device_->synchronize(*event_).ok());
  }

  // Blocks the stream until unblock().
  void hold() {
    go_ = false;
    const auto wait = [](void* flag) {
      while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
    };
    ASSERT_TRUE(device_->call_host(stream(), wait, &go_).ok());
  }
  void unblock() { go_ = true; }

  std::atomic<bool> go_{true};
  std::shared_ptr<device::Device> device_;
  Buffer buffer_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> event_;
};

TEST_F(CufileStaged, BlockingCallsUseTheDevice) {
  ASSERT_EQ(cuFileRead(file_->handle(), buffer_.data(), kBytes, 0, 100), static_cast<ssize_t>(kBytes));
  std::vector<std::byte> back(kBytes);
  ASSERT_TRUE(buffer_.copy_to_host(100, back.data(), kBytes).ok());
  EXPECT_EQ(back, pattern(kBytes));
  CufileFile out(dir_ / "out", O_RDWR | O_CREAT);
  ASSERT_EQ(cuFileWrite(out.handle(), buffer_.data(), kBytes, 3, 100), static_cast<ssize_t>(kBytes));
  std::vector<std::byte> written(kBytes);
  ASSERT_EQ(::pread(out.fd(), written.data(), kBytes, 3), static_cast<ssize_t>(kBytes));
  EXPECT_EQ(written, back);
  // Beyond the allocation, and a registration beyond it.
  errno = 0;
  EXPECT_EQ(cuFileRead(file_->handle(), buffer_.data(), kBytes, 0, 8192), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(cuFileBufRegister(buffer_.data(), kBytes + 8192, 0).err, CU_FILE_CUDA_POINTER_RANGE_ERROR);
  EXPECT_EQ(cuFileBufRegister(buffer_.data(), kBytes, 0).err, CU_FILE_SUCCESS);
}

TEST_F(CufileStaged, ABatchOfBothKindsOfMemory) {
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(cuFileBatchIOSetUp(&batch, 8).err, CU_FILE_SUCCESS);
  std::vector<std::byte> host(8 * 4096);
  CUfileIOParams_t entries[8];
  std::memset(entries, 0, sizeof entries);
  for (unsigned i = 0; i < 8; ++i) {
    entries[i].mode = CUFILE_BATCH;
    entries[i].fh = file_->handle();
    entries[i].u.batch = {i % 2 == 0 ? host.data() : buffer_.data(), i * 5000, i * 4096, 4096};
  }
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 8, entries, 0).err, CU_FILE_SUCCESS);
  CUfileIOEvents_t events[8];
  unsigned count = 8;
  ASSERT_EQ(cuFileBatchIOGetStatus(batch, 8, &count, events, nullptr).err, CU_FILE_SUCCESS);
  ASSERT_EQ(count, 8u);
  cuFileBatchIODestroy(batch);
  std::vector<std::byte> back(8 * 4096);
  ASSERT_TRUE(buffer_.copy_to_host(0, back.data(), back.size()).ok());
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ((i % 2 == 0 ? host : back)[i * 4096 + 9], pattern_at(i * 5000 + 9)) << i;
  }
}

TEST_F(CufileStaged, ReadsFallBetweenWhatIsQueuedAroundThem) {
  std::vector<std::byte> zeros(kBytes), back(kBytes);
  for (int round = 0; round < 3; ++round) {
    const device::Piece clear{zeros.data(), buffer_.data() + 5, kBytes}, fetch{buffer_.data() + 5, back.data(), kBytes};
    got_ = -7, skip_ = 4000, at_ = 1, size_ = kBytes + 1000;
    hold();
    ASSERT_TRUE(device_->copy_to_device({&clear, 1}, *stream_).ok());
    ASSERT_EQ(read(buffer_.data(), stream()), CU_FILE_SUCCESS);
    ASSERT_TRUE(device_->copy_to_host({&fetch, 1}, *stream_).ok());
    EXPECT_EQ(got_, -7) << "the call waited for the stream";
    skip_ = 5, at_ = 0;  // before the stream reaches the call, as a program may do
    unblock();
    synchronize();
    EXPECT_EQ(got_, static_cast<ssize_t>(kBytes));
    ASSERT_EQ(back, pattern(kBytes));
  }
}

TEST_F(CufileStaged, WritesTakeWhatWasQueuedBefore) {
  CufileFile out(dir_ / "out", O_RDWR | O_CREAT);
  const auto bytes = pattern(kBytes, 5);
  const std::vector<std::byte> zeros(kBytes);
  const device::Piece put{bytes.data(), buffer_.data() + 64, kBytes}, clear{zeros.data(), buffer_.data() + 64, kBytes};
  size_ = kBytes, skip_ = 64, at_ = 1234;
  ASSERT_TRUE(device_->copy_to_device({&put, 1}, *stream_).ok());
  ASSERT_EQ(cuFileWriteAsync(out.handle(), buffer_.data(), &size_, &at_, &skip_, &got_, stream()).err, CU_FILE_SUCCESS);
  ASSERT_TRUE(device_->copy_to_device({&clear, 1}, *stream_).ok());
  synchronize();
  EXPECT_EQ(got_, static_cast<ssize_t>(kBytes));
  std::vector<std::byte> back(kBytes);
  ASSERT_EQ(::pread(out.fd(), back.data(), kBytes, 1234), static_cast<ssize_t>(kBytes));
  EXPECT_EQ(back, bytes);
}

TEST_F(CufileStaged, FixedArgumentsAreThoseOfTheCall) {
  ASSERT_EQ(cuFileStreamRegister(stream(), 7).err, CU_FILE_SUCCESS);
  hold();
  size_ = 5000, at_ = 9, skip_ = 3;
  ASSERT_EQ(read(buffer_.data(), stream()), CU_FILE_SUCCESS);
  size_ = 17, at_ = 99, skip_ = 1000;
  unblock();
  synchronize();
  EXPECT_EQ(got_, 5000);
  std::byte byte{};
  ASSERT_TRUE(buffer_.copy_to_host(3, &byte, 1).ok());
  EXPECT_EQ(byte, pattern_at(9));
  EXPECT_EQ(cuFileStreamDeregister(stream()).err, CU_FILE_SUCCESS);
}

TEST_F(CufileStaged, FailuresAndHostMemoryOnAStream) {
  size_ = 4096, skip_ = kBytes + 4000;
  ASSERT_EQ(read(buffer_.data(), stream()), CU_FILE_SUCCESS);
  synchronize();
  EXPECT_EQ(got_, -1);
  std::vector<std::byte> host(4096);
  skip_ = 0, at_ = 77;
  ASSERT_EQ(read(host.data(), stream()), CU_FILE_SUCCESS);
  synchronize();
  EXPECT_EQ(got_, 4096);
  EXPECT_EQ(host[5], pattern_at(82));
  // The file is closed while operations on it are queued.
  for (int i = 0; i < 20; ++i) ASSERT_EQ(read(buffer_.data(), stream()), CU_FILE_SUCCESS);
  file_->deregister();
  synchronize();
  EXPECT_EQ(got_, 4096);
}

TEST_F(CufileStaged, EmptyTransfersAreKnownAtOnce) {
  size_ = 0, got_ = 1;
  hold();
  ASSERT_EQ(read(buffer_.data(), stream()), CU_FILE_SUCCESS);
  EXPECT_EQ(got_, 0);
  unblock();
  synchronize();
  EXPECT_EQ(got_, 0);
}

TEST_F(CufileStaged, TheDriverMayCloseWhileOperationsAreQueued) {
  for (int round = 0; round < 5; ++round) {
    got_ = -7;
    hold();
    ASSERT_EQ(read(buffer_.data(), stream()), CU_FILE_SUCCESS);
    close_driver();
    EXPECT_EQ(got_, -7);
    unblock();
    synchronize();
    EXPECT_EQ(got_, 4096);
    file_.emplace(dir_ / "data", O_RDWR);
    ASSERT_EQ(file_->error, CU_FILE_SUCCESS);
  }
}

TEST_F(CufileStaged, StatisticsSayWhichGpu) {
  ASSERT_EQ(cuFileSetStatsLevel(3).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(file_->handle(), buffer_.data(), 5000, 0, 0), 5000);
  auto stats = std::make_unique<CUfileStatsLevel3_t>();
  ASSERT_EQ(cuFileGetStatsL3(stats.get()).err, CU_FILE_SUCCESS);
  ASSERT_EQ(stats->num_gpus, 1u);
  EXPECT_EQ(stats->per_gpu_stats[0].read_bytes, 5000u);
  EXPECT_EQ(std::string(stats->per_gpu_stats[0].uuid), "host-staged");
  ASSERT_EQ(cuFileStatsStop().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileSetStatsLevel(0).err, CU_FILE_SUCCESS);
}

// A device that records queued work instead of running it, like a stream that is captured into a graph.
class CapturingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  struct Call {
    void (*function)(void*) = nullptr;
    void* data = nullptr;
    std::span<const device::Piece> late;
  };
  void run(const Call& call) {
    if (call.function != nullptr) return call.function(call.data);
    ASSERT_TRUE(real_->move_late(call.late, nullptr).ok());
  }
  std::vector<Call> calls;

  Status call_host(void*, void (*function)(void*), void* data) override {
    calls.push_back({function, data, {}});
    return {};
  }
  Status move_late(std::span<const device::Piece> list, void*) override {
    calls.push_back({nullptr, nullptr, list});
    return {};
  }
  Result<bool> is_capturing(void*) override { return true; }
};

// Two executables of one graph share the captured work. Run in turn, both work; run at the same time, both end with an
// error.
TEST_F(CufileStaged, ExecutablesOfOneGraph) {
  size_ = 1000;  // less than a whole piece: the bytes behind it are not the call's
  const std::vector<std::byte> before(8192, std::byte{0xAB});
  ASSERT_TRUE(buffer_.copy_from_host(0, before.data(), before.size()).ok());
  cufile::Driver& driver = cufile::Driver::get();
  cufile::FileTable::Use use;
  ASSERT_EQ(driver.files.acquire(file_->handle(), use), CU_FILE_SUCCESS);
  const auto device = std::make_shared<CapturingDevice>(device_);
  const cufile::StreamArguments arguments{buffer_.data(), &size_, &at_, &skip_, &got_, 0};
  ASSERT_EQ(cufile::StreamOperation::queue(
                std::make_unique<cufile::StreamOperation>(driver, std::move(use), arguments, false), device, nullptr),
            CU_FILE_SUCCESS);
  const auto contents = [&] {
    std::vector<std::byte> out(before.size());
    EXPECT_TRUE(buffer_.copy_to_host(0, out.data(), out.size()).ok());
    return out;
  };
  ASSERT_GE(device->calls.size(), 3u);
  for (std::size_t i = 0; i <= device->calls.size(); ++i) {
    if (i < device->calls.size()) device->run(device->calls[i]);
    if (i + 1 == device->calls.size()) {
      EXPECT_LT(got_, 0) << "the first says that all is well";
    }
    if (i > 0) device->run(device->calls[i - 1]);
  }
  EXPECT_LT(got_, 0);
  const std::vector<std::byte> after = contents();
  EXPECT_TRUE(std::equal(after.begin() + 1000, after.end(), before.begin() + 1000));
  for (int run = 0; run < 2; ++run) {
    got_ = -7;
    for (const auto& call : device->calls) device->run(call);
    EXPECT_EQ(got_, 1000);
    std::vector<std::byte> expected = before;
    const auto read = pattern(1000);
    std::copy(read.begin(), read.end(), expected.begin());
    EXPECT_EQ(contents(), expected);
  }
}

}  // namespace
}  // namespace headrace
