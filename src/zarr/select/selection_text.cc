// Parses selections from text.
#include <headrace/selection.h>

#include <charconv>
#include <string>

namespace headrace {
namespace {

// More than the most dimensions of an array plus an ellipsis. Bounds the result of a hostile text; lists are bounded by
// the text's own length.
constexpr std::size_t kMaxItems = 64;

Status wrong_text(std::string message) { return Status(Code::kInvalidArgument, Layer::kZarr, std::move(message)); }

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

// The position is formatted only for an error message.
struct Place {
  std::size_t item;
  std::string_view text;  // of the item
  std::string words() const { return "selection item " + std::to_string(item) + " (" + quote(text) + ")"; }
};

// An integer; nullopt if `text` is blank.
Result<std::optional<std::int64_t>> parse_bound(std::string_view text, const Place& where) {
  text = trim(text);
  std::optional<std::int64_t> bound;
  if (text.empty()) return bound;
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) {
    return wrong_text(where.words() + ": " + quote(text) + " does not fit 64 bits");
  }
  if (error != std::errc() || end != text.data() + text.size()) {
    return wrong_text(where.words() + ": " + quote(text) + " is not an integer");
  }
  bound = number;
  return bound;
}

// `inside` is the text between the brackets.
Result<SelectionItem> parse_list(std::string_view inside, const Place& where) {
  SelectionItem item;
  item.kind = SelectionItem::Kind::kList;
  inside = trim(inside);
  bool is_mask = false;
  for (std::size_t number = 0; !inside.empty(); ++number) {
    const std::size_t comma = inside.find(',');
    const std::string_view entry = trim(inside.substr(0, comma));
    const bool is_true = entry == "true";
    const bool truth = is_true || entry == "false";
    if (number == 0) is_mask = truth;
    if (entry.empty()) return wrong_text(where.words() + ": entry " + std::to_string(number) + " of the list is empty");
    if (truth != is_mask) return wrong_text(where.words() + " mixes integers with true and false");
    if (truth) {
      if (is_true) item.indices.push_back(static_cast<std::int64_t>(number));
      ++item.mask_length;
    } else {
      HEADRACE_TRY_ASSIGN(const std::optional<std::int64_t> index, parse_bound(entry, where));
      item.indices.push_back(*index);
    }
    if (comma == std::string_view::npos) break;
    inside.remove_prefix(comma + 1);
    inside = trim(inside);  // a comma may end the list
  }
  if (is_mask) item.kind = SelectionItem::Kind::kMask;
  return item;
}

Result<SelectionItem> parse_item(const Place& where) {
  const std::string_view text = where.text;
  SelectionItem item;
  if (text.empty()) return wrong_text("selection item " + std::to_string(where.item) + " is empty");
  if (text == "...") {
    item.kind = SelectionItem::Kind::kEllipsis;
    return item;
  }
  if (text.front() == '[') {
    if (text.size() < 2 || text.back() != ']')
      return wrong_text(where.words() + ": unexpected text after the closing bracket");
    return parse_list(text.substr(1, text.size() - 2), where);
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
    if (step.find(':') != std::string_view::npos) return wrong_text(where.words() + ": a slice has at most two colons");
  }
  HEADRACE_TRY_ASSIGN(item.start, parse_bound(text.substr(0, first), where));
  HEADRACE_TRY_ASSIGN(item.stop, parse_bound(stop, where));
  HEADRACE_TRY_ASSIGN(const std::optional<std::int64_t> by, parse_bound(step, where));
  item.step = by.value_or(1);
  if (item.step < 1) return wrong_text(where.words() + ": the step must be at least 1");
  return item;
}

// Index of the bracket that closes the one at the front; npos if there is none.
std::size_t closing(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// The text up to the comma after the item. Commas inside brackets belong to the item.
Result<std::string_view> take_item(std::string_view text, std::size_t number) {
  if (text.front() != '[') return text.substr(0, text.find(','));
  const std::size_t close = closing(text);
  if (close == std::string_view::npos) {
    return wrong_text(Place{number, text}.words() + ": the bracket is not closed");
  }
  const std::size_t comma = text.find(',', close);
  return text.substr(0, comma);
}

}  // namespace

Result<Selection> parse_selection(std::string_view text) {
  text = trim(text);
  if (!text.empty() && (text.front() == '[' || text.back() == ']')) {
    const std::size_t close = text.front() == '[' ? closing(text) : 0;
    if (text.front() == '[' && close == text.size() - 1) {
      text = trim(text.substr(1, text.size() - 2));
    } else if (close == std::string_view::npos) {
      return wrong_text("selection " + quote(text) + " has an unmatched bracket");
    }
  }
  Selection selection;
  while (!text.empty()) {
    if (selection.size() == kMaxItems)
      return wrong_text("selection has more than " + std::to_string(kMaxItems) + " items");
    HEADRACE_TRY_ASSIGN(const std::string_view part, take_item(text, selection.size()));
    HEADRACE_TRY_ASSIGN(SelectionItem item, parse_item({selection.size(), trim(part)}));
    selection.push_back(std::move(item));
    if (part.size() == text.size()) break;
    text.remove_prefix(part.size() + 1);  // a comma may end the text, as in Python
    text = trim(text);
  }
  return selection;
}

Result<Selection> parse_points(std::string_view text) {
  HEADRACE_TRY_ASSIGN(Selection selection, parse_selection(text));
  for (std::size_t i = 0; i < selection.size(); ++i) {
    SelectionItem& item = selection[i];
    if (item.kind == SelectionItem::Kind::kIndex) {
      item.indices.assign(1, *item.start);
    } else if (item.kind != SelectionItem::Kind::kList) {
      return wrong_text("points item " + std::to_string(i) + " is neither an integer nor a list of integers");
    }
    item.kind = SelectionItem::Kind::kPoints;
    item.start.reset();
  }
  if (selection.empty()) return wrong_text("points need a list of coordinates for each dimension");
  return selection;
}

Result<Selection> parse_blocks(std::string_view text) {
  HEADRACE_TRY_ASSIGN(Selection selection, parse_selection(text));
  for (std::size_t i = 0; i < selection.size(); ++i) {
    SelectionItem& item = selection[i];
    if (item.kind == SelectionItem::Kind::kEllipsis) continue;
    if (item.kind == SelectionItem::Kind::kIndex) {
      item = block(*item.start);
    } else if (item.kind == SelectionItem::Kind::kSlice && item.step == 1) {
      item.kind = SelectionItem::Kind::kBlocks;
    } else {
      return wrong_text("blocks item " + std::to_string(i) + " is neither a block's number nor a range of them");
    }
  }
  return selection;
}

}  // namespace headrace
