// The command line tool as a long-lived process: it runs one command line after another, for devices that start slowly,
// such as a GPU. check_golden.py --reader talks to it.
//
// golden_reader [DEVICE [BOXES]]      keeps DEVICE open, so that reads find it initialised
//
// With BOXES, that many boxes at random places of each array that was read into a file (-o FILE) are read again; chunks
// may be decoded in part for them, however short they are. If bytes differ from the file's, the exit code is 5.
//
// Standard input: one line per command, a JSON list of its arguments. Standard output: an empty line once the device is
// open, then for each command a line of JSON with its exit code and the beginning of its stderr output. Its stdout is
// discarded.
#include <fcntl.h>
#include <headrace/array.h>
#include <headrace/device.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "base/json.h"
#include "cli_common.h"
#include "transfer/read/chunk_part.h"

namespace {

using headrace::base::Json;

constexpr std::size_t kMaxMessageBytes = 1 << 16;
constexpr std::uint64_t kMaxBoxedBytes = std::uint64_t{8} << 20;  // boxes of larger arrays take too long

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(3);
}

int run(const Json& arguments) {
  std::vector<std::string> words = {"headrace"};
  for (const Json& word : arguments) words.push_back(word.get<std::string>());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return headrace::cli::run_command_line(static_cast<int>(words.size()), argv.data());
}

// Whether `box` equals a box of the array stored in `whole` in C order.
bool is_box_of(const std::vector<char>& whole, const std::vector<std::uint64_t>& shape,
               const std::vector<std::uint64_t>& begin, const std::vector<std::uint64_t>& count, std::size_t item_bytes,
               const std::byte* box) {
  std::vector<std::uint64_t> at(shape.size(), 0);
  const std::size_t row_bytes = item_bytes * (shape.empty() ? 1 : count.back());
  for (bool more = true; more;) {
    std::uint64_t linear = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) linear = linear * shape[i] + begin[i] + at[i];
    if (std::memcmp(box, whole.data() + linear * item_bytes, row_bytes) != 0) return false;
    box += row_bytes;
    more = false;
    for (std::size_t i = shape.empty() ? 0 : shape.size() - 1; i-- > 0 && !more;) {
      more = ++at[i] < count[i];
      if (!more) at[i] = 0;
    }
  }
  return true;
}

// Binds this thread, and those that it starts, to one processor: waking a thread on another one takes longer than most
// of the work they share for a box.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    changed_ = sched_getaffinity(0, sizeof before_, &before_) == 0 && sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnOneProcessor() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

 private:
  cpu_set_t before_;
  bool changed_ = false;
};

// Checks the array that a command has read into a file. Returns how many boxes differ.
int check_boxes(const Json& arguments, const headrace::Device& device, int boxes) {
  using namespace headrace;
  std::string target = arguments[1], file, placement = "auto";
  for (std::size_t i = 2; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "-o") file = arguments[i + 1];
    if (arguments[i] == "--placement") placement = arguments[i + 1];
  }
  const OnOneProcessor on_one;
  ContextOptions context_options;
  context_options.threads = 1;  // boxes are small; more threads would mostly wait for each other
  const Context context = Context::create(context_options).value();
  const Store store = Store::open(context, target).value();
  const Array array = Array::open(store).value();
  const ArrayInfo& info = array.info();
  const bool boxed = !info.dtype.is_variable_length() && info.decoded_bytes <= kMaxBoxedBytes;
  std::error_code none;
  if (!boxed || info.decoded_bytes == 0 || std::filesystem::file_size(file, none) != info.decoded_bytes) return 0;
  std::vector<char> whole(info.decoded_bytes);
  if (!std::ifstream(file, std::ios::binary).read(whole.data(), static_cast<std::streamsize>(whole.size()))) return 0;
  const std::size_t item_bytes = info.dtype.item_bytes;
  std::mt19937_64 random(whole.size());
  std::vector<std::byte> got(whole.size());
  int wrong = 0;
  for (int k = 0; k < boxes; ++k) {
    Selection selection;
    std::vector<std::uint64_t> begin, count;
    std::uint64_t elements = 1;
    for (const std::uint64_t extent : info.shape) {
      count.push_back(1 + random() % extent);
      begin.push_back(random() % (extent - count.back() + 1));
      elements *= count.back();
      const auto from = static_cast<std::int64_t>(begin.back());
      selection.push_back({.start = from, .stop = from + static_cast<std::int64_t>(count.back())});
    }
    const Buffer buffer = Buffer::allocate(device, elements * item_bytes).value();
    ReadOptions options;
    options.placement = cli::placement_of(placement);
    Stats stats;
    const Status status = array.read(selection, {buffer, info.dtype, count}, device, options, &stats);
    const bool same = status.ok() && buffer.copy_to_host(0, got.data(), elements * item_bytes).ok() &&
                      is_box_of(whole, info.shape, begin, count, item_bytes, got.data());
    if (same) continue;
    if (wrong++ == 0) std::fprintf(stderr, "box %d differs: %s\n", k, status.to_string().c_str());
  }
  return wrong;
}

// Returns what was written to `said` since it was last truncated.
std::string text_of(int said) {
  std::string text(kMaxMessageBytes, '\0');
  const ssize_t count = pread(said, text.data(), text.size(), 0);
  if (count < 0) give_up("read back");
  text.resize(static_cast<std::size_t>(count));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<headrace::Device> device;
  const int boxes = argc > 2 ? std::atoi(argv[2]) : 0;
  if (boxes > 0) headrace::transfer::min_part_chunk_bytes = 1;
  if (argc > 1) {
    auto opened = headrace::Device::open(argv[1]);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.status().to_string().c_str());
      return 1;
    }
    device = *opened;
  }
  FILE* const said = std::tmpfile();
  FILE* const answers = fdopen(dup(STDOUT_FILENO), "w");
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (said == nullptr || answers == nullptr || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) give_up("set up");
  // Opened for appending, because it is truncated between commands.
  if (fcntl(fileno(said), F_SETFL, O_APPEND) < 0 || dup2(fileno(said), STDERR_FILENO) < 0) give_up("set up");

  std::fputc('\n', answers);
  if (std::fflush(answers) != 0) give_up("begin");
  std::string line;
  while (std::getline(std::cin, line)) {
    if (ftruncate(STDERR_FILENO, 0) != 0) give_up("begin");
    // Resets the peak of memory, so that each command has its own. Where the kernel forbids it, the peak is that of all
    // commands.
    std::ofstream("/proc/self/clear_refs") << 5;
    const Json arguments = Json::parse(line);
    int code = run(arguments);
    if (code == 0 && boxes > 0 && check_boxes(arguments, *device, boxes) != 0) code = 5;
    Json answer = {{"code", code}, {"said", text_of(STDERR_FILENO)}};
    std::fprintf(answers, "%s\n", answer.dump(-1, ' ', true, Json::error_handler_t::replace).c_str());
    if (std::fflush(answers) != 0) give_up("answer");
  }
  return 0;
}
