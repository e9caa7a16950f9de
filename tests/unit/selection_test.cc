// A selection has the meaning of NumPy's basic indexing, and malformed text gives an error that names the item.
#include <gtest/gtest.h>
#include <headrace/selection.h>

#include <limits>
#include <string>

namespace headrace {
namespace {

// "start:count:step" per dimension, "!" for a dropped one; or the error.
std::string resolve(const std::string& text, const std::vector<std::uint64_t>& shape) {
  auto selection = parse_selection(text);
  if (!selection.ok()) return std::string(code_name(selection.status().code()));
  auto resolved = resolve_selection(*selection, shape);
  if (!resolved.ok()) return std::string(code_name(resolved.status().code()));
  std::string out;
  std::vector<std::uint64_t> kept;
  for (const auto& dim : resolved->dims) {
    if (!out.empty()) out += " ";
    out += std::to_string(dim.start) + ":" + std::to_string(dim.count) + ":" + std::to_string(dim.step);
    if (dim.dropped) out += "!";
    if (!dim.dropped) kept.push_back(dim.count);
  }
  EXPECT_EQ(resolved->shape, kept);
  return out;
}

const std::string kWrong{code_name(Code::kInvalidArgument)};

TEST(Selection, SelectsEverythingByDefault) {
  for (const char* text : {"", "  ", "[]", "...", "[...]", ":", ":, :", ":,", "[:, ...]"})
    EXPECT_EQ(resolve(text, {4, 5}), "0:4:1 0:5:1") << text;
  EXPECT_EQ(resolve("", {}), "");
  EXPECT_EQ(resolve("...", {}), "");
}

TEST(Selection, FollowsNumpysSliceRules) {
  struct Row {
    const char* text;
    const char* expected;
  };
  for (const Row& row :
       {Row{"2:5", "2:3:1"}, Row{"2:", "2:8:1"}, Row{":5", "0:5:1"}, Row{"::3", "0:4:3"}, Row{"1::3", "1:3:3"},
        Row{"1:8:7", "1:1:7"}, Row{"1:9:7", "1:2:7"}, Row{"-3:", "7:3:1"}, Row{":-3", "0:7:1"},
        Row{"-100:100", "0:10:1"}, Row{"5:5", "5:0:1"}, Row{"7:3", "7:0:1"}, Row{"20:30", "10:0:1"},
        Row{"::9223372036854775807", "0:1:9223372036854775807"},
        Row{"-9223372036854775808:9223372036854775807", "0:10:1"}, Row{" 2 : 5 : 2 ", "2:2:2"}, Row{"2:5:", "2:3:1"}}) {
    EXPECT_EQ(resolve(row.text, {10}), row.expected) << row.text;
  }
}

TEST(Selection, IntegersDropTheirDimension) {
  EXPECT_EQ(resolve("3, 1:3", {10, 5}), "3:1:1! 1:2:1");
  EXPECT_EQ(resolve("-1", {10}), "9:1:1!");
  EXPECT_EQ(resolve("-10", {10}), "0:1:1!");
}

TEST(Selection, EllipsisFillsTheMiddle) {
  EXPECT_EQ(resolve("1, ..., 2", {4, 5, 6, 7}), "1:1:1! 0:5:1 0:6:1 2:1:1!");
  EXPECT_EQ(resolve("1, ..., 2", {4, 5}), "1:1:1! 2:1:1!");
}

TEST(Selection, RefusesIndexOutOfRange) {
  EXPECT_EQ(resolve("10", {10}), kWrong);
  EXPECT_EQ(resolve("-11", {10}), kWrong);
  EXPECT_EQ(resolve("0", {0}), kWrong);
  EXPECT_EQ(resolve("-9223372036854775808", {9223372036854775807}), kWrong);
}

TEST(Selection, HandlesTheLargestExtents) {
  EXPECT_EQ(resolve("-1", {9223372036854775807}), "9223372036854775806:1:1!");
  EXPECT_EQ(resolve("::2", {9223372036854775807}), "0:4611686018427387904:2");
  EXPECT_EQ(resolve("1", {9223372036854775808u}), kWrong);
}

TEST(Selection, RefusesTooManyItems) {
  EXPECT_EQ(resolve(":, :", {4}), kWrong);
  EXPECT_EQ(resolve("0", {}), kWrong);
  EXPECT_EQ(resolve("..., ...", {4, 4}), kWrong);
}

TEST(Selection, RefusesStepBelowOne) {
  EXPECT_EQ(resolve("::0", {4}), kWrong);
  EXPECT_EQ(resolve("::-1", {4}), kWrong);
  Selection selection(1);
  selection[0].step = 0;
  const std::vector<std::uint64_t> shape = {4};
  EXPECT_EQ(resolve_selection(selection, shape).status().code(), Code::kInvalidArgument);
  selection[0] = {SelectionItem::Kind::kIndex, std::nullopt, std::nullopt, 1};
  EXPECT_EQ(resolve_selection(selection, shape).status().code(), Code::kInvalidArgument);
}

TEST(Selection, RefusesHostileText) {
  for (const char* text : {"x",
                           "1.0",
                           "1:2:3:4",
                           ",",
                           ",1",
                           "1,,2",
                           "[1",
                           "1]",
                           "[",
                           "]",
                           "[[[1]]]",
                           "[[1]",
                           "[1]]",
                           "[1] [2]",
                           "[1]2",
                           ":, [1",
                           ":, 1]",
                           ":, [,]",
                           ":, [1,,2]",
                           ":, [:]",
                           ":, [1:2]",
                           ":, [...]",
                           ":, [1, true]",
                           ":, [false, 0]",
                           ":, [True]",
                           ":, [1.0]",
                           ":, [9223372036854775808]",
                           "1 2",
                           "- 1",
                           "+1",
                           "--1",
                           "0x1",
                           "....",
                           "..",
                           "1;2",
                           "None",
                           "1_0",
                           "9223372036854775808",
                           "-9223372036854775809",
                           "1:99999999999999999999999",
                           "\x01",
                           "\xff\xfe"}) {
    EXPECT_EQ(parse_selection(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_selection(std::string_view("1\0:2", 4)).status().code(), Code::kInvalidArgument);
}

TEST(Selection, MessageNamesTheItemAndIsShort) {
  const Status status = parse_selection("0:3, abc, 1").status();
  EXPECT_NE(status.message().find("item 1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("'abc'"), std::string::npos) << status.message();
  EXPECT_LT(parse_selection(std::string(1 << 20, 'a')).status().message().size(), 300u);
}

TEST(Selection, BoundsTheNumberOfItems) {
  std::string text = ":";
  for (int i = 0; i < 100000; ++i) text += ",:";
  EXPECT_EQ(parse_selection(text).status().code(), Code::kInvalidArgument);
}

// The index lists, "|" between dimensions; or the error.
std::string lists(const Result<Selection>& selection, const std::vector<std::uint64_t>& shape) {
  if (!selection.ok()) return std::string(code_name(selection.status().code()));
  const auto resolved = resolve_selection(*selection, shape);
  if (!resolved.ok()) return std::string(code_name(resolved.status().code()));
  std::string out;
  for (const auto& dim : resolved->dims) {
    if (&dim != resolved->dims.data()) out += "|";
    if (dim.list == nullptr) out += ":" + std::to_string(dim.count);
    for (std::size_t i = 0; dim.list != nullptr && i < dim.list->size(); ++i) {
      out += (i == 0 ? "" : ",") + std::to_string((*dim.list)[i]);
    }
  }
  return out;
}

TEST(Selection, ListsKeepTheirOrderAndCountFromTheEnd) {
  EXPECT_EQ(lists(parse_selection(":, [5, 1,-1, 5 ,]"), {3, 10}), ":3|5,1,9,5");
  EXPECT_EQ(lists(parse_selection("[[1],[2]]"), {3, 10}), "1|2");
  EXPECT_EQ(lists(parse_selection("[1],[2]"), {3, 10}), "1|2");
  EXPECT_EQ(lists(parse_selection("[[2, 0]]"), {3}), "2,0");
  EXPECT_EQ(lists(parse_selection("[2, 0],"), {3}), "2,0");
  EXPECT_EQ(lists(parse_selection("[2, 0]"), {3, 4}), ":1|:1") << "brackets around the whole, as ever";
  EXPECT_EQ(lists(parse_selection("..., []"), {3, 4}), ":3|");
  for (const char* text : {"[[3]]", "[[0, -4]]", "[[0]], :"}) EXPECT_EQ(lists(parse_selection(text), {3}), kWrong);
}

TEST(Selection, MasksTakeWhereTheyAreTrue) {
  EXPECT_EQ(lists(parse_selection("[[true,false,true]]"), {3}), "0,2");
  EXPECT_EQ(lists(Selection{mask({false, false})}, {2}), "");
  EXPECT_EQ(lists(parse_selection("[[true,false]]"), {3}), kWrong);
}

TEST(Selection, PointsShareOneDimension) {
  EXPECT_EQ(lists(parse_points("[1, 2, 0], -1"), {3, 4}), "1,2,0|3,3,3");
  EXPECT_EQ(resolve_selection(points({{1, 2}, {0, 0}}), std::vector<std::uint64_t>{3, 4})->shape,
            (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(lists(parse_points("1, 2"), {3, 4}), "1|2");
  EXPECT_EQ(lists(parse_points("[], 2"), {3, 4}), "|");
  for (const char* text :
       {"", ":", "1:2, 3", "...", "[true]", "[1, 2], [1, 2, 3]", "[1]", "[1], [1], [1]", "[3], [0]"}) {
    EXPECT_EQ(lists(parse_points(text), {3, 4}), kWrong) << text;
  }
  EXPECT_EQ(mask_points(std::vector<std::uint8_t>(5), std::vector<std::uint64_t>{2, 3}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(mask_points({}, {}).status().code(), Code::kInvalidArgument);
}

TEST(Selection, BlocksAreNumbersAndRanges) {
  EXPECT_TRUE(parse_blocks("0, 1:3, ..., -1").ok());
  for (const char* text : {"::2", ":, [0, 1]", "x", "[[true]]"}) {
    EXPECT_EQ(parse_blocks(text).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace headrace
