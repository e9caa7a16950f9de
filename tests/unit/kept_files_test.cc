// Property: a chunk file that stays open between reads is used only while its name refers to it and it is unchanged.
// Any other case behaves as if it were opened again. Descriptors and memory are released when others need them, and
// with the store.
#include "store/kept_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/store_file/file_store.h"
#include "base/fault.h"
#include "os/descriptors.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace::store {
namespace {

namespace fs = std::filesystem;
using support::pattern;

std::uint64_t hits(const std::string& point) {
  for (const base::FaultCount& count : base::fault_counts()) {
    if (count.point == point) return count.hits;
  }
  return 0;
}

class KeptFilesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    fs::create_directories(dir_ / "root/in");
    write("in/file", 1);
    store_ = open();
  }
  std::shared_ptr<Store> open(StoreOptions options = {}) {
    return open_file_store_with(dir_ / "root", {.kernel_resolves = GetParam(), .store = std::move(options)}).value();
  }
  std::string path(const std::string& key) const { return dir_ / ("root/" + key); }
  void write(const std::string& key, std::uint64_t seed, std::size_t size = 100) {
    ASSERT_TRUE(support::write_file(path(key), pattern(size, seed)));
  }
  // The bytes read from an object, or the code of the error.
  static std::pair<Code, std::vector<std::byte>> read(Store& store, const std::string& key, bool again) {
    ByteSource object;
    const Status status = again ? store.open_for_reuse(key, object) : store.open(key, object);
    if (!status.ok()) return {status.code(), {}};
    std::vector<std::byte> bytes(object.size_bytes());
    EXPECT_TRUE(object.read(0, bytes).ok());
    return {Code::kOk, bytes};
  }
  void keep(const std::string& key) {
    support::wait_until_unchanged();
    expect_kept(key);
  }
  // Opens the file for the first time and expects it to be kept. REQUIRES: it has been unchanged for long enough.
  void expect_kept(const std::string& key) {
    const std::int64_t before = os::Descriptors::of_process().open_now();
    ASSERT_EQ(read(*store_, key, true).first, Code::kOk);
    ASSERT_EQ(os::Descriptors::of_process().open_now(), before + 1) << "not kept";
  }

  support::TempDir dir_;
  std::shared_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Resolver, KeptFilesTest, ::testing::Bool(),
                         [](const auto& kernel) { return kernel.param ? "kernel" : "walk"; });

