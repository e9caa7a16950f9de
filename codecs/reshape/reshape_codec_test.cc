// The shapes that the registration of "reshape" allows and forbids, and chains that permute axes around it.
#include <numeric>

#include "base/json.h"
#include "codec/chain.h"
#include "codec/chain_encoder.h"
#include "tests/support/codec_testing.h"

namespace headrace::test {
namespace {

using Shape = std::vector<std::uint64_t>;

Result<Shape> reshaped(std::string_view config, Shape shape) {
  auto codec = try_make("reshape", config);
  if (!codec.ok()) return codec.status();
  codec::Layout layout;
  const Status status = enter(*codec, numeric_type("int8"), shape, layout);
  if (!status.ok()) return status;
  return shape;
}

void expect_corrupt(std::string_view config, const Shape& shape, std::string_view word) {
  const auto got = reshaped(config, shape);
  ASSERT_FALSE(got.ok()) << config;
  EXPECT_EQ(got.status().code(), Code::kCorrupt) << got.status().to_string();
  EXPECT_NE(got.status().message().find(word), std::string::npos) << got.status().message();
}

TEST(ReshapeCodec, ShapesOfTheRegistration) {
  EXPECT_EQ(*reshaped(R"({"shape":[[0,1],[2],3]})", {5, 4, 4, 3}), (Shape{20, 4, 3}));
  EXPECT_EQ(*reshaped(R"({"shape":[[0,1],[2],-1]})", {5, 4, 4, 3}), (Shape{20, 4, 3}));
  EXPECT_EQ(*reshaped(R"({"shape":[[0],-1,[3]]})", {5, 4, 4, 3}), (Shape{5, 16, 3}));
  EXPECT_EQ(*reshaped(R"({"shape":[-1]})", {5, 4, 4, 3}), (Shape{240}));
  EXPECT_EQ(*reshaped(R"({"shape":[2,120]})", {5, 4, 4, 3}), (Shape{2, 120}));
  EXPECT_EQ(*reshaped(R"({"shape":[[0],1,[1]]})", {5, 4}), (Shape{5, 1, 4}));
  EXPECT_EQ(*reshaped(R"({"shape":[[],[0]]})", {5}), (Shape{1, 5}));
  EXPECT_EQ(*reshaped(R"({"shape":[[0,2]]})", {5, 1, 4}), (Shape{20}));  // the omitted axis has one element
  EXPECT_EQ(*reshaped(R"({"shape":[]})", {1, 1}), (Shape{}));
  EXPECT_EQ(*reshaped(R"({"shape":[1,-1]})", {}), (Shape{1, 1}));
  EXPECT_EQ(*reshaped(R"({"shape":[[0,1]]})", {0, 4}), (Shape{0}));
}

TEST(ReshapeCodec, ElementsAreNeitherLostNorMade) {
  expect_corrupt(R"({"shape":[7,-1]})", {5, 4}, "no value for shape[1] yields 20 elements");
  expect_corrupt(R"({"shape":[21]})", {5, 4}, "its shape has 21 elements, but the chunk has 20");
  expect_corrupt(R"({"shape":[[0]]})", {5, 4}, "elements");
  expect_corrupt(R"({"shape":[[0],[2]]})", {5, 4}, "names axis 2");
  expect_corrupt(R"({"shape":[[0],-1]})", {0, 4}, "no value");
  expect_corrupt(R"({"shape":[18446744073709551615,18446744073709551615]})", {5, 4}, "elements");
}

// "... the coordinates in the input array along input_dims actually correspond to the raveled index".
TEST(ReshapeCodec, NamedAxesStayWhereTheyAre) {
  expect_corrupt(R"({"shape":[5,[0]]})", {4, 5}, "not at its position");
  expect_corrupt(R"({"shape":[[0,2],-1]})", {2, 3, 4}, "not at its position");
  expect_corrupt(R"({"shape":[2,[1],4]})", {4, 6, 2}, "not at its position");
  EXPECT_TRUE(reshaped(R"({"shape":[2,2,[1],2]})", {4, 6, 2}).ok());
}

TEST(ReshapeCodec, Configuration) {
  expect_refused("reshape", "{}", "shape");
  expect_refused("reshape", R"({"shape":[2],"order":"C"})", "order");
  for (const char* shape :
       {"3", "null", R"("C")", "[0]", "[-2]", "[1.0]", "[true]", R"(["2"])", "[null]", "[[-1]]", "[[1.5]]", "[[[0]]]",
        "[-1,-1]", "[[1],[0]]", "[[1,0]]", "[[0],[0]]", "[[0,0]]", "[[3,4],10,[0,1]]", "[[99]]"}) {
    expect_refused("reshape", std::string(R"({"shape":)") + shape + "}", "shape");
  }
  std::string many = "1";
  for (int i = 0; i < 32; ++i) many += ",1";
  EXPECT_EQ(try_make("reshape", R"({"shape":[)" + many + "]}").status().code(), Code::kUnsupported);
}

// A chain by the definition: every codec encodes by brute force.
struct Reference {
  Shape shape;
  std::vector<std::uint16_t> elements;  // C order

