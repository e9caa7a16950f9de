// A path is trusted only if nobody else can decide what it refers to: every folder and link on the way is checked, and
// the error names what is wrong.
#include "os/trusted_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/fault.h"
#include "support/temp_dir.h"

namespace headrace::os {
namespace {

namespace fs = std::filesystem;

class TrustedPath : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::canonical(dir_.path()).string();
    fs::create_directories(root_ + "/a/b");
    ASSERT_TRUE(support::write_file(root_ + "/a/b/file", {}));
    for (const char* name : {"", "/a", "/a/b"}) ASSERT_EQ(::chmod((root_ + name).c_str(), 0755), 0);
    ASSERT_EQ(::chmod((root_ + "/a/b/file").c_str(), 0644), 0);
  }
  // The error for `path`; "" if it may be used.
  std::string said(const std::string& path, Code code = Code::kPermission) {
    const auto got = resolve_trusted(root_ + path);
    if (got.ok()) return {};
    EXPECT_EQ(got.status().code(), code) << got.status().to_string();
    return got.status().message();
  }
  bool names(const std::string& text, const std::string& path) {
    return text.find(root_ + path + " ") != std::string::npos;
  }
  void chmod(const std::string& path, mode_t mode) { ASSERT_EQ(::chmod((root_ + path).c_str(), mode), 0); }

  support::TempDir dir_;
  std::string root_;
};

TEST_F(TrustedPath, WithoutLinksAndDots) {
  fs::create_directory_symlink("../a", root_ + "/a/up");
  fs::create_symlink(root_ + "/a/up/b/file", root_ + "/link");
  for (const char* path : {"/a/b/file", "//a/./b//file", "/a/b/../b/file", "/link", "/a/up/up/b/../../link"}) {
    const auto got = resolve_trusted(root_ + path);
    ASSERT_TRUE(got.ok()) << path << ": " << got.status().to_string();
    EXPECT_EQ(*got, root_ + "/a/b/file") << path;
  }
  EXPECT_EQ(*resolve_trusted(root_ + "/a/b/"), root_ + "/a/b");
  EXPECT_EQ(*resolve_trusted("/"), "/");
}

TEST_F(TrustedPath, NotThereOrNotAbsolute) {
  EXPECT_NE(said("/a/c/file", Code::kNotFound), "");
  EXPECT_NE(said("/a/b/file/below", Code::kNotFound), "");
  for (const char* path : {"", "file", "./file", "../file"}) {
    EXPECT_EQ(resolve_trusted(path).status().code(), Code::kInvalidArgument) << path;
  }
  fs::create_symlink("loop", root_ + "/loop");
  EXPECT_NE(said("/loop", Code::kIo), "");
}

TEST_F(TrustedPath, EveryFolderAndTheFile) {
  for (const char* writable : {"", "/a", "/a/b", "/a/b/file"}) {
    for (const mode_t extra : {0002, 0020}) {
      const mode_t kept = fs::is_directory(root_ + writable) ? 0755 : 0644;
      // The private group of a user, with the user's id, counts as the user's own.
      struct stat about {};
      ASSERT_EQ(::stat((root_ + writable).c_str(), &about), 0);
      const bool own = extra == 0020 && ::geteuid() != 0 && about.st_gid == ::geteuid() && ::getegid() == ::geteuid();
      chmod(writable, kept | extra);
      EXPECT_EQ(names(said("/a/b/file"), writable), !own) << writable << " " << std::oct << extra;
      chmod(writable, kept);
    }
  }
  EXPECT_EQ(said("/a/b/file"), "");
}

TEST_F(TrustedPath, AStickyFolderIsSafeAboveButNotForTheFileItself) {
  chmod("/a", 01777);
  EXPECT_EQ(said("/a/b/file"), "");
  chmod("/a", 0755);
  chmod("/a/b", 01777);
  EXPECT_TRUE(names(said("/a/b/file"), "/a/b"));
}

TEST_F(TrustedPath, AFolderThatOnlyALinkLeadsThrough) {
  fs::create_directory(root_ + "/open");
  fs::create_directory_symlink(root_ + "/a", root_ + "/open/a");
  chmod("/open", 0777);
  EXPECT_TRUE(names(said("/open/a/b/file"), "/open"));
  fs::create_symlink(root_ + "/open/a/b/file", root_ + "/link");
  EXPECT_TRUE(names(said("/link"), "/open"));
  chmod("/open", 01777);
  EXPECT_EQ(said("/open/a/b/file"), "");
}

TEST_F(TrustedPath, FilesOfAnotherUser) {
  struct stat about {};
  ASSERT_EQ(::stat((root_ + "/a").c_str(), &about), 0);
  EXPECT_EQ(why_others_can_write(about, false), "");
  about.st_uid = 4'000'000;
  EXPECT_NE(why_others_can_write(about, true).find("user 4000000"), std::string::npos);
  about.st_uid = 0;
  EXPECT_EQ(why_others_can_write(about, false), "");
  if (::geteuid() != 0) return;  // only root can change a file's owner
  for (const char* given : {"/a", "/a/b", "/a/b/file"}) {
    ASSERT_EQ(::lchown((root_ + given).c_str(), 65533, 0), 0);
    EXPECT_TRUE(names(said("/a/b/file"), given)) << given;
    ASSERT_EQ(::lchown((root_ + given).c_str(), 0, 0), 0);
  }
  fs::create_symlink(root_ + "/a/b/file", root_ + "/link");
  ASSERT_EQ(::lchown((root_ + "/link").c_str(), 65533, 0), 0);
  EXPECT_TRUE(names(said("/link"), "/link"));
}

TEST_F(TrustedPath, AFailedCheckIsAFailure) {
  if (!base::kFaultPointsCompiled) return;
  for (std::uint64_t nth = 0; nth < 3; ++nth) {
    base::arm_fault({.point = "base.lstat", .error = EIO, .nth = nth});
    EXPECT_NE(said("/a/b/file", Code::kIo), "") << nth;
    base::disarm_faults();
  }
}

TEST(OwnCodePath, IsThisProgramWhateverItWasCalledAs) {
  EXPECT_EQ(own_code_path(), fs::canonical("/proc/self/exe").string());
}

}  // namespace
}  // namespace headrace::os
