// Parts of the command line tool: SHA-256 accepts its text in parts, .npy headers match NumPy's, JSON output is valid
// for any text, and units are rounded as people expect.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tools/headrace/cli_common.h"
#include "tools/headrace/json_text.h"
#include "tools/headrace/npy_writer.h"
#include "tools/headrace/read_slabs.h"
#include "tools/headrace/remote_options.h"
#include "tools/headrace/sha256.h"

namespace headrace::cli {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(ShownWord, HasNothingSecretOfUrlsAndOptions) {
  EXPECT_EQ(shown_word("https://u:planted@host/a?sig=planted#planted", "read"), "https://host/a");
  EXPECT_EQ(shown_word("--filename=s3://bucket/a?planted", ""), "--filename=s3://bucket/a");
  EXPECT_EQ(shown_word("secret=planted", "--storage-option"), "secret=...");
  EXPECT_EQ(shown_word("--storage-option=secret=planted", ""), "--storage-option=secret=...");
  EXPECT_EQ(shown_word("abfs://container@account.dfs.core.windows.net/x?planted", ""),
            "abfs://container@account.dfs.core.windows.net/x");
  EXPECT_EQ(shown_word("file:///a?b", "read"), "file:///a?b");
  EXPECT_EQ(shown_word("--select=0:3, ::2", "read"), "--select=0:3, ::2");
}

TEST(Sha256, AStandardVectorInAnySplit) {
  const std::string text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.update(bytes_of(text).first(cut));
    hash.update(bytes_of(text).subspan(cut));
    EXPECT_EQ(hash.finish(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

DataType simple(TypeKind kind, std::uint32_t bytes, std::string unit = "") {
  DataType type;
  type.kind = kind;
  type.item_bytes = bytes;
  type.unit = std::move(unit);
  return type;
}

TEST(Npy, Descr) {
  EXPECT_EQ(npy_descr(numeric_type("bool")), "'|b1'");
  EXPECT_EQ(npy_descr(numeric_type("int8")), "'|i1'");
  EXPECT_EQ(npy_descr(numeric_type("uint16")), "'<u2'");
  EXPECT_EQ(npy_descr(numeric_type("float16")), "'<f2'");
  EXPECT_EQ(npy_descr(numeric_type("float64")), "'<f8'");
  EXPECT_EQ(npy_descr(numeric_type("bfloat16")), "'|V2'");
  EXPECT_EQ(npy_descr(numeric_type("complex64")), "'<c8'");
  EXPECT_EQ(npy_descr(simple(TypeKind::kDatetime, 8, "ns")), "'<M8[ns]'");
  EXPECT_EQ(npy_descr(simple(TypeKind::kDatetime, 8, "generic")), "'<M8'");
  EXPECT_EQ(npy_descr(simple(TypeKind::kTimedelta, 8, "10ms")), "'<m8[10ms]'");
  EXPECT_EQ(npy_descr(simple(TypeKind::kBytes, 5)), "'|S5'");
  EXPECT_EQ(npy_descr(simple(TypeKind::kUnicode, 12)), "'<U3'");
  EXPECT_EQ(npy_descr(simple(TypeKind::kRaw, 7)), "'|V7'");

  DataType record;
  record.kind = TypeKind::kStruct;
  record.item_bytes = 10;
  DataType::Field a;
  a.name = "it's";
  a.type = numeric_type("int32");
  DataType::Field b;
  b.name = "b";
  b.type = simple(TypeKind::kBytes, 3);
  b.shape = {2};
  record.fields = {a, b};
  EXPECT_EQ(npy_descr(record), "[('it\\'s', '<i4'), ('b', '|S3', (2,))]");
}

TEST(Npy, HeaderIsAlignedAndNamesTheShape) {
  for (const std::vector<std::uint64_t>& shape :
       {std::vector<std::uint64_t>{}, {3}, {3, 4}, {123456789, 1, 0}, std::vector<std::uint64_t>(32, 1)}) {
    const std::string header = npy_header(numeric_type("float32"), shape);
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const std::size_t length = static_cast<unsigned char>(header[8]) + 256u * static_cast<unsigned char>(header[9]);
    EXPECT_EQ(length + 10, header.size());
    EXPECT_EQ(header.back(), '\n');
  }
  EXPECT_NE(npy_header(numeric_type("int8"), {}).find("'shape': (), }"), std::string::npos);
  const std::vector<std::uint64_t> one = {3};
  EXPECT_NE(npy_header(numeric_type("int8"), one).find("'shape': (3,), }"), std::string::npos);
}

TEST(Npy, LongAndNonAsciiHeadersUseLaterVersions) {
  DataType record;
  record.kind = TypeKind::kStruct;
  DataType::Field field;
  field.type = numeric_type("int32");
  field.name = "\xC3\xA4";
  record.fields = {field};
  EXPECT_EQ(npy_header(record, {})[6], 3);
  field.name = std::string(70000, 'x');
  record.fields = {field};
  const std::string header = npy_header(record, {});
  EXPECT_EQ(header[6], 2);
  EXPECT_EQ(header.size() % 64, 0u);
}

TEST(Json, SurvivesAnyTextAndKeepsTheOrder) {
  EXPECT_EQ(json_text({{"z", "a\\b\n\x01"}, {"a", "bad \xFF, good \xC3\xA4"}, {"inf", HUGE_VAL}}),
            "{\"z\":\"a\\\\b\\n\\u0001\",\"a\":\"bad \xEF\xBF\xBD, good \xC3\xA4\",\"inf\":null}");
  EXPECT_EQ(json_text({{"most", UINT64_MAX}, {"third", 1.0 / 3}}),
            "{\"most\":18446744073709551615,\"third\":0.3333333333333333}");
}

TEST(Units, ReadLikePeopleWriteThem) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(1), "1 byte");
  EXPECT_EQ(human_bytes(999), "999 bytes");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(999'999), "1.00 MB");
  EXPECT_EQ(human_bytes(1'500'000'000), "1.50 GB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "18.4 EB");
  EXPECT_EQ(human_count(1), "1");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(human_rate(2'000'000'000, 0.5), "4.00 GB/s");
  EXPECT_EQ(human_rate(1, 0), "-");
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
}

TEST(Sizes, OverflowIsNoticed) {
  const std::vector<std::uint64_t> huge = {1ull << 40, 1ull << 40};
  EXPECT_FALSE(decoded_bytes(huge, 1));
  const std::vector<std::uint64_t> empty = {1ull << 40, 1ull << 40, 0};
  EXPECT_EQ(decoded_bytes(empty, 8), 0u);
  EXPECT_EQ(decoded_bytes({}, 8), 8u);
}

TEST(OneLine, NothingBreaksTheLine) { EXPECT_EQ(one_line("a\nb\x1b[31m\n"), "a b?[31m"); }

// Control sequences in a store's names and attributes must not reach the terminal.
TEST(OneLine, NothingSteersTheTerminal) {
  EXPECT_EQ(one_line("a\xC2\x9B"
                     "31mb"),
            "a?31mb")
      << "C1 control sequence introducer";
  EXPECT_EQ(one_line("\x9B"
                     "31m"),
            "?31m")
      << "the same as a single byte";
  EXPECT_EQ(one_line("x\xE2\x80\xAEgpj.exe"), "x?gpj.exe") << "right-to-left override";
  EXPECT_EQ(one_line("\xE2\x81\xA6y\xE2\x80\x8F\xD8\x9C"), "?y??") << "isolate and direction marks";
  EXPECT_EQ(one_line("a\xE2\x80\xA8"
                     "b"),
            "a?b")
      << "line separator";
  EXPECT_EQ(one_line("\xC0\xAF\xED\xA0\x80\xF5\x80"), "???????") << "no UTF-8";
  EXPECT_EQ(one_line("\xE2\x82"), "??") << "cut off";
  EXPECT_EQ(one_line("\x7F"), "?");
  EXPECT_EQ(one_line("Température \xE2\x82\xAC \xF0\x9F\x8C\x8A \xD7\xA9"),
            "Température \xE2\x82\xAC \xF0\x9F\x8C\x8A \xD7\xA9");
}

TEST(NearestWord, IsAFewEditsAway) {
  const auto nearest = [](std::string_view word) {
    NearestWord out(word);
    for (const char* known : {"info", "read", "verify", "select"}) out.consider(known);
    return out.question("--");
  };
  EXPECT_EQ(nearest("ifno"), ", did you mean '--info'?");
  EXPECT_EQ(nearest("selct"), ", did you mean '--select'?");
  EXPECT_EQ(nearest("plot"), "");
  EXPECT_EQ(nearest(""), "");
  EXPECT_EQ(nearest(std::string(100'000, 'i')), "");
}

// The parts cover the result exactly once and are no larger than the budget or a chunk. If they need not be in order,
// and no index list goes back and forth, each chunk is in one part only.
TEST(ReadSlabs, TileTheResult) {
  std::mt19937 chance(1);
  const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(chance); };
  for (int round = 0; round < 2000; ++round) {
    ArrayInfo info;
    info.dtype.item_bytes = 4;
    Selection selection;
    bool lists = false;
    const std::uint64_t rank = 1 + below(4);
    std::uint64_t chunk_bytes = 4;
    for (std::uint64_t d = 0; d < rank; ++d) {
      info.shape.push_back(1 + below(40));
      info.chunk_shape.push_back(1 + below(12));
      chunk_bytes *= info.chunk_shape.back();
      SelectionItem item;
      const std::uint64_t kind = below(5);
      if (kind == 0) {
        item.kind = SelectionItem::Kind::kIndex;
        item.start = static_cast<std::int64_t>(below(info.shape.back()));
      } else if (kind == 1) {
        std::vector<std::int64_t> indices(1 + below(20));
        for (std::int64_t& index : indices) index = static_cast<std::int64_t>(below(info.shape.back()));
        item = index_list(indices);
        lists = true;
      } else if (kind == 2) {
        item.start = static_cast<std::int64_t>(below(info.shape.back()));
        item.step = static_cast<std::int64_t>(1 + below(9));
      }
      selection.push_back(item);
    }
    const ResolvedSelection resolved = resolve_selection(selection, info.shape).value();
    const std::uint64_t budget = 4 + below(3000);
    const bool in_order = below(2) == 0;
    ReadSlabs slabs(info, selection, resolved, 4, budget, in_order);
    std::uint64_t bytes = 0, behind = 0;
    std::map<std::vector<std::uint64_t>, int> parts_of_chunk;
    ReadSlab slab;
    for (int part = 0; slabs.next(slab); ++part) {
      const auto got = resolve_selection(slab.selection, info.shape).value();
      ASSERT_EQ(got.shape, slab.shape);
      ASSERT_LE(slab.bytes, slabs.max_bytes());
      ASSERT_EQ(slab.bytes, *decoded_bytes(slab.shape, 4));
      bytes += slab.bytes;
      std::uint64_t first = 0;
      for (std::size_t d = 0; d < slab.shape.size(); ++d) first = first * resolved.shape[d] + slab.start[d];
      if (slabs.in_order()) {
        ASSERT_EQ(first, behind);
        behind = first + slab.bytes / 4;
      }
      if (lists || slabs.in_order()) continue;
      // A chunk is in one part per cell of each axis.
      std::vector<std::vector<std::uint64_t>> cells(1);
      for (std::size_t d = 0; d < got.dims.size(); ++d) {
        std::vector<std::vector<std::uint64_t>> more;
        std::uint64_t last = ~std::uint64_t{0};
        for (std::uint64_t i = 0; i < got.dims[d].count; ++i) {
          const std::uint64_t cell = (got.dims[d].start + i * got.dims[d].step) / info.chunk_shape[d];
          if (cell == std::exchange(last, cell)) continue;
          for (std::vector<std::uint64_t> at : cells) {
            at.push_back(cell);
            more.push_back(std::move(at));
          }
        }
        cells = std::move(more);
      }
      for (const auto& cell : cells) ASSERT_EQ(++parts_of_chunk[cell], 1);
    }
    ASSERT_EQ(bytes, *decoded_bytes(resolved.shape, 4));
    ASSERT_LE(slabs.max_bytes(), std::max(budget, chunk_bytes));
    ASSERT_TRUE(!in_order || slabs.in_order() || slabs.one());
  }
}

// Parts of variable-length elements tile the result in C order, whatever the elements' real sizes and the changing
// estimates. A part that is too large is shrunk until it has no more elements than a chunk.
TEST(ReadSlabs, TileElementsOfVariableLength) {
  std::mt19937 chance(2);
  const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(chance); };
  int smaller = 0, least = 0;
  for (int round = 0; round < 2000; ++round) {
    ArrayInfo info;
    info.dtype.kind = TypeKind::kString;
    ASSERT_TRUE(info.dtype.is_variable_length());
    Selection selection;
    std::uint64_t chunk = 1;
    for (std::uint64_t d = 0, rank = below(4); d < rank; ++d) {
      info.shape.push_back(below(30));
      info.chunk_shape.push_back(1 + below(9));
      chunk *= info.chunk_shape.back();
      SelectionItem item;
      const std::uint64_t kind = info.shape.back() == 0 ? 9 : below(5);
      if (kind == 0) {
        item.kind = SelectionItem::Kind::kIndex;
        item.start = static_cast<std::int64_t>(below(info.shape.back()));
      } else if (kind == 1) {
        std::vector<std::int64_t> indices(1 + below(20));
        for (std::int64_t& index : indices) index = static_cast<std::int64_t>(below(info.shape.back()));
        item = index_list(indices);
      } else if (kind == 2) {
        item.start = static_cast<std::int64_t>(below(info.shape.back()));
        item.step = static_cast<std::int64_t>(1 + below(9));
      }
      selection.push_back(item);
    }
    const ResolvedSelection resolved = resolve_selection(selection, info.shape).value();
    const std::uint64_t budget = 1 + below(9000);
    ReadSlabs slabs(info, selection, resolved, 8, budget, false);
    ASSERT_TRUE(slabs.in_order());
    std::uint64_t behind = 0;
    ReadSlab slab;
    const auto elements = [&] { return *decoded_bytes(slab.shape, 1); };
    while (slabs.next(slab)) {
      while (below(3) == 0) {
        const std::uint64_t before = elements();
        const bool narrowed = slabs.shrink(slab);
        ASSERT_EQ(narrowed, elements() < before);
        ASSERT_TRUE(narrowed || elements() <= chunk) << elements() << " of " << chunk;
        ++(narrowed ? smaller : least);
        if (!narrowed) break;
      }
      ASSERT_EQ(resolve_selection(slab.selection, info.shape).value().shape, slab.shape);
      std::uint64_t first = 0;
      for (std::size_t d = 0; d < slab.shape.size(); ++d) first = first * resolved.shape[d] + slab.start[d];
      ASSERT_EQ(first, behind);
      behind = first + elements();
      if (below(2) == 0) slabs.set_item_bytes(below(200));
    }
    ASSERT_EQ(behind, *decoded_bytes(resolved.shape, 1));
  }
  EXPECT_GT(smaller, 500);
  EXPECT_GT(least, 500);
}

}  // namespace
}  // namespace headrace::cli
