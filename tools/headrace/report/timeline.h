// Draws a trace: a row per thread, rows for operations in flight, time from left to right.
#pragma once

#include <headrace/trace.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::cli {

// Assigns overlapping spans to different rows: returns the row of each event of `track`, in the order of Trace::events.
// When `max_rows` are used up, a span overlaps in the row that becomes free first.
std::vector<std::size_t> rows_of_track(const trace::Trace& trace, std::uint32_t track, std::size_t max_rows);

// An SVG element with a class per stage: s0, s1, ... If there are too many spans to draw, columns of time are drawn
// instead and `resolution_ns` is set to their width; otherwise to 0.
std::string timeline_svg(const trace::Trace& trace, std::uint64_t& resolution_ns);

}  // namespace headrace::cli