TEST_P(KeptFilesTest, ALaterOpenTakesOneSystemCall) {
  keep("in/file");
  const std::size_t descriptors = support::open_descriptors();
  const std::uint64_t questions = hits("store_file.fstatat"), fstats = hits("store_file.fstat");
  const std::uint64_t opens = hits("store.openat2") + hits("store.openat");
  ByteSource first, second;
  ASSERT_TRUE(store_->open_for_reuse("in/file", first).ok());
  ASSERT_TRUE(store_->open_for_reuse("in/file", second).ok());
  EXPECT_EQ(first.file().fd, second.file().fd);
  EXPECT_EQ(support::open_descriptors(), descriptors);
  EXPECT_EQ(::fcntl(first.file().fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::fcntl(first.file().fd, F_GETFL) & O_NONBLOCK, 0);
  if (!base::kFaultPointsCompiled) return;
  EXPECT_EQ(hits("store_file.fstatat"), questions + 2);
  EXPECT_EQ(hits("store_file.fstat"), fstats);
  EXPECT_EQ(hits("store.openat2") + hits("store.openat"), opens);
}

// open_for_reuse() must return what open() returns.
TEST_P(KeptFilesTest, ChangesToTheNameOrTheFileAreSeen) {
  const auto away = [&](const std::string& key) { fs::rename(path(key), path(key) + ".old"); };
  // Each change applies to a separate folder with "file" in it.
  using Change = std::function<void(const std::string& in)>;
  const std::pair<const char*, Change> changes[] = {
      {"replaced",
       [&](const std::string& in) {
         write(in + "/new", 2);
         fs::rename(path(in + "/new"), path(in + "/file"));
       }},
      {"rewritten in place",
       [&](const std::string& in) {
         const int fd = ::open(path(in + "/file").c_str(), O_WRONLY | O_CLOEXEC);
         ASSERT_EQ(::pwrite(fd, pattern(100, 3).data(), 100, 0), 100);
         ::close(fd);
       }},
      {"longer", [&](const std::string& in) { fs::resize_file(path(in + "/file"), 200); }},
      {"shorter", [&](const std::string& in) { fs::resize_file(path(in + "/file"), 50); }},
      {"removed", [&](const std::string& in) { fs::remove(path(in + "/file")); }},
      {"moved away", [&](const std::string& in) { away(in + "/file"); }},
      {"its folder moved away", [&](const std::string& in) { away(in); }},
      {"another folder in the place of its own",
       [&](const std::string& in) {
         away(in);
         fs::create_directory(path(in));
         write(in + "/file", 4);
       }},
      {"a folder in its place",
       [&](const std::string& in) {
         away(in + "/file");
         fs::create_directory(path(in + "/file"));
       }},
      {"a FIFO in its place",
       [&](const std::string& in) {
         away(in + "/file");
         ASSERT_EQ(::mkfifo(path(in + "/file").c_str(), 0644), 0);
       }},
      {"a link to where it went",
       [&](const std::string& in) {
         away(in + "/file");
         fs::create_symlink("file.old", path(in + "/file"));
       }},
      {"a link to itself, outside of the root",
       [&](const std::string& in) {
         fs::rename(path(in + "/file"), dir_ / "outside");
         fs::create_symlink("../../outside", path(in + "/file"));
       }},
      {"a link to the unchanged file, whose folder has left the root",
       [&](const std::string& in) {
         fs::rename(path(in), dir_ / "moved");
         fs::create_directory(path(in));
         fs::create_symlink("../../moved/file", path(in + "/file"));
       }},
      {"its folder is a link out of the root",
       [&](const std::string& in) {
         fs::copy(path(in), dir_ / "elsewhere");
         away(in);
         fs::create_symlink("../elsewhere", path(in));
       }},
      {"a link that leads nowhere",
       [&](const std::string& in) {
         fs::remove(path(in + "/file"));
         fs::create_symlink("gone", path(in + "/file"));
       }},
  };
  for (const auto& [name, change] : changes) {
    fs::create_directory(path(name));
    write(std::string(name) + "/file", 1);
  }
  support::wait_until_unchanged();
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    const std::string key = std::string(name) + "/file";
    expect_kept(key);
    change(name);
    for (int time = 0; time < 3; ++time) {
      EXPECT_EQ(read(*store_, key, true), read(*store_, key, false)) << "call " << time;
    }
  }
}

TEST_P(KeptFilesTest, RevokedPermissionsAreErrors) {
  for (const char* key : {"in/file", "in"}) {
    SCOPED_TRACE(key);
    store_ = open();
    keep("in/file");
    // Root can read everything, so the process changes its user for a moment.
    const uid_t user = ::geteuid();
    ASSERT_EQ(::chmod(path(key).c_str(), 0), 0);
    if (user == 0) {
      ASSERT_EQ(::seteuid(65534), 0);
    }
    EXPECT_EQ(read(*store_, "in/file", true).first, Code::kPermission);
    if (user == 0) {
      ASSERT_EQ(::seteuid(0), 0);
    }
    ::chmod(path(key).c_str(), 0755);
  }
}

TEST_P(KeptFilesTest, OpenSourcesKeepTheOldFile) {
  keep("in/file");
  const std::size_t descriptors = support::open_descriptors();
  ByteSource old;
  ASSERT_TRUE(store_->open_for_reuse("in/file", old).ok());
  write("in/new", 2);
  fs::rename(path("in/new"), path("in/file"));
  support::wait_until_unchanged();
  for (int time = 0; time < 2; ++time) EXPECT_EQ(read(*store_, "in/file", true).second, pattern(100, 2));
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(old.read(0, bytes).ok());
  EXPECT_EQ(bytes, pattern(100, 1));
  EXPECT_EQ(support::open_descriptors(), descriptors + 1);
  old.close();
  EXPECT_EQ(support::open_descriptors(), descriptors) << "the old one is closed with its last user";
}

