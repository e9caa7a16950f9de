// The GPU passes the device suite and, in addition, what only a GPU can be tested for: ordering with the caller's CUDA
// streams, boxes beyond 2^32 elements, and a permanent, clearly reported failure after an illegal address.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "support/device_suite.h"

extern char** environ;

namespace headrace::device {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceSuite, ::testing::Values(std::string("cuda")),
                         [](const auto&) { return std::string("cuda"); });

// Delays its stream, then writes.
__global__ void late_write(unsigned* where, unsigned value, long long nanoseconds) {
  long long start = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
  *where = value;
}
__global__ void read_into(unsigned* to, const unsigned* from) { *to = *from; }

// A function of the driver, looked up at run time: programs are not linked with the driver, so that they start without
// one.
template <class Function>
Function* of_driver(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
}
#define HEADRACE_TEXT(name) #name
#define HEADRACE_EXPANDED_TEXT(name) HEADRACE_TEXT(name)
#define OF_DRIVER(name) of_driver<decltype(name)>(HEADRACE_EXPANDED_TEXT(name))

class CudaDeviceTest : public DeviceSuite {};
INSTANTIATE_TEST_SUITE_P(Gpu, CudaDeviceTest, ::testing::Values(std::string("cuda")),
                         [](const auto&) { return std::string("cuda"); });

TEST_P(CudaDeviceTest, WorkWaitsForWhatTheCallerQueued) {
  Memory word(*device_, 4, false), back(*device_, 4, true);
  cudaStream_t blocking = nullptr, other = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  unsigned value = 100;
  for (cudaStream_t native :
       {other, blocking, static_cast<cudaStream_t>(nullptr), cudaStreamLegacy, cudaStreamPerThread}) {
    ++value;
    late_write<<<1, 1, 0, native>>>(reinterpret_cast<unsigned*>(word.data()), value, 50'000'000);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    expect_ok(device_->wait_native(*stream_, native));
    const Piece piece{word.data(), back.data(), 4};
    expect_ok(device_->copy_to_host({&piece, 1}, *stream_));
    finish();
    unsigned got = 0;
    std::memcpy(&got, back.data(), 4);
    EXPECT_EQ(got, value);
  }
  cudaStreamDestroy(blocking);
  cudaStreamDestroy(other);
}

TEST_P(CudaDeviceTest, TheCallersStreamWaitsForAnEventWithoutBlockingTheThread) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  Memory source(*device_, kBytes, true), target(*device_, kBytes, false), seen(*device_, 4, false);
  std::memset(source.data(), 0x77, kBytes);
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  const Piece piece{source.data(), target.data(), kBytes};
  for (int i = 0; i < 5; ++i) expect_ok(device_->copy_to_device({&piece, 1}, *stream_));
  expect_ok(device_->record(*event_, *stream_));
  expect_ok(device_->make_native_wait(*event_, native));
  read_into<<<1, 1, 0, native>>>(reinterpret_cast<unsigned*>(seen.data()),
                                 reinterpret_cast<const unsigned*>(target.data() + kBytes - 4));
  ASSERT_EQ(cudaStreamSynchronize(native), cudaSuccess);
  auto done = device_->query(*event_);
  EXPECT_TRUE(done.ok() && *done);
  const std::vector<std::byte> got = download(seen.data(), 4);
  EXPECT_TRUE(got == std::vector<std::byte>(4, std::byte{0x77}));
  cudaStreamDestroy(native);
}

TEST_P(CudaDeviceTest, LeavesTheCallersDeviceCurrent) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(cudaSetDevice(i), cudaSuccess);
    round_trip({1000, 2000}, static_cast<std::uint64_t>(i));
    int now = -1;
    ASSERT_EQ(cudaGetDevice(&now), cudaSuccess);
    EXPECT_EQ(now, i);
  }
  cudaSetDevice(0);
}

