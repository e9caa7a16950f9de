// Requesting a GPU gives a device or an actionable reason, and never harms the program.
#include <elf.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>

#include "cubin_list.h"
#include "device/device.h"
#include "plugin_file.h"
#include "support/temp_dir.h"

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

TEST(CudaLoader, AutoSaysWhyThereIsNoGpu) {
  auto device = open_device("auto");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const auto count = cuda_row().count();
  if (count.ok()) {
    EXPECT_EQ((*device)->note().find("no GPU"), std::string::npos);
    return;
  }
  EXPECT_EQ((*device)->info().name, "host");
  EXPECT_NE((*device)->note().find("no GPU is used: cuda: " + count.status().to_string()), std::string::npos);
  auto host = open_device("host");
  ASSERT_TRUE(host.ok());
  EXPECT_EQ((*host)->note(), "") << "who asks for the host needs no reason";
}

TEST(CudaLoader, MachineCodeServesLaterMinorNumbersOfItsMajorOne) {
  constexpr std::string_view kList = "75 80 90 100 120";
  for (const int fits : {75, 80, 86, 87, 89, 90, 100, 103, 120, 121}) {
    EXPECT_TRUE(has_machine_code(kList, fits / 10, fits % 10)) << fits;
  }
  for (const int other : {70, 72, 110, 130}) EXPECT_FALSE(has_machine_code(kList, other / 10, other % 10)) << other;
  EXPECT_FALSE(has_machine_code("86", 8, 0));
  EXPECT_FALSE(has_machine_code("0", 9, 0)) << "PTX only";
  EXPECT_TRUE(has_machine_code("", 9, 0)) << "not known: nothing is said";
}

// An ELF file that contains only these notes.
std::vector<std::byte> elf_with(const std::vector<std::byte>& notes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = notes.size();
  std::vector<std::byte> out(sizeof header + sizeof segment + notes.size());
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, &segment, sizeof segment);
  std::copy(notes.begin(), notes.end(), out.begin() + sizeof header + sizeof segment);
  return out;
}

std::vector<std::byte> note(const std::string& owner, unsigned type, const std::string& text) {
  const Elf64_Nhdr header{static_cast<unsigned>(owner.size() + 1), static_cast<unsigned>(text.size() + 1), type};
  std::vector<std::byte> out(sizeof header);
  std::memcpy(out.data(), &header, sizeof header);
  for (const std::string& part : {owner, text}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(part.c_str());
    out.insert(out.end(), bytes, bytes + part.size() + 1);
    out.resize((out.size() + 3) / 4 * 4);
  }
  return out;
}

TEST(PluginFile, TheBuildIdIsReadWithoutLoading) {
  support::TempDir dir;
  const auto read = [&](const std::vector<std::byte>& bytes) {
    EXPECT_TRUE(support::write_file(dir / "plugin", bytes));
    return read_build_note(dir / "plugin");
  };
  std::vector<std::byte> notes = note("GNU", 3, "something else");
  for (const auto& more : {note("headrace", 2, "of another type"), note("headrace", 1, "0.1.0-abc")}) {
    notes.insert(notes.end(), more.begin(), more.end());
  }
  const auto whole = elf_with(notes);
  auto got = read(whole);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(*got, "0.1.0-abc");
  EXPECT_EQ(read(elf_with(note("GNU", 3, "x"))).status().code(), Code::kUnsupported);
  EXPECT_EQ(read(elf_with({})).status().code(), Code::kUnsupported);
  // Truncated anywhere, or with any byte changed: an id or an error, never a crash.
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)}).ok()) << bytes;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x7f, 0xff}) {
      auto changed = whole;
      changed[at] = static_cast<std::byte>(value);
      (void)read(changed);
    }
  }
}

// The plug-in is searched once per process, so each search in other places needs its own process.
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