TEST_P(KeptFilesTest, RecentlyChangedFilesAreNotKept) {
  write("in/file", 2);
  const std::size_t descriptors = support::open_descriptors();
  EXPECT_EQ(read(*store_, "in/file", true).second, pattern(100, 2));
  EXPECT_EQ(support::open_descriptors(), descriptors);
}

TEST_P(KeptFilesTest, LargeFilesAreNotKept) {
  const std::size_t descriptors = support::open_descriptors();
  write("in/most", 3, 1 << 20);
  write("in/more", 4, (1 << 20) + 1);
  support::wait_until_unchanged();
  EXPECT_EQ(read(*store_, "in/more", true).second, pattern((1 << 20) + 1, 4));
  EXPECT_EQ(support::open_descriptors(), descriptors);
  EXPECT_EQ(read(*store_, "in/most", true).second, pattern(1 << 20, 3));
  EXPECT_EQ(support::open_descriptors(), descriptors + 1);
}

// Simulates an unknown file system; network file systems and FUSE are treated alike.
TEST_P(KeptFilesTest, NothingIsKeptOnUnknownFileSystems) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  support::wait_until_unchanged();
  const std::size_t descriptors = support::open_descriptors();
  base::arm_fault({.point = "base.filesystem_type", .error = EIO, .forever = true});
  for (int time = 0; time < 2; ++time) EXPECT_EQ(read(*store_, "in/file", true).second, pattern(100, 1));
  base::disarm_faults();
  EXPECT_EQ(support::open_descriptors(), descriptors);
}

TEST_P(KeptFilesTest, TheStoreClosesThemAndReleasesTheirMemory) {
  const std::size_t descriptors = support::open_descriptors();
  const std::int64_t counted = os::Descriptors::of_process().open_now();
  for (int i = 0; i < 700; ++i) write("in/" + std::to_string(i), 1, 8);
  support::wait_until_unchanged();
  const auto budget = std::make_shared<base::MemoryBudget>(std::uint64_t{8} << 20, "option");
  {
    const std::shared_ptr<Store> store = open({.memory = budget});
    for (int i = 0; i < 700; ++i) EXPECT_EQ(read(*store, "in/" + std::to_string(i), true).second, pattern(8, 1));
    EXPECT_GT(budget->used_bytes(), 700u * sizeof(KeptFiles::File));
    EXPECT_GT(support::open_descriptors(), descriptors + 600);
  }
  EXPECT_EQ(budget->used_bytes(), 0u);
  EXPECT_EQ(support::open_descriptors(), descriptors);
  EXPECT_EQ(os::Descriptors::of_process().open_now(), counted);
  // With little memory, none is taken.
  const auto little = std::make_shared<base::MemoryBudget>(std::uint64_t{64} << 10, "option");
  const std::shared_ptr<Store> store = open({.memory = little});
  EXPECT_EQ(read(*store, "in/file", true).second, pattern(100, 1));
  EXPECT_EQ(little->used_bytes(), 0u);
  EXPECT_EQ(support::open_descriptors(), descriptors + 1);  // the root's
}

// Returns 0, or a number for where it failed.
int read_all(Store& store, int count) {
  for (int i = 0; i < count; ++i) {
    ByteSource object;
    if (!os::Descriptors::of_process().room()) return 10;
    if (!store.open_for_reuse(std::to_string(i), object).ok()) return 11;
    std::vector<std::byte> bytes(object.size_bytes());
    if (!object.read(0, bytes).ok() || bytes != pattern(8, static_cast<std::uint64_t>(i))) return 12;
  }
  return 0;
}

class FewKeptFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
    for (int i = 0; i < kCount; ++i) {
      ASSERT_TRUE(support::write_file(dir_ / std::to_string(i), pattern(8, static_cast<std::uint64_t>(i))));
    }
    support::wait_until_unchanged();
  }
  static constexpr int kCount = 300;
  support::TempDir dir_;
};