  void transpose(const std::vector<std::size_t>& order) {
    Reference out;
    for (const std::size_t axis : order) out.shape.push_back(shape[axis]);
    out.elements.resize(elements.size());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::size_t rest = i, at = 0;
      std::vector<std::size_t> index(shape.size());
      for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
      for (std::size_t k = 0; k < order.size(); ++k) at = at * out.shape[k] + index[order[k]];
      out.elements[at] = elements[i];
    }
    *this = std::move(out);
  }
  void delta() {
    for (std::size_t i = elements.size(); i-- > 1;)
      elements[i] = static_cast<std::uint16_t>(elements[i] - elements[i - 1]);
  }
};

struct Link {
  const char* name;
  const char* config;
  void (*apply)(Reference&);
};

constexpr Link kTranspose021{"transpose", R"({"order":[0,2,1]})", [](Reference& r) { r.transpose({0, 2, 1}); }};
constexpr Link kTranspose201{"transpose", R"({"order":[2,0,1]})", [](Reference& r) { r.transpose({2, 0, 1}); }};
constexpr Link kTranspose10{"transpose", R"({"order":[1,0]})", [](Reference& r) { r.transpose({1, 0}); }};
constexpr Link kDelta{"numcodecs.delta", R"({"dtype":"<u2"})", [](Reference& r) { r.delta(); }};
constexpr Link kFlat{"reshape", R"({"shape":[-1]})", [](Reference& r) { r.shape = {24}; }};
constexpr Link kTo6x4{"reshape", R"({"shape":[6,4]})", [](Reference& r) { r.shape = {6, 4}; }};
constexpr Link kTo2x3x4{"reshape", R"({"shape":[2,3,4]})", [](Reference& r) { r.shape = {2, 3, 4}; }};

TEST(ReshapeCodec, ChainsInWhichAxesMove) {
  const std::vector<std::vector<Link>> chains = {
      {kFlat},
      {kTo6x4, kTranspose10},
      {kTranspose201, kTo6x4},
      {kTranspose201, kTo6x4, kTranspose10},
      {kTranspose201, kTo6x4, kTranspose10, kTo2x3x4, kTranspose021},
      {kTranspose201, kFlat, kTo2x3x4, kTranspose021, kTranspose201},
      {kDelta, kTranspose201},
      {kDelta, kTranspose201, kDelta},
      {kTranspose201, kDelta, kTranspose021, kTo6x4, kTranspose10, kDelta},
      {kFlat, kDelta, kTo6x4, kTranspose10, kDelta},
      {kDelta, kTranspose201, kTranspose201, kTranspose201},  // the last one restores the order
  };
  const DataType dtype = numeric_type("uint16");
  for (std::size_t number = 0; number < chains.size(); ++number) {
    for (const bool big_endian : {false, true}) {
      SCOPED_TRACE(number);
      Reference encoded{{2, 3, 4}, std::vector<std::uint16_t>(24)};
      for (std::size_t i = 0; i < 24; ++i) encoded.elements[i] = static_cast<std::uint16_t>(i * i * 37 + 11);
      const std::vector<std::uint16_t> plain = encoded.elements;
      std::vector<codec::Codec> codecs;
      codec::CodecArgs context;
      context.dtype = &dtype;
      for (const Link& link : chains[number]) {
        auto made = codec::make_codec(link.name, *base::parse_json(link.config), context);
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        codecs.push_back(std::move(made).value());
        link.apply(encoded);
      }
      codecs.push_back(try_make("bytes", big_endian ? R"({"endian":"big"})" : R"({"endian":"little"})").value());
      if (big_endian) {
        for (std::uint16_t& element : encoded.elements) element = __builtin_bswap16(element);
      }
      auto made = codec::Chain::make(std::move(codecs), dtype, {2, 3, 4}, {}, true);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      auto workspace = made->make_workspace();
      Bytes temporary[2] = {Bytes(made->temporary_bytes()), Bytes(made->temporary_bytes())};
      for (int i = 0; i < 2; ++i) workspace.temporary[i] = temporary[i];
      std::vector<std::uint16_t> stored(24), decoded(24);
      const Status status = made->decode(std::as_bytes(std::span(encoded.elements)),
                                         std::as_writable_bytes(std::span(stored)), workspace);
      ASSERT_TRUE(status.ok()) << status.to_string();
      // Reads them like the assemble step.
      for (std::size_t i = 0; i < 24; ++i) {
        const std::size_t index[] = {i / 12, i / 4 % 3, i % 4};
        std::int64_t at = 0;
        for (std::size_t axis = 0; axis < 3; ++axis) {
          at += made->strides_bytes()[axis] * static_cast<std::int64_t>(index[axis]);
        }
        decoded[i] = stored[static_cast<std::size_t>(at) / 2];
        if (made->layout().byte_swapped) decoded[i] = __builtin_bswap16(decoded[i]);
      }
      EXPECT_EQ(decoded, plain);
      // A chain either encodes elements in place, or the writer gets an error.
      EXPECT_EQ(codec::ChainEncoder::make(*made).ok(), !made->reorders());
    }
  }
}

}  // namespace
}  // namespace headrace::test
