// Parsing of the kernel's small text files: /proc, /sys, control groups.
//
// Threads: every call from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::os {

// The file's text, at most 4 MiB; nothing if it cannot be opened or read.
std::optional<std::string> read_text_file(const std::string& path);
// Its first line, trimmed.
std::optional<std::string> read_first_line(const std::string& path);
// Its first line as an unsigned decimal number.
std::optional<std::uint64_t> read_number(const std::string& path);

// Moves the next line from `text` to `line`, without its newline; false at the end.
bool next_line(std::string_view& text, std::string_view& line) noexcept;
// Removes the next blank-separated word from `line`; empty at the end.
std::string_view next_word(std::string_view& line) noexcept;
std::string_view trimmed(std::string_view text) noexcept;
// All of `text` as an unsigned decimal number.
std::optional<std::uint64_t> parse_number(std::string_view text) noexcept;
// The number after `label` in lines like "label: 12 kB" or "label 12": /proc/meminfo, memory.stat, fdinfo.
std::optional<std::uint64_t> labelled_number(std::string_view text, std::string_view label) noexcept;
// Whether `word` is an item of the comma-separated `list`.
bool lists_word(std::string_view list, std::string_view word) noexcept;

// A set of CPUs or nodes as the kernel writes it: "0-3,8" is 0 1 2 3 8. Empty text is the empty set. Nothing for any
// other text, or for numbers of 65,536 and above.
std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text);

}  // namespace headrace::os
