// Aligned rows of a text report.
#pragma once

#include <string>
#include <string_view>

#include "text.h"

namespace headrace::cli {

class DoctorRows {
 public:
  void section(std::string_view name) { out_ += (out_.empty() ? "" : "\n") + one_line(name) + "\n"; }
  void row(std::string_view name, std::string_view text) {
    std::string line = "  " + one_line(name);
    if (line.size() < kColumn) line.resize(kColumn, ' ');
    out_ += line + " " + one_line(text) + "\n";
  }
  void warning(std::string_view text) { out_ += "! " + one_line(text) + "\n"; }
  std::string take() { return std::move(out_); }

 private:
  static constexpr std::size_t kColumn = 18;
  std::string out_;
};

}  // namespace headrace::cli
