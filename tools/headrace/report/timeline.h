// The picture of a trace: a row for each thread, rows for what was in flight, time from left to right.
#pragma once

#include <headrace/trace.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::cli {

// Puts spans that overlap into rows where none do: the row of each event of `track`, in the order of Trace::events.
// Beyond `most_rows` they overlap in the row that is free first.
std::vector<std::size_t> rows_of_track(const trace::Trace& trace, std::uint32_t track, std::size_t most_rows);

// An SVG element whose classes s0, s1, ... are the stages. Where there are too many spans to draw each, `resolution_ns`
// gets the length of the columns of time that are drawn instead; else 0.
std::string timeline_svg(const trace::Trace& trace, std::uint64_t& resolution_ns);

}  // namespace headrace::cli
