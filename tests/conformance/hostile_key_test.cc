// Hostile keys and paths: whatever key a store is asked for, it opens nothing outside its root.
//
// Two checks: inotify watches canaries outside the root and reports every open that could read them, under any name;
// and every descriptor that a store returns must refer to something below the root.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "backends/store_file/file_store.h"
#include "base/json.h"
#include "store/file_offers.h"
#include "store/store.h"
#include "support/stores_under_test.h"
#include "support/temp_dir.h"

namespace headrace::store {
namespace {

using support::pattern;

// A store under test, in the folder `root`, that contains `objects`.
struct StoreCase {
  std::string name;
  bool writable;
  bool is_folder;     // objects are files below the root, where links can be made
  bool named_by_url;  // by the public API
  std::string (*fill)(const std::string& root, const testing::Objects& objects) = nullptr;

  Result<std::shared_ptr<Store>> open(const std::string& root, const testing::Objects& objects) const {
    if (named_by_url) return open_store(fill(root, objects));
    HEADRACE_TRY_ASSIGN(auto store, open_file_store_with(root, FileStoreOptions{.kernel_resolves = false}));
    for (const auto& [key, bytes] : objects) HEADRACE_TRY(store->put(key, bytes));
    return store;
  }
};

// Every store in the table, and folders on kernels that cannot confine path resolution.
std::vector<StoreCase> stores() {
  std::vector<StoreCase> out = {{"file_walk", true, true, false}};
  for (const testing::StoreUnderTest& row : testing::stores_under_test()) {
    const std::string name = row.name;
    if (name.find('_') != std::string::npos) continue;  // the same store, filled in another way
    out.push_back({name, row.writable, name == "file", true, row.fill});
  }
  return out;
}

std::vector<StoreCase> stores(bool StoreCase::*trait) {
  std::vector<StoreCase> out = stores();
  std::erase_if(out, [&](const StoreCase& row) { return !(row.*trait); });
  return out;
}

void PrintTo(const StoreCase& row, std::ostream* out) { *out << row.name; }

// Counts opens of anything in `folders` and of their files since the last call. O_PATH descriptors, which cannot read,
// are not seen.
class OpenWatch {
 public:
  explicit OpenWatch(const std::vector<std::string>& folders) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    for (const std::string& folder : folders) {
      if (::inotify_add_watch(fd_, folder.c_str(), IN_OPEN | IN_ACCESS | IN_CREATE | IN_MODIFY) < 0) works_ = false;
    }
  }
  ~OpenWatch() { ::close(fd_); }
  bool works() const { return fd_ >= 0 && works_; }
  int events() const {
    int n = 0;
    alignas(inotify_event) char room[8192];
    for (ssize_t got; (got = ::read(fd_, room, sizeof room)) > 0;) {
      for (const char* at = room; at < room + got; ++n) {
        at += sizeof(inotify_event) + reinterpret_cast<const inotify_event*>(at)->len;
      }
    }
    return n;
  }

 private:
  int fd_;
  bool works_ = true;
};

class HostileKeys : public ::testing::TestWithParam<StoreCase> {
 protected:
  void SetUp() override {
    for (const char* folder : {"root", "root/in", "outside", "outside/in"}) {
      ASSERT_EQ(::mkdir((base_ / folder).c_str(), 0755), 0);
    }
    for (const char* canary :
         {"outside/file", "outside/in/file", "outside/zarr.json", "outside/.zarray", "outside/0"}) {
      ASSERT_TRUE(support::write_file(base_ / canary, pattern(100, 9)));
    }
    root_ = std::filesystem::canonical(base_ / "root").string();
    open_with({});
    watch_ = std::make_unique<OpenWatch>(std::vector<std::string>{base_ / "outside", base_ / "outside/in"});
    ASSERT_TRUE(watch_->works());
    // Positive control: the watch must see this open.
    std::ifstream(base_ / "outside/file").get();
    ASSERT_GT(watch_->events(), 0);
  }

  void open_with(testing::Objects objects) {
    objects["in/file"] = pattern(100, 1);
    auto store = GetParam().open(root_, objects);
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    store_ = *store;
  }

