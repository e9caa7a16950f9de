// The engine gds: which library it loads, when "auto" chooses it, and that bytes are right or there is an error,
// whatever the library does. Each test runs in its own process, since a process loads one library and opens its driver
// once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "io/engine.h"
#include "io/request_queue.h"
#include "support/child.h"
#include "support/fake_cufile.h"
#include "support/fake_cufile_process.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using support::built;
using support::fake_file;
using support::FakeCufile;
using support::in_process;
using support::pattern;
using support::use_fake;

constexpr std::size_t kBytes = (std::size_t{3} << 20) + 1234;
constexpr unsigned kNvme = 1u << 4;

Result<std::unique_ptr<io::Engine>> make_gds(const io::EngineOptions& options) {
  return io::make_engine("gds", options);
}
// Engines that do not reach a device use system calls.
Result<std::unique_ptr<io::Engine>> make_gds() {
  io::EngineOptions options;
  options.to_device = true;
  return make_gds(options);
}

struct Scene {
  support::TempDir dir{"."};  // more often on a disk file system than /tmp
  std::vector<std::byte> bytes = pattern(kBytes);
  std::string path = dir / "data";
  Scene() { HOLDS(support::write_file(path, bytes)); }
};

struct QueueRead {
  Status status;
  FileStats stats;
  bool right = false;
};

