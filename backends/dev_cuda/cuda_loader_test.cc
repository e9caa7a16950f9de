// Asking for a GPU gives a device, or a reason a person can act on; the program is unharmed either way.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "device/device.h"

namespace headrace::device {
namespace {

const DeviceRow& cuda_row() {
  for (const DeviceRow& row : devices()) {
    if (std::string_view(row.kind) == "cuda") return row;
  }
  ADD_FAILURE() << "the table has no cuda row";
  return devices().front();
}

TEST(CudaLoader, CountsOrSaysWhyNot) {
  auto count = cuda_row().count();
  if (count.ok()) {
    EXPECT_GT(*count, 0) << "no GPU is a failure with a reason, not a count of zero";
    EXPECT_EQ(open_device("cuda:" + std::to_string(*count)).status().code(), Code::kInvalidArgument);
  } else {
    EXPECT_EQ(count.status().code(), Code::kUnsupported) << count.status().to_string();
    EXPECT_GT(count.status().message().size(), 20u);
    EXPECT_EQ(open_device("cuda").status().code(), Code::kUnsupported);
  }
}

TEST(CudaLoader, AutoAlwaysOpensSomething) {
  auto device = open_device("auto");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_NE((*device)->info().name, "host-staged");
}

// The plug-in is looked for once in a process, so a search in odd places needs a process of its own.
std::string message_with(const char* directory, bool& loaded) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    setenv("HEADRACE_PLUGIN_DIR", directory, 1);
    setenv("HEADRACE_LOADER_TEST_CHILD", "1", 1);
    dup2(pipe_ends[1], 1);
    close(pipe_ends[0]);
    execl("/proc/self/exe", "cuda_loader_test", "--gtest_filter=CudaLoader.DISABLED_PrintReason",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  loaded = text.find("REASON: ok") != std::string::npos;
  return text;
}

TEST(CudaLoader, DISABLED_PrintReason) {
  if (getenv("HEADRACE_LOADER_TEST_CHILD") == nullptr) return;
  auto count = cuda_row().count();
  const std::string line = "REASON: " + count.status().to_string() + "\n";
  EXPECT_EQ(write(1, line.data(), line.size()), static_cast<ssize_t>(line.size()));
}

TEST(CudaLoader, ABrokenPluginIsNamedNotLoaded) {
  char directory[] = "/tmp/headrace-loader-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string file = std::string(directory) + "/libheadrace_cuda.so";
  FILE* out = fopen(file.c_str(), "w");
  ASSERT_NE(out, nullptr);
  fputs("this is not a library", out);
  fclose(out);
  bool loaded = true;
  const std::string text = message_with(directory, loaded);
  EXPECT_FALSE(loaded);
  EXPECT_NE(text.find(file), std::string::npos) << text;
  unlink(file.c_str());
  rmdir(directory);
}

}  // namespace
}  // namespace headrace::device
