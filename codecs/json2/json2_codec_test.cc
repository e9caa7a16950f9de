// Streams of strings as written by numcodecs.json.
#include "tests/support/variable_codec_testing.h"

namespace headrace::test {
namespace {

TEST(Json2, DecodesWhatNumcodecsWrote) {
  const auto codec = make("json2", "{}", 2);
  expect_elements(*codec, R"(["foo","","Gr\u00fc\u00dfe","|O",[3]])", {"foo", "", "Gr\xc3\xbc\xc3\x9f\x65"});
  expect_elements(*codec, R"([["a","b"],["c","d"],["e","f"],"|O",[3,2]])", {"a", "b", "c", "d", "e", "f"});
  expect_elements(*codec, R"(["x","|O",[]])", {"x"});
  expect_elements(*codec, R"(["|O",[0]])", {});
  expect_elements(*codec, R"([[],[],"|O",[2,0]])", {});
}

TEST(Json2, ElementsThatAreNoStringsAreMarked) {
  expect_elements(*make("json2", "{}", 2), R"(["a",0,null,["b"],"|O",[4]])",
                  {"a", std::nullopt, std::nullopt, std::nullopt});
}

TEST(Json2, RefusesShapesThatDoNotFit) {
  const auto codec = make("json2", "{}", 2);
  expect_bad(*codec, R"(["a","b","|O",[3]])", 3, "2 items along dimension 0");
  expect_bad(*codec, R"(["a","b","|O",[2]])", 3, "has 2 elements, but a chunk has 3");
  expect_bad(*codec, R"([["a"],["b","c"],"|O",[2,2]])", 4, "dimension 1");
  expect_bad(*codec, R"(["a","b","|O",[2,1]])", 2, "dimension 1");
  expect_bad(*codec, R"(["a","|O",[1.0]])", 1, "integers");
  expect_bad(*codec, R"(["a","|O",[-1]])", 1, "integers");
  expect_bad(*codec, R"(["a","|O",[4294967296,4294967296]])", 1, "too large");
  expect_bad(*codec, R"(["a","b","|O",[]])", 1, "one element");
}

TEST(Json2, RefusesWhatIsNoSuchList) {
  const auto codec = make("json2", "{}", 2);
  for (const char* text : {"", "{", "3", "[]", R"({"a":1})", R"(["|O"])", R"(["a","|O",[1])", R"(["a","|O",[1]]x)",
                           R"(["\ud800","|O",[1]])", "[\"\xff\",\"|O\",[1]]", R"(["a","|O",1])"}) {
    expect_bad(*codec, text, 1, "json2");
  }
  expect_bad(*codec, R"(["a","<U1",[1]])", 1, "unsupported data type", Code::kUnsupported);
}

TEST(Json2, OrderFInSeveralDimensionsIsUnsupported) {
  const auto codec = make("json2", "{}", 2);
  DataType type;
  type.kind = TypeKind::kString;
  std::vector<std::uint64_t> shape = {2, 2};
  codec::Layout layout;
  layout.axis_order = {1, 0};
  EXPECT_EQ(enter(codec.codec(), type, shape, layout).code(), Code::kUnsupported);
  layout.axis_order = {0, 1};
  EXPECT_TRUE(enter(codec.codec(), type, shape, layout).ok());
}

TEST(Json2, OtherEncodingsAreUnsupported) {
  EXPECT_TRUE(try_make("json2", R"({"encoding":"utf-8","strict":true})", 2).ok());
  EXPECT_EQ(try_make("json2", R"({"encoding":"utf-16"})", 2).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace headrace::test