// Pieces that are adjacent on both sides are merged into one copy, which must not cross from one allocation into the
// next.
TEST_P(CudaDeviceTest, NeighboursInTwoAllocations) {
  constexpr std::size_t kBytes = 64 << 10, kCount = 16;
  std::vector<std::byte*> all;
  for (std::size_t i = 0; i < kCount; ++i) all.push_back(*device_->allocate(kBytes));
  std::sort(all.begin(), all.end());
  std::size_t neighbours = 0;
  for (std::size_t i = 1; i < kCount; ++i) neighbours += all[i] == all[i - 1] + kBytes ? 1 : 0;
  EXPECT_GT(neighbours, 0u) << "this driver leaves gaps, so nothing is tested here";
  Memory source(*device_, kCount * kBytes, true), back(*device_, kCount * kBytes, true);
  testing::fill_random(source.data(), kCount * kBytes, 3);
  for (const std::size_t bytes : {kBytes, std::size_t{1000}}) {  // by the copy engine, and by a kernel
    std::vector<Piece> there, here;
    for (std::size_t i = 0; i < kCount; ++i) {
      // Whole allocations may be adjacent; so may the end of one and the start of the next.
      const std::size_t from = bytes == kBytes || i % 2 != 0 ? 0 : kBytes - bytes;
      there.push_back({source.data() + i * bytes, all[i] + from, bytes});
      here.push_back({all[i] + from, back.data() + i * bytes, bytes});
    }
    expect_ok(device_->copy_to_device(there, *stream_));
    expect_ok(device_->copy_to_host(here, *stream_));
    finish();
    EXPECT_EQ(std::memcmp(source.data(), back.data(), kCount * bytes), 0);
    std::memset(back.data(), 0, kCount * kBytes);
  }
  for (std::byte* memory : all) device_->deallocate(memory, kBytes);
}

// The device works after contexts that the caller makes and destroys, and leaves the caller's context current.
TEST_P(CudaDeviceTest, ContextsOfTheCallersOwn) {
  CUdevice gpu = 0;
  ASSERT_EQ(OF_DRIVER(cuDeviceGet)(&gpu, 0), CUDA_SUCCESS);
  std::shared_ptr<Device> opened;
  std::unique_ptr<Stream> stream;
  for (int round = 0; round < 3; ++round) {
    CUctxCreateParams parameters{};
    CUcontext own = nullptr, now = nullptr;
    ASSERT_EQ(OF_DRIVER(cuCtxCreate)(&own, &parameters, 0, gpu), CUDA_SUCCESS);
    if (opened == nullptr) {
      auto device = open_device("cuda");
      ASSERT_TRUE(device.ok()) << device.status().to_string();
      opened = *device;
      auto made = opened->create_stream();
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      stream = std::move(*made);
    }
    CUdeviceptr memory = 0;
    ASSERT_EQ(OF_DRIVER(cuMemAlloc)(&memory, 4096), CUDA_SUCCESS);
    Memory source(*opened, 4096, true), back(*opened, 4096, true);
    testing::fill_random(source.data(), 4096, static_cast<std::uint64_t>(round));
    std::vector<Piece> there, here;
    for (std::size_t i = 0; i < 8; ++i) {  // by a kernel
      auto* const at = reinterpret_cast<std::byte*>(memory) + i * 512;
      there.push_back({source.data() + i * 512, at, 500});
      here.push_back({at, back.data() + i * 512, 500});
    }
    expect_ok(opened->copy_to_device(there, *stream));
    expect_ok(opened->copy_to_host(here, *stream));
    auto event = opened->create_event();
    ASSERT_TRUE(event.ok()) << event.status().to_string();
    expect_ok(opened->record(**event, *stream));
    expect_ok(opened->synchronize(**event));
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(std::memcmp(source.data() + i * 512, back.data() + i * 512, 500), 0) << i;
    }
    ASSERT_EQ(OF_DRIVER(cuCtxGetCurrent)(&now), CUDA_SUCCESS);
    EXPECT_EQ(now, own);
    ASSERT_EQ(OF_DRIVER(cuCtxDestroy)(own), CUDA_SUCCESS);
  }
}

TEST_P(CudaDeviceTest, OrdinaryMemoryTravelsAsOnePiece) {
  std::vector<std::byte> host(3000000), back(3000000);
  testing::fill_random(host.data(), host.size(), 1);
  Memory target(*device_, host.size(), false);
  const Piece there{host.data(), target.data(), host.size()}, here{target.data(), back.data(), host.size()};
  expect_ok(device_->copy_to_device({&there, 1}, *stream_));
  expect_ok(device_->copy_to_host({&here, 1}, *stream_));
  finish();
  EXPECT_TRUE(host == back);
}

TEST_P(CudaDeviceTest, ManyWavesInFlightReuseDescriptorBuffers) {
  // More waves than descriptor buffers, of growing size, without waiting in between.
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  Memory source(*device_, kBytes, true), target(*device_, kBytes, false);
  std::vector<std::byte> want(kBytes);
  testing::fill_random(source.data(), kBytes, 8);
  std::mt19937_64 rng(8);
  upload(target.data(), want.data(), kBytes);
  std::size_t at = 0;
  for (int wave = 0; wave < 120; ++wave) {
    std::vector<Piece> pieces;
    for (int i = 0; i < 10 * wave; ++i) {
      const std::size_t bytes = 1 + rng() % 120, from = rng() % (kBytes - bytes);
      if (at + bytes > kBytes) break;
      pieces.push_back({source.data() + from, target.data() + at, bytes});
      std::memcpy(want.data() + at, source.data() + from, bytes);
      at += bytes + 1;
    }
    expect_ok(device_->copy_to_device(pieces, *stream_));
  }
  finish();
  EXPECT_TRUE(download(target.data(), kBytes) == want);
}

