// The engine gds reads files into GPU memory with the libcufile that it finds or that HEADRACE_GDS_LIBRARY names. It
// delivers the right bytes in both of cuFile's modes, after the work queued on the caller's stream, and reports the
// path taken.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/engine.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using support::pattern;

constexpr std::size_t kBytes = (std::size_t{9} << 20) + 1234;

class GdsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = io::make_engine("gds", {});
    if (!engine.ok()) GTEST_SKIP() << engine.status().to_string();
    std::printf("%s\n", (*engine)->info().features.c_str());
    auto device = Device::open("cuda");
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    device_.emplace(*device);
    auto memory = Buffer::allocate(*device_, kBytes);
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    memory_.emplace(std::move(*memory));
    ASSERT_TRUE(support::write_file(dir_ / "data", bytes_));
    const int fd = ::open((dir_ / "data").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) GTEST_SKIP() << "this file system refuses O_DIRECT";
    ::fsync(fd);
    ::close(fd);
  }

  // Reads ranges with arbitrary ends, in several rounds.
  FileStats read(void* stream, int rounds = 3) {
    ContextOptions options;
    options.engine = "gds";
    auto context = Context::create(options);
    auto file = File::open(dir_ / "data");
    FileQueueOptions queue_options;
    queue_options.path = Path::kDirect;
    queue_options.native_stream = stream;
    auto queue = FileQueue::create(*context, *device_, queue_options);
    if (!context.ok() || !file.ok() || !queue.ok()) {
      ADD_FAILURE() << "cannot set up";
      return {};
    }
    std::byte* const to = memory_->data();
    const std::vector<FileRange> ranges = {{0, to, 4096},
                                           {4096, to + 4096, 12'345},
                                           {16'441, to + 16'441, kBytes - 16'441 - 7},
                                           {kBytes - 7, to + kBytes - 7, 7}};
    for (int round = 0; round < rounds; ++round) {
      EXPECT_TRUE(queue->read(*file, ranges, 1).ok());
      FileCompletion done;
      EXPECT_EQ(queue->wait({&done, 1}, 1, 30s), 1u);
      EXPECT_TRUE(done.status.ok()) << done.status.to_string();
    }
    return queue->stats();
  }

  void expect_bytes() {
    std::vector<std::byte> got(kBytes);
    ASSERT_EQ(cudaMemcpy(got.data(), memory_->data(), kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_TRUE(got == bytes_);
  }

  // NVIDIA's library refuses files on disks that it does not know. Such reads go through host memory, and the notes say
  // so.
  void expect_account(const FileStats& stats) {
    std::printf("straight %llu of %llu bytes; notes: %s\n", static_cast<unsigned long long>(stats.straight_bytes),
                static_cast<unsigned long long>(stats.direct_bytes), stats.notes.c_str());
    EXPECT_EQ(stats.engine, "gds");
    const bool gave_up = stats.notes.find("direct reads into device memory are disabled") != std::string::npos;
    EXPECT_TRUE(gave_up || stats.straight_bytes == stats.direct_bytes);
    const char* named = std::getenv("HEADRACE_GDS_LIBRARY");
    if (named != nullptr && std::strstr(named, "lib/cufile/") != nullptr) EXPECT_GT(stats.straight_bytes, 0u);
  }

  support::TempDir dir_{"."};
  const std::vector<std::byte> bytes_ = pattern(kBytes);
  std::optional<Device> device_;
  std::optional<Buffer> memory_;
};

TEST_F(GdsGpu, FilesIntoDeviceMemory) {
  ASSERT_EQ(cudaMemset(memory_->data(), 0x5A, kBytes), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  expect_account(read(nullptr));
  expect_bytes();
}

TEST_F(GdsGpu, AfterWorkQueuedOnTheCallersStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void*) { std::this_thread::sleep_for(300ms); }, nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory_->data(), 0x5A, kBytes, stream), cudaSuccess);
  expect_account(read(stream, 1));
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  expect_bytes();
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace headrace