TEST_F(FewKeptFiles, TakeHalfOfTheLibrarysShareAndAreClosedForOthers) {
  EXPECT_EQ(support::in_child([&] {
              const rlimit limit{64, 64};
              if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
              os::Descriptors& all = os::Descriptors::of_process();
              const std::shared_ptr<Store> first = open_store(dir_.path()).value();
              const std::shared_ptr<Store> second = open_store(dir_.path()).value();
              for (int time = 0; time < 2; ++time) {
                if (const int wrong = read_all(*first, kCount); wrong != 0) return wrong;
                if (const int wrong = read_all(*second, kCount); wrong != 0) return wrong;
                if (all.open_now() != 16) return 20;
              }
              // Other users of descriptors get all of them.
              int others = 0;
              for (; all.room(); ++others) all.opened();
              if (others != 32 || all.open_now() != 32) return 21;
              for (; others > 0; --others) all.closed();
              support::wait_until_unchanged();  // until keeping is tried again
              return read_all(*first, kCount) == 0 && all.open_now() == 16 ? 0 : 22;
            }),
            0);
}

TEST_F(FewKeptFiles, TheLimitIsRaisedForThem) {
  EXPECT_EQ(support::in_child([&] {
              const rlimit limit{64, 2048};
              if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
              const std::shared_ptr<Store> store = open_store(dir_.path()).value();
              if (const int wrong = read_all(*store, kCount); wrong != 0) return wrong;
              return os::Descriptors::of_process().open_now() == kCount ? 0 : 20;
            }),
            0);
}

// A child neither uses nor counts inherited files; the parent is not affected.
TEST_F(FewKeptFiles, AForkedChildOpensItsOwn) {
  auto store = open_store(dir_.path()).value();
  ASSERT_EQ(read_all(*store, kCount), 0);
  const std::size_t descriptors = support::open_descriptors();
  ByteSource used;
  ASSERT_TRUE(store->open_for_reuse("0", used).ok());
  EXPECT_EQ(support::in_child([&] {
              os::Descriptors& all = os::Descriptors::of_process();
              if (all.open_now() != 0) return 1;
              for (int time = 0; time < 2; ++time) {
                if (const int wrong = read_all(*store, kCount); wrong != 0) return wrong;
              }
              if (support::open_descriptors() != descriptors || all.open_now() != 0) return 20;
              all.opened();  // a descriptor of the child's own stays counted
              used.close();
              store.reset();
              if (all.open_now() != 1) return 21;
              return support::open_descriptors() < descriptors - kCount + 20 ? 0 : 22;
            }),
            0);
  std::vector<std::byte> bytes(8);
  EXPECT_TRUE(used.read(0, bytes).ok());
  EXPECT_EQ(bytes, pattern(8, 0));
  EXPECT_EQ(read_all(*store, kCount), 0);
  EXPECT_EQ(support::open_descriptors(), descriptors);
}

// Many threads use the same sets, with more files than room, and a name that changes all the time.
TEST_F(FewKeptFiles, ThreadsShareThem) {
  EXPECT_EQ(support::in_child([&] {
              const rlimit limit{512, 512};
              if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
              const std::shared_ptr<Store> store = open_store(dir_.path()).value();
              std::atomic<int> wrong{0};
              std::atomic<bool> over{false};
              std::vector<std::thread> threads;
              for (int i = 0; i < 8; ++i) {
                threads.emplace_back([&] {
                  while (!over && wrong == 0) {
                    if (const int result = read_all(*store, kCount); result != 0) wrong = result;
                  }
                });
              }
              // Replaces the file by another one with the same bytes.
              for (int round = 0; round < 40 && wrong == 0; ++round) {
                const std::string name = dir_ / std::to_string(round % 3);
                (void)support::write_file(name + ".new", pattern(8, static_cast<std::uint64_t>(round % 3)));
                fs::rename(name + ".new", name);
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
              }
              over = true;
              for (std::thread& thread : threads) thread.join();
              if (wrong != 0) return wrong.load();
              return os::Descriptors::of_process().open_now() <= 128 ? 0 : 20;
            }),
            0);
}

