#include "http/ini_file.h"

#include <algorithm>
#include <functional>

namespace headrace::http {
namespace {

std::string_view trimmed_line(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Calls `see` for each line of the section until it returns true. Returns whether the section exists.
bool for_section(std::string_view text, std::string_view section,
                 const std::function<bool(std::string_view raw, std::string_view line)>& see) {
  bool inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed_line(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::size_t close = line.find(']');
      if (inside) return true;
      inside = close != std::string_view::npos && trimmed_line(line.substr(1, close - 1)) == section;
    } else if (inside && see(raw, line)) {
      return true;
    }
  }
  return inside;
}

}  // namespace

std::string ini_value(std::string_view text, std::string_view section, std::string_view name) {
  std::string found;
  for_section(text, section, [&](std::string_view raw, std::string_view line) {
    if (raw.front() == ' ' || raw.front() == '\t') return false;
    const std::size_t equal = line.find('=');
    if (equal == std::string_view::npos || trimmed_line(line.substr(0, equal)) != name) return false;
    found = trimmed_line(line.substr(equal + 1));
    return true;
  });
  return found;
}

bool has_ini_section(std::string_view text, std::string_view section) {
  return for_section(text, section, [](std::string_view, std::string_view) { return true; });
}

}  // namespace headrace::http
