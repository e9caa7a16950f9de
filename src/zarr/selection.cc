#include <headrace/selection.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace headrace {
namespace {

// More than any array has dimensions, with room for an ellipsis; bounds what a hostile text can make.
constexpr std::size_t kMaxItems = 64;

Status wrong(std::string message) { return Status(Code::kInvalidArgument, Layer::kZarr, std::move(message)); }

std::string quote(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, 40)) out += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
  return out + (text.size() > 40 ? "...'" : "'");
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// An integer, or nothing at all where `text` is blank.
Result<std::optional<std::int64_t>> parse_bound(std::string_view text, const std::string& where) {
  text = trim(text);
  std::optional<std::int64_t> bound;
  if (text.empty()) return bound;
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return wrong(where + ": " + quote(text) + " does not fit 64 bits");
  if (error != std::errc() || end != text.data() + text.size()) {
    return wrong(where + ": " + quote(text) + " is not an integer");
  }
  bound = number;
  return bound;
}

Result<SelectionItem> parse_item(std::string_view text, std::size_t index) {
  text = trim(text);
  const std::string where = "selection item " + std::to_string(index) + " (" + quote(text) + ")";
  SelectionItem item;
  if (text.empty()) return wrong("selection item " + std::to_string(index) + " is empty");
  if (text == "...") {
    item.kind = SelectionItem::Kind::kEllipsis;
    return item;
  }
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) {
    item.kind = SelectionItem::Kind::kIndex;
    HEADRACE_TRY_ASSIGN(item.start, parse_bound(text, where));
    return item;
  }
  std::string_view stop = text.substr(first + 1), step;
  if (const std::size_t second = stop.find(':'); second != std::string_view::npos) {
    step = stop.substr(second + 1);
    stop = stop.substr(0, second);
    if (step.find(':') != std::string_view::npos) return wrong(where + ": a slice has at most two colons");
  }
  HEADRACE_TRY_ASSIGN(item.start, parse_bound(text.substr(0, first), where));
  HEADRACE_TRY_ASSIGN(item.stop, parse_bound(stop, where));
  HEADRACE_TRY_ASSIGN(const std::optional<std::int64_t> by, parse_bound(step, where));
  item.step = by.value_or(1);
  if (item.step < 1) return wrong(where + ": the step must be at least 1");
  return item;
}

// NumPy's bound: negative counts from the end, then cut to [0, extent].
std::uint64_t clamp_bound(std::int64_t bound, std::int64_t extent) {
  if (bound < 0) bound = bound < -extent ? 0 : bound + extent;
  return static_cast<std::uint64_t>(std::min(bound, extent));
}

Status resolve_item(const SelectionItem& item, std::int64_t extent, std::size_t dim, ResolvedSelection& out) {
  ResolvedSelection::Dim resolved;
  const std::string where = "selection of dimension " + std::to_string(dim);
  if (item.kind == SelectionItem::Kind::kIndex) {
    if (!item.start) return wrong(where + ": an index needs a number");
    std::int64_t index = *item.start;
    if (index >= extent || index < -extent) {
      return wrong(where + ": index " + std::to_string(index) + " is out of range for extent " +
                   std::to_string(extent));
    }
    if (index < 0) index += extent;
    resolved = {static_cast<std::uint64_t>(index), 1, 1, true};
  } else {
    if (item.step < 1) return wrong(where + ": the step must be at least 1, not " + std::to_string(item.step));
    resolved.start = clamp_bound(item.start.value_or(0), extent);
    resolved.step = static_cast<std::uint64_t>(item.step);
    const std::uint64_t stop = clamp_bound(item.stop.value_or(extent), extent);
    if (stop > resolved.start) resolved.count = (stop - resolved.start - 1) / resolved.step + 1;
    out.shape.push_back(resolved.count);
  }
  out.dims.push_back(resolved);
  return {};
}

}  // namespace

Result<Selection> parse_selection(std::string_view text) {
  text = trim(text);
  if (!text.empty() && (text.front() == '[' || text.back() == ']')) {
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
      return wrong("selection " + quote(text) + " has only one of its brackets");
    }
    text = trim(text.substr(1, text.size() - 2));
  }
  Selection selection;
  while (!text.empty()) {
    if (selection.size() == kMaxItems) return wrong("selection has more than " + std::to_string(kMaxItems) + " items");
    const std::size_t comma = text.find(',');
    HEADRACE_TRY_ASSIGN(SelectionItem item, parse_item(text.substr(0, comma), selection.size()));
    selection.push_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);  // a comma may end the text, as in Python
    text = trim(text);
  }
  return selection;
}

Result<ResolvedSelection> resolve_selection(const Selection& selection, std::span<const std::uint64_t> shape) {
  constexpr std::uint64_t kMaxExtent = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t extent : shape) {
    if (extent > kMaxExtent) return wrong("shape has an extent above 2^63 - 1");
  }
  const auto is_ellipsis = [](const SelectionItem& item) { return item.kind == SelectionItem::Kind::kEllipsis; };
  const auto ellipses = static_cast<std::size_t>(std::count_if(selection.begin(), selection.end(), is_ellipsis));
  if (ellipses > 1) return wrong("selection has more than one ellipsis");
  const std::size_t given = selection.size() - ellipses;
  if (given > shape.size()) {
    return wrong("selection has " + std::to_string(given) + " items, but the array has " +
                 std::to_string(shape.size()) + " dimensions");
  }
  ResolvedSelection resolved;
  const auto take_all = [&](std::size_t count) {
    for (; count > 0; --count) {
      const std::uint64_t extent = shape[resolved.dims.size()];
      resolved.dims.push_back({0, extent, 1, false});
      resolved.shape.push_back(extent);
    }
  };
  for (const SelectionItem& item : selection) {
    if (is_ellipsis(item)) {
      take_all(shape.size() - given);
      continue;
    }
    const std::size_t dim = resolved.dims.size();
    HEADRACE_TRY(resolve_item(item, static_cast<std::int64_t>(shape[dim]), dim, resolved));
  }
  take_all(shape.size() - resolved.dims.size());
  return resolved;
}

}  // namespace headrace
