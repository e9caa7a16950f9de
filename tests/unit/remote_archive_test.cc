// ZIP files and reference files on servers: which requests they cost, that an archive is read in one version, and that
// references get no credentials sent anywhere and open no local files.
#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/store.h"
#include "support/byte_store_testing.h"
#include "support/flat_zip.h"
#include "support/http_server.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace {
namespace {

using support::pattern;
using testing::FlatArray;
using testing::HttpRequest;
using testing::HttpServer;
using testing::HttpWire;
using testing::Layout;
using testing::Objects;
using testing::ObjectService;
using testing::ZipRecord;
using testing::ZipWriter;

store::Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A server whose objects may be exchanged.
class ChangingServer {
 public:
  explicit ChangingServer(Objects objects, testing::ObjectStyle style = testing::ObjectStyle::kPlain)
      : style_(style), server_([this](HttpWire& wire, const HttpRequest& request) { answer(wire, request); }) {
    set(std::move(objects));
  }
  void set(Objects objects) {
    std::lock_guard lock(mutex_);
    service_ = std::make_shared<ObjectService>(std::move(objects), style_);
  }
  std::string url() const { return server_.url(); }
  // Requests since the last call.
  std::vector<HttpRequest> asked() {
    const std::vector<HttpRequest> all = server_.requests();
    std::vector<HttpRequest> out(all.begin() + static_cast<std::ptrdiff_t>(seen_), all.end());
    seen_ = all.size();
    return out;
  }

 private:
  void answer(HttpWire& wire, const HttpRequest& request) {
    std::shared_ptr<ObjectService> service;
    {
      std::lock_guard lock(mutex_);
      service = service_;
    }
    service->answer(wire, request);
  }

  const testing::ObjectStyle style_;
  std::mutex mutex_;
  std::shared_ptr<ObjectService> service_;  // guarded by mutex_
  std::size_t seen_ = 0;
  HttpServer server_;  // last member: its threads end first
};

class RemoteArchive : public testing::ByteStoreTest {
 protected:
  void SetUp() override {
    if (testing::remote_stores_under_test().empty()) GTEST_SKIP() << "this build has no libcurl";
  }
  static void expect(const Status& status, Code code, const char* words) {
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.to_string().find(words), std::string::npos) << status.to_string();
  }
  static std::string reference(const std::string& values) { return "{\"version\":1,\"refs\":{" + values + "}}"; }
  support::TempDir directory_;
};

TEST_F(RemoteArchive, AnEntryIsOneRequestOfTheArchivesVersion) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 20, .chunk_elements = 500};
  ChangingServer server({{"d/x.zip", testing::zip_of(content, false)}});
  const Store store = Store::open(context_, server.url() + "/d/x.zip").value();
  std::vector<HttpRequest> asked = server.asked();
  ASSERT_EQ(asked.size(), 1u) << "the end of a short archive has its directory";
  EXPECT_EQ(asked[0].header("range").substr(0, 7), "bytes=-");
  const Array array = Array::open(store).value();
  EXPECT_LE(server.asked().size(), 2u) << "zarr.json, or .zarray and .zattrs; absent documents cost nothing";
  for (int pass = 0; pass < 2; ++pass) {
    const auto out = read(array, content);
    ASSERT_TRUE(out.status.ok()) << out.status.to_string();
    EXPECT_TRUE(out.elements == content.expected());
    asked = server.asked();
    EXPECT_EQ(asked.size(), 20u);
    for (const HttpRequest& request : asked) {
      EXPECT_EQ(request.path, "/d/x.zip");
      EXPECT_FALSE(request.header("if-match").empty());
    }
  }
  const auto listed = store::open_store(server.url() + "/d/x.zip").value();
  (void)server.asked();
  EXPECT_GE(listed->list("")->size(), 2u);
  EXPECT_EQ(listed->get("none", 10).status().code(), Code::kNotFound);
  EXPECT_EQ(listed->list("none").status().code(), Code::kNotFound);
  EXPECT_EQ(listed->put("x", {}).code(), Code::kUnsupported);
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(RemoteArchive, ArraysOfAllLayoutsAreRead) {
  for (const Layout layout : {Layout::kRaw, Layout::kZstd, Layout::kShardedRaw, Layout::kShardedZstd}) {
    for (const bool deflate : {false, true}) {
      SCOPED_TRACE(::testing::Message() << testing::layout_name(layout) << " " << deflate);
      const FlatArray content{.layout = layout, .chunks = 40, .chunk_elements = 700, .shard_chunks = 8};
      ZipWriter writer;
      for (const auto& [key, bytes] : objects_of(content)) writer.add("a b/c/" + key, bytes, {.deflate = deflate});
      ChangingServer server({{"x.zip", writer.finish()}});
      for (const char* const device : {"host", "host-staged"}) {
        const auto store = Store::open(context_, server.url() + "/x.zip/a%20b/c");
        ASSERT_TRUE(store.ok()) << store.status().to_string();
        const Array array = Array::open(*store).value();
        for (const char* const selection : {"", "100:101", "3000:20000:7"}) {
          const auto out = read(array, content, device, selection);
          ASSERT_TRUE(out.status.ok()) << out.status.to_string();
          if (*selection != '\0') continue;
          EXPECT_TRUE(out.elements == content.expected());
        }
      }
      for (const HttpRequest& request : server.asked()) EXPECT_EQ(request.path, "/x.zip");
    }
  }
}

