// However few files a process may have open, a read of any number of chunks and shards waits for descriptors instead of
// failing, even next to other reads. The limit is raised only when needed. Files that queues keep open are closed to
// make room, least recently used first, but never files that the program itself has open.
#include "os/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/decode_index.h>
#include <headrace/file.h>
#include <headrace_bench/decode_batch.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/fault.h"
#include "base/json.h"
#include "support/child.h"
#include "support/flat_array.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "support/variable_model.h"

namespace headrace {
namespace {

// HEADRACE_TEST_OBJECTS sets the number of chunks and of shards. Sanitizers make opening a file many times slower.
std::size_t many() {
  const char* const wanted = std::getenv("HEADRACE_TEST_OBJECTS");
  if (wanted != nullptr) return std::strtoull(wanted, nullptr, 10);
  return support::kAddressSanitizer ? 4'000 : 10'000;
}
constexpr std::size_t kElements = 8;  // per object, in both layouts

// Without a descriptor, the check of virtual calls takes every object for unmapped memory.
constexpr const char* kCheckNeedsDescriptors = "UndefinedBehaviorSanitizer looks at objects through a pipe";

std::uint32_t value_at(std::size_t i) { return static_cast<std::uint32_t>(i * 2654435761u + 1); }

// An array of `count` objects of kElements each: chunks, or shards of two chunks whose index has no checksum.
class ManyObjects {
 public:
  ManyObjects(const std::string& path, std::size_t count, bool sharded) : path_(path), count_(count) {
    const std::string codecs = R"([{"name":"bytes","configuration":{"endian":"little"}}])";
    const std::string sharding = R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[4],"codecs":)" +
                                 codecs + R"(,"index_codecs":)" + codecs + R"(,"index_location":"end"}}])";
    const std::string metadata =
        R"({"zarr_format":3,"node_type":"array","shape":[)" + std::to_string(count * kElements) +
        R"(],"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" +
        std::to_string(kElements) + R"(]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":)" +
        (sharded ? sharding : codecs) + "}";
    EXPECT_EQ(::mkdir(path.c_str(), 0777), 0);
    EXPECT_EQ(::mkdir((path + "/c").c_str(), 0777), 0);
    EXPECT_TRUE(support::write_file(path + "/zarr.json", std::as_bytes(std::span(metadata))));
    const int folder = ::open((path + "/c").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::array<std::uint32_t, 2 * kElements> object{};
    const std::array<std::uint64_t, 4> index{0, 16, 16, 16};
    std::memcpy(object.data() + kElements, index.data(), sizeof index);
    const std::size_t bytes = sharded ? sizeof object : sizeof object / 2;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < kElements; ++k) object[k] = value_at(i * kElements + k);
      const int fd = ::openat(folder, std::to_string(i).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      if (::write(fd, object.data(), bytes) != static_cast<ssize_t>(bytes)) ADD_FAILURE() << "cannot write " << i;
      ::close(fd);
    }
    ::close(folder);
  }
  // Drops the files from the page cache; written pages must be clean first.
  void make_cold() const {
    const int folder = ::open((path_ + "/c").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::syncfs(folder);
    for (std::size_t i = 0; i < count_; ++i) {
      const int fd = ::openat(folder, std::to_string(i).c_str(), O_RDONLY | O_CLOEXEC);
      (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
    ::close(folder);
  }
  // Returns 0, or a number for where in the test it failed.
  int read(const Context& context, const char* device_name, int where) const {
    const auto store = Store::open(context, path_);
    if (!store.ok()) return complain(store.status(), where + 1);
    const auto array = Array::open(*store);
    if (!array.ok()) return complain(array.status(), where + 2);
    const auto device = Device::open(device_name);
    if (!device.ok()) return complain(device.status(), where + 3);
    std::vector<std::uint32_t> got(count_ * kElements);
    auto buffer = Buffer::allocate(*device, got.size() * 4);
    if (!buffer.ok()) return complain(buffer.status(), where + 3);
    if (Status status = array->read({}, {*buffer, array->info().dtype, {got.size()}}, *device); !status.ok()) {
      return complain(status, where + 4);
    }
    if (!buffer->copy_to_host(0, reinterpret_cast<std::byte*>(got.data()), got.size() * 4).ok()) return where + 5;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != value_at(i)) return where + 6;
    }
    return 0;
  }
  static int complain(const Status& status, int where) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return where;
  }

