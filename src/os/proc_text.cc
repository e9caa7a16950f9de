#include "os/proc_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace headrace::os {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;
constexpr unsigned kMaxListedCpus = 1u << 16;

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

std::optional<std::string> read_text_file(const std::string& path) {
  // O_NONBLOCK: opening a path that turns out to be a FIFO must not block.
  struct Descriptor {
    const int number;
    ~Descriptor() {
      if (number >= 0) ::close(number);
    }
  };
  const Descriptor fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (fd.number < 0) return std::nullopt;
  std::string text;
  char block[4096];
  ssize_t got = 0;
  while (text.size() < kMaxTextBytes) {
    got = ::read(fd.number, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(block, static_cast<std::size_t>(got));
  }
  if (got < 0) return std::nullopt;
  return text;
}

std::optional<std::string> read_first_line(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return std::nullopt;
  return std::string(trimmed(std::string_view(*text).substr(0, text->find('\n'))));
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto line = read_first_line(path);
  return line ? parse_number(*line) : std::nullopt;
}

bool next_line(std::string_view& text, std::string_view& line) noexcept {
  if (text.empty()) return false;
  const std::size_t end = text.find('\n');
  line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return true;
}

std::string_view next_word(std::string_view& line) noexcept {
  while (!line.empty() && blank(line.front())) line.remove_prefix(1);
  std::size_t end = 0;
  while (end < line.size() && !blank(line[end])) ++end;
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<std::uint64_t> parse_number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> labelled_number(std::string_view text, std::string_view label) noexcept {
  std::string_view line;
  while (next_line(text, line)) {
    std::string_view word = next_word(line);
    if (!word.empty() && word.back() == ':') word.remove_suffix(1);
    if (word == label) return parse_number(next_word(line));
  }
  return std::nullopt;
}

bool lists_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    const std::size_t end = list.find(',');
    if (list.substr(0, end) == word) return true;
    if (end == std::string_view::npos) return false;
    list.remove_prefix(end + 1);
  }
  return false;
}

std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
  std::vector<unsigned> cpus;
  text = trimmed(text);
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMaxListedCpus) return std::nullopt;
    // Numbers must ascend without overlap, as the kernel writes them, so hostile text cannot produce
    // more than kMaxListedCpus.
    if (!cpus.empty() && *first <= cpus.back()) return std::nullopt;
    for (std::uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<unsigned>(cpu));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;
  }
  return cpus;
}

}  // namespace headrace::os
