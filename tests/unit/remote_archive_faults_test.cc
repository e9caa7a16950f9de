// ZIP files and reference files on servers that lie or change under the same version, archives with damaged
// directories, and processes without memory, descriptors or threads: right bytes, or an error that is no absence.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"
#include "support/byte_store_testing.h"
#include "support/child.h"
#include "support/http_server.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace {
namespace {

using support::pattern;
using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::Objects;
using testing::ObjectService;
using testing::ZipRecord;
using testing::ZipWriter;

store::Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Serves one object under the same version, whatever its bytes are.
class SteadfastServer {
 public:
  explicit SteadfastServer(store::Bytes bytes)
      : bytes_(std::move(bytes)),
        server_([this](HttpWire& wire, const HttpRequest& request) { answer(wire, request); }) {}
  void set(store::Bytes bytes) {
    std::lock_guard lock(mutex_);
    bytes_ = std::move(bytes);
  }
  std::string url() const { return server_.url(); }

  std::atomic<bool> tells_size{true};

 private:
  void answer(HttpWire& wire, const HttpRequest& request) {
    store::Bytes bytes;
    {
      std::lock_guard lock(mutex_);
      bytes = bytes_;
    }
    const std::string range = request.header("range").substr(std::string("bytes=").size());
    std::uint64_t begin = 0, end = bytes.size();
    if (range.starts_with('-')) {
      begin = bytes.size() - std::min<std::uint64_t>(bytes.size(), std::stoull(range.substr(1)));
    } else {
      begin = std::stoull(range);
      end = std::min<std::uint64_t>(end, std::stoull(range.substr(range.find('-') + 1)) + 1);
    }
    const std::string total = tells_size ? std::to_string(bytes.size()) : "*";
    if (begin >= end) {
      return wire.reply("416 Range Not Satisfiable", "ETag: \"same\"\r\nContent-Range: bytes */" + total + "\r\n", "");
    }
    wire.reply("206 Partial Content",
               "ETag: \"same\"\r\nContent-Range: bytes " + std::to_string(begin) + "-" + std::to_string(end - 1) + "/" +
                   total + "\r\n",
               std::string_view(reinterpret_cast<const char*>(bytes.data()) + begin, end - begin));
  }

  std::mutex mutex_;
  store::Bytes bytes_;  // guarded by mutex_
  HttpServer server_;   // last member: its threads end first
};

class RemoteArchiveFaults : public testing::ByteStoreTest {
 protected:
  void SetUp() override {
    if (testing::remote_stores_under_test().empty()) GTEST_SKIP() << "this build has no libcurl";
  }
  static std::string name_of(int i) { return "c/" + std::to_string(i); }
  static store::Bytes content_of(int i) { return pattern(700 + 31 * static_cast<std::size_t>(i), i); }
  static store::Bytes archive_of(int entries, bool deflate = false) {
    ZipWriter writer;
    for (int i = 0; i < entries; ++i) writer.add(name_of(i), content_of(i), {.deflate = deflate});
    return writer.finish();
  }
  // An error, but never kNotFound, which would be a fill value.
  static void expect_error(const Result<store::Bytes>& got) {
    EXPECT_FALSE(got.ok());
    EXPECT_NE(got.status().code(), Code::kNotFound) << got.status().to_string();
  }
  static std::string reference(const std::string& values) { return "{\"version\":1,\"refs\":{" + values + "}}"; }
  support::TempDir directory_;
};

TEST_F(RemoteArchiveFaults, TheArchiveChangesUnderTheSameVersion) {
  for (const bool deflate : {false, true}) {
    const store::Bytes whole = archive_of(6, deflate);
    store::Bytes cut(whole.begin(), whole.begin() + 1500), longer = whole, other = whole;
    longer.resize(longer.size() + 1);
    // Bytes of the first entry, and the local header of the second.
    other[100] ^= std::byte{1};
    const std::string second = name_of(1);
    const auto place = std::search(other.begin(), other.end(), reinterpret_cast<const std::byte*>(second.data()),
                                   reinterpret_cast<const std::byte*>(second.data()) + second.size());
    ASSERT_NE(place, other.end());
    *place ^= std::byte{1};
    SteadfastServer server(whole);
    for (const bool read_before : {false, true}) {
      const auto store = store::open_store(server.url() + "/x.zip").value();
      for (int i = 0; i < 6 && read_before; ++i) EXPECT_EQ(store->get(name_of(i), 9000).value(), content_of(i));
      server.set(cut);
      expect_error(store->get(name_of(5), 9000));
      // The end of the archive, with its directory, is not read again.
      server.set(longer);
      const auto from_longer = store->get(name_of(2), 9000);
      if (from_longer.ok()) {
        EXPECT_EQ(*from_longer, content_of(2));
      }
      server.set(other);
      expect_error(store->get(name_of(0), 9000));
      // Once the header has been checked, it is not read again.
      const auto got = store->get(name_of(1), 9000);
      EXPECT_EQ(got.ok(), read_before) << got.status().to_string();
      if (got.ok()) {
        EXPECT_EQ(*got, content_of(1));
      }
      EXPECT_EQ(store->get(name_of(3), 9000).value(), content_of(3));
      server.set(whole);
      for (int i = 0; i < 6; ++i) EXPECT_EQ(store->get(name_of(i), 9000).value(), content_of(i));
    }
  }
}

TEST_F(RemoteArchiveFaults, AnswersWithoutTheSize) {
  SteadfastServer server(archive_of(4));
  server.tells_size = false;
  const auto refused = store::open_store(server.url() + "/x.zip").status();
  EXPECT_EQ(refused.code(), Code::kIo) << refused.to_string();
  server.tells_size = true;
  const auto store = store::open_store(server.url() + "/x.zip").value();
  server.tells_size = false;
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(store->get(name_of(i), 9000).value(), content_of(i));
  }
}