 private:
  const std::string path_;
  const std::size_t count_;
};

// Exit status of a child with these limits on open files that runs `body` for at most `seconds`.
int with_limit(rlim_t soft, rlim_t hard, unsigned seconds, const std::function<int()>& body) {
  return support::in_child(
      [&] {
        const rlimit limit{soft, hard};
        return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? body() : 100;
      },
      seconds);
}

rlim_t soft_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

Context small_context() {
  ContextOptions options;
  options.threads = 2;
  return Context::create(options).value();
}

class FewDescriptors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
    ASSERT_TRUE(dir_.ok());
  }
  support::TempDir dir_;
};

TEST_F(FewDescriptors, ColdChunksAndShardsAreReadTogetherBesideMappedReads) {
  const ManyObjects chunks(dir_ / "chunks", many(), false), shards(dir_ / "shards", many(), true);
  const ManyObjects mapped(dir_ / "mapped", 500, false);
  chunks.make_cold();
  shards.make_cold();
  EXPECT_EQ(with_limit(64, 64, 240,
                       [&] {
                         const Context context = small_context();
                         std::atomic<int> first{0}, second{0}, beside{0};
                         std::atomic<bool> over{false};
                         std::thread one([&] { first = chunks.read(context, "host", 10); });
                         std::thread two([&] { second = shards.read(context, "host", 20); });
                         std::thread three([&] {
                           while (!over && beside == 0) beside = mapped.read(context, "host-staged", 30);
                         });
                         one.join();
                         two.join();
                         over = true;
                         three.join();
                         return first != 0 ? first.load() : second != 0 ? second.load() : beside.load();
                       }),
            0);
}