TEST_P(CudaDeviceTest, ThreadsShareTheDevice) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      auto stream = device_->create_stream();
      auto event = device_->create_event();
      ASSERT_TRUE(stream.ok() && event.ok());
      Memory source(*device_, 100000, true), target(*device_, 100000, false), back(*device_, 100000, true);
      for (int round = 0; round < (small_run() ? 3 : 30); ++round) {
        testing::fill_random(source.data(), 100000, static_cast<std::uint64_t>(t * 1000 + round));
        std::vector<Piece> there, here;
        for (std::size_t p = 0; p < 100000; p += 1000) {
          there.insert(there.begin(), {source.data() + p, target.data() + p, 1000});
          here.insert(here.begin(), {target.data() + p, back.data() + p, 1000});
        }
        expect_ok(device_->copy_to_device(there, **stream));
        expect_ok(device_->copy_to_host(here, **stream));
        expect_ok(device_->record(**event, **stream));
        expect_ok(device_->synchronize(**event));
        EXPECT_EQ(std::memcmp(source.data(), back.data(), 100000), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CudaDeviceTest, MoreThanFourBillionElements) {
  if (small_run() || device_->info().memory_bytes < (std::uint64_t{24} << 30))
    GTEST_SKIP() << "needs 10 GiB of GPU memory and a full run";
  const std::uint64_t count = (std::uint64_t{1} << 32) + 4099;
  Memory target(*device_, 2 * count, false);
  Box clear, comb;  // all zero; then every second byte 0xEE
  clear.dst = comb.dst = target.data();
  clear.rank = comb.rank = 1;
  clear.dim[0] = {2 * count, 0, 1};
  comb.dim[0] = {count, 0, 2};
  const std::byte zero{0}, mark{0xEE};
  expect_ok(device_->assemble({&clear, 1}, ElementOp{1, 1}, &zero, *stream_));
  expect_ok(device_->assemble({&comb, 1}, ElementOp{1, 1}, &mark, *stream_));
  finish();
  for (std::uint64_t at :
       {std::uint64_t{0}, (std::uint64_t{1} << 32) - 100, (std::uint64_t{1} << 33) - 100, 2 * count - 1000}) {
    const std::vector<std::byte> got = download(target.data() + at, 1000);
    for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(got[i], (at + i) % 2 == 0 ? mark : zero) << at + i;
  }
}

TEST_P(CudaDeviceTest, AForkedChildGetsAnError) {
  const pid_t child = fork();
  if (child == 0) _exit(device_->allocate(1).status().code() == Code::kForked ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  round_trip({100, 200, 300, 400, 500}, 2);
}

// Destroys the CUDA context of a process of its own.
TEST_P(CudaDeviceTest, DISABLED_ChildLosesItsDevice) {
  std::vector<Piece> pieces;
  Memory target(*device_, 1 << 20, false);
  for (int i = 0; i < 100; ++i) {
    pieces.push_back(
        {reinterpret_cast<const std::byte*>(std::uintptr_t{0x10000} * (i + 1)), target.data() + 1000 * i, 900});
  }
  (void)device_->copy_to_device(pieces, *stream_);
  (void)device_->record(*event_, *stream_);
  ASSERT_EQ(device_->synchronize(*event_).code(), Code::kDeviceLost);
  EXPECT_EQ(device_->allocate(1).status().code(), Code::kDeviceLost);
  EXPECT_EQ(device_->allocate_pinned(1).status().code(), Code::kDeviceLost);
  EXPECT_EQ(device_->create_stream().status().code(), Code::kDeviceLost);
  EXPECT_EQ(device_->query(*event_).status().code(), Code::kDeviceLost);
  EXPECT_EQ(device_->copy_to_device({}, *stream_).code(), Code::kDeviceLost);
  EXPECT_FALSE(device_->synchronize(*event_).cause().empty());
}

TEST_P(CudaDeviceTest, AnIllegalAddressLosesTheDeviceForGoodAndSaysSo) {
  if (std::getenv("HEADRACE_UNDER_SANITIZER") != nullptr) GTEST_SKIP() << "the planted error would be reported";
  const char* arguments[] = {"cuda_device_test", "--gtest_also_run_disabled_tests",
                             "--gtest_filter=*DISABLED_ChildLosesItsDevice*", nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace headrace::device

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (auto opened = headrace::device::open_device("cuda"); !opened.ok()) {
    std::printf("skipped: %s\n", opened.status().to_string().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
