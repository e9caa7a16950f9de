// Rates learnt in one process are known in the next; a file from others does no harm.
#include "transfer/placement/placement_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace headrace::transfer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "cuda:0 lz4";
constexpr PlacementRates kRates{60e9, 9e9};

void learn(const std::string& path, unsigned threads, const PlacementRates& rates) {
  PlacementPriors priors(path, threads);
  priors.of(kKind)->set(rates);
  priors.keep();
}

PlacementRates known(const std::string& path, unsigned threads = 16) {
  PlacementPriors priors(path, threads);
  return priors.of(kKind)->get();
}

void write(const std::string& path, const std::string& text) {
  support::write_file(path, std::as_bytes(std::span(text)));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
}

TEST(PlacementFile, TheNextProcessReadsTheRates) {
  support::TempDir folder;
  const std::string path = folder / "cache/headrace/placement.json";
  EXPECT_EQ(known(path), PlacementRates{});
  EXPECT_FALSE(fs::exists(path));  // nothing was learnt
  learn(path, 16, kRates);
  EXPECT_EQ(known(path), kRates);
  EXPECT_EQ(known(path, 8), PlacementRates{});  // half the threads: another machine
  learn(path, 8, {60e9, 5e9});
  EXPECT_EQ(known(path), kRates);
  EXPECT_EQ(known(path, 8), (PlacementRates{60e9, 5e9}));
  learn(path, 16, {70e9, 8e9});
  EXPECT_EQ(known(path), (PlacementRates{70e9, 8e9}));
  // Only the file, which is private to this user whatever the umask.
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);
  struct stat about;
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
  ASSERT_EQ(::stat(fs::path(path).parent_path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0700u);
}

TEST(PlacementFile, AnUmaskThatLetsTheGroupWriteChangesNothing) {
  support::TempDir folder;
  const mode_t before = ::umask(0002);
  learn(folder / "placement.json", 16, kRates);
  ::umask(before);
  EXPECT_EQ(known(folder / "placement.json"), kRates);
}

TEST(PlacementFile, WithoutAPathNothingIsStored) {
  EXPECT_EQ(placement_file_path(""), "");
  learn("", 16, kRates);
  EXPECT_EQ(known(""), PlacementRates{});
}

TEST(PlacementFile, TheEnvironmentSetsThePath) {
  struct Variable {
    const char* name;
    std::string value = ::getenv(name) != nullptr ? ::getenv(name) : "";
    ~Variable() { ::setenv(name, value.c_str(), 1); }
  } named{"HEADRACE_PLACEMENT_FILE"}, cache{"XDG_CACHE_HOME"}, home{"HOME"};
  ::setenv("HEADRACE_PLACEMENT_FILE", "/a/b.json", 1);
  EXPECT_EQ(placement_file_path("auto"), "/a/b.json");
  EXPECT_EQ(placement_file_path("/c/d.json"), "/c/d.json");
  for (const char* none : {"off", "relative/b.json"}) {
    ::setenv("HEADRACE_PLACEMENT_FILE", none, 1);
    EXPECT_EQ(placement_file_path("auto"), "");
  }
  ::unsetenv("HEADRACE_PLACEMENT_FILE");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  ::setenv("HOME", "/home/x", 1);
  EXPECT_EQ(placement_file_path("auto"), "/cache/headrace/placement.json");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(placement_file_path("auto"), "/home/x/.cache/headrace/placement.json");
  ::setenv("HOME", "relative", 1);
  EXPECT_EQ(placement_file_path("auto"), "");
}

