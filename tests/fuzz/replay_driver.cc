// Runs a fuzz target without libFuzzer: x_fuzz [--mutate N] [--first I] [--seed S] file-or-folder...
//
// Replays every file, then N inputs mutated from them. Mutation i depends only on the seeds, S and i. A failure prints
// S and i; repeat it with --seed S --first i --mutate 1.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

char g_running[512];  // printed when the target crashes

void on_crash(int signal) {
  // In a signal handler it is only safe to write and to die of the same signal.
  [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, g_running, std::strlen(g_running));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(next() % limit); }

 private:
  std::uint64_t state_;
};

void mutate_once(Input& input, const std::vector<Input>& seeds, Random& random) {
  static constexpr std::uint32_t kWords[] = {0,     1,     2,          15,         16,         17,
                                             127,   128,   255,        256,        4095,       4096,
                                             65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF};
  static constexpr std::size_t kMaxBytes = 1 << 16;
  const std::size_t at = random.below(input.size());
  const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
  const auto span_end = here + static_cast<std::ptrdiff_t>(random.below(input.size() - at + 1));
  switch (random.below(8)) {
    case 0:
      if (!input.empty()) *here ^= static_cast<std::uint8_t>(1u << random.below(8));
      break;
    case 1:
      if (!input.empty()) *here = static_cast<std::uint8_t>(random.next());
      break;
    case 2:  // a word, as headers hold sizes and offsets in words
      if (input.size() - at >= 4) {
        std::uint32_t word;
        std::memcpy(&word, &*here, 4);
        word = random.below(2) == 0 ? kWords[random.below(std::size(kWords))]
                                    : word + static_cast<std::uint32_t>(random.below(9)) - 4;
        std::memcpy(&*here, &word, 4);
      }
      break;
    case 3:
      input.erase(here, input.end());
      break;
    case 4:
      input.erase(here, span_end);
      break;
    case 5: {
      const Input copy(here, span_end);
      if (input.size() + copy.size() <= kMaxBytes) input.insert(here, copy.begin(), copy.end());
      break;
    }
    case 6: {  // the tail of another seed
      const Input& other = seeds[random.below(seeds.size())];
      const std::size_t from = random.below(other.size());
      input.erase(here, input.end());
      input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      break;
    }
    default:
      for (std::size_t i = 0, count = 1 + random.below(16); i < count; ++i) {
        input.push_back(static_cast<std::uint8_t>(random.below(2) == 0 ? 0xFF : random.next()));
      }
  }
}

void run(const Input& input) {
  // A heap copy of the exact size, so that AddressSanitizer detects an access one byte past the end.
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seed = 1, first = 0, count = 0;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--mutate" && has_value) {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--first" && has_value) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && has_value) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    } else {
      files.emplace_back(argument);
    }
  }
  std::sort(files.begin(), files.end());
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, on_crash);

  std::vector<Input> seeds;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 2;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds: a target without any tests nothing\n");
    return 2;
  }
  run({});
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::snprintf(g_running, sizeof g_running, "\ncrashed on %s\n", files[i].c_str());
    run(seeds[i]);
  }
  for (std::uint64_t i = first; i < first + count; ++i) {
    std::snprintf(g_running, sizeof g_running, "\ncrashed on --seed %llu --first %llu --mutate 1\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(i));
    Random random(seed * 0x9E3779B97F4A7C15ULL + i);
    random.next();
    Input input = seeds[random.below(seeds.size())];
    for (std::size_t step = 0, steps = 1 + random.below(4); step < steps; ++step) mutate_once(input, seeds, random);
    run(input);
  }
  std::printf("%zu seeds, %llu mutations\n", seeds.size(), static_cast<unsigned long long>(count));
  return 0;
}