// Each damaged directory is refused, or what it leads to has the right bytes.
TEST_F(RemoteArchiveFaults, DamagedDirectories) {
  for (const bool deflate : {false, true}) {
    const store::Bytes whole = archive_of(5, deflate);
    std::size_t directory = whole.size();
    while (directory > 4 && std::memcmp(&whole[directory - 4], "PK\x03\x04", 4) != 0) --directory;
    SteadfastServer server(whole);
    std::mt19937 dice(deflate ? 1 : 2);
    std::size_t opened = 0, right = 0, wrong = 0;
    for (int round = 0; round < 120; ++round) {
      store::Bytes damaged = whole;
      for (unsigned i = 0; i <= dice() % 3; ++i) {
        static constexpr unsigned kValues[] = {0, 1, 0x7f, 0x80, 0xff};
        const std::size_t at = directory + dice() % (whole.size() - directory);
        damaged[at] = static_cast<std::byte>(dice() % 2 == 0 ? kValues[dice() % 5] : dice() % 256);
      }
      server.set(damaged);
      const auto store = store::open_store(server.url() + "/x.zip");
      if (!store.ok()) {
        EXPECT_NE(store.status().code(), Code::kNotFound);
        continue;
      }
      ++opened;
      for (int i = 0; i < 5; ++i) {
        const auto got = (*store)->get(name_of(i), 9000);
        (got.ok() ? right : wrong) += 1;
        if (got.ok()) {
          EXPECT_EQ(*got, content_of(i));
        }
      }
    }
    EXPECT_GT(opened, 0u);
    EXPECT_GT(right, 0u);
    EXPECT_GT(wrong, 0u);
  }
}