// Reads the whole file into memory of `device_name`, with a queue that uses O_DIRECT.
QueueRead read_all(const Scene& scene, const char* engine, const char* device_name) {
  QueueRead out;
  ContextOptions options;
  options.threads = 2;
  options.engine = engine;
  auto context = Context::create(options);
  auto device = Device::open(device_name);
  if (!context.ok() || !device.ok()) {
    out.status = context.ok() ? device.status() : context.status();
    return out;
  }
  auto memory = Buffer::allocate(*device, kBytes);
  FileQueueOptions queue_options;
  queue_options.path = Path::kDirect;
  auto queue = FileQueue::create(*context, *device, queue_options);
  auto file = File::open(scene.path);
  if (!memory.ok() || !queue.ok() || !file.ok()) {
    out.status = Status(Code::kInternal, Layer::kIo, "cannot set up");
    return out;
  }
  std::memset(memory->data(), 0x5A, kBytes);  // the CPU can access the memory of simulated devices
  const std::vector<FileRange> ranges = {{0, memory->data(), 12'345},
                                         {12'345, memory->data() + 12'345, kBytes - 12'345 - 7},
                                         {kBytes - 7, memory->data() + kBytes - 7, 7}};
  out.status = queue->read(*file, ranges, 1);
  FileCompletion done;
  if (out.status.ok() && queue->wait({&done, 1}, 1, 20s) == 1) out.status = done.status;
  out.stats = queue->stats();
  out.right = std::memcmp(memory->data(), scene.bytes.data(), kBytes) == 0;
  return out;
}

// ---- Which library ----

TEST(GdsLibrary, NamedLibraryThatCannotBeUsedIsAnErrorThatSaysWhy) {
  struct Case {
    std::string file;
    Code code;
    const char* says;
  };
  support::TempDir dir;
  ASSERT_TRUE(support::write_file(dir / "text", pattern(5000)));
  ASSERT_TRUE(support::write_file(dir / "open", pattern(5000)));
  ASSERT_TRUE(support::write_file(dir / "empty", {}));
  ASSERT_EQ(::mkdir((dir / "folder").c_str(), 0755), 0);
  ASSERT_EQ(::chmod((dir / "open").c_str(), 0777), 0);
  const Case cases[] = {
      {"/no/such/libcufile.so.0", Code::kNotFound, "/no"},
      {"libcufile.so.0", Code::kInvalidArgument, "not an absolute path"},
      {dir / "text", Code::kUnsupported, "cannot be loaded"},
      {dir / "empty", Code::kUnsupported, "cannot be loaded"},
      {dir / "folder", Code::kUnsupported, "cannot be loaded"},
      {dir / "open", Code::kPermission, "may be written by everybody"},
      {built("tests/cufile/incomplete_cufile.so"), Code::kUnsupported, "has no function cuFileWrite"}};
  for (const Case& one : cases) {
    in_process([&] {
      ::setenv("HEADRACE_GDS_LIBRARY", one.file.c_str(), 1);
      for (int round = 0; round < 2; ++round) {
        const auto engine = make_gds();
        HOLDS(!engine.ok());
        HOLDS_FOR(engine.status().to_string(), engine.status().code() == one.code);
        HOLDS_FOR(engine.status().to_string(), engine.status().to_string().find(one.says) != std::string::npos);
        HOLDS(engine.status().message().find("HEADRACE_GDS_LIBRARY") != std::string::npos);
      }
    });
  }
}

TEST(GdsLibrary, NothingIsLoadedFromTheWorkingDirectoryOrByName) {
  support::TempDir dir;
  std::filesystem::copy_file(fake_file(), dir / "libcufile.so.0");
  in_process([&] {
    ::unsetenv("HEADRACE_GDS_LIBRARY");
    ::setenv("LD_LIBRARY_PATH", ".:", 1);
    HOLDS(::chdir(dir.path().c_str()) == 0);
    const auto engine = make_gds();
    HOLDS_FOR(engine.ok() ? "" : engine.status().to_string(),
              engine.ok() || engine.status().to_string().find(dir.path()) == std::string::npos);
    HOLDS(::dlopen((dir / "libcufile.so.0").c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr);
    HOLDS(::dlopen("libcufile.so.0", RTLD_NOW | RTLD_NOLOAD) == nullptr || engine.ok());
  });
}

TEST(GdsLibrary, HeadracesLibraryIsUsedOnlyByName) {
  const std::string own = std::filesystem::weakly_canonical(built("lib/cufile/libcufile.so.0"));
  in_process([&] {
    ::unsetenv("HEADRACE_GDS_LIBRARY");
    HOLDS(::dlopen(own.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);  // as if preloaded with LD_PRELOAD
    const auto engine = make_gds();
    HOLDS(engine.ok() ? (*engine)->info().features.find(own) == std::string::npos
                      : engine.status().code() != Code::kOk);
  });
  in_process([&] {
    ::setenv("HEADRACE_GDS_LIBRARY", own.c_str(), 1);
    const auto engine = make_gds();
    HOLDS_FOR(engine.status().to_string(), engine.ok());
    HOLDS((*engine)->info().features.find("cuFile 1.15 in " + own + ", compatibility mode") == 0);
  });
}

TEST(GdsLibrary, ADriverThatDoesNotOpenIsReportedOnce) {
  in_process([] {
    FakeCufile& fake = use_fake();
    fake.open_error = 5033;
    for (int round = 0; round < 3; ++round) {
      const auto engine = make_gds();
      HOLDS(engine.status().code() == Code::kUnsupported);
      HOLDS_FOR(engine.status().to_string(), engine.status().message().find("5033 (") != std::string::npos);
    }
    HOLDS(fake.opens == 1);
  });
}

// ---- When it is chosen ----

TEST(GdsChoice, AutoTakesItOnlyForADeviceAndOnlyWhereItIsDirect) {
  struct Case {
    unsigned version, file_systems;
    bool forced, to_device, taken;
    const char* says;
  };
  for (const Case& one :
       {Case{0, 0, false, true, false, "no nvidia-fs"}, Case{0, kNvme, false, true, false, "no nvidia-fs"},
        Case{2, 0, false, true, false, "no file system"}, Case{2, kNvme, true, true, false, "forces it"},
        Case{2, kNvme, false, true, true, ""}, Case{2, kNvme, false, false, false, ""}}) {
    in_process([&] {
      FakeCufile& fake = use_fake();
      fake.nvfs_version = one.version;
      fake.file_systems = one.file_systems;
      fake.forced = one.forced;
      std::string why_not;
      io::EngineOptions options;
      options.to_device = one.to_device;
      auto engine = io::make_engine("auto", options, &why_not);
      HOLDS(engine.ok());
      HOLDS(((*engine)->info().name == "gds") == one.taken);
      HOLDS((*engine)->info().reaches_device_memory == one.taken);
      HOLDS_FOR(why_not, why_not.find(one.says) != std::string::npos);
      HOLDS(one.to_device || fake.opens == 0);
      // By name it works nevertheless, and its info shows that.
      auto named = make_gds(options);
      HOLDS(named.ok());
      const bool direct = one.version != 0 && one.file_systems != 0 && !one.forced;
      HOLDS_FOR((*named)->info().features,
                ((*named)->info().features.find("compatibility mode") == std::string::npos) == direct);
    });
  }
}

TEST(GdsChoice, AForkedChildMustUseAnotherEngine) {
  in_process([] {
    FakeCufile& fake = use_fake();
    HOLDS(make_gds().ok());
    HOLDS(support::in_child([&] {
            const auto engine = make_gds();
            if (engine.status().code() != Code::kForked) return 1;
            if (fake.opens != 1) return 2;
            return io::make_engine("auto", {}).ok() ? 0 : 3;
          }) == 0);
    HOLDS(make_gds().ok());
  });
  // A child may be the first to open it.
  in_process([] {
    use_fake();
    HOLDS(support::in_child([] { return make_gds().ok() ? 0 : 1; }) == 0);
  });
}

// ---- Handles, buffers, failures ----

io::RequestResult read_once(io::RequestQueue& queue, int fd, std::span<std::byte> into, std::uint64_t offset = 0) {
  const io::Request request{.fd = fd, .offset_bytes = offset, .buffer = into, .tag = 1};
  queue.push({&request, 1});
  io::RequestResult done;
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (queue.wait({&done, 1}, 1s) == 0 && std::chrono::steady_clock::now() < until) {
  }
  return done;
}

TEST(GdsHandles, ADescriptorHasOneWhileRequestsNeedItAndNoneAfterwards) {
  in_process([] {
    FakeCufile& fake = use_fake();
    Scene scene;
    const auto other = pattern(kBytes, 9);
    HOLDS(support::write_file(scene.dir / "other", other));
    auto engine = make_gds({.depth = 16, .threads = 4});
    HOLDS(engine.ok());
    io::RequestQueue queue(**engine, {.piece_bytes = 64 << 10});
    std::vector<std::byte> memory(kBytes);
    int number = -1;
    // A different file under the same descriptor number each time, and a file that is replaced under its name.
    for (int round = 0; round < 20; ++round) {
      const bool first = round % 2 == 0;
      const int fd = ::open((first ? scene.path : scene.dir / "other").c_str(), O_RDONLY | O_CLOEXEC);
      HOLDS(number < 0 || fd == number);
      number = fd;
      const auto done = read_once(queue, fd, memory);
      HOLDS_FOR(done.status.to_string(), done.status.ok() && done.bytes == kBytes);
      HOLDS(memory == (first ? scene.bytes : other));
      HOLDS(fake.handles == 0);  // released before the completion was seen
      ::close(fd);
      if (round == 9) {
        HOLDS(support::write_file(scene.dir / "new", other));
        HOLDS(::rename((scene.dir / "new").c_str(), scene.path.c_str()) == 0);
        scene.bytes = other;
      }
    }
    HOLDS(fake.misuses == 0);
    HOLDS(fake.handles_made < 20 * 49 / 2);  // of 49 pieces each, most share a handle with others
    engine->reset();
  });
}

// cuFile refuses a second handle for a descriptor, but any number of queues may read one file.
TEST(GdsHandles, EnginesShareTheHandleOfADescriptor) {
  in_process([] {
    FakeCufile& fake = use_fake();
    Scene scene;
    const int fd = ::open(scene.path.c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<std::thread> users;
    std::atomic<int> wrong{0};
    for (int user = 0; user < 6; ++user) {
      users.emplace_back([&, user] {
        for (int round = 0; round < 10; ++round) {
          auto engine = make_gds({.depth = 4, .threads = 2});
          io::RequestQueue queue(**engine, {.piece_bytes = 50'000});
          std::vector<std::byte> memory(200'000);
          for (std::uint64_t offset = 0; offset < 1'000'000; offset += 200'000) {
            const auto done = read_once(queue, fd, memory, offset + static_cast<std::uint64_t>(user));
            if (!done.status.ok() ||
                std::memcmp(memory.data(), scene.bytes.data() + offset + user, memory.size()) != 0) {
              ++wrong;
            }
          }
        }
      });
    }
    for (std::thread& user : users) user.join();
    HOLDS(wrong == 0);
    HOLDS(fake.handles == 0 && fake.misuses == 0);
    ::close(fd);
  });
}

TEST(GdsHandles, BuffersAreRegisteredAllOrNone) {
  in_process([] {
    FakeCufile& fake = use_fake();
    Scene scene;
    const int fd = ::open(scene.path.c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<std::byte> one(100'000), two(100'000), three(100'000);
    const std::span<std::byte> all[] = {one, two, three};
    for (const int allowed : {0, 1, 2, 3}) {
      fake.buffers_allowed = allowed;
      fake.registered_reads = 0;
      io::EngineOptions options;
      options.to_device = true;
      auto engine = make_gds(options);
      HOLDS((*engine)->register_buffers(all).ok());
      HOLDS(fake.buffers == (allowed == 3 ? 3 : 0));
      HOLDS_FOR((*engine)->registration(), ((*engine)->registration() == "registered_buffers") == (allowed == 3));
      HOLDS(allowed == 3 || (*engine)->registration().find("5016 (") != std::string::npos);
      {
        io::RequestQueue queue(**engine);
        for (const std::span<std::byte> buffer : all) {
          const auto done = read_once(queue, fd, buffer.subspan(77, 50'000), 1000);
          HOLDS(done.status.ok());
          HOLDS(std::memcmp(buffer.data() + 77, scene.bytes.data() + 1000, 50'000) == 0);
        }
      }
      HOLDS(fake.registered_reads == (allowed == 3 ? 3 : 0));
      engine->reset();
      HOLDS(fake.buffers == 0);
    }
    HOLDS(fake.misuses == 0);
    ::close(fd);
  });
}

TEST(GdsFailures, AreErrnosAndNeverBytes) {
  struct Case {
    long result;
    int error;  // errno left by the library
    int wanted;
  };
  for (const Case& one :
       {Case{-1, EIO, EIO}, Case{-1, 0, EIO}, Case{-1, 5030, EIO}, Case{-1, 5027, EINVAL}, Case{-5008, 0, EINVAL},
        Case{-5016, 5016, ENOMEM}, Case{-5012, 0, EFAULT}, Case{-5050, 0, EIO}, Case{-9999999999L, 0, EIO},
        Case{1L << 40, 0, EIO}, Case{INT64_MIN, 0, EIO}}) {
    in_process([&] {
      FakeCufile& fake = use_fake();
      Scene scene;
      auto engine = make_gds();
      io::RequestQueue queue(**engine);
      const int fd = ::open(scene.path.c_str(), O_RDONLY | O_CLOEXEC);
      std::vector<std::byte> memory(5000);
      fake.read_result = one.result;
      fake.read_errno = one.error;
      auto done = read_once(queue, fd, memory);
      HOLDS(!done.status.ok() && done.bytes == 0);
      HOLDS_FOR(done.status.to_string(), done.status.system_error() == one.wanted);
      HOLDS_FOR((*engine)->registration(),
                one.error >= 5000 || (one.result < -1 && one.result > -6000)
                    ? (*engine)->registration().find("failed last with 50") != std::string::npos
                    : true);
      fake.read_result = 1;
      done = read_once(queue, fd, memory);
      HOLDS(done.status.ok() && std::memcmp(memory.data(), scene.bytes.data(), 5000) == 0);
      fake.halves = true;  // each read is short: the queue continues where it ended
      done = read_once(queue, fd, memory, 13);
      HOLDS(done.status.ok() && std::memcmp(memory.data(), scene.bytes.data() + 13, 5000) == 0);
      done = read_once(queue, fd, memory, kBytes - 10);
      HOLDS(done.status.code() == Code::kShort);
      fake.handle_error = 5027;
      done = read_once(queue, fd, memory);
      HOLDS(done.status.system_error() == EINVAL);
      HOLDS(fake.handles == 0 && fake.misuses == 0);
      ::close(fd);
    });
  }
}

// ---- Reads into a device's memory ----

bool direct_works(const Scene& scene) {
  const int fd = ::open(scene.path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

TEST(GdsQueue, DirectReadsSkipHostMemory) {
  if (Scene scene; !direct_works(scene)) GTEST_SKIP() << "this file system refuses O_DIRECT";
  for (const char* engine : {"auto", "gds"}) {
    for (const char* device : {"host-staged", "host"}) {
      in_process([&] {
        FakeCufile& fake = use_fake();
        fake.nvfs_version = 2;
        fake.file_systems = kNvme;
        Scene scene;
        const QueueRead read = read_all(scene, engine, device);
        HOLDS_FOR(read.status.to_string(), read.status.ok());
        HOLDS(read.right);
        const bool staged = std::strcmp(device, "host-staged") == 0;
        HOLDS_FOR(std::to_string(read.stats.straight_bytes), read.stats.straight_bytes == (staged ? kBytes : 0));
        HOLDS_FOR(std::to_string(read.stats.direct_bytes), read.stats.direct_bytes >= kBytes);
        HOLDS(!staged || read.stats.waves == 0);
        HOLDS(!staged || read.stats.bus_bytes == kBytes);
        HOLDS_FOR(read.stats.engine, (read.stats.engine == "gds") == (staged || std::strcmp(engine, "gds") == 0));
        HOLDS(fake.handles == 0 && fake.misuses == 0);
      });
    }
  }
}

TEST(GdsQueue, CompatibilityModeIsUsedOnlyByNameAndSaysSo) {
  if (Scene scene; !direct_works(scene)) GTEST_SKIP() << "this file system refuses O_DIRECT";
  for (const std::string& library :
       {fake_file(), std::string(std::filesystem::weakly_canonical(built("lib/cufile/libcufile.so.0")))}) {
    in_process([&] {
      ::setenv("HEADRACE_GDS_LIBRARY", library.c_str(), 1);
      Scene scene;
      for (const char* device : {"host-staged", "host"}) {
        const bool staged = std::strcmp(device, "host-staged") == 0;
        QueueRead read = read_all(scene, "auto", device);
        HOLDS(read.status.ok() && read.right);
        HOLDS(read.stats.straight_bytes == 0 && read.stats.engine != "gds");
        HOLDS_FOR(read.stats.notes, !staged || read.stats.notes.find("gds: ") != std::string::npos);
        read = read_all(scene, "gds", device);
        HOLDS_FOR(read.status.to_string(), read.status.ok());
        HOLDS(read.right && read.stats.engine == "gds");
        HOLDS(read.stats.straight_bytes == (staged ? kBytes : 0));
      }
    });
  }
}

TEST(GdsQueue, RefusedRequestsGoThroughHostMemory) {
  if (Scene scene; !direct_works(scene)) GTEST_SKIP() << "this file system refuses O_DIRECT";
  struct Case {
    long result;
    int error, handle_error, times;
    bool right;
  };
  for (const Case& one : {Case{-5036, 0, 0, 1, true}, Case{-5030, 0, 0, 2, true}, Case{-1, EIO, 0, 1, true},
                          Case{-1, EIO, 0, -1, false}, Case{1, 0, 5027, 0, true}, Case{1, 0, 5028, 0, false}}) {
    in_process([&] {
      FakeCufile& fake = use_fake();
      Scene scene;
      fake.read_result = one.result;
      fake.read_errno = one.error;
      fake.reads_to_fail = one.times;
      fake.handle_error = one.handle_error;
      const QueueRead read = read_all(scene, "gds", "host-staged");
      HOLDS_FOR(read.status.to_string(), read.status.ok() == one.right);
      HOLDS(read.right || !one.right);
      HOLDS_FOR(read.stats.notes,
                read.stats.notes.find("direct reads into device memory are disabled") != std::string::npos);
      HOLDS(fake.handles == 0 && fake.misuses == 0);
    });
  }
}

TEST(GdsQueue, ShortFilesAreErrors) {
  if (Scene scene; !direct_works(scene)) GTEST_SKIP() << "this file system refuses O_DIRECT";
  in_process([] {
    use_fake();
    Scene scene;
    HOLDS(::truncate(scene.path.c_str(), kBytes - 5) == 0);
    const QueueRead read = read_all(scene, "gds", "host-staged");
    HOLDS_FOR(read.status.to_string(), read.status.code() == Code::kShort);
  });
}

}  // namespace
}  // namespace headrace
