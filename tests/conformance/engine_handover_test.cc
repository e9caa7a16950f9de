// Requests that one thread submitted to an engine may be reaped by another thread, which may also queue more behind
// them or destroy the engine. A forked child only frees its copy.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "io/engine.h"
#include "io/request_queue.h"
#include "support/engine_over_file.h"
#include "support/temp_dir.h"

namespace headrace::io {
namespace {

using namespace std::chrono_literals;
using support::pattern;

// O_DIRECT reads that keep the disk busy for a while, submitted by a thread that then ends.
class EngineHandOver : public EngineOverFile {
 protected:
  static constexpr std::size_t kPieces = 64, kPieceBytes = std::size_t{512} << 10;
  void SetUp() override {
    EngineOverFile::SetUp();
    if (IsSkipped()) return;
    large_ = pattern(kPieces * kPieceBytes);
    ASSERT_TRUE(support::write_file(dir_ / "large", large_));
    direct_ = ::open((dir_ / "large").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (direct_ < 0) GTEST_SKIP() << "the file system refuses O_DIRECT";
    ASSERT_EQ(::fsync(direct_), 0);
  }
  void TearDown() override {
    EngineOverFile::TearDown();
    if (direct_ >= 0) ::close(direct_);
  }
  void submit_elsewhere() {
    std::memset(memory_.data, 0, memory_.size_bytes);
    std::thread([&] {
      std::vector<EngineRequest> requests;
      for (std::uint64_t i = 0; i < kPieces; ++i) {
        requests.push_back({Op::kRead, direct_, i * kPieceBytes, memory_.data + i * kPieceBytes, kPieceBytes, i});
      }
      for (std::span<const EngineRequest> rest = requests; !rest.empty();) {
        auto taken = engine_->submit(rest);
        ASSERT_TRUE(taken.ok()) << taken.status().to_string();
        rest = rest.subspan(*taken);
      }
    }).join();
  }
  // The caller owns the memory again: nothing may overwrite what is written into it.
  void expect_quiet() {
    std::memset(memory_.data, 0xEE, memory_.size_bytes);
    std::this_thread::sleep_for(100ms);
    std::size_t changed = 0;
    for (std::size_t at = 0; at < memory_.size_bytes; at += 512) changed += memory_.data[at] != std::byte{0xEE};
    EXPECT_EQ(changed, 0u);
  }
  std::vector<std::byte> large_;
  int direct_ = -1;
  Aligned memory_{kPieces * kPieceBytes};
};

TEST_P(EngineHandOver, AnotherThreadReapsRequestsOfTheFirst) {
  for (int round = 0; round < 3; ++round) {
    submit_elsewhere();
    results_.clear();
    collect(kPieces);
    // The kernel may cancel what the ended thread's kernel workers had not started; no other failure is allowed.
    for (const auto& [tag, result] : results_) {
      ASSERT_TRUE(result == static_cast<std::int64_t>(kPieceBytes) || result == -ECANCELED || result == -EINTR)
          << result;
      if (result < 0) continue;
      ASSERT_EQ(std::memcmp(memory_.data + tag * kPieceBytes, large_.data() + tag * kPieceBytes, kPieceBytes), 0);
    }
    expect_quiet();
  }
}

TEST_P(EngineHandOver, AThirdThreadDestroysTheEngine) {
  for (int round = 0; round < 3; ++round) {
    submit_elsewhere();
    std::thread([&] { engine_.reset(); }).join();
    expect_quiet();
    remake({});
  }
}

TEST_P(EngineHandOver, AQueueContinuesInAnotherThread) {
  RequestQueue queue(*engine_);
  std::memset(memory_.data, 0, memory_.size_bytes);
  std::vector<Request> requests(kPieces);
  for (std::uint64_t i = 0; i < kPieces; ++i) {
    requests[i] = {.fd = direct_,
                   .offset_bytes = i * kPieceBytes,
                   .buffer = {memory_.data + i * kPieceBytes, kPieceBytes},
                   .tag = i,
                   .alignment_bytes = 4096};
  }
  std::thread([&] { queue.push(requests); }).join();
  RequestResult done[kPieces];
  for (std::size_t left = kPieces; left > 0;) {
    const std::size_t count = queue.wait(done, 5s);
    for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(done[i].status.ok()) << done[i].status.to_string();
    left -= count;
  }
  EXPECT_EQ(std::memcmp(memory_.data, large_.data(), large_.size()), 0);
  expect_quiet();
}

TEST_P(EngineHandOver, AForkedChildOnlyFreesMemory) {
  for (int round = 0; round < 3; ++round) {
    submit_elsewhere();
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      engine_.reset();
      ::_exit(0);
    }
    results_.clear();
    collect(kPieces);
    for (const auto& [tag, result] : results_) {
      ASSERT_TRUE(result == static_cast<std::int64_t>(kPieceBytes) || result == -EINTR) << result;
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    expect_quiet();
  }
}

std::vector<Variant> shared_variants() {
  std::vector<Variant> out = variants();
  std::erase_if(out, [](const Variant& variant) { return variant.one_thread; });
  return out;
}

INSTANTIATE_TEST_SUITE_P(Engine, EngineHandOver, ::testing::ValuesIn(shared_variants()), name_of);

}  // namespace
}  // namespace headrace::io