TEST_F(RemoteArchive, ALargeDirectoryTakesTwoRequests) {
  ZipWriter writer;
  for (int i = 0; i < 30'000; ++i) writer.add("c/" + std::to_string(i), pattern(4, static_cast<std::uint64_t>(i)));
  ChangingServer server({{"x.zip", writer.finish()}});
  const auto store = store::open_store(server.url() + "/x.zip").value();
  // A long range may be split among connections.
  const std::vector<HttpRequest> asked = server.asked();
  EXPECT_GE(asked.size(), 2u);
  EXPECT_LE(asked.size(), 6u);
  EXPECT_EQ(*store->get("c/29999", 4), pattern(4, 29'999));
  // Its memory is charged before it is read.
  const auto little = std::make_shared<base::MemoryBudget>(200'000, "an option");
  EXPECT_EQ(store::open_store(server.url() + "/x.zip", {little}).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(little->used_bytes(), 0u);
}

TEST_F(RemoteArchive, ALongLocalHeaderIsReadAgain) {
  ZipWriter writer;
  const std::string unknown("XY\x2c\x01", 4);
  const auto longer = [&](ZipRecord& record) { record.local_extra = unknown + std::string(300, 'x'); };
  writer.add("plain", pattern(5000, 1), {.change = longer});
  writer.add("zip64", pattern(5000, 2), {.zip64 = true, .change = longer});
  ChangingServer server({{"x.zip", writer.finish()}});
  const auto store = store::open_store(server.url() + "/x.zip").value();
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(*store->get("plain", 5000), pattern(5000, 1));
    EXPECT_EQ(*store->get("zip64", 5000), pattern(5000, 2));
  }
  const std::size_t asked = server.asked().size();
  EXPECT_GE(asked, 5u);
  EXPECT_LE(asked, 8u);
  // Without memory for both, headers are read before the bytes.
  const auto little = std::make_shared<base::MemoryBudget>(1'100'000, "an option");
  const auto poor = store::open_store(server.url() + "/x.zip", {little}).value();
  ASSERT_TRUE(little->take(little->limit_bytes() - little->used_bytes() - 100));
  EXPECT_EQ(*poor->get("plain", 5000), pattern(5000, 1));
  EXPECT_EQ(*poor->get("zip64", 5000), pattern(5000, 2));
}

TEST_F(RemoteArchive, AReplacedOrRemovedArchiveIsAnErrorAndNoFillValue) {
  for (const bool deflate : {false, true}) {
    const FlatArray content{.chunks = 6, .chunk_elements = 500};
    ChangingServer server({{"x.zip", testing::zip_of(content, deflate)}});
    const Array array = Array::open(Store::open(context_, server.url() + "/x.zip").value()).value();
    ASSERT_TRUE(read(array, content).status.ok());
    const FlatArray other{.chunks = 6, .chunk_elements = 501};
    server.set({{"x.zip", testing::zip_of(other, deflate)}});
    EXPECT_EQ(read(array, content).status.code(), Code::kAgainExhausted);
    server.set({});
    const auto out = read(array, content);
    EXPECT_EQ(out.status.code(), Code::kAgainExhausted) << out.status.to_string();
    EXPECT_EQ(out.stats.missing_chunks, 0u);
  }
}

TEST_F(RemoteArchive, ServersThatCannotServeArchivesAreRefused) {
  ZipWriter writer;
  writer.add("x", pattern(100'000));
  const store::Bytes archive = writer.finish();
  const std::string_view text(reinterpret_cast<const char*>(archive.data()), archive.size());
  const auto size = std::to_string(archive.size());
  HttpServer no_version{[&](HttpWire& wire, const HttpRequest&) {
    const std::string tail(text.substr(text.size() - 65'557));
    wire.reply("206 Partial Content",
               "Content-Range: bytes " + std::to_string(text.size() - 65'557) + "-" + std::to_string(text.size() - 1) +
                   "/" + size + "\r\n",
               tail);
  }};
  expect(store::open_store(no_version.url() + "/x.zip").status(), Code::kUnsupported, "strong ETags");
  HttpServer no_ranges{[&](HttpWire& wire, const HttpRequest&) { wire.reply("200 OK", "ETag: \"a\"\r\n", text); }};
  EXPECT_EQ(store::open_store(no_ranges.url() + "/x.zip").status().code(), Code::kUnsupported);
  HttpServer denies{[&](HttpWire& wire, const HttpRequest&) { wire.reply("403 Forbidden", "", "no"); }};
  EXPECT_EQ(store::open_store(denies.url() + "/x.zip").status().code(), Code::kPermission);
  ChangingServer wrong({{"x.zip", pattern(1000)}, {"short.zip", pattern(5)}});
  expect(store::open_store(wrong.url() + "/x.zip").status(), Code::kCorrupt, "ZIP");
  expect(store::open_store(wrong.url() + "/short.zip").status(), Code::kCorrupt, "too short");
}

TEST_F(RemoteArchive, UrlsLeadIntoArchives) {
  ZipWriter writer;
  writer.add("g/x", pattern(10, 1));
  ChangingServer server({{"a+b c.zip", writer.finish()}, {"folder.zip/g/x", pattern(10, 2)}});
  const auto get = [&](const std::string& path) {
    auto store = store::open_store(server.url() + path);
    return store.ok() ? (*store)->get("x", 10) : Result<store::Bytes>(store.status());
  };
  EXPECT_EQ(get("/a+b%20c.zip/g").value(), pattern(10, 1));
  EXPECT_EQ(get("/a+b%20c.zip/g/?token=secret").value(), pattern(10, 1));
  EXPECT_EQ(server.asked().back().query, "token=secret");
  EXPECT_EQ(get("/folder.zip/g").value(), pattern(10, 2)) << "a folder of that name is one";
  EXPECT_EQ(get("/a+b%20c.zip/none").status().code(), Code::kNotFound);
  EXPECT_EQ(get("/a+b%20c.zip/g/x").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(get("/a+b%20c.zip/../g").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(get("/a+b%20c.zip/%zz").status().code(), Code::kInvalidArgument);
  const auto store = store::open_store(server.url() + "/a+b%20c.zip/g?token=secret").value();
  EXPECT_EQ(store->url().find("secret"), std::string::npos) << store->url();
  EXPECT_NE(store->url().find("a+b c.zip/g"), std::string::npos) << store->url();
  EXPECT_EQ(store::open_store("zip://" + server.url() + "/no").status().code(), Code::kInvalidArgument);
  const StorageOption given[] = {{"cache_dir", "off"}};
  EXPECT_EQ(store::open_store("zip:///tmp/x.zip", {nullptr, given}).status().code(), Code::kInvalidArgument);
}

TEST_F(RemoteArchive, TheDiskCacheKeepsEntries) {
  const FlatArray content{.layout = Layout::kZstd, .chunks = 20, .chunk_elements = 500};
  ChangingServer server({{"x.zip", testing::zip_of(content, false)}});
  const StorageOption given[] = {{"cache_dir", directory_ / "cache"}};
  for (int session = 0; session < 2; ++session) {
    const Array array = Array::open(Store::open(context_, server.url() + "/x.zip", given).value()).value();
    for (int pass = 0; pass < 2; ++pass) {
      const auto out = read(array, content);
      ASSERT_TRUE(out.status.ok()) << out.status.to_string();
      EXPECT_TRUE(out.elements == content.expected());
    }
    const std::size_t asked = server.asked().size();
    EXPECT_LE(asked, session == 0 ? 23u : 1u) << "a later session asks for the archive's version";
  }
}

TEST_F(RemoteArchive, CancellingAReadEndsItsRequests) {
  const FlatArray content{.chunks = 30, .chunk_elements = 500};
  ZipWriter::Bytes archive = testing::zip_of(content, false);
  ObjectService service({{"x.zip", archive}});
  std::atomic<bool> slow{false};
  std::atomic<int> slowed{0};
  HttpServer server{[&](HttpWire& wire, const HttpRequest& request) {
    if (slow) {
      ++slowed;
      wire.pause(60'000);
    }
    service.answer(wire, request);
  }};
  const Array array = Array::open(Store::open(context_, server.url() + "/x.zip").value()).value();
  slow = true;
  std::vector<std::uint32_t> elements(content.elements());
  auto completion = array.read_async({}, {elements, {content.elements()}}, Device::open("host").value()).value();
  while (slowed < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  completion.cancel();
  ASSERT_TRUE(completion.wait_for(std::chrono::seconds(20)));
  EXPECT_EQ(completion.wait().code(), Code::kCancelled);
}

TEST_F(RemoteArchive, ReferencesLeadToTheFilesServerAndToOthers) {
  const store::Bytes data = pattern(9000, 1), more = pattern(500, 2);
  ChangingServer other({{"o/data", more}});
  const std::string json = reference(
      "\"text\":\"hello\",\"near\":[\"sub/data\",100,200],\"whole\":[\"sub/data\"],"
      "\"end\":[\"sub/data\",8990,100],\"gone\":[\"sub/none\",0,10],"
      "\"far\":[\"" +
      other.url() + "/o/data\",10,20],\"g/x\":[\"sub/data\",0,5]");
  ChangingServer server({{"d/refs.json", bytes_of(json)}, {"d/sub/data", data}});
  const StorageOption given[] = {{"headers.Authorization", "Bearer of-a-test"}};
  const std::string url = "reference://" + server.url() + "/d/refs.json";
  const auto opened = store::open_store(url, {nullptr, given});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  store::Store& store = **opened;
  EXPECT_EQ(server.asked().size(), 1u);
  EXPECT_EQ(store.get("text", 10).value(), bytes_of("hello"));
  EXPECT_EQ(store.get("none", 10).status().code(), Code::kNotFound);
  EXPECT_EQ(store.list("")->size(), 7u);
  EXPECT_TRUE(server.asked().empty()) << "known without a request";
  EXPECT_EQ(store.get("near", 200).value(), store::Bytes(data.begin() + 100, data.begin() + 300));
  EXPECT_EQ(store.get("whole", 10'000).value(), data);
  EXPECT_EQ(store.get("far", 20).value(), store::Bytes(more.begin() + 10, more.begin() + 30));
  EXPECT_EQ(store.get("end", 100).status().code(), Code::kShort);
  expect(store.get("gone", 10).status(), Code::kIo, "is missing");
  for (const HttpRequest& request : server.asked()) EXPECT_EQ(request.header("authorization"), "Bearer of-a-test");
  const auto far = other.asked();
  ASSERT_EQ(far.size(), 1u);
  EXPECT_EQ(far[0].header("authorization"), "") << "the user named another server";
  EXPECT_EQ(store::open_store(url + "/g", {nullptr, given}).value()->get("x", 5).value().size(), 5u);
  EXPECT_EQ(store::open_store(url + "/none", {nullptr, given}).status().code(), Code::kNotFound);
  EXPECT_EQ(store::open_store(url + "/text", {nullptr, given}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(store::open_store("reference://" + server.url() + "/d", {nullptr, given}).status().code(),
            Code::kInvalidArgument);
}

TEST_F(RemoteArchive, CredentialsOfABucketStayWithItsServer) {
  ChangingServer web({{"o/data", pattern(50, 2)}});
  const std::string json = reference("\"same\":[\"s3://bucket/x\",0,10],\"web\":[\"" + web.url() + "/o/data\",0,10]");
  ChangingServer bucket({{"refs.json", bytes_of(json)}, {"x", pattern(50, 1)}}, testing::ObjectStyle::kS3);
  const StorageOption given[] = {{"endpoint_url", bucket.url()}, {"key", "AKIDEXAMPLE"}, {"secret", "of-a-test"}};
  const auto opened = store::open_store("reference://s3://bucket/refs.json", {nullptr, given});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const store::Bytes same = pattern(50, 1), first_ten(same.begin(), same.begin() + 10);
  EXPECT_EQ((*opened)->get("same", 10).value(), first_ten);
  EXPECT_TRUE((*opened)->get("web", 10).ok());
  for (const HttpRequest& request : bucket.asked()) EXPECT_FALSE(request.header("authorization").empty());
  for (const HttpRequest& request : web.asked()) EXPECT_EQ(request.header("authorization"), "");
}

TEST_F(RemoteArchive, ReferencesThatMustNotBeFollowed) {
  ASSERT_TRUE(support::write_file(directory_ / "local", pattern(10)));
  std::string many;
  for (int i = 0; i < 30; ++i)
    many += ",\"m" + std::to_string(i) + "\":[\"http://192.0.2." + std::to_string(i) + "/x\",0,1]";
  const std::string json =
      reference("\"path\":[\"" + (directory_ / "local") + "\",0,10],\"file\":[\"file://" + (directory_ / "local") +
                "\",0,10],\"up\":[\"../../x\",0,10],\"clouds\":[\"http://169.254.169.254/latest\",0,10],"
                "\"also\":[\"http://[0:0:0:0:0:ffff:a9fe:a9fe]/latest\",0,10],"
                "\"memory\":[\"memory://x/y\",0,10],\"query\":[\"http://192.0.2.1/x?token=secret\",0,10],"
                "\"user\":[\"http://a:secret@192.0.2.1/x\",0,10]" +
                many);
  ChangingServer server({{"d/refs.json", bytes_of(json)}});
  const auto store = store::open_store("reference://" + server.url() + "/d/refs.json").value();
  (void)server.asked();
  expect(store->get("path", 10).status(), Code::kPermission, "local file");
  expect(store->get("file", 10).status(), Code::kPermission, "servers only");
  expect(store->get("memory", 10).status(), Code::kPermission, "servers only");
  EXPECT_EQ(store->get("up", 10).status().code(), Code::kInvalidArgument);
  expect(store->get("clouds", 10).status(), Code::kPermission, "link-local");
  expect(store->get("also", 10).status(), Code::kPermission, "link-local");
  expect(store->get("query", 10).status(), Code::kUnsupported, "query");
  expect(store->get("m29", 10).status(), Code::kUnsupported, "more than 16");
  for (const char* const key : {"query", "user"}) {
    EXPECT_EQ(store->get(key, 10).status().to_string().find("secret"), std::string::npos) << key;
  }
  EXPECT_TRUE(server.asked().empty());
  for (const char* const text : {"", "{", "[]", "{\"version\":7,\"refs\":{}}"}) {
    ChangingServer wrong({{"refs.json", bytes_of(text)}});
    EXPECT_FALSE(store::open_store("reference://" + wrong.url() + "/refs.json").ok()) << text;
  }
}

}  // namespace
}  // namespace headrace
