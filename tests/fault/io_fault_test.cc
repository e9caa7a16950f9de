// Every fault point of the engines and of the file store fails in every way. The result is the right bytes or an error
// that names the place; there are no wrong bytes, hangs or leaked descriptors. A point that no run hits is a failure.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "backends/store_file/file_store.h"
#include "base/fault.h"
#include "io/engine.h"
#include "io/request_queue.h"
#include "store/file_offers.h"
#include "store/store.h"
#include "support/fault_scan.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using support::pattern;

class EngineFaults : public ::testing::TestWithParam<io::EngineRow> {};

TEST_P(EngineFaults, RightBytesOrAnErrorThatSaysWhere) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  if (auto engine = GetParam().make({}); !engine.ok()) GTEST_SKIP() << engine.status().to_string();
  support::TempDir dir;
  constexpr std::size_t kFile = 300'000;
  const auto content = pattern(kFile), fresh = pattern(50'000, 3);
  ASSERT_TRUE(support::write_file(dir / "read", content));
  ASSERT_TRUE(support::write_file(dir / "write", pattern(50'000, 4)));
  const std::string name = GetParam().name;
  support::fail_everywhere({(name.starts_with("io_") ? name : "io_" + name) + "."}, [&](bool faulty) {
    const int in = ::open((dir / "read").c_str(), O_RDONLY | O_CLOEXEC);
    const int out = ::open((dir / "write").c_str(), O_RDWR | O_CLOEXEC);
    std::vector<std::byte> buffer(12 * 20'000, std::byte{0xEE});
    for (const int way : {0, 1, 2}) {
      io::EngineOptions options{.depth = 8, .threads = 2};
      const bool one_thread = options.one_thread = way == 1;
      options.to_device = way == 2;
      if (options.to_device && !GetParam().reaches_device_memory) continue;
      auto engine = GetParam().make(options);
      if (engine.ok()) {
        const std::span<std::byte> buffers[] = {buffer};
        const bool late = one_thread && (*engine)->info().registers_late;  // while requests are in flight
        if (!late) {
          EXPECT_TRUE((*engine)->register_buffers(buffers).ok());
        }
        io::RequestQueue queue(**engine, {.piece_bytes = 8192, .backoff = 10us});
        std::vector<std::byte> data = fresh;
        std::vector<io::Request> requests;
        for (std::uint64_t i = 0; i < 12; ++i) {
          requests.push_back({.fd = in,
                              .offset_bytes = i * 23'456,
                              .buffer = std::span(buffer).subspan(i * 20'000, 20'000),
                              .tag = i});
        }
        requests.push_back({.op = io::Op::kWrite, .fd = out, .buffer = data, .tag = 12});
        queue.push(requests);
        if (late) {
          EXPECT_TRUE((*engine)->register_buffers(buffers).ok());
        }
        std::vector<int> completions(13);
        const auto until = std::chrono::steady_clock::now() + 20s;
        while (queue.pending() > 0 && std::chrono::steady_clock::now() < until) {
          io::RequestResult done[4];
          const std::size_t n = queue.wait(done, 100ms);
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_LT(done[i].tag, 13u);
            ++completions[done[i].tag];
            const auto& request = requests[done[i].tag];
            if (done[i].status.ok()) {
              EXPECT_EQ(done[i].bytes, request.buffer.size());
              if (request.op == io::Op::kRead) {
                EXPECT_EQ(
                    std::memcmp(request.buffer.data(), content.data() + request.offset_bytes, request.buffer.size()),
                    0);
              } else {
                std::vector<std::byte> back(data.size());
                EXPECT_EQ(::pread(out, back.data(), back.size(), 0), static_cast<ssize_t>(back.size()));
                EXPECT_EQ(back, fresh);
              }
            } else {
              EXPECT_TRUE(faulty) << done[i].status.to_string();
              EXPECT_TRUE(done[i].status.offset().has_value()) << done[i].status.to_string();
              EXPECT_GE(done[i].status.offset().value_or(0), request.offset_bytes);
            }
            if (request.op == io::Op::kRead) std::memset(request.buffer.data(), 0x5A, request.buffer.size());
          }
        }
        EXPECT_EQ(queue.pending(), 0u) << "requests never ended";
        for (const int n : completions) EXPECT_EQ(n, 1);
        if (queue.pending() == 0) {
          io::EngineResult event;
          (*engine)->wake();
          EXPECT_TRUE((*engine)->reap({&event, 1}, 1ms).ok() || faulty);
        }
      } else {
        EXPECT_TRUE(faulty) << engine.status().to_string();
        EXPECT_FALSE(engine.status().message().empty());
      }
    }
    for (const std::byte b : buffer) {
      if (b != std::byte{0x5A} && b != std::byte{0xEE}) {
        ADD_FAILURE() << "a buffer was written to after its completion";
        break;
      }
    }
    ::close(in);
    ::close(out);
  });
}

INSTANTIATE_TEST_SUITE_P(Engine, EngineFaults, ::testing::ValuesIn(io::engines().begin(), io::engines().end()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(FileStoreFaults, RightBytesOrAnErrorThatNamesTheKey) {
  if (!base::kFaultPointsCompiled) GTEST_SKIP() << "fault points are not compiled in";
  const auto old_bytes = pattern(10'000, 1), new_bytes = pattern(12'000, 2);
  support::TempDir settled;  // files old enough to be kept open
  ASSERT_TRUE(support::write_file(settled / "chunk", old_bytes));
  support::wait_until_unchanged();
  support::fail_everywhere({"store_file.", "store.openat"}, [&](bool faulty) {
    for (const bool kernel : {true, false}) {
      // Set-up and verification run without faults; only the calls in between meet them.
      support::TempDir dir;
      ASSERT_EQ(::mkdir((dir / "a").c_str(), 0755), 0);
      ASSERT_TRUE(support::write_file(dir / "a/old", old_bytes));
      ASSERT_TRUE(support::write_file(dir / "a/replaced", old_bytes));
      ASSERT_EQ(::symlink("a", (dir / "link").c_str()), 0);
      const auto blame = [&](const Status& status, const char* key) {
        EXPECT_TRUE(faulty) << status.to_string();
        EXPECT_EQ(status.key(), key) << status.to_string();
        EXPECT_NE(status.code(), Code::kNotFound) << status.to_string();
      };
      auto opened = store::open_file_store_with(dir.path(), {.kernel_resolves = kernel});
      if (!opened.ok()) {
        blame(opened.status(), dir.path().c_str());
        continue;
      }
      store::Store& store = **opened;
      for (const char* key : {"a/old", "link/old"}) {
        const auto got = store.get(key, 100'000);
        if (got.ok()) {
          EXPECT_EQ(*got, old_bytes);
        } else {
          blame(got.status(), key);
        }
      }
      store::ByteSource object;
      if (const Status status = store.open("a/old", object); status.ok()) {
        EXPECT_EQ(object.size_bytes(), old_bytes.size());
        if (auto direct = store.files()->open_direct("a/old", object); direct.ok()) {
          ::close(*direct);
        } else if (direct.status().code() != Code::kUnsupported) {
          blame(direct.status(), "a/old");
        }
      } else {
        blame(status, "a/old");
      }
      object.close();
      if (auto chunks = store::open_file_store_with(settled.path(), {.kernel_resolves = kernel}); chunks.ok()) {
        for (int time = 0; time < 2; ++time) {
          store::ByteSource chunk;
          std::vector<std::byte> got(old_bytes.size());
          const Status status = (*chunks)->open_for_reuse("chunk", chunk);
          if (!status.ok()) {
            blame(status, "chunk");
            continue;
          }
          EXPECT_EQ(chunk.size_bytes(), got.size());
          EXPECT_TRUE(chunk.read(0, got).ok());
          EXPECT_EQ(got, old_bytes);
        }
      } else {
        blame(chunks.status(), settled.path().c_str());
      }
      const auto absent = store.get("a/absent", 100);
      EXPECT_FALSE(absent.ok());
      if (absent.status().code() != Code::kNotFound) blame(absent.status(), "a/absent");
      if (const auto entries = store.list("a"); entries.ok()) {
        EXPECT_EQ(entries->size(), 2u);
      } else {
        blame(entries.status(), "a");
      }
      const Status replaced = store.put("a/replaced", new_bytes);
      if (!replaced.ok()) blame(replaced, "a/replaced");
      const Status added = store.put("new/deep/er", new_bytes);
      if (!added.ok()) blame(added, "new/deep/er");

      auto judge = [&](const std::string& path, bool must_be_new, bool may_be_absent) {
        std::ifstream file(path, std::ios::binary);
        if (!file.good()) {
          EXPECT_TRUE(may_be_absent) << path;
          return;
        }
        const std::string text((std::istreambuf_iterator<char>(file)), {});
        const auto is = [&](const std::vector<std::byte>& bytes) {
          return text.size() == bytes.size() && std::memcmp(text.data(), bytes.data(), bytes.size()) == 0;
        };
        EXPECT_TRUE(is(new_bytes) || (!must_be_new && is(old_bytes))) << path << " is torn";
      };
      judge(dir / "a/replaced", replaced.ok(), false);
      judge(dir / "new/deep/er", added.ok(), !added.ok());
      for (const auto& file : std::filesystem::recursive_directory_iterator(dir.path())) {
        EXPECT_FALSE(file.path().filename().string().starts_with(".headrace-tmp-")) << "left behind: " << file.path();
      }
    }
  });
}

}  // namespace
}  // namespace headrace