// Functions that read chunks, but not into a tensor.
TEST_F(FewDescriptors, IndicesAndBatchesAreMadeOfColdChunks) {
  const testing::FlatArray layouts[] = {{.layout = testing::Layout::kZstd, .chunks = 300, .chunk_elements = 64},
                                        {.layout = testing::Layout::kShardedZstd, .chunks = 300, .shard_chunks = 2}};
  for (const testing::FlatArray& layout : layouts) {
    const std::string name = layout.sharded() ? "sharded" : "chunks";
    {
      const Context context = small_context();
      const Store store = Store::open(context, dir_.path()).value();
      ASSERT_TRUE(testing::write_flat_array(*Access::impl(store), name, layout).ok());
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / name)) {
      if (!entry.is_regular_file()) continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      ::fsync(fd);
      (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
    EXPECT_EQ(with_limit(64, 64, 120,
                         [&] {
                           const Context context = small_context();
                           const Array array = Array::open(Store::open(context, dir_.path()).value(), name).value();
                           const auto report = build_decode_index(array, dir_ / "indices");
                           if (!report.ok()) return ManyObjects::complain(report.status(), 1);
                           if (report->indexed + report->small != layout.chunks || report->without != 0) return 2;
                           const auto batch = DecodeBatch::load(array, {}, Device::open("host").value());
                           if (!batch.ok()) return ManyObjects::complain(batch.status(), 3);
                           return batch->chunk_count() == layout.chunks ? 0 : 4;
                         }),
              0);
  }
}

// Reads more objects and shards than can be open, with more concurrent reads than descriptors. Each read keeps an
// object open for longer than the timeout after which an open fails if no descriptor is closed.
TEST_F(FewDescriptors, StringsAreReadOfManyChunksAndShards) {
  constexpr std::size_t kObjects = 500;
  testing::Strings elements;
  for (std::size_t i = 0; i < 2 * kObjects; ++i) elements.push_back("string " + std::to_string(i));
  base::Json index = base::Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}});
  index.push_back({{"name", "crc32c"}});
  base::Json sharding = {{"name", "sharding_indexed"}};
  sharding["configuration"] = {{"chunk_shape", {1}},
                               {"codecs", base::Json::array({{{"name", "vlen-utf8"}}})},
                               {"index_codecs", index},
                               {"index_location", "end"}};
  for (const char* name : {"chunks", "shards"}) {
    const Context context = small_context();
    const base::Json codecs = std::string_view(name) == "shards" ? base::Json::array({sharding}) : base::Json(nullptr);
    const base::Json document = testing::v3_strings({2 * kObjects}, {2}, codecs);
    std::filesystem::create_directory(dir_ / name);
    const Store store = Store::open(context, dir_ / name).value();
    ASSERT_TRUE(Access::impl(store)->put("zarr.json", testing::to_bytes(document.dump())).ok());
    testing::store_chunks(*Access::impl(store), document, elements, "");
  }
  const auto read_at_once = [&](int readers, const char* selection) {
    const Context context = small_context();
    std::vector<Array> arrays;
    for (const char* name : {"chunks", "shards"}) {
      arrays.push_back(Array::open(Store::open(context, dir_ / name).value()).value());
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < readers; ++i) {
      threads.emplace_back([&, i] {
        const auto result = arrays[i % 4 == 3].read_variable(parse_selection(selection).value());
        if (!result.ok()) {
          wrong = ManyObjects::complain(result.status(), 10 + i);
          return;
        }
        const testing::Strings wanted(elements.begin(), elements.begin() + static_cast<long>(result->size()));
        if (testing::elements_of(*result) != wanted) wrong = 20;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong.load();
  };
  EXPECT_EQ(with_limit(64, 64, 120, [&] { return read_at_once(4, ""); }), 0);
  if (!base::kFaultPointsCompiled || support::kAddressSanitizer) return;  // see kCheckNeedsDescriptors
  EXPECT_EQ(with_limit(64, 64, 120,
                       [&] {
                         base::arm_delay("transfer.decode", std::chrono::milliseconds(400));
                         return read_at_once(90, "0:4");
                       }),
            0);
}

TEST_F(FewDescriptors, ManyReadsAtOnceOnlyWaitForEachOther) {
  if (support::kAddressSanitizer) GTEST_SKIP() << kCheckNeedsDescriptors;
  const ManyObjects chunks(dir_ / "chunks", 600, false), shards(dir_ / "shards", 600, true);
  EXPECT_EQ(with_limit(64, 64, 120,
                       [&] {
                         const Context context = small_context();
                         std::atomic<int> wrong{0};
                         std::vector<std::thread> readers;
                         for (int i = 0; i < 24; ++i) {
                           readers.emplace_back([&, i] {
                             for (int round = 0; round < 3 && wrong == 0; ++round) {
                               const ManyObjects& what = i % 2 == 0 ? chunks : shards;
                               const int result = what.read(context, i % 3 == 0 ? "host-staged" : "host", 10);
                               if (result != 0) wrong = result;
                             }
                           });
                         }
                         for (std::thread& reader : readers) reader.join();
                         return wrong.load();
                       }),
            0);
}

TEST_F(FewDescriptors, TheLimitIsRaisedWhenItIsNeeded) {
  const ManyObjects few(dir_ / "few", 4, true), many(dir_ / "many", 1'000, true);
  EXPECT_EQ(with_limit(64, 512, 60,
                       [&] {
                         const Context context = small_context();
                         if (const int result = few.read(context, "host", 10); result != 0) return result;
                         if (soft_limit() != 64) return 1;
                         if (const int result = many.read(context, "host", 20); result != 0) return result;
                         return soft_limit() == 512 ? 0 : 2;
                       }),
            0);
}

// The program itself has opened nearly all descriptors, or all.
TEST_F(FewDescriptors, WhatTheProgramLeavesIsEnough) {
  if (support::kAddressSanitizer) GTEST_SKIP() << kCheckNeedsDescriptors;
  const ManyObjects shards(dir_ / "shards", 300, true), chunks(dir_ / "chunks", 300, false);
  EXPECT_EQ(with_limit(128, 128, 60,
                       [&] {
                         const Context context = small_context();
                         std::vector<int> taken;
                         for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
                         for (int i = 0; i < 6; ++i) {
                           ::close(taken.back());
                           taken.pop_back();
                         }
                         if (const int result = shards.read(context, "host", 10); result != 0) return result;
                         return chunks.read(context, "host", 20);
                       }),
            0);
  EXPECT_EQ(with_limit(128, 128, 60,
                       [&] {
                         const Context context = small_context();
                         const auto store = Store::open(context, dir_ / "chunks");
                         const auto array = Array::open(*store);
                         const auto device = Device::open("host");
                         while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
                         }
                         std::vector<std::uint32_t> got(300 * kElements);
                         const Status status = array->read({}, {got, {got.size()}}, *device);
                         return status.code() == Code::kResourceExhausted ? 0 : ManyObjects::complain(status, 1);
                       }),
            0);
}

// Waits longer than the timeout, as long as others keep closing files.
TEST_F(FewDescriptors, AnOpenWaitsWhileOthersCloseFiles) {
  EXPECT_EQ(with_limit(16, 16, 20,
                       [] {
                         os::Descriptors& all = os::Descriptors::of_process();
                         for (int i = 0; i < 2; ++i) all.opened();
                         const auto start = std::chrono::steady_clock::now();
                         const auto since = [&] { return std::chrono::steady_clock::now() - start; };
                         const auto open = [&](std::chrono::milliseconds shortage) {
                           return [&since, shortage] { return since() < shortage ? -EMFILE : 7; };
                         };
                         std::atomic<bool> over{false};
                         std::thread others([&] {
                           while (!over) {
                             all.opened();
                             all.closed();
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                           }
                         });
                         const int got = os::open_patiently(open(std::chrono::milliseconds(1500)));
                         over = true;
                         others.join();
                         if (got != 7) return 1;
                         return os::open_patiently(open(std::chrono::milliseconds(10'000))) == -EMFILE ? 0 : 2;
                       }),
            0);
}

// Two threads run out of descriptors at the same time: one raises the limit, the other must notice.
TEST_F(FewDescriptors, AnOpenUsesALimitRaisedByAnotherThread) {
  EXPECT_EQ(with_limit(16, 64, 20,
                       [] {
                         os::Descriptors& all = os::Descriptors::of_process();
                         int calls = 0;
                         const int got = os::open_patiently([&] {
                           if (++calls > 1) return 7;
                           const bool raised = all.refused(all.limit_raises());
                           return raised && soft_limit() == 64 ? -EMFILE : -EINVAL;
                         });
                         return got == 7 ? 0 : 1;
                       }),
            0);
}

// A folder, a ZIP file (whose first bytes are read before it is opened as one) and references.
TEST_F(FewDescriptors, OpeningAStoreWaitsWhileOthersCloseSome) {
  if (support::kAddressSanitizer) GTEST_SKIP() << kCheckNeedsDescriptors;
  const std::array<std::uint8_t, 22> no_entries{'P', 'K', 5, 6};
  ASSERT_TRUE(support::write_file(dir_ / "store.zip", std::as_bytes(std::span(no_entries))));
  ASSERT_TRUE(support::write_file(dir_ / "refs.json", std::as_bytes(std::span(std::string_view("{}")))));
  for (const std::string& url : {dir_.path(), dir_ / "store.zip", "reference://" + (dir_ / "refs.json")}) {
    EXPECT_EQ(with_limit(64, 64, 60,
                         [&] {
                           const Context context = small_context();
                           os::Descriptors& all = os::Descriptors::of_process();
                           std::vector<int> taken;
                           for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
                           for (std::size_t i = 0; i < taken.size(); ++i) all.opened();
                           std::thread others([&] {
                             std::this_thread::sleep_for(std::chrono::milliseconds(100));
                             for (const int fd : taken) {
                               ::close(fd);
                               all.closed();
                             }
                           });
                           const auto store = Store::open(context, url);
                           others.join();
                           return store.ok() ? 0 : ManyObjects::complain(store.status(), 1);
                         }),
              0)
        << url;
  }
}

// Files of a few bytes, read by queues.
class QueuedFiles {
 public:
  static constexpr std::size_t kBytes = 100;
  QueuedFiles(std::string folder, std::size_t count) : folder_(std::move(folder)) {
    EXPECT_EQ(::mkdir(folder_.c_str(), 0777), 0);
    for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(support::write_file(name(i), support::pattern(kBytes)));
  }
  std::string name(std::size_t i) const { return folder_ + "/" + std::to_string(i); }
  static FileQueue queue(const Context& context) {
    FileQueueOptions options;
    options.path = Path::kBuffered;
    options.staging_bytes = std::size_t{4} << 20;
    return FileQueue::create(context, Device::open("host").value(), options).value();
  }
  static bool read(FileQueue& queue, const File& file) {
    std::vector<std::byte> got(kBytes);
    const FileRange range{0, got.data(), got.size()};
    FileCompletion done;
    if (!queue.read(file, {&range, 1}, 0).ok() || queue.wait({&done, 1}) != 1) return false;
    if (!done.status.ok()) std::fprintf(stderr, "%s\n", done.status.to_string().c_str());
    return done.status.ok() && got == support::pattern(kBytes);
  }
  // Opens a file, reads it and closes it.
  bool read(FileQueue& queue, std::size_t i) const {
    const auto file = File::open(name(i));
    if (!file.ok()) std::fprintf(stderr, "%s\n", file.status().to_string().c_str());
    return file.ok() && read(queue, *file);
  }
  // The numbers of the files that this process has open, in order.
  std::string open_ones(std::size_t count) const {
    std::vector<bool> open(count);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      for (std::size_t i = 0; i < count; ++i) open[i] = open[i] || target == name(i);
    }
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += open[i] ? std::to_string(i) : "";
    return text;
  }

 private:
  const std::string folder_;
};

TEST_F(FewDescriptors, FilesThatQueuesKeepAreClosedForOthers) {
  constexpr std::size_t kQueues = 6, kFiles = 16;  // as many files as a queue keeps open
  const QueuedFiles files(dir_ / "files", kQueues * kFiles);
  const ManyObjects chunks(dir_ / "chunks", 300, false);
  EXPECT_EQ(with_limit(64, 64, 60,
                       [&] {
                         const Context context = small_context();
                         const File own = File::open(files.name(0)).value();
                         std::vector<FileQueue> queues;
                         for (std::size_t q = 0; q < kQueues; ++q) {
                           queues.push_back(QueuedFiles::queue(context));
                           if (!QueuedFiles::read(queues[q], own)) return 1;
                           for (std::size_t i = 0; i < kFiles; ++i) {
                             if (!files.read(queues[q], q * kFiles + i)) return 2;
                           }
                         }
                         // Half of the descriptors are left for the program.
                         if (os::Descriptors::of_process().open_now() > 32) return 3;
                         for (int i = 0; i < 16; ++i) {
                           if (::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) return 4;
                         }
                         if (const int result = chunks.read(context, "host", 10); result != 0) return result;
                         if (files.open_ones(1) != "0" || !own.size_bytes().ok()) return 5;
                         return QueuedFiles::read(queues[0], own) ? 0 : 6;
                       }),
            0);
}

TEST_F(FewDescriptors, QueuesCloseOnlyReleasedFilesLeastRecentlyUsedFirst) {
  constexpr std::size_t kFiles = 5;
  const QueuedFiles files(dir_ / "files", kFiles);
  EXPECT_EQ(with_limit(64, 64, 60,
                       [&] {
                         const Context context = small_context();
                         FileQueue one = QueuedFiles::queue(context), other = QueuedFiles::queue(context);
                         os::Descriptors& all = os::Descriptors::of_process();
                         const auto before = all.open_now();
                         // Each descriptor that is wanted takes the place of a kept file.
                         const auto want = [&] {
                           if (!all.room()) return std::string("no room");
                           all.opened();
                           return files.open_ones(kFiles);
                         };
                         {
                           const File own = File::open(files.name(0)).value(), both = File::open(files.name(2)).value();
                           if (!QueuedFiles::read(one, own) || !files.read(other, 1)) return 1;
                           if (!QueuedFiles::read(one, both) || !files.read(one, 3) || !files.read(other, 4)) return 2;
                           if (!QueuedFiles::read(other, both) || !QueuedFiles::read(one, both)) return 3;
                           if (all.open_now() != before + 3) return 4;  // 1, 3 and 4
                           while (all.open_now() < 32) all.opened();
                           if (want() != "0234" || want() != "024" || want() != "02") return 5;
                           if (want() != "no room" || files.open_ones(kFiles) != "02") return 6;
                           if (!QueuedFiles::read(one, own)) return 7;
                           all.closed();
                         }
                         // The program's files are kept by the queues only, and there is room for one descriptor.
                         return files.open_ones(kFiles) == "0" && want() == "" ? 0 : 8;
                       }),
            0);
}

struct Waiter final : os::DescriptorWaiter {
  std::atomic<int> calls{0};
  void descriptor_closed() noexcept override { ++calls; }
};
struct Keeper final : os::DescriptorKeeper {
  os::Descriptors& all;
  std::vector<std::uint64_t> kept;  // times of last use
  explicit Keeper(os::Descriptors& of) : all(of) {}
  std::uint64_t oldest_ns() noexcept override { return kept.empty() ? kNothing : kept.front(); }
  bool close_oldest() noexcept override {
    if (kept.empty()) return false;
    kept.erase(kept.begin());
    all.closed();
    return true;
  }
};

TEST_F(FewDescriptors, LeastRecentlyUsedIsClosedFirstAndWaitersAreCalled) {
  EXPECT_EQ(with_limit(16, 16, 20,
                       [] {
                         os::Descriptors all;  // its share is 8
                         Keeper a(all), b(all);
                         all.add(a);
                         all.add(b);
                         a.kept = {10, 40};
                         b.kept = {20, 30};
                         for (int i = 0; i < 8; ++i) all.opened();
                         const auto take = [&] {
                           if (!all.room()) return false;
                           all.opened();
                           return true;
                         };
                         if (!take() || a.kept.size() != 1) return 1;
                         if (!take() || !take() || !b.kept.empty() || a.kept.size() != 1) return 2;
                         if (!take() || !a.kept.empty() || take()) return 3;
                         const auto waiter = std::make_shared<Waiter>();
                         all.call_when_closed(waiter);
                         if (waiter->calls != 0) return 4;
                         all.closed();
                         if (waiter->calls != 1) return 5;
                         all.call_when_closed(waiter);
                         if (waiter->calls != 2) return 6;  // there is room
                         if (!all.hold() || !all.hold() || all.hold()) return 7;
                         all.end_hold();
                         if (!all.hold()) return 8;
                         all.remove(a);
                         all.remove(b);
                         return 0;
                       }),
            0);
}

}  // namespace
}  // namespace headrace
