#include "http/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"

namespace headrace::http {
namespace {

constexpr int kLookMs = 20;  // interval at which to check whether the program has ended
constexpr std::size_t kMaxWords = 256;

Status program_failed(Code code, const std::string& what) { return Status(code, Layer::kStore, "the program " + what); }

struct PipeEnds {
  int read = -1, write = -1;
  ~PipeEnds() {
    if (read >= 0) ::close(read);
    close_write();
  }
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  int error = 0;
  explicit SpawnPlan(int output) {
    const auto note = [this](int result) { error = error != 0 ? error : result; };
    note(::posix_spawn_file_actions_init(&files));
    note(::posix_spawnattr_init(&how));
    // Redirect the output first: its descriptor may be one that the following opens replace.
    note(::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO));
    note(::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0));
    note(::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0));
    // Its own process group, so that it can be killed with all its children; and default signal handling, whatever this
    // thread and process use.
    sigset_t none, default_path;
    ::sigemptyset(&none);
    ::sigemptyset(&default_path);
    for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&default_path, signal);
    note(::posix_spawnattr_setsigmask(&how, &none));
    note(::posix_spawnattr_setsigdefault(&how, &default_path));
    note(::posix_spawnattr_setpgroup(&how, 0));
    note(::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&how);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

std::vector<char*> pointers_of(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Whether it has ended, or cannot be waited for by this process. Does not reap it.
bool program_has_ended(pid_t pid) {
  siginfo_t about{};
  const int result = ::waitid(P_PID, static_cast<id_t>(pid), &about, WEXITED | WNOHANG | WNOWAIT);
  return (result == 0 && about.si_pid == pid) || (result != 0 && errno == ECHILD);
}

// Reaps the program. OK if it exited with 0, or if this process's own handling of SIGCHLD reaped it first: then only
// its output can be judged.
Status wait_for_end(pid_t pid) {
  int status = 0;
  pid_t got = -1;
  do {
    got = ::waitpid(pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (got != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return {};
  if (WIFEXITED(status)) return program_failed(Code::kIo, "exited with status " + std::to_string(WEXITSTATUS(status)));
  return program_failed(Code::kIo, "was terminated by signal " + std::to_string(WTERMSIG(status)));
}

// Reads until the program has ended. On an error the caller must kill it.
Status read_output(int fd, pid_t pid, const ProgramRun& run, const std::atomic<bool>& stop, std::string& text) {
  const std::uint64_t until = base::now_ns() + run.max_ns;
  bool open = true;
  for (;;) {
    // Check before the last read: all the program's output is then in the pipe, even if other processes keep the pipe
    // open.
    const bool ended = program_has_ended(pid);
    for (bool more = open; more;) {
      pollfd one{fd, POLLIN, 0};
      more = ::poll(&one, 1, ended ? 0 : kLookMs) == 1;
      if (!more) break;
      char block[4096];
      const ssize_t got = ::read(fd, block, sizeof block);
      if (got < 0 && errno != EINTR) return program_failed(Code::kIo, "cannot be read from").with_errno(errno);
      if (got == 0) open = more = false;
      if (got > 0) text.append(block, static_cast<std::size_t>(got));
      if (text.size() > run.max_bytes) {
        return program_failed(Code::kResourceExhausted, "prints more than " + std::to_string(run.max_bytes) + " bytes");
      }
      if (stop || base::now_ns() > until) break;
    }
    if (ended) return {};
    if (stop) return program_failed(Code::kCancelled, "was cancelled");
    if (base::now_ns() > until) {
      return program_failed(Code::kTimeout,
                            "did not finish within " + std::to_string(run.max_ns / 1'000'000'000) + " s");
    }
    if (!open) (void)::poll(nullptr, 0, kLookMs);
  }
}

}  // namespace

Result<std::string> run_program(const ProgramRun& run, const std::atomic<bool>& stop) {
  if (run.words.empty()) return program_failed(Code::kInvalidArgument, "has no name");
  PipeEnds ends;
  int both[2] = {-1, -1};
  if (::pipe2(both, O_CLOEXEC) != 0) {
    return program_failed(Code::kResourceExhausted, "cannot be started: out of file descriptors").with_errno(errno);
  }
  ends.read = both[0];
  ends.write = both[1];
  const SpawnPlan plan(ends.write);
  const std::vector<char*> words = pointers_of(run.words), environment = pointers_of(run.environment);
  pid_t pid = -1;
  const int error = plan.error != 0
                        ? plan.error
                        : ::posix_spawnp(&pid, words[0], &plan.files, &plan.how, words.data(), environment.data());
  if (error != 0) {
    const Code code = error == ENOENT || error == ENOTDIR  ? Code::kInvalidArgument
                      : error == ENOMEM || error == EAGAIN ? Code::kResourceExhausted
                                                           : Code::kPermission;
    return program_failed(code, "cannot be started").with_errno(error);
  }
  ends.close_write();
  std::string text;
  Status read = read_output(ends.read, pid, run, stop, text);
  if (!read.ok()) (void)::kill(-pid, SIGKILL);  // with all its children
  Status end = wait_for_end(pid);
  HEADRACE_TRY(std::move(read));
  HEADRACE_TRY(std::move(end));
  return text;
}

std::optional<std::vector<std::string>> split_command(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;  // a word
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\0') return std::nullopt;
    if (quote == '\'') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (quote == '"') {
      const char next = i + 1 < line.size() ? line[i + 1] : '\0';
      if (c == quote)
        quote = '\0';
      else if (c == '\\' && (next == '"' || next == '\\'))
        word += line[++i];
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == '\\') {
      if (++i == line.size()) return std::nullopt;
      word += line[i];
      inside = true;
    } else if (c == ' ' || c == '\t') {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != '\0') return std::nullopt;
  if (inside) words.push_back(std::move(word));
  if (words.empty() || words.size() > kMaxWords || words[0].empty()) return std::nullopt;
  return words;
}

}  // namespace headrace::http