// Damaged files, and those that others can write, are ignored, and the next writer replaces them.
TEST(PlacementFile, UntrustedFilesAreIgnored) {
  support::TempDir folder;
  const std::string path = folder / "placement.json";
  learn(path, 16, kRates);
  const std::string good = PlacementFile::text_of(PlacementFile(path).read());
  ASSERT_EQ(known(path), kRates);
  for (const mode_t mode : {0620u, 0602u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(known(path), PlacementRates{}) << std::oct << mode;
  }
  std::vector<std::string> bad = {
      "", "{", "[]", "null", good + good, "{\"version\":1}", good.substr(0, good.size() / 2)};
  for (const char* pair :
       {"[0,1]", "[-1,1]", "[1]", "[1,2,3]", "[1e300,1]", "[null,1]", "\"x\"", "[true,1]", "[0.2,1]"}) {
    bad.push_back(std::string("{\"version\":1,\"kinds\":{\"a\":") + pair + "}}");
  }
  std::string many = "{\"version\":1,\"kinds\":{";
  for (int i = 0; i < 300; ++i) many += "\"" + std::to_string(i) + "\":[1,1],";
  many.back() = '}';
  bad.push_back(many + "}");
  bad.push_back("{\"version\":1,\"kinds\":{\"" + std::string(600, 'a') + "\":[1,1]}}");
  bad.push_back(good + std::string(PlacementFile::kMaxFileBytes, ' '));
  for (const std::string& text : bad) {
    write(path, text);
    EXPECT_TRUE(PlacementFile(path).read().empty()) << text.substr(0, 80);
    // And does not prevent writing a good one.
    learn(path, 16, kRates);
    EXPECT_EQ(known(path), kRates);
  }
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(known(path), PlacementRates{});
  learn(path, 16, kRates);
  fs::remove_all(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(known(path), PlacementRates{});  // and does not wait for a writer
}

TEST(PlacementFile, ALinkIsReplacedNotFollowed) {
  support::TempDir folder;
  write(folder / "precious", "precious");
  fs::create_symlink(folder / "precious", folder / "placement.json");
  learn(folder / "placement.json", 16, kRates);
  EXPECT_EQ(known(folder / "placement.json"), kRates);
  EXPECT_EQ(fs::file_size(folder / "precious"), 8u);
}

TEST(PlacementFile, LimitsTheNumberOfKinds) {
  support::TempDir folder;
  const PlacementFile file(folder / "placement.json");
  for (int round = 0; round < 3; ++round) {
    KnownRates rates;
    for (int i = 0; i < 200; ++i) rates.emplace("kind " + std::to_string(round * 200 + i), kRates);
    ASSERT_TRUE(file.add(rates).ok());
    const KnownRates read = file.read();
    EXPECT_EQ(read.size(), round == 0 ? 200u : PlacementFile::kMaxKinds);
    for (const auto& [kind, pair] : rates) EXPECT_EQ(read.count(kind), 1u) << kind;  // the newest are there
  }
  // Rates that the file cannot represent are left out.
  ASSERT_TRUE(file.add({{std::string(600, 'a'), kRates}, {"zero", {0, 1}}, {"more", {1e18, 1}}, {"b", kRates}}).ok());
  EXPECT_EQ(file.read().count("b"), 1u);
  EXPECT_EQ(file.read().count("zero") + file.read().count("more"), 0u);
}

TEST(PlacementFile, FoldersThatCannotBeMadeAreAnError) {
  support::TempDir folder;
  write(folder / "file", "text");
  EXPECT_FALSE(PlacementFile(folder / "file/below/placement.json").add({{"a", kRates}}).ok());
  learn(folder / "file/below/placement.json", 16, kRates);  // which reports no error
}

// Readers see a complete file, however many processes write.
TEST(PlacementFile, ProcessesWriteSideBySide) {
  support::TempDir folder;
  const std::string path = folder / "placement.json";
  learn(path, 16, kRates);
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (int i = 0; i < 50; ++i) (void)PlacementFile(path).add({{"kind " + std::to_string(child), kRates}});
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (int i = 0; i < 200; ++i) ASSERT_FALSE(PlacementFile(path).read().empty());
  for (const pid_t pid : children) ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);
}

}  // namespace
}  // namespace headrace::transfer
