// Reading what the kernel tells in small text files: /proc, /sys, control groups.
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

// The file's text, at most 4 MiB of it; nothing where it cannot be opened or read.
std::optional<std::string> read_text_file(const std::string& path);
// Its first line without the newline and surrounding blanks.
std::optional<std::string> read_first_line(const std::string& path);
// Its first line as an unsigned decimal number.
std::optional<std::uint64_t> read_number(const std::string& path);

// Cuts the next line off `text`, without its newline; false at the end.
bool next_line(std::string_view& text, std::string_view& line) noexcept;
// Cuts the next word off `line`; empty at the end. Words stand between blanks.
std::string_view next_word(std::string_view& line) noexcept;
std::string_view trimmed(std::string_view text) noexcept;
// The whole of `text` as an unsigned decimal number.
std::optional<std::uint64_t> parse_number(std::string_view text) noexcept;
// The number after `label` in lines of the form "label: 12 kB" or "label 12": /proc/meminfo, memory.stat, fdinfo.
std::optional<std::uint64_t> labelled_number(std::string_view text, std::string_view label) noexcept;
// Whether `word` is one of `list`, which commas separate.
bool lists_word(std::string_view list, std::string_view word) noexcept;

// "0-3,8" as the kernel writes sets of CPUs and nodes: 0 1 2 3 8. Nothing where the text is anything else, or names a
// number of 65,536 or more. Empty text is the empty set.
std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text);

}  // namespace headrace::os