TEST_F(RemoteArchiveFaults, AbsurdExtraFields) {
  for (const bool deflate : {false, true}) {
    ZipWriter writer;
    const auto extra_of = [](std::size_t bytes) {
      return [bytes](ZipRecord& record) {
        const auto left = static_cast<std::uint16_t>(bytes - 4);
        record.local_extra =
            std::string("XY") + static_cast<char>(left & 0xff) + static_cast<char>(left >> 8) + std::string(left, 'x');
      };
    };
    writer.add("longest", content_of(1), {.deflate = deflate, .change = extra_of(65'535)});
    writer.add("empty", {}, {.change = extra_of(60'000)});
    writer.add("plain", content_of(2), {.deflate = deflate});
    store::Bytes archive = writer.finish();
    SteadfastServer server(archive);
    auto store = store::open_store(server.url() + "/x.zip").value();
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_EQ(store->get("longest", 9000).value(), content_of(1));
      EXPECT_EQ(store->get("empty", 9000).value(), store::Bytes());
      EXPECT_EQ(store->get("plain", 9000).value(), content_of(2));
    }
    // The last entry's header claims the longest extra field, which the archive does not have room for.
    std::size_t header = archive.size();
    while (std::memcmp(&archive[header - 4], "PK\x03\x04", 4) != 0) --header;
    archive[header - 4 + 28] = archive[header - 4 + 29] = std::byte{0xff};
    server.set(archive);
    store = store::open_store(server.url() + "/x.zip").value();
    EXPECT_EQ(store->get("plain", 9000).status().code(), Code::kCorrupt);
    EXPECT_EQ(store->get("longest", 9000).value(), content_of(1));
  }
}

TEST_F(RemoteArchiveFaults, SmallBudgets) {
  for (const bool deflate : {false, true}) {
    SteadfastServer server(archive_of(40, deflate));
    std::size_t opened = 0, refused = 0;
    for (std::uint64_t bytes = 16; bytes < 4 << 20; bytes *= 2) {
      const auto budget = std::make_shared<base::MemoryBudget>(bytes, "an option");
      {
        const auto store = store::open_store(server.url() + "/x.zip", {budget});
        if (!store.ok()) {
          EXPECT_EQ(store.status().code(), Code::kResourceExhausted) << store.status().to_string();
          ++refused;
          continue;
        }
        ++opened;
        for (int i = 0; i < 40; i += 3) EXPECT_EQ((*store)->get(name_of(i), 9000).value(), content_of(i));
        EXPECT_LE(budget->used_bytes(), bytes);
      }
      EXPECT_EQ(budget->used_bytes(), 0u);
    }
    EXPECT_GT(opened, 0u);
    EXPECT_GT(refused, 0u);
  }
}

TEST_F(RemoteArchiveFaults, FewDescriptors) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  SteadfastServer server(archive_of(5));
  const std::string json = reference("\"a\":[\"x.zip\",0,100]");
  HttpServer references{ObjectService({{"r.json", bytes_of(json)}, {"x.zip", archive_of(5)}})};
  EXPECT_EQ(support::in_child([&] {
              const int next = ::dup(0);
              rlimit limit{};
              if (next < 0 || ::close(next) != 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
              const rlimit full = limit;
              const StorageOption once[] = {{"retries", "0"}};
              for (int more = 0; more < 12; more += 2) {
                limit.rlim_cur = static_cast<rlim_t>(next + more);
                if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
                const auto store = store::open_store(server.url() + "/x.zip", {nullptr, once});
                const auto refs = store::open_store("reference://" + references.url() + "/r.json", {nullptr, once});
                for (int i = 0; i < 5 && store.ok(); ++i) {
                  const auto got = (*store)->get(name_of(i), 9000);
                  if (got.ok() ? *got != content_of(i) : got.status().code() == Code::kNotFound) return 3;
                }
                if (refs.ok()) {
                  const auto got = (*refs)->get("a", 100);
                  if (got.ok() ? got->size() != 100 : got.status().code() == Code::kNotFound) return 4;
                }
                if (::setrlimit(RLIMIT_NOFILE, &full) != 0) return 5;
                if (!store.ok() && store.status().code() == Code::kNotFound) return 6;
              }
              const auto store = store::open_store(server.url() + "/x.zip");
              if (!store.ok()) return 7;
              for (int i = 0; i < 5; ++i) {
                const auto got = (*store)->get(name_of(i), 9000);
                if (!got.ok() || *got != content_of(i)) return 8;
              }
              return 0;
            }),
            0);
}

TEST_F(RemoteArchiveFaults, AForkedChildOpensItsOwn) {
  if (support::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork";
  for (const bool deflate : {false, true}) {
    SteadfastServer server(archive_of(5, deflate));
    const std::string json = reference("\"a\":[\"x\",0,100],\"text\":\"hello\"");
    HttpServer references{ObjectService({{"r.json", bytes_of(json)}, {"x", pattern(200)}})};
    auto store = store::open_store(server.url() + "/x.zip").value();
    auto refs_opened = store::open_store("reference://" + references.url() + "/r.json");
    ASSERT_TRUE(refs_opened.ok()) << refs_opened.status().to_string();
    auto refs = std::move(refs_opened).value();
    EXPECT_EQ(store->get(name_of(0), 9000).value(), content_of(0));
    EXPECT_TRUE(refs->get("a", 100).ok());
    EXPECT_EQ(support::in_child([&] {
                if (store->get(name_of(1), 9000).status().code() != Code::kForked) return 1;
                if (refs->get("a", 100).status().code() != Code::kForked) return 2;
                store.reset();
                refs.reset();
                const auto own = store::open_store(server.url() + "/x.zip");
                if (!own.ok()) return 3;
                const auto got = (*own)->get(name_of(1), 9000);
                return got.ok() && *got == content_of(1) ? 0 : 4;
              }),
              0);
    EXPECT_EQ(store->get(name_of(2), 9000).value(), content_of(2));
    EXPECT_TRUE(refs->get("a", 100).ok());
  }
}

TEST_F(RemoteArchiveFaults, TargetsThatRedirect) {
  HttpServer other{ObjectService({{"moved/x", pattern(300, 4)}})};
  const ObjectService own(
      {{"d/refs.json", bytes_of(reference("\"moved\":[\"x\",10,20],\"loop\":[\"loop\",0,10],"
                                          "\"clouds\":[\"clouds\",0,10],\"file\":[\"file\",0,10]"))}});
  HttpServer server{[&](HttpWire& wire, const HttpRequest& request) {
    const std::map<std::string, std::string> places = {{"/d/x", other.url() + "/moved/x"},
                                                       {"/d/loop", "/d/loop"},
                                                       {"/d/clouds", "http://[0:0:0:0:0:ffff:a9fe:a9fe]/latest"},
                                                       {"/d/file", "file:///etc/passwd"}};
    const auto found = places.find(request.path);
    if (found == places.end()) return own.answer(wire, request);
    wire.reply("302 Found", "Location: " + found->second + "\r\n", "");
  }};
  const StorageOption given[] = {{"headers.Authorization", "Bearer of-a-test"}};
  const auto store = store::open_store("reference://" + server.url() + "/d/refs.json", {nullptr, given}).value();
  const store::Bytes moved = pattern(300, 4);
  EXPECT_EQ(store->get("moved", 20).value(), store::Bytes(moved.begin() + 10, moved.begin() + 30));
  for (const HttpRequest& request : other.requests()) EXPECT_EQ(request.header("authorization"), "");
  for (const char* const key : {"loop", "clouds", "file"}) expect_error(store->get(key, 10));
}

TEST_F(RemoteArchiveFaults, NamesOfAnyKind) {
  const std::string names[] = {
      "plain", "a b", "100%", "%41", "%2e%2e", "q?x=1", "h#x", "a+b", "\xc3\xa9\xe4\xb8\xad", "~!$&'()*,;=:@"};
  Objects served;
  std::string values;
  for (std::size_t i = 0; i < std::size(names); ++i) {
    served["d/" + names[i]] = pattern(50, i);
    values += "\"k" + std::to_string(i) + "/" + names[i] + "\":[\"" + names[i] + "\",0,50],";
  }
  // The same target under many names, and targets that do not exist.
  values += "\"once\":[\"plain\",0,10]";
  for (int i = 0; i < 5000; ++i) {
    values += ",\"n" + std::to_string(i) + "\":[\"none" + std::to_string(i) + "\",0,1],\"p" + std::to_string(i) +
              "\":[\"plain\"," + std::to_string(i % 40) + ",10]";
  }
  served["d/refs.json"] = bytes_of(reference(values));
  HttpServer server{ObjectService(served)};
  const auto opened = store::open_store("reference://" + server.url() + "/d/refs.json");
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const auto& store = *opened;
  for (std::size_t i = 0; i < std::size(names); ++i) {
    const auto got = store->get("k" + std::to_string(i) + "/" + names[i], 50);
    ASSERT_TRUE(got.ok()) << names[i] << ": " << got.status().to_string();
    EXPECT_EQ(*got, pattern(50, i)) << names[i];
  }
  const store::Bytes plain = pattern(50, 0);
  for (const int i : {0, 17, 4999}) {
    expect_error(store->get("n" + std::to_string(i), 1));
    const auto got = store->get("p" + std::to_string(i), 10).value();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), plain.begin() + i % 40));
  }
  HttpServer doubled{ObjectService({{"refs.json", bytes_of(reference("\"a\":[\"x\",0,1],\"a\":[\"y\",0,1]"))}})};
  EXPECT_EQ(store::open_store("reference://" + doubled.url() + "/refs.json").status().code(), Code::kCorrupt);
}

TEST_F(RemoteArchiveFaults, HugeTemplates) {
  const std::string many(5000, '(');
  const std::string long_text(1 << 20, 'x');
  const std::pair<std::string, Code> cases[] = {
      {R"("templates":{"t":")" + long_text + R"("},"refs":{"a":["{{t}}",0,1]}})", Code::kCorrupt},
      {R"("refs":{"a":["{{)" + many + R"(1}}",0,1]}})", Code::kUnsupported},
      {R"("gen":[{"key":"k{{i}}","url":")" + long_text + R"({{i}}","dimensions":{"i":{"stop":4000000}}}]})",
       Code::kResourceExhausted},
      {R"("gen":[{"key":"k{{i}}","url":"u{{i}}","dimensions":{"i":{"stop":9223372036854775807}}}]})",
       Code::kResourceExhausted},
      {R"("gen":[{"key":"k{{i}}","url":"u","offset":"{{i*9223372036854775807}}",)"
       R"("length":"1","dimensions":{"i":[2]}}]})",
       Code::kCorrupt},
      {R"("gen":[{"key":"k","url":"u","offset":"9223372036854775807","length":"1","dimensions":{"i":[2]}}]})",
       Code::kCorrupt},
  };
  for (const auto& [text, code] : cases) {
    HttpServer server{ObjectService({{"refs.json", bytes_of("{\"version\":1," + text)}})};
    const auto budget = std::make_shared<base::MemoryBudget>(64 << 20, "an option");
    const auto store = store::open_store("reference://" + server.url() + "/refs.json", {budget});
    EXPECT_EQ(store.status().code(), code) << text.substr(0, 80) << ": " << store.status().to_string().substr(0, 300);
    EXPECT_EQ(budget->used_bytes(), 0u);
  }
}

}  // namespace
}  // namespace headrace
