#include "progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "text.h"

namespace headrace::cli {

ProgressBar::ProgressBar(std::string label, bool always)
    : label_(std::move(label)),
      shows_(always || ::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

void ProgressBar::update(std::uint64_t done, std::uint64_t total, const std::string& detail) {
  if (!shows_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  if (now - start_ < std::chrono::milliseconds(500) || now - last_ < std::chrono::milliseconds(80)) return;
  last_ = now;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (share > 0.02) {
    char text[32];
    std::snprintf(text, sizeof(text), " %.0f s left", elapsed / share - elapsed);
    left = text;
  }
  char percent[16];
  std::snprintf(percent, sizeof(percent), "%3.0f %%", share * 100);
  // A wrapped line could not be overwritten, so parts that do not fit are left out, the bar first.
  const std::size_t columns = terminal_columns(STDERR_FILENO) - 1;
  std::string line = label_ + " " + percent;
  constexpr std::size_t kWidth = 30, kLeast = 8, kFrame = 3;
  if (!detail.empty() && line.size() + 1 + detail.size() <= columns) line += " " + detail;
  if (line.size() + left.size() <= columns) line += left;
  if (columns >= line.size() + kFrame + kLeast) {
    const std::size_t width = std::min(kWidth, columns - line.size() - kFrame);
    std::string bar(static_cast<std::size_t>(share * static_cast<double>(width)), '#');
    bar.resize(width, '.');
    line.insert(label_.size(), " [" + bar + "]");
  }
  line.resize(std::min(line.size(), columns));
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::clear() {
  std::lock_guard lock(mutex_);
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace headrace::cli