// Eight threads read arrays over the same files while chunks are replaced, removed, truncated and created again: each
// chunk is of one version, absent, or an error.
TEST(KeptChunks, ReadersOfAStoreThatChangesGetWholeChunksOrAnError) {
  const support::TempDir dir;
  constexpr std::uint32_t kChunks = 64, kElements = 512;
  const std::string document =
      R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(kChunks * kElements) +
      R"(],"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
      std::to_string(kElements) + R"(]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,
      "codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})";
  ASSERT_TRUE(support::write_file(dir / "zarr.json", std::as_bytes(std::span(document))));
  fs::create_directory(dir / "c");
  const auto name = [&](std::uint32_t chunk) { return dir / ("c/" + std::to_string(chunk)); };
  const auto write = [&](const std::string& path, std::uint32_t value) {
    const std::vector<std::uint32_t> chunk(kElements, value);
    EXPECT_TRUE(support::write_file(path, std::as_bytes(std::span(chunk))));
  };
  for (std::uint32_t i = 0; i < kChunks; ++i) write(name(i), 1 + i);
  support::wait_until_unchanged();

  const Context context = Context::create({}).value();
  const Array arrays[] = {Array::open(headrace::Store::open(context, dir.path()).value(), "").value(),
                          Array::open(headrace::Store::open(context, dir.path()).value(), "").value()};
  const Device device = Device::open("host").value();
  std::atomic<bool> over{false};
  std::atomic<int> mixed{0}, reads{0}, errors{0};
  // Returns how many chunks could not be read.
  const auto look = [&](const Array& array, std::vector<std::uint32_t>& got) {
    ReadOptions options;
    options.collect_errors = true;
    auto completion = array.read_async({}, {got, {got.size()}}, device, options);
    EXPECT_TRUE(completion.ok()) << completion.status().to_string();
    (void)completion->wait();
    std::vector<bool> failed(kChunks);
    for (const ChunkError& error : completion->errors()) {
      failed[std::stoul(error.key.substr(error.key.rfind('/') + 1))] = true;
    }
    for (std::uint32_t i = 0; i < kChunks; ++i) {
      if (failed[i]) continue;
      const std::uint32_t value = got[i * kElements];
      for (std::uint32_t k = 0; k < kElements; ++k) mixed += got[i * kElements + k] != value ? 1 : 0;
      mixed += value != 0 && value % kChunks != (1 + i) % kChunks ? 1 : 0;
    }
    ++reads;
    const auto count = std::count(failed.begin(), failed.end(), true);
    errors += static_cast<int>(count);
    return count;
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&, i] {
      std::vector<std::uint32_t> got(kChunks * kElements);
      while (!over) (void)look(arrays[i % 2], got);
    });
  }
  std::uint32_t version = 1;
  for (std::uint32_t step = 0; step < 300; ++step) {
    const std::uint32_t chunk = step * 7 % kChunks;
    const std::uint32_t value = ++version * kChunks + 1 + chunk;
    switch (step % 4) {
      case 0:
      case 1:
        write(dir / "new", value);
        fs::rename(dir / "new", name(chunk));
        break;
      case 2:
        fs::remove(name(chunk));
        break;
      default:
        std::error_code gone;
        fs::resize_file(name(chunk), 100, gone);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Once changes have stopped, every reader sees the final state.
  for (std::uint32_t i = 0; i < kChunks; ++i) {
    write(dir / "new", 100'000 * kChunks + 1 + i);
    fs::rename(dir / "new", name(i));
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(reads, 8);
  EXPECT_GT(errors, 0) << "no reader met a truncated chunk";
  for (const Array& array : arrays) {
    std::vector<std::uint32_t> got(kChunks * kElements);
    EXPECT_EQ(look(array, got), 0);
    for (std::uint32_t i = 0; i < kChunks; ++i) ASSERT_EQ(got[i * kElements], 100'000 * kChunks + 1 + i);
  }
}

}  // namespace
}  // namespace headrace::store