  // Tries every call of a store that takes a key. True if something could be opened.
  bool try_all(const std::string& key) {
    ByteSource object;
    const Status status = store_->open(key, object);
    EXPECT_EQ(status.ok(), object.is_open()) << key;
    if (object.file().fd >= 0) {
      expect_below(object.file().fd, key);
      const auto direct = store_->files()->open_direct(key, object);
      if (direct.ok()) {
        expect_below(*direct, key);
        ::close(*direct);
      }
    }
    const auto got = store_->get(key, 1000);
    EXPECT_TRUE(!got.ok() || *got != pattern(100, 9)) << "a canary's bytes: " << key;
    (void)store_->list(key);
    return status.ok();
  }
  void expect_below(int fd, const std::string& key) {
    char path[PATH_MAX + 1];
    const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, PATH_MAX);
    ASSERT_GT(n, 0);
    EXPECT_EQ(std::string(path, static_cast<std::size_t>(n)).rfind(root_ + "/", 0), 0u) << key << " gave " << path;
  }
  void expect_untouched(const std::string& key) {
    EXPECT_EQ(watch_->events(), 0) << "something outside the root was opened for " << key;
    for (const char* canary : {"outside/file", "outside/in/file"}) {
      EXPECT_EQ(std::filesystem::file_size(base_ / canary), 100u) << key;
    }
  }

  support::TempDir base_;
  std::string root_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<OpenWatch> watch_;
};

// Keys that try to leave the root, by any interpretation of resolvers, shells, URLs, Windows or Unicode.
std::set<std::string> hostile_keys(const std::string& outside) {
  using namespace std::string_literals;
  const std::vector<std::string> ups = {"..",
                                        ".",
                                        "",
                                        "...",
                                        "....",
                                        ".. ",
                                        " ..",
                                        "..\0"s,
                                        "\0.."s,
                                        "%2e%2e",
                                        "%2E%2E",
                                        "%2e.",
                                        ".%2e",
                                        "%252e%252e",
                                        "..%2f",
                                        "..%00",
                                        "%c0%ae%c0%ae",
                                        "\xc0\xae\xc0\xae",
                                        "\xe0\x80\xae\xe0\x80\xae",
                                        "..\\",
                                        "..\\..",
                                        "\\..",
                                        "..%5c",
                                        "..;",
                                        "\xef\xbc\x8e\xef\xbc\x8e",
                                        "\xe2\x80\xa5",
                                        "\xe2\x80\xa4\xe2\x80\xa4",
                                        "..\xe2\x88\x95",
                                        "..\xef\xbc\x8f",
                                        "..\xcc\xb8",
                                        "\xe2\x80\xae..",
                                        "..\n",
                                        "..\t",
                                        "..\r\n",
                                        "~",
                                        "~root",
                                        "$HOME",
                                        "`pwd`",
                                        "$(pwd)",
                                        "*",
                                        "..*",
                                        "-",
                                        "|",
                                        ">x",
                                        "C:",
                                        "C:\\",
                                        "\\\\?\\C:",
                                        "file:",
                                        "file:..",
                                        "proc:self",
                                        "\x7f",
                                        "\xff",
                                        "\xed\xa0\x80"};
  std::set<std::string> keys;
  for (const std::string& up : ups) {
    keys.insert(up);
    keys.insert(up + "/outside/file");
    keys.insert("in/" + up + "/" + up + "/outside/file");
    keys.insert("in/" + up);
    keys.insert(up + "/" + up + "/" + up + "/etc/passwd");
    keys.insert("/" + up + "/outside/file");
  }
  for (const std::string& absolute : {outside + "/file", "/etc/passwd"s, "/proc/self/root/etc/passwd"s, "/dev/zero"s}) {
    for (const std::string before :
         {"", "/", "//", "file:", "file://", "in", "in/", "in//", "./", "../", "\\", "\\\\"}) {
      keys.insert(before + absolute);
    }
  }
  for (int n = 1; n <= 20; ++n) {
    std::string up;
    for (int i = 0; i < n; ++i) up += "../";
    keys.insert(up + "etc/passwd");
    keys.insert("in/" + up + "outside/file");
  }
  for (const std::size_t n :
       {std::size_t{256}, std::size_t{4096}, std::size_t{4097}, std::size_t{65536}, std::size_t{1} << 20}) {
    keys.insert(std::string(n, 'a'));
    keys.insert(std::string(n, '/') + "etc/passwd");
    keys.insert("in/" + std::string(n, '.'));
    std::string deep;
    while (deep.size() < n) deep += "in/../";
    keys.insert(deep + "../outside/file");
  }
  return keys;
}

// Whether formats can store this name: ZIP allows 64 KiB, JSON requires UTF-8.
bool fits_a_format(const std::string& key) {
  try {
    (void)base::Json(key).dump();
  } catch (const base::Json::exception&) {
    return false;
  }
  return key.size() < 65536;
}

