#include "progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace headrace::cli {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(::isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!terminal_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  if (now - start_ < std::chrono::milliseconds(500) || now - last_ < std::chrono::milliseconds(80)) return;
  last_ = now;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  constexpr int kWidth = 30;
  const int full = static_cast<int>(share * kWidth);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string bar(static_cast<std::size_t>(full), '#');
  bar.resize(kWidth, '.');
  std::string left;
  if (share > 0.02) {
    char text[32];
    std::snprintf(text, sizeof(text), " %.0f s left", elapsed / share - elapsed);
    left = text;
  }
  std::fprintf(stderr, "\r%s [%s] %3.0f %%%s\033[K", label_.c_str(), bar.c_str(), share * 100, left.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::clear() {
  std::lock_guard lock(mutex_);
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace headrace::cli
