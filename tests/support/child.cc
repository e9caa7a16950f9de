#include "support/child.h"

#include <dirent.h>
#include <link.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "support/sanitizer.h"

namespace headrace::support {
namespace {

constexpr int kHeldBySanitizer = 187;  // an exit status that no body uses
constexpr int kMaxForks = 10;

// Address range of the sanitizer's runtime.
struct Runtime {
  std::uintptr_t begin = 0, end = 0;
};

Runtime find_runtime() {
  Runtime found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        if (std::strstr(info->dlpi_name, "libasan") == nullptr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
          const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          *static_cast<Runtime*>(data) = {begin, begin + segment.p_memsz};
        }
        return 1;
      },
      &found);
  return found;
}

Runtime runtime;
unsigned seconds_left, seconds_in_runtime;

// Runs every second. A child found inside the runtime three times in a row is stuck there.
void look(int, siginfo_t*, void* context) {
#if defined(__x86_64__)
  const auto at = static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const auto at = static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  const std::uintptr_t at = 0;
#endif
  seconds_in_runtime = at >= runtime.begin && at < runtime.end ? seconds_in_runtime + 1 : 0;
  if (seconds_in_runtime == 3) ::_exit(kHeldBySanitizer);
  if (--seconds_left == 0) {
    ::signal(SIGALRM, SIG_DFL);
    ::raise(SIGALRM);
  }
}

// Whether another thread of this process runs, or waits for a disk.
bool others_run() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  bool any = false;
  const std::string own = std::to_string(::gettid());
  while (const dirent* const task = ::readdir(tasks)) {
    if (task->d_name[0] == '.' || own == task->d_name) continue;
    std::ifstream file(std::string("/proc/self/task/") + task->d_name + "/stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t end_of_name = stat.rfind(") ");
    if (end_of_name == std::string::npos) continue;  // the thread has ended
    const char state = stat[end_of_name + 2];
    any = any || state == 'R' || state == 'D';
  }
  ::closedir(tasks);
  return any;
}

// A running thread, for example one that was just created, may hold a lock of the runtime. The child's copy of that
// lock would never be released.
void wait_for_idle_threads() {
  for (int looks = 0; looks < 200 && others_run(); ++looks) ::usleep(1000);
}

void watch(unsigned seconds) {
  if (runtime.end == 0) {
    ::alarm(seconds);
    return;
  }
  seconds_left = seconds;
  seconds_in_runtime = 0;
  struct sigaction action {};
  action.sa_sigaction = look;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval second{{1, 0}, {1, 0}};
  ::setitimer(ITIMER_REAL, &second, nullptr);
}

}  // namespace

int in_child(const std::function<int()>& body, unsigned seconds) {
  if (kAddressSanitizer && runtime.end == 0) runtime = find_runtime();
  for (int forks = 1;; ++forks) {
    if (kAddressSanitizer) wait_for_idle_threads();
    const pid_t child = ::fork();
    if (child == 0) {
      watch(seconds);
      ::_exit(body());
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    const int result = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    if (result != kHeldBySanitizer || forks == kMaxForks) return result;
  }
}

}  // namespace headrace::support