TEST_P(HostileKeys, OpenNothingOutsideTheRoot) {
  const auto keys = hostile_keys(base_ / "outside");
  ASSERT_GE(keys.size(), 300u);
  const auto bytes = pattern(50, 3);
  testing::Objects objects;  // for an archive with all of these names
  if (!GetParam().writable) {
    for (const std::string& key : keys) {
      if (fits_a_format(key)) objects[key] = bytes;
    }
    ASSERT_GE(objects.size(), 300u);
    open_with(objects);
    ASSERT_FALSE(HasFatalFailure());
  }
  int refused = 0, names = 0;
  for (const std::string& key : keys) {
    const Status put = store_->put(key, bytes);
    EXPECT_TRUE(GetParam().writable || !put.ok()) << key;
    if (valid_key(key)) {
      // It is a plain name: what is put under it is found, inside the root.
      const auto got = store_->get(key, 50);
      const bool is_there = GetParam().writable ? put.ok() : objects.contains(key);
      EXPECT_EQ(got.ok(), is_there) << key << ": " << got.status().to_string();
      EXPECT_TRUE(!got.ok() || *got == bytes) << key;
      try_all(key);
      ++names;
    } else {
      EXPECT_FALSE(try_all(key)) << key;
      EXPECT_TRUE(!GetParam().writable || put.code() == Code::kInvalidArgument) << key;
      ++refused;
    }
    expect_untouched(key);
  }
  EXPECT_GT(refused, 150);
  EXPECT_GT(names, 50);
}

class HostilePaths : public HostileKeys {};

TEST_P(HostilePaths, OpenNothingOutsideTheRoot) {
  auto context = Context::create({});
  ASSERT_TRUE(context.ok());
  auto store = headrace::Store::open(*context, store_->url());
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  for (const std::string& key : hostile_keys(base_ / "outside")) {
    EXPECT_FALSE(Array::open(*store, key).ok()) << key;
    (void)list_nodes(*store, key);
    expect_untouched(key);
  }
}

// Targets of symbolic links of every kind that lead outside the root.
std::vector<std::string> link_targets(const std::string& outside) {
  return {"../outside",
          "../outside/file",
          outside,
          outside + "/file",
          "in/../../outside",
          "./../outside/in",
          "..",
          "../..",
          "/",
          ".",
          "../root/../outside",
          "../root/in/../../outside/file",
          "/proc/self/cwd",
          "/proc/self/root",
          "/proc/self/fd/0",
          "/dev/fd/0",
          "/dev/zero",
          "//" + outside.substr(1) + "//file",
          "../outside/.",
          "../outside/in/..",
          "up0",
          "link0/in",
          "link2/file"};
}

class HostileLinks : public HostileKeys {};

// Tries each link by itself, in the middle of a path and behind another link.
TEST_P(HostileLinks, LeadNowhereOutside) {
  const std::string outside = base_ / "outside";
  const auto targets = link_targets(outside);
  ASSERT_EQ(::symlink("..", (root_ + "/in/up").c_str()), 0);
  ASSERT_EQ(::symlink("link0", (root_ + "/up0").c_str()), 0);
  int tried = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string name = "link" + std::to_string(i);
    ASSERT_EQ(::symlink(targets[i].c_str(), (root_ + "/" + name).c_str()), 0);
    ASSERT_EQ(::symlink(("../" + targets[i]).c_str(), (root_ + "/in/" + name).c_str()), 0);
    for (const std::string before : {"", "in/", "in/up/", "in/up/in/"}) {
      for (const std::string after : {"", "/file", "/in/file", "/in/../file", "/outside/file", "/0", "/zarr.json"}) {
        const std::string key = before + name + after;
        try_all(key);
        (void)store_->put(key + "/new", pattern(5));
        expect_untouched(key);
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 300);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(outside)) {
    EXPECT_NE(entry.path().filename(), "new");
  }
}

// The same names and links as targets of references. Each is in a reference file of its own, because one refused target
// may make the store refuse the whole file.
class HostileTargets : public HostileKeys {};

TEST_P(HostileTargets, LeadNowhereOutside) {
  const std::string outside = base_ / "outside";
  auto keys = hostile_keys(outside);
  const auto links = link_targets(outside);
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::string name = "link" + std::to_string(i);
    ASSERT_EQ(::symlink(links[i].c_str(), (root_ + "/" + name).c_str()), 0);
    for (const char* after : {"", "/file", "/in/file", "/in/../file", "/outside/file"}) keys.insert(name + after);
  }
  int tried = 0, inside = 0;
  for (const std::string& key : keys) {
    if (!fits_a_format(key)) continue;
    for (const char* range : {"", ",0,100"}) {
      const std::string json = R"({"version":1,"refs":{"k":[)" + base::Json(key).dump() + range + "]}}";
      ASSERT_TRUE(support::write_file(root_ + "/hostile.json", std::as_bytes(std::span(json))));
      const auto store = open_store("reference://" + root_ + "/hostile.json");
      expect_untouched(key);
      if (!store.ok()) continue;
      store_ = *store;
      inside += try_all("k");
      expect_untouched(key);
      ++tried;
    }
  }
  EXPECT_GE(tried, 300);
  // Positive control: a target inside the root can be read.
  const std::string json = R"({"version":1,"refs":{"k":["in/file"]}})";
  ASSERT_TRUE(support::write_file(root_ + "/in/file", pattern(100, 1)));
  ASSERT_TRUE(support::write_file(root_ + "/hostile.json", std::as_bytes(std::span(json))));
  store_ = *open_store("reference://" + root_ + "/hostile.json");
  EXPECT_TRUE(try_all("k"));
  EXPECT_LT(inside, tried);
}

