// If a sandbox forbids an engine's system calls, the next engine is used and the reason is reported.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>

#include "io/engine.h"
#include "store/store.h"
#include "support/temp_dir.h"

namespace headrace {
namespace {

// Makes the system calls `number` and `other` fail with `error` in this process from here on.
bool forbid(unsigned number, unsigned other, unsigned error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs `body` in a child process; returns "" or what went wrong.
std::string in_child(const std::function<std::string()>& body) {
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = body();
    [[maybe_unused]] const ssize_t n = ::write(pipe_fds[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(pipe_fds[1]);
  char text[2000];
  std::string all;
  for (ssize_t n; (n = ::read(pipe_fds[0], text, sizeof text)) > 0;) all.append(text, static_cast<std::size_t>(n));
  ::close(pipe_fds[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) return "the child died: " + all;
  return all;
}

std::string check_auto(unsigned number, unsigned other, unsigned error, const std::string& expected,
                       const std::string& reason) {
  return in_child([&]() -> std::string {
    if (!forbid(number, other, error)) return "cannot install the filter";
    std::string why_not;
    auto engine = io::make_engine("auto", {}, &why_not);
    if (!engine.ok()) return engine.status().to_string() + why_not;
    if ((*engine)->info().name != expected) return "took " + (*engine)->info().name + ": " + why_not;
    if (why_not.find(reason) == std::string::npos) return "reason not told: " + why_not;
    char text[] = "0123456789";
    std::byte got[10];
    std::FILE* file = std::tmpfile();
    std::fwrite(text, 1, 10, file);
    std::fflush(file);
    const io::EngineRequest request{io::Op::kRead, ::fileno(file), 2, got, 8, 1};
    io::EngineResult event;
    auto taken = (*engine)->submit({&request, 1});
    if (!taken.ok() || *taken != 1) return "submit failed";
    auto reaped = (*engine)->reap({&event, 1}, std::chrono::seconds(10));
    if (!reaped.ok() || *reaped != 1 || event.result != 8 || got[0] != std::byte{'2'}) return "read failed";
    return "";
  });
}

TEST(Seccomp, WithoutIoUringAioIsTaken) {
  for (const unsigned error : {EPERM, ENOSYS}) {
    EXPECT_EQ(check_auto(SYS_io_uring_setup, SYS_io_uring_enter, error, "aio", "io_uring: "), "");
  }
  EXPECT_EQ(check_auto(SYS_io_uring_setup, SYS_io_uring_setup, EPERM, "aio", "forbidden"), "");
}

TEST(Seccomp, WithoutBothThreadsAreTaken) {
  EXPECT_EQ(check_auto(SYS_io_uring_setup, SYS_io_setup, EPERM, "threads", "aio: "), "");
}

TEST(Seccomp, WithoutOpenat2TheStoreWalks) {
  for (const unsigned error : {EPERM, ENOSYS}) {
    EXPECT_EQ(in_child([&]() -> std::string {
                support::TempDir dir;
                if (!forbid(SYS_openat2, SYS_openat2, error)) return "cannot install the filter";
                auto store = store::open_store(dir.path());
                if (!store.ok()) return store.status().to_string();
                const auto bytes = support::pattern(100);
                if (Status status = (*store)->put("a/b", bytes); !status.ok()) return status.to_string();
                const auto got = (*store)->get("a/b", 100);
                return got.ok() && *got == bytes ? "" : got.status().to_string();
              }),
              "");
  }
}

}  // namespace
}  // namespace headrace
