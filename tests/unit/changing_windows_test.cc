// Property: mapped windows of a file's page cache are not used after the file has changed, and not made while a change
// could be missed because of coarse time stamps.
#include <gtest/gtest.h>
#include <headrace/file.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "os/file_handle.h"
#include "support/file_stamps.h"
#include "support/rewritten_file.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using support::overwrite;
using support::truncate_and_rewrite;
using support::whole_seconds;

class MappedWindows : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4 << 20;
  void TearDown() override { whole_seconds = false; }
  void write(char letter) { support::write_text(path, std::string(kBytes, letter)); }
  Status read(std::uint64_t offset, std::size_t bytes) {
    const FileRange range{offset, buffer.data(), bytes};
    const std::uint64_t before = queue.stats().mapped_bytes;
    EXPECT_TRUE(queue.read(*file, std::span(&range, 1), 0).ok());
    FileCompletion done;
    EXPECT_EQ(queue.wait({&done, 1}), 1u);
    mapped = queue.stats().mapped_bytes - before;
    return std::move(done.status);
  }
  void expect(char letter) {
    const Status status = read(0, 1 << 20);
    EXPECT_TRUE(status.ok()) << status.to_string();
    std::string got(1 << 20, '?');
    ASSERT_TRUE(buffer.copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size()).ok());
    EXPECT_EQ(got, std::string(got.size(), letter));
  }
  // A GPU that still used a window would see its old pages, which it keeps pinned. This simulated device sees the new
  // ones, so the test checks that no window is used. On a busy machine the file may have settled before the read and be
  // mapped again.
  void expect_read_anew(char letter) {
    expect(letter);
    EXPECT_TRUE(mapped == 0 || has_settled()) << mapped;
  }
  bool has_settled() const {
    os::FileHandle now;
    EXPECT_TRUE(os::FileHandle::open(path, {}, now).ok());
    os::FileIdentity identity;
    int error = 0;
    EXPECT_TRUE(os::identify(now.fd(), identity, error)) << error;
    return !os::recently_changed(identity);
  }
  // If memory is short, the kernel evicts unused pages, and a window with missing pages is not mapped.
  void expect_mapped(char letter) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    do {
      EXPECT_TRUE(read(0, kBytes).ok());
      expect(letter);
      std::this_thread::sleep_for(milliseconds(20));
    } while (mapped == 0 && std::chrono::steady_clock::now() < deadline);
    EXPECT_GT(mapped, 0u) << queue.stats().notes;
  }

  support::TempDir directory;
  const std::string path = directory / "file";
  Context context = [] {
    ContextOptions options;
    options.mapped_budget_bytes = std::size_t{64} << 20;  // independent of what other tests have mapped
    return Context::create(options).value();
  }();
  Device device = Device::open("host-staged").value();
  Buffer buffer = Buffer::allocate(device, kBytes).value();
  FileQueue queue = FileQueue::create(context, device,
                                      [] {
                                        FileQueueOptions options;
                                        options.path = Path::kMapped;
                                        return options;
                                      }())
                        .value();
  std::unique_ptr<File> file;
  std::uint64_t mapped = 0;
};

TEST_F(MappedWindows, AreNotUsedAfterTruncateAndRewriteWhateverFailedBefore) {
  write('A');
  file = std::make_unique<File>(File::open(path).value());
  expect_mapped('A');
  truncate_and_rewrite(path, std::string(kBytes, 'B'));
  expect_read_anew('B');
  expect_mapped('B');
  // A read beyond the end, as when a file is polled for more.
  EXPECT_EQ(read(kBytes, 4096).code(), Code::kShort);
  truncate_and_rewrite(path, std::string(kBytes, 'C'));
  expect_read_anew('C');
  expect_mapped('C');
  EXPECT_EQ(read(kBytes, 4096).code(), Code::kShort);
  overwrite(path, std::string(kBytes, 'D'));
  expect_read_anew('D');
}

TEST_F(MappedWindows, AreNotMadeWithinOneSecondOfAFileSystemThatKeepsSeconds) {
  whole_seconds = true;
  support::wait_for_second();
  write('A');
  file = std::make_unique<File>(File::open(path).value());
  for (int i = 0; i < 15; ++i) {
    expect_read_anew('A');
    std::this_thread::sleep_for(milliseconds(20));
  }
  truncate_and_rewrite(path, std::string(kBytes, 'B'));
  expect_read_anew('B');
  expect_mapped('B');
}

// Two overlapping requests may see two states of the file.
TEST_F(MappedWindows, AreRevalidatedByEachRequest) {
  write('A');
  file = std::make_unique<File>(File::open(path).value());
  expect_mapped('A');
  const std::uint64_t before = queue.stats().mapped_bytes;
  const FileRange first{0, buffer.data(), 4096}, second{0, buffer.data() + 4096, 4096};
  ASSERT_TRUE(queue.read(*file, std::span(&first, 1), 0).ok());
  queue.flush();
  truncate_and_rewrite(path, std::string(kBytes, 'B'));
  ASSERT_TRUE(queue.read(*file, std::span(&second, 1), 0).ok());
  FileCompletion done[2];
  ASSERT_EQ(queue.wait(done, 2), 2u);
  mapped = queue.stats().mapped_bytes - before;
  EXPECT_TRUE(mapped == 4096 || has_settled()) << mapped;
  std::string got(4096, '?');
  ASSERT_TRUE(buffer.copy_to_host(4096, reinterpret_cast<std::byte*>(got.data()), got.size()).ok());
  EXPECT_EQ(got, std::string(4096, 'B'));
}

}  // namespace
}  // namespace headrace