void record(const std::string& target, std::uint64_t swaps, double seconds) {
  const char* path = ::getenv("HEADRACE_CAMPAIGN");
  if (path == nullptr) return;
  const char* commit = ::getenv("HEADRACE_COMMIT");
  utsname machine{};
  ::uname(&machine);
  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::ofstream(path, std::ios::app) << R"({"target": ")" << target
                                     << R"(", "technique": "links swapped while opened", "executions": )" << swaps
                                     << R"(, "seconds": )" << static_cast<long>(seconds + 0.5) << R"(, "findings": )"
                                     << ::testing::Test::HasFailure() << R"(, "commit": ")"
                                     << (commit ? commit : "unknown") << R"(", "date": ")" << date
                                     << R"(", "machine": ")" << std::thread::hardware_concurrency() << " cores, "
                                     << machine.machine << "\"}\n";
}

// Opens names while their targets are swapped between inside and outside the root: 10,000 opens in all, or
// HEADRACE_SWAPS.
TEST_P(HostileLinks, LeadNowhereOutsideWhileTheyAreSwapped) {
  const char* wanted = ::getenv("HEADRACE_SWAPS");
  const std::uint64_t opens = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 10'000;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(store_->put("a/b/file", pattern(100, 1)).ok());
  // `inside` is exchanged with a link to the outside at the same place in the tree.
  struct Swap {
    const char *inside, *link, *target;
  };
  const Swap swaps[] = {{"/a", "/link", "../outside"},         // a folder; outside has no b, but in/file
                        {"/a/b", "/a/link", "../../outside"},  // the last folder
                        {"/a/b/file", "/a/b/link", "../../../outside/file"},
                        {"/a/b", "/a/far", "/"}};
  std::uint64_t inside = 0, refused = 0;
  for (const Swap& swap : swaps) {
    const std::string link = root_ + swap.link;
    ASSERT_EQ(::symlink(swap.target, link.c_str()), 0);
    std::atomic<bool> stop{false};
    std::thread swapper([&] {
      const std::string name = root_ + swap.inside;
      bool swapped = false;
      while (!stop || swapped) {
        ::renameat2(AT_FDCWD, name.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
        swapped = !swapped;
      }
    });
    for (std::uint64_t i = 0; i < opens / std::size(swaps); ++i) {
      ByteSource object;
      const Status status = store_->open("a/b/file", object);
      if (status.ok()) {
        struct stat opened {};
        ASSERT_EQ(::fstat(object.file().fd, &opened), 0);
        std::byte first{};
        ASSERT_EQ(::pread(object.file().fd, &first, 1, 50), 1);
        ASSERT_EQ(first, support::pattern_at(50, 1)) << "read outside the root";
        ++inside;
      } else {
        ++refused;
      }
    }
    stop = true;
    swapper.join();
    ASSERT_EQ(watch_->events(), 0) << "something outside the root was opened";
  }
  EXPECT_GT(inside, 0u);
  EXPECT_GT(refused, 0u);
  record(GetParam().name, inside + refused,
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

std::vector<StoreCase> reference_store() {
  std::vector<StoreCase> out = stores();
  std::erase_if(out, [](const StoreCase& row) { return row.name != "reference"; });
  return out;
}

constexpr auto kName = [](const auto& about) { return about.param.name; };
INSTANTIATE_TEST_SUITE_P(Stores, HostileKeys, ::testing::ValuesIn(stores()), kName);
INSTANTIATE_TEST_SUITE_P(Stores, HostilePaths, ::testing::ValuesIn(stores(&StoreCase::named_by_url)), kName);
INSTANTIATE_TEST_SUITE_P(Stores, HostileLinks, ::testing::ValuesIn(stores(&StoreCase::is_folder)), kName);
INSTANTIATE_TEST_SUITE_P(Stores, HostileTargets, ::testing::ValuesIn(reference_store()), kName);

}  // namespace
}  // namespace headrace::store
