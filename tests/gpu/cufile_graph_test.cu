// libcufile.so.0: stream-ordered calls captured in a CUDA graph run at each launch of the graph, in their place between
// the work captured before and after them, with the values that the caller's pointers then have.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "device/device.h"
#include "support/cufile_file.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

constexpr std::size_t kBytes = (std::size_t{9} << 20) + 777;  // three pieces of a staged call

__global__ void invert(unsigned char* to, const unsigned char* from, std::size_t bytes) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += step) {
    to[i] = static_cast<unsigned char>(~from[i]);
  }
}

std::vector<std::byte> content(unsigned seed) {
  std::vector<std::byte> out(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) out[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
  return out;
}
std::vector<std::byte> inverted(std::vector<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = ~byte;
  return bytes;
}

class CufileGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
    support::close_driver();
    ASSERT_TRUE(dir_.ok());
    ASSERT_TRUE(support::write_file(dir_ / "data", content(1)));
    file_.emplace(dir_ / "data", O_RDWR);
    ASSERT_EQ(file_->error, CU_FILE_SUCCESS);
    ASSERT_EQ(cudaMalloc(&own_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&other_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (executable_ != nullptr) EXPECT_EQ(cudaGraphExecDestroy(executable_), cudaSuccess);
    if (stream_ != nullptr) EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    cudaFree(own_);
    cudaFree(other_);
    file_.reset();
    support::close_driver();
  }

  // Captures what `queue` queues as executable_.
  template <class Queue>
  void capture(const Queue& queue) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    queue();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable_, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(got_, -7) << "it happened while it was captured";
  }
  void launch() {
    got_ = -7;
    ASSERT_EQ(cudaGraphLaunch(executable_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  std::vector<std::byte> of_device(const void* memory) {
    std::vector<std::byte> out(kBytes);
    EXPECT_EQ(cudaMemcpy(out.data(), memory, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return out;
  }
  std::vector<std::byte> of_file() {
    std::vector<std::byte> out(kBytes);
    EXPECT_EQ(::pread(file_->fd(), out.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    return out;
  }
  void put_in_file(const std::vector<std::byte>& bytes) {
    ASSERT_EQ(::pwrite(file_->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  support::TempDir dir_;
  std::optional<support::CufileFile> file_;
  unsigned char *own_ = nullptr, *other_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  size_t size_ = kBytes;
  off_t at_ = 0, skip_ = 0;
  ssize_t got_ = -7;
};

TEST_F(CufileGraph, ReadsAgainAtEachLaunch) {
  capture([&] {
    ASSERT_EQ(cudaMemsetAsync(own_, 0x5A, kBytes, stream_), cudaSuccess);
    ASSERT_EQ(cuFileReadAsync(file_->handle(), own_, &size_, &at_, &skip_, &got_, stream_).err, CU_FILE_SUCCESS);
    invert<<<128, 256, 0, stream_>>>(other_, own_, kBytes);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  });
  for (unsigned seed : {1u, 2u, 3u}) {
    put_in_file(content(seed));
    launch();
    EXPECT_EQ(got_, static_cast<ssize_t>(kBytes));
    EXPECT_TRUE(of_device(other_) == inverted(content(seed))) << "launch " << seed;
  }
  // A shorter read at other offsets: the pointers are read when the stream reaches the call.
  size_ = 5'000'001, at_ = 123, skip_ = 77;
  launch();
  EXPECT_EQ(got_, 5'000'001);
  std::vector<std::byte> expected(kBytes, std::byte{0x5A});
  const std::vector<std::byte> file = content(3);
  std::copy_n(file.begin() + 123, 5'000'001, expected.begin() + 77);
  EXPECT_TRUE(of_device(other_) == inverted(expected));
  // Up to the end of the file, and beyond it.
  size_ = kBytes, at_ = static_cast<off_t>(kBytes) - 1000, skip_ = 0;
  launch();
  EXPECT_EQ(got_, 1000);
  at_ = static_cast<off_t>(kBytes);
  launch();
  EXPECT_EQ(got_, 0);
}

TEST_F(CufileGraph, WritesAgainAtEachLaunch) {
  capture([&] {
    invert<<<128, 256, 0, stream_>>>(own_, other_, kBytes);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    ASSERT_EQ(cuFileWriteAsync(file_->handle(), own_, &size_, &at_, &skip_, &got_, stream_).err, CU_FILE_SUCCESS);
    ASSERT_EQ(cudaMemsetAsync(own_, 0, kBytes, stream_), cudaSuccess);
  });
  for (unsigned seed : {4u, 5u}) {
    const std::vector<std::byte> bytes = content(seed);
    ASSERT_EQ(cudaMemcpy(other_, bytes.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
    launch();
    EXPECT_EQ(got_, static_cast<ssize_t>(kBytes));
    EXPECT_TRUE(of_file() == inverted(bytes)) << "launch " << seed;
  }
}

TEST_F(CufileGraph, HostMemoryToo) {
  std::vector<std::byte> memory(kBytes);
  capture([&] {
    ASSERT_EQ(cuFileReadAsync(file_->handle(), memory.data(), &size_, &at_, &skip_, &got_, stream_).err,
              CU_FILE_SUCCESS);
  });
  for (unsigned seed : {6u, 7u}) {
    put_in_file(content(seed));
    launch();
    EXPECT_EQ(got_, static_cast<ssize_t>(kBytes));
    EXPECT_TRUE(memory == content(seed)) << "launch " << seed;
  }
}

// A graph can be launched after the file is deregistered: it keeps what it needs alive.
TEST_F(CufileGraph, OutlivesTheRegistration) {
  capture([&] {
    ASSERT_EQ(cuFileReadAsync(file_->handle(), own_, &size_, &at_, &skip_, &got_, stream_).err, CU_FILE_SUCCESS);
  });
  put_in_file(content(8));
  file_->deregister();
  launch();
  EXPECT_EQ(got_, static_cast<ssize_t>(kBytes));
  EXPECT_TRUE(of_device(own_) == content(8));
}

}  // namespace
}  // namespace headrace
