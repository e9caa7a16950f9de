// Whatever a path refers to, probing it yields facts or a reason, and never blocks.
#include "os/probe_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/temp_dir.h"

namespace headrace::os {
namespace {

TEST(ProbeFile, KindsOfPath) {
  support::TempDir dir;
  EXPECT_EQ(ProbeFile::open(dir / "absent").status().code(), Code::kNotFound);
  EXPECT_EQ(ProbeFile::open(dir / "absent").status().key(), dir / "absent");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ProbeFile::open(dir / "fifo").status().code(), Code::kUnsupported);
  EXPECT_EQ(ProbeFile::open("/dev/null").status().code(), Code::kUnsupported);
  ASSERT_TRUE(support::write_file(dir / "f", support::pattern(5000)));
  EXPECT_EQ(ProbeFile::open(dir / "f/below").status().code(), Code::kNotFound);

  const auto file = ProbeFile::open(dir / "f");
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->is_directory());
  EXPECT_EQ(file->size_bytes(), 5000u);
  std::byte bytes[16];
  EXPECT_EQ(file->read(bytes, sizeof bytes, 4990), 10);
  EXPECT_EQ(bytes[0], support::pattern_at(4990));
  EXPECT_EQ(file->read(bytes, sizeof bytes, 5000), 0);

  const auto folder = ProbeFile::open(dir.path());
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(folder->is_directory());
  EXPECT_EQ(folder->read(bytes, sizeof bytes, 0), -EISDIR);
}

TEST(ProbeFile, ClosesItsDescriptorOnce) {
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "f", support::pattern(10)));
  const std::size_t before = support::open_descriptors();
  {
    auto first = ProbeFile::open(dir / "f");
    ASSERT_TRUE(first.ok());
    const ProbeFile second = std::move(first).value();
    EXPECT_GE(second.fd(), 0);
    EXPECT_EQ(support::open_descriptors(), before + 1);
  }
  EXPECT_FALSE(ProbeFile::open("/dev/null").ok());
  EXPECT_EQ(support::open_descriptors(), before);
}

TEST(FindSampleFile, LargestOrFirstLargeEnough) {
  support::TempDir dir;
  EXPECT_EQ(find_sample_file(dir.path(), 100, 1), "");
  EXPECT_EQ(find_sample_file(dir / "absent", 100, 1), "");
  ASSERT_EQ(::mkdir((dir / "d").c_str(), 0755), 0);
  EXPECT_EQ(find_sample_file(dir.path(), 100, 1), "");
  ASSERT_TRUE(support::write_file(dir / "small", support::pattern(10)));
  ASSERT_TRUE(support::write_file(dir / "d/large", support::pattern(5000)));
  ASSERT_TRUE(support::write_file(dir / "d/empty", {}));
  ASSERT_EQ(::symlink("/proc/kcore", (dir / "link").c_str()), 0);
  EXPECT_EQ(find_sample_file(dir.path(), 100, 1 << 20), dir / "d/large");
  EXPECT_EQ(find_sample_file(dir.path(), 0, 1), "");
  const std::vector<std::string> both = {dir / "d/large", dir / "small"};
  EXPECT_EQ(find_sample_files(dir.path(), 100, 5001, 9), both);
  EXPECT_EQ(find_sample_files(dir.path(), 100, 5000, 9), std::vector<std::string>{both[0]});
  EXPECT_EQ(find_sample_files(dir.path(), 100, 1 << 20, 1), std::vector<std::string>{both[0]});
  EXPECT_TRUE(find_sample_files(dir / "absent", 100, 1, 9).empty());
}

TEST(ProbeDirect, ReadsOrSaysWhyNot) {
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "f", support::pattern(100000)));
  const DirectSupport probe = probe_direct(dir / "f");
  if (probe.works) {
    for (const std::uint32_t unit : {probe.memory_alignment_bytes, probe.offset_alignment_bytes}) {
      EXPECT_NE(unit, 0u);
      EXPECT_EQ(unit & (unit - 1), 0u);
    }
    EXPECT_TRUE(probe.why_not.empty());
  } else {
    EXPECT_FALSE(probe.why_not.empty());
  }
  ASSERT_TRUE(support::write_file(dir / "empty", {}));
  EXPECT_FALSE(probe_direct(dir / "empty").works);
  EXPECT_FALSE(probe_direct(dir / "empty").why_not.empty());
  EXPECT_NE(probe_direct(dir / "absent").why_not.find("not found"), std::string::npos);
  EXPECT_EQ(probe_direct("/proc/self/status").why_not, "the file system refuses O_DIRECT");
}

}  // namespace
}  // namespace headrace::os
