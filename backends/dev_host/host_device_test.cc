// What the host devices guarantee: guard pages fault, nothing leaks, failures at every point have the right code, use
// after fork is an error.
#include <gtest/gtest.h>
#include <headrace/device.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "backends/dev_host/host_memory.h"
#include "base/fault.h"
#include "device/device.h"

namespace headrace::device {
namespace {

class HostDeviceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto opened = open_device(GetParam());
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    device_ = *opened;
  }
  void TearDown() override {
    base::disarm_faults();
    const HostMemoryCounts counts = host_memory_counts();
    EXPECT_EQ(counts.device_allocations + counts.pinned_allocations, 0u);
    EXPECT_EQ(counts.device_bytes + counts.pinned_bytes, 0u);
  }
  std::shared_ptr<Device> device_;
};

TEST_P(HostDeviceTest, TheCpuMayWriteOnlyIntoTheHost) {
  EXPECT_EQ(device_->info().host_addressable, std::string_view(GetParam()) == "host");
}

TEST_P(HostDeviceTest, CountsWhatIsAllocated) {
  auto memory = device_->allocate(1000);
  auto pinned = device_->allocate_pinned(5000);
  ASSERT_TRUE(memory.ok() && pinned.ok());
  EXPECT_EQ(host_memory_counts().device_bytes, 1000u);
  EXPECT_EQ(host_memory_counts().pinned_bytes, 5000u);
  device_->deallocate(*memory, 999);  // a wrong size frees nothing
  EXPECT_EQ(host_memory_counts().device_allocations, 1u);
  device_->deallocate(*memory, 1000);
  device_->deallocate(*memory, 1000);  // nor does a second call
  device_->deallocate_pinned(*pinned, 5000);
}

TEST_P(HostDeviceTest, ABufferIsFilledAndReadBackInAnyPiece) {
  const auto device = headrace::Device::open(GetParam());
  ASSERT_TRUE(device.ok());
  constexpr std::size_t kBytes = (std::size_t{17} << 20) + 3;  // more than two of the pieces in which it is copied
  auto buffer = Buffer::allocate(*device, kBytes);
  ASSERT_TRUE(buffer.ok());
  std::vector<std::byte> in(kBytes), out(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) in[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  ASSERT_TRUE(buffer->copy_from_host(0, in.data(), kBytes).ok());
  ASSERT_TRUE(buffer->copy_from_host(5, in.data(), 7).ok());
  std::copy_n(std::vector<std::byte>(in).begin(), 7, in.begin() + 5);
  ASSERT_TRUE(buffer->copy_to_host(0, out.data(), kBytes).ok());
  EXPECT_TRUE(in == out);
  EXPECT_EQ(buffer->copy_from_host(kBytes, in.data(), 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(buffer->copy_from_host(1, in.data(), SIZE_MAX).code(), Code::kInvalidArgument);
}

TEST_P(HostDeviceTest, AnOverrunOrALateWriteFaults) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "guard pages are on in builds with fault points";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto memory = device_->allocate(512);
  ASSERT_TRUE(memory.ok());
  std::byte* p = *memory;
  EXPECT_EQ(p[511], std::byte{0xA5});
  EXPECT_DEATH(*const_cast<volatile std::byte*>(p + 512) = std::byte{1}, "");
  device_->deallocate(p, 512);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(p) = std::byte{1}, "");
}

TEST_P(HostDeviceTest, EveryFaultPointGivesATypedFailure) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  auto stream = device_->create_stream();
  auto event = device_->create_event();
  ASSERT_TRUE(stream.ok() && event.ok());
  std::vector<std::byte> bytes(2);
  const Piece piece{bytes.data(), bytes.data() + 1, 1};
  auto code_with = [&](const char* point, int error, auto call) {
    base::arm_fault({point, base::FaultKind::kErrno, error, 0, false});
    const Code code = call();
    base::disarm_faults();
    return code;
  };
  EXPECT_EQ(code_with("dev_host.allocate", ENOMEM, [&] { return device_->allocate(1).status().code(); }),
            Code::kResourceExhausted);
  EXPECT_EQ(code_with("dev_host.allocate_pinned", ENOMEM, [&] { return device_->allocate_pinned(1).status().code(); }),
            Code::kResourceExhausted);
  EXPECT_EQ(code_with("dev_host.create_stream", ENOMEM, [&] { return device_->create_stream().status().code(); }),
            Code::kResourceExhausted);
  EXPECT_EQ(code_with("dev_host.create_event", ENOMEM, [&] { return device_->create_event().status().code(); }),
            Code::kResourceExhausted);
  EXPECT_EQ(code_with("dev_host.record", EIO, [&] { return device_->record(**event, **stream).code(); }), Code::kIo);
  EXPECT_EQ(code_with("dev_host.synchronize", EIO, [&] { return device_->synchronize(**event).code(); }), Code::kIo);
  EXPECT_EQ(
      code_with("dev_host.assemble", EIO, [&] { return device_->assemble({}, ElementOp{}, nullptr, **stream).code(); }),
      Code::kIo);
  EXPECT_EQ(code_with("dev_host.copy", ENODEV,
                      [&] {
                        return device_->copy_to_device({&piece, 1}, **stream).code();
                      }),
            Code::kDeviceLost);
  EXPECT_EQ(device_->allocate(1).status().code(), Code::kDeviceLost) << "once lost, lost for every later call";
}

TEST_P(HostDeviceTest, AChildOfForkGetsAnErrorAndEndsCleanly) {
  auto stream = device_->create_stream();
  ASSERT_TRUE(stream.ok());
  const pid_t child = fork();
  if (child == 0) {
    const bool forked = device_->allocate(1).status().code() == Code::kForked;
    stream->reset();  // must neither hang nor abort
    _exit(forked ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(device_->create_stream().ok()) << "the parent is unharmed";
}

// Each wave of each read has a stream, and some queue thousands of boxes at a time.
TEST_P(HostDeviceTest, AStreamKeepsLittleOfWhatWasQueued) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep malloc for themselves";
#endif
  auto stream = device_->create_stream();
  auto event = device_->create_event();
  ASSERT_TRUE(stream.ok() && event.ok());
  const std::byte from{7};
  std::byte to{};
  std::vector<Box> boxes(4096);
  for (Box& box : boxes) box.src = &from, box.dst = &to;
  const ElementOp op;
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (int round = 0; round < 64; ++round) {
    ASSERT_TRUE(device_->assemble(boxes, op, nullptr, **stream).ok());
  }
  ASSERT_TRUE(device_->record(**event, **stream).ok());
  ASSERT_TRUE(device_->synchronize(**event).ok());
  const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
  EXPECT_EQ(to, from);
  EXPECT_LT(after, before + 2 * boxes.size() * sizeof(Box));
}

TEST_P(HostDeviceTest, ThereIsOneAndItHasNoNativeStreams) {
  EXPECT_EQ(open_device(std::string(GetParam()) + ":1").status().code(), Code::kInvalidArgument);
  auto stream = device_->create_stream();
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(device_->wait_native(**stream, nullptr).ok());
  int not_a_stream = 0;
  EXPECT_EQ(device_->wait_native(**stream, &not_a_stream).code(), Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostDeviceTest, ::testing::Values("host", "host-staged"),
                         [](const auto& param) { return std::string(param.param) == "host" ? "host" : "host_staged"; });

}  // namespace
}  // namespace headrace::device
