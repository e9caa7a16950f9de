// A program is run without a shell: its output is returned, any misbehaviour gives a named error in time, and no
// process is left behind.
#include "http/program_output.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "support/temp_dir.h"

namespace headrace::http {
namespace {

using Words = std::vector<std::string>;

Result<std::string> run_words(const Words& words, std::uint64_t max_ns = 20'000'000'000, std::size_t bytes = 64 << 10) {
  const std::atomic<bool> stop{false};
  return run_program({words, {"PATH=/usr/bin:/bin", "A=b c"}, max_ns, bytes}, stop);
}
Result<std::string> run_script(const std::string& script, std::uint64_t max_ns = 20'000'000'000,
                               std::size_t bytes = 64 << 10) {
  return run_words({"/bin/sh", "-c", script}, max_ns, bytes);
}

TEST(ProgramOutput, IsWhatItPrints) {
  EXPECT_EQ(*run_words({"/bin/echo", "a b", "$HOME", "*", "; false"}), "a b $HOME * ; false\n");
  EXPECT_EQ(*run_words({"echo", "found along PATH"}), "found along PATH\n");
  EXPECT_EQ(*run_script("echo $A; cat; echo geheim >&2"), "b c\n") << "its environment, no input, and no errors";
  EXPECT_EQ(run_script("head -c 65536 /dev/zero")->size(), 65536u);
  EXPECT_EQ(*run_script("exec >&-; sleep 0.2"), "") << "it closes its output before it ends";
}

TEST(ProgramOutput, FailuresAreNamed) {
  struct {
    Result<std::string> got;
    Code code;
    const char* said;
  } const rows[] = {
      {run_words({"/nowhere/geheim"}), Code::kInvalidArgument, "cannot be started"},
      {run_words({"/"}), Code::kPermission, "cannot be started"},
      {run_script("echo geheim; exit 3"), Code::kIo, "status 3"},
      {run_script("echo geheim; kill -9 $$"), Code::kIo, "signal 9"},
      {run_script("head -c 65537 /dev/zero"), Code::kResourceExhausted, "more than 65536 bytes"},
      {run_words({}), Code::kInvalidArgument, "no name"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(row.got.status().code(), row.code) << row.got.status().to_string();
    EXPECT_NE(row.got.status().to_string().find(row.said), std::string::npos) << row.got.status().to_string();
    EXPECT_EQ(row.got.status().to_string().find("geheim"), std::string::npos) << row.got.status().to_string();
  }
}

TEST(ProgramOutput, SlowProgramsAreKilledWithTheirChildren) {
  const support::TempDir folder;
  const auto began = std::chrono::steady_clock::now();
  const auto got = run_script("(sleep 60 & echo $! >" + folder.path() + "/child; wait); sleep 60", 500'000'000);
  EXPECT_EQ(got.status().code(), Code::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  pid_t child = 0;
  std::ifstream(folder.path() + "/child") >> child;
  ASSERT_GT(child, 0);
  // Its new parent reaps it at some later time.
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    std::ifstream about("/proc/" + std::to_string(child) + "/stat");
    std::string line;
    gone = !std::getline(about, line) || line.find(") Z") != std::string::npos;
    if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(gone);
  EXPECT_EQ(run_script("while :; do echo x; done", 10'000'000'000'000).status().code(), Code::kResourceExhausted);
}

TEST(ProgramOutput, BackgroundProcessesAreNotWaitedFor) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(*run_script("sleep 30 & echo x"), "x\n");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
}

TEST(ProgramOutput, IsNotWaitedForWhenTheStoreIsDestroyed) {
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop = true;
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(run_program({{"/bin/sleep", "60"}, {}}, stop).status().code(), Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  stopper.join();
}

TEST(ProgramOutput, SignalsAreThoseOfAProgramOfItsOwn) {
  sigset_t all, before;
  ::sigfillset(&all);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &all, &before), 0);
  const auto got = run_script("grep SigBlk /proc/self/status");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_NE(got->find("0000000000000000"), std::string::npos) << *got;
}

// The surrounding program may ignore SIGCHLD, so that the kernel reaps its children.
TEST(ProgramOutput, OfProgramsThatDoNotWaitForTheirChildren) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGCHLD, &ignore, &before), 0);
  const auto got = run_script("echo x");
  ::sigaction(SIGCHLD, &before, nullptr);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(*got, "x\n");
}

TEST(ProgramOutput, DescriptorsAreClosed) {
  const auto next_free = [] {
    const int fd = ::dup(0);
    ::close(fd);
    return fd;
  };
  const int before = next_free();
  (void)run_script("echo x");
  (void)run_words({"/nowhere/x"});
  (void)run_script("sleep 60", 50'000'000);
  EXPECT_EQ(next_free(), before);
}

TEST(ProgramOutput, CommandsAreSplit) {
  const std::pair<const char*, Words> rows[] = {
      {"a", {"a"}},
      {"  a \t b ", {"a", "b"}},
      {R"("/opt/a b/c" --x='d "e"' f\ g "h\"i\\j\k")", {"/opt/a b/c", "--x=d \"e\"", "f g", "h\"i\\j\\k"}},
      {"a '' \"\"", {"a", "", ""}},
      {"a;b|c $d `e`", {"a;b|c", "$d", "`e`"}},
  };
  for (const auto& [line, words] : rows) EXPECT_EQ(split_command(line), words) << line;
  for (const std::string_view line :
       {std::string_view(""), std::string_view("  "), std::string_view("'a"), std::string_view("\"a\\\""),
        std::string_view("a\\"), std::string_view("''"), std::string_view("a\0b", 3)}) {
    EXPECT_FALSE(split_command(line)) << line;
  }
  std::string many = "a";
  for (int i = 0; i < 300; ++i) many += " a";
  EXPECT_FALSE(split_command(many));
}

}  // namespace
}  // namespace headrace::http
