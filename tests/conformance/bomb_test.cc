// Bombs are small stores that make a reader use much time or memory. Each one is either refused or legal to read.
// Either way the case takes at most a second of processor time, and the process grows by at most twice the memory limit
// of the context. bombs() lists them.
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>

#include "base/access.h"
#include "base/json.h"
#include "codec/chain_encoder.h"
#include "store/store.h"
#include "support/alloc_counter.h"
#include "support/sanitizer.h"
#include "zarr/shard/chain_builder.h"

namespace headrace {
namespace {

using base::Json;
using store::Bytes;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kLimit = 64 * kMiB;  // ContextOptions::host_budget_bytes
// Metadata is read before any option of a read applies.
const std::uint64_t kDefaultLimit = ContextOptions().host_budget_bytes;
constexpr std::uint64_t kExpanded = 512 * kMiB;  // decompressed size of a compressed bomb
constexpr std::uint64_t kAbsent = ~std::uint64_t{0};

struct Bomb {
  const char* name;
  std::vector<Code> expected;  // kOk: legal, and must be as cheap as a refusal
  std::function<std::string()> document;
  std::function<Bytes()> chunk;   // the first chunk or shard; null: not stored
  const char* selection = "...";  // at most a few thousand elements
  std::uint64_t limit = kLimit;
};

Bytes bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

std::string repeat(std::string_view text, std::size_t n, std::string_view between = "") {
  std::string out;
  out.reserve(n * (text.size() + between.size()));
  for (std::size_t i = 0; i < n; ++i) (out += i == 0 ? "" : between) += text;
  return out;
}

// Documents of an array of 4,096 bytes in one chunk, with members replaced by `patch`.
std::string v2(const char* patch = "{}") {
  Json document = Json::parse(R"({"zarr_format": 2, "shape": [4096], "chunks": [4096], "dtype": "|u1", "order": "C",
                                  "compressor": null, "filters": null, "fill_value": 7})");
  document.update(Json::parse(patch));
  return document.dump();
}

std::string v3(const std::string& patch = "{}") {
  Json document = Json::parse(R"({"zarr_format": 3, "node_type": "array", "shape": [4096], "data_type": "uint8",
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4096]}}, "fill_value": 7,
      "chunk_key_encoding": {"name": "v2"}, "codecs": ["bytes"]})");
  document.update(Json::parse(patch));
  return document.dump();
}

std::string grid(const std::string& shape, const std::string& chunk, const std::string& more = "") {
  return v3(R"({"shape": )" + shape + R"(, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": )" +
            chunk + "}}" + more + "}");
}

std::string with_codecs(const std::string& codecs) { return v3(R"({"codecs": )" + codecs + "}"); }

// A document with raw text as one more attribute, for text that no JSON library should have to parse into a value.
std::string with_text(const std::string& text) {
  std::string document = v3();
  document.insert(document.size() - 1, R"(, "attributes": {"x": )" + text + "}");
  return document;
}

std::string sharding(const std::string& inner, const std::string& codecs = R"(["bytes"])", bool checksum = false,
                     const char* location = "end") {
  return R"([{"name": "sharding_indexed", "configuration": {"chunk_shape": )" + inner + R"(, "codecs": )" + codecs +
         R"(, "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}})" +
         (checksum ? R"(, "crc32c")" : "") + R"(], "index_location": ")" + location + R"("}}])";
}

Bytes index_of(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& entries) {
  Bytes out(entries.size() * 16);
  for (std::size_t i = 0; i < entries.size(); ++i) std::memcpy(out.data() + 16 * i, &entries[i], 16);
  return out;
}

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Encodes `plain` with `codecs` (bytes -> bytes, v3).
Bytes encoded(const std::string& codecs, const Bytes& plain) {
  std::vector<zarr::CodecSpec> specs;
  for (const Json& item : Json::parse(R"(["bytes",)" + codecs.substr(1))) {
    zarr::CodecSpec spec;
    spec.name = item.is_string() ? item.get<std::string>() : item["name"].get<std::string>();
    spec.config = item.is_string() ? Json::object() : item["configuration"];
    specs.push_back(std::move(spec));
  }
  const DataType dtype = *zarr::parse_v3_dtype(Json("uint8"));
  const std::vector<std::byte> fill(1);
  zarr::ChunkCodecs about;
  about.dtype = &dtype;
  about.fill = &fill;
  const auto chain = zarr::build_chain(specs, {plain.size()}, about);
  EXPECT_TRUE(chain.ok()) << chain.status().to_string();
  auto encoder = codec::ChainEncoder::make(*chain);
  EXPECT_TRUE(encoder.ok()) << encoder.status().to_string();
  const auto out = encoder->encode(plain);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return {out->begin(), out->end()};
}

constexpr const char* kZstd = R"([{"name": "zstd", "configuration": {"level": 1, "checksum": false}}])";
constexpr const char* kGzip = R"([{"name": "gzip", "configuration": {"level": 1}}])";
constexpr const char* kZlib = R"([{"name": "numcodecs.zlib", "configuration": {"level": 1}}])";
constexpr const char* kLz4 = R"([{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}])";
constexpr const char* kBlosc =
    R"([{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0, "typesize": 1}}])";
constexpr const char* kBloscZstd =
    R"([{"name": "blosc", "configuration": {"cname": "zstd", "clevel": 1, "shuffle": "shuffle", "blocksize": 0, "typesize": 4}}])";

// Zeros encoded with `codecs`, cached for the cases that share them.
const Bytes& zeros(const std::string& codecs, std::uint64_t bytes = kExpanded) {
  static std::map<std::pair<std::string, std::uint64_t>, Bytes> cache;
  Bytes& stream = cache[{codecs, bytes}];
  if (stream.empty()) stream = encoded(codecs, Bytes(bytes));
  return stream;
}

std::function<Bytes()> bomb(const char* codecs) {
  return [codecs] { return zeros(codecs); };
}

Bytes changed(Bytes bytes, std::size_t at, const std::string& with) {
  std::memcpy(bytes.data() + at, with.data(), with.size());
  return bytes;
}

std::function<Bytes()> small(const char* codecs, std::size_t at, std::string with) {
  return [=] { return changed(encoded(codecs, Bytes(4096)), at, with); };
}

std::function<Bytes()> text(std::string bytes) {
  return [=] { return bytes_of(bytes); };
}

std::function<std::string()> codecs(std::string list) {
  return [=] { return with_codecs(list); };
}

std::function<std::string()> behind_bytes(const char* list) { return codecs(R"(["bytes",)" + std::string(list + 1)); }

std::function<Bytes()> entry(std::uint64_t offset, std::uint64_t length, bool start = false) {
  return [=] {
    const Bytes index = index_of({{offset, length}, {kAbsent, kAbsent}, {kAbsent, kAbsent}, {kAbsent, kAbsent}});
    return start ? joined(index, Bytes(1024)) : joined(Bytes(1024), index);
  };
}

std::string nested_shards(int levels) {
  std::string list = R"(["bytes"])";
  for (int i = 0; i < levels; ++i) list = sharding("[4096]", list);
  return list;
}

constexpr Code kOk = Code::kOk, kBad = Code::kCorrupt, kShort = Code::kShort, kMore = Code::kResourceExhausted,
               kNot = Code::kUnsupported;
using namespace std::string_literals;  // strings with NULs

std::vector<Bomb> stream_bombs() {
  const auto zlib2 = [] { return v2(R"({"compressor": {"id": "zlib", "level": 1}})"); };
  return {
      // Streams that expand to 131,072 times the chunk.
      {"zstd_expands", {kBad}, behind_bytes(kZstd), bomb(kZstd)},
      {"gzip_expands", {kBad}, behind_bytes(kGzip), bomb(kGzip)},
      {"zlib_expands", {kBad}, behind_bytes(kZlib), bomb(kZlib)},
      {"lz4_expands", {kBad}, behind_bytes(kLz4), bomb(kLz4)},
      {"blosc_lz4_expands", {kBad}, behind_bytes(kBlosc), bomb(kBlosc)},
      {"blosc_zstd_expands", {kBad}, behind_bytes(kBloscZstd), bomb(kBloscZstd)},
      {"v2_zlib_expands", {kBad}, zlib2, bomb(kZlib)},
      {"v2_gzip_expands", {kBad}, [] { return v2(R"({"compressor": {"id": "gzip", "level": 1}})"); }, bomb(kGzip)},
      {"v2_zstd_expands", {kBad}, [] { return v2(R"({"compressor": {"id": "zstd", "level": 1}})"); }, bomb(kZstd)},
      {"v2_lz4_expands", {kBad}, [] { return v2(R"({"compressor": {"id": "lz4", "acceleration": 1}})"); }, bomb(kLz4)},
      {"v2_blosc_expands",
       {kBad},
       [] { return v2(R"({"compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 0}})"); },
       bomb(kBlosc)},
      {"v2_filter_behind_bomb",
       {kBad},
       [] {
         return v2(R"({"compressor": {"id": "zlib", "level": 1}, "filters": [{"id": "shuffle", "elementsize": 4}]})");
       },
       bomb(kZlib)},
      {"inner_chunk_expands",
       {kBad},
       codecs(sharding("[1024]", R"(["bytes",)" + std::string(kZstd + 1))),
       [] {
         const Bytes& z = zeros(kZstd);
         return joined(z, index_of({{0, z.size()}, {kAbsent, kAbsent}, {kAbsent, kAbsent}, {kAbsent, kAbsent}}));
       }},
      {"all_inner_chunks_are_one_bomb",
       {kBad},
       codecs(sharding("[1]", R"(["bytes",)" + std::string(kZstd + 1))),
       [] {
         const Bytes& z = zeros(kZstd);
         return joined(z, index_of(std::vector<std::pair<std::uint64_t, std::uint64_t>>(4096, {0, z.size()})));
       }},
      // A stream inside a stream: the metadata cannot limit the size of the outer one.
      {"zstd_in_zstd", {kBad}, codecs(R"(["bytes", "zstd", "zstd"])"), [] { return encoded(kZstd, zeros(kZstd)); }},
      {"gzip_in_gzip",
       {kBad},
       codecs(
           R"(["bytes", {"name": "gzip", "configuration": {"level": 1}}, {"name": "gzip", "configuration": {"level": 1}}])"),
       [] { return encoded(kGzip, zeros(kGzip)); }},
      {"zeros_twice_in_zstd", {kBad}, codecs(R"(["bytes", "zstd", "zstd"])"), bomb(kZstd)},
      {"zeros_in_zstd_before_gzip",
       {kBad},
       codecs(R"(["bytes", {"name": "gzip", "configuration": {"level": 1}}, "zstd"])"),
       bomb(kZstd)},
      {"zeros_in_gzip_before_blosc",
       {kBad},
       codecs(R"(["bytes",)" + std::string(kBlosc + 1, std::strlen(kBlosc) - 2) + "," + (kGzip + 1)),
       bomb(kGzip)},
      {"zstd_eight_deep", {kBad}, codecs(R"(["bytes",)" + repeat(R"("zstd")", 8, ",") + "]"), bomb(kZstd)},
      {"shard_in_zstd",
       {kBad},
       codecs(sharding("[1024]").substr(0, sharding("[1024]").size() - 1) + R"(, "zstd"])"),
       bomb(kZstd)},
      {"checksum_over_bomb",
       {kBad},
       codecs(R"(["bytes", "zstd", "crc32c"])"),
       [] { return encoded(R"(["crc32c"])", zeros(kZstd)); }},
      // Headers with false sizes.
      {"lz4_says_2_GiB", {kBad}, behind_bytes(kLz4), small(kLz4, 0, "\xff\xff\xff\x7f")},
      {"lz4_says_4_GiB", {kBad}, behind_bytes(kLz4), small(kLz4, 0, "\xff\xff\xff\xff")},
      {"lz4_says_nothing", {kBad}, behind_bytes(kLz4), small(kLz4, 0, "\0\0\0\0"s)},
      {"blosc_says_2_GiB", {kBad}, behind_bytes(kBlosc), small(kBlosc, 4, "\xff\xff\xff\x7f")},
      {"blosc_blocks_of_2_GiB", {kBad}, behind_bytes(kBlosc), small(kBlosc, 8, "\xff\xff\xff\x7f")},
      {"blosc_blocks_of_nothing", {kBad}, behind_bytes(kBlosc), small(kBlosc, 8, "\0\0\0\0"s)},
      {"blosc_blocks_of_one_byte", {kBad}, behind_bytes(kBlosc), small(kBlosc, 8, "\1\0\0\0"s)},
      {"blosc_stored_size_beyond", {kBad}, behind_bytes(kBlosc), small(kBlosc, 12, "\xff\xff\xff\x7f")},
      {"zstd_says_2p62", {kBad}, behind_bytes(kZstd), text("\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x40\1\0\0"s)},
      {"zstd_window_of_3_TiB", {kBad}, behind_bytes(kZstd), text("\x28\xb5\x2f\xfd\0\xff\1\0\0"s)},
      {"zstd_window_of_1_GiB", {kBad}, behind_bytes(kZstd), text("\x28\xb5\x2f\xfd\0\xa0\x83\0\0\0"s)},
      {"zstd_skips_4_GiB", {kBad}, behind_bytes(kZstd), text("\x50\x2a\x4d\x18\xff\xff\xff\xff"s)},
      {"zstd_run_of_zeros", {kBad}, behind_bytes(kZstd), text("\x28\xb5\x2f\xfd\xa0\0\0\0\x40\3\0\x40\0"s)},
      {"zstd_100000_empty_frames",
       {kBad},
       behind_bytes(kZstd),
       [] { return bytes_of(repeat("\x28\xb5\x2f\xfd\x20\0\1\0\0"s, 100'000)); }},
      {"gzip_length_beyond",
       {kBad},
       behind_bytes(kGzip),
       [] {
         const Bytes z = encoded(kGzip, Bytes(4096));
         return changed(z, z.size() - 4, "\xff\xff\xff\xff");
       }},
      {"gzip_100000_empty_members",
       {kBad},
       behind_bytes(kGzip),
       [] { return bytes_of(repeat("\x1f\x8b\x08\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0"s, 100'000)); }},
      {"packbits_bits_beyond",
       {kBad},
       [] { return v3(R"({"codecs": ["numcodecs.packbits", "bytes"], "data_type": "bool", "fill_value": false})"); },
       text("\xff" + std::string(512, 'x'))},
  };
}

std::vector<Bomb> metadata_bombs() {
  return {
      {"json_brackets", {kBad}, [] { return repeat("[", 20'000'000); }, {}},
      {"json_objects", {kBad}, [] { return repeat(R"({"a":)", 4'000'000); }, {}},
      {"json_attributes_deep", {kBad}, [] { return with_text(repeat("[", 1'000'000) + repeat("]", 1'000'000)); }, {}},
      {"json_values", {kMore}, [] { return with_text("[" + repeat("1", 8'000'000, ",") + "]"); }, {}},
      {"json_empty_objects", {kMore}, [] { return with_text("[" + repeat("{}", 4'000'000, ",") + "]"); }, {}},
      {"json_empty_strings", {kMore}, [] { return with_text("[" + repeat("\"\"", 4'000'000, ",") + "]"); }, {}},
      {"json_long_string", {kOk}, [] { return with_text('"' + std::string(10'000'000, 'x') + '"'); }, {}},
      {"json_long_number", {kBad}, [] { return with_text("1" + std::string(5'000'000, '0')); }, {}},
      {"json_white_space", {kOk}, [] { return v3() + std::string(20'000'000, ' '); }, {}},
      {"json_one_key_often", {kBad}, [] { return "{" + repeat(R"("a":1)", 1'000'000, ",") + "}"; }, {}},
      {"codecs_100000",
       {kNot},
       [] { return with_codecs("[\"bytes\"," + repeat("\"crc32c\"", 100'000, ",") + "]"); },
       {}},
      {"transposes_100000",
       {kNot},
       [] {
         return with_codecs("[" + repeat(R"({"name":"transpose","configuration":{"order":[0]}})", 100'000, ",") +
                            ",\"bytes\"]");
       },
       {}},
      {"zstd_in_zstd_100000",
       {kNot},
       [] { return with_codecs("[\"bytes\"," + repeat("\"zstd\"", 100'000, ",") + "]"); },
       [] { return bytes_of("x"); }},
      {"shards_in_shards", {kNot}, [] { return with_codecs(nested_shards(9)); }, {}},
      {"fields_200000",
       {kBad, kNot},
       [] {
         std::string fields;
         for (int i = 0; i < 200'000; ++i)
           fields += (i == 0 ? R"(["f)" : R"(,["f)") + std::to_string(i) + R"(","<u2"])";
         std::string text = v2();
         return text.replace(text.find("\"|u1\""), 5, "[" + fields + "]");
       },
       {}},
      {"struct_in_struct",
       {kNot},
       [] {
         std::string text = v2();
         return text.replace(text.find("\"|u1\""), 5, repeat(R"([["a",)", 25) + "\"|u1\"" + repeat("]]", 25));
       },
       {}},
      {"field_of_2p80",
       {kNot},
       [] { return v2(R"({"dtype": [["a", "<u2", [1099511627776, 1099511627776]]], "fill_value": null})"); },
       {}},
      {"element_of_2_GiB", {kNot}, [] { return v2(R"({"dtype": "|V2147483647", "fill_value": null})"); }, {}},
      {"element_of_2p61",
       {kNot},
       [] { return v3(R"({"data_type": "r18446744073709551608", "fill_value": "AA=="})"); },
       {}},
      {"text_of_2p31", {kNot}, [] { return v2(R"({"dtype": "<U2147483647", "fill_value": null})"); }, {}},
      {"rank_1000000", {kNot}, [] { return grid("[" + repeat("1", 1'000'000, ",") + "]", "[1]"); }, {}},
      {"fill_value_of_8_MiB",
       {kBad},
       [] { return v3(R"({"fill_value": ")" + std::string(8'000'000, 'A') + "\"}"); },
       {}},
      {"order_of_1000000",
       {kBad},
       [] {
         return with_codecs(R"([{"name": "transpose", "configuration": {"order": [)" + repeat("0", 1'000'000, ",") +
                            R"(]}}, "bytes"])");
       },
       {}},
  };
}

std::vector<Bomb> shape_bombs() {
  const auto huge = [](const char* patch) { return [=] { return v2(patch); }; };
  const std::string four = sharding("[1024]");
  return {
      {"v2_extent_2p64", {kBad}, huge(R"({"shape": [18446744073709551616]})"), {}},
      {"v3_extent_2p63", {kBad}, [] { return grid("[9223372036854775808]", "[4096]"); }, {}},
      {"chunk_product_2p80", {kBad}, [] { return grid("[5, 5]", "[1099511627776, 1099511627776]"); }, {}},
      {"chunk_bytes_2p65",
       {kBad},
       [] { return grid("[5]", "[4611686018427387904]", R"(, "data_type": "r64", "fill_value": "AAAAAAAAAAA=")"); },
       {}},
      {"chunk_of_1_TiB_absent", {kMore}, [] { return grid("[1099511627776]", "[1099511627776]"); }, {}, "5:9"},
      {"chunk_of_1_TiB_raw", {kMore}, [] { return grid("[1099511627776]", "[1099511627776]"); }, text("abc"), "5:9"},
      {"chunk_of_1_TiB_zstd",
       {kMore},
       [] { return grid("[1099511627776]", "[1099511627776]", R"(, "codecs": ["bytes", "zstd"])"); },
       bomb(kZstd),
       "5:9"},
      {"chunk_of_1_GiB_zstd",
       {kMore},
       [] { return grid("[1073741824]", "[1073741824]", R"(, "codecs": ["bytes", "zstd"])"); },
       bomb(kZstd),
       "5:9"},
      {"chunk_of_1_GiB_blosc",
       {kMore},
       [] {
         return grid("[1073741824]", "[1073741824]", R"(, "codecs": )" + (R"(["bytes",)" + std::string(kBlosc + 1)));
       },
       bomb(kBlosc),
       "5:9"},
      {"grid_of_1e9", {kOk}, [] { return grid("[1000000000]", "[1]"); }, {}, "999999990:"},
      {"grid_of_1e18", {kOk}, [] { return grid("[1000000000, 1000000000]", "[1, 1]"); }, {}, "7, 999999990:"},
      {"grid_of_2p96",
       {kOk},
       [] { return grid("[4294967296, 4294967296, 4294967296]", "[1, 1, 1]"); },
       {},
       "7, 8, 4294967290:"},
      {"v2_grid_of_1e9", {kOk}, huge(R"({"shape": [1000000000], "chunks": [1]})"), {}, "999999990:"},
      {"steps_over_1e9_chunks", {kOk}, [] { return grid("[1000000000]", "[1]"); }, {}, "::250000"},
      {"shard_of_1e9_entries",
       {kShort},
       [] { return grid("[1000000000]", "[1000000000]", R"(, "codecs": )" + sharding("[1]")); },
       text("abc"),
       "5:9"},
      {"shard_of_1e9_entries_absent",
       {kOk},
       [] { return grid("[1000000000]", "[1000000000]", R"(, "codecs": )" + sharding("[1]")); },
       {},
       "5:9"},
      {"shard_of_2p62_entries",
       {kBad},
       [] { return grid("[4611686018427387904]", "[4611686018427387904]", R"(, "codecs": )" + sharding("[1]")); },
       text("abc"),
       "5:9"},
      {"nested_shard_of_1e9_entries",
       {kMore, kShort},
       [] {
         return grid("[1000000000]", "[1000000000]", R"(, "codecs": )" + sharding("[1000000000]", sharding("[1]")));
       },
       [] {
         return joined(Bytes(100), index_of({{0, 100}}));
       },
       "5:9"},
      {"entry_past_the_end", {kBad}, codecs(four), entry(1'000'000, 1024)},
      {"entry_ends_past_the_end", {kBad}, codecs(four), entry(1000, 1024)},
      {"entry_wraps", {kBad}, codecs(four), entry(kAbsent - 100, 1024)},
      {"entry_of_2p63", {kBad}, codecs(four), entry(0, std::uint64_t{1} << 63)},
      {"entry_of_nothing", {kBad}, codecs(four), entry(0, 0)},
      {"entry_half_absent", {kBad}, codecs(four), entry(kAbsent, 1024)},
      {"entry_past_the_end_index_first",
       {kBad},
       codecs(sharding("[1024]", R"(["bytes"])", false, "start")),
       entry(1'000'000, 1024, true)},
      {"entries_all_of_one_place",
       {kOk},
       codecs(sharding("[16]")),
       [] {
         return joined(Bytes(16), index_of(std::vector<std::pair<std::uint64_t, std::uint64_t>>(256, {0, 16})));
       }},
      {"entries_are_the_index",
       {kOk},
       codecs(sharding("[16]")),
       [] {
         return index_of(std::vector<std::pair<std::uint64_t, std::uint64_t>>(256, {0, 16}));
       }},
      {"shard_shorter_than_its_index", {kShort}, codecs(sharding("[1]")), text("abc")},
      {"shard_checksum",
       {kBad},
       codecs(sharding("[1024]", R"(["bytes"])", true)),
       [] {
         return joined(Bytes(1024), joined(index_of({{0, 1024}, {0, 1024}, {0, 1024}, {0, 1024}}), Bytes(4)));
       }},
      {"raw_chunk_of_100_MiB", {kBad}, [] { return v3(); }, [] { return Bytes(100 * kMiB); }},
  };
}

std::vector<Bomb> bombs() {
  std::vector<Bomb> all = stream_bombs();
  for (Bomb& row : shape_bombs()) all.push_back(std::move(row));
  for (Bomb& row : metadata_bombs()) {
    row.limit = kDefaultLimit;
    all.push_back(std::move(row));
  }
  return all;
}

std::uint64_t status_bytes(const char* what) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(what, 0) == 0) return std::strtoull(line.c_str() + std::strlen(what) + 1, nullptr, 10) << 10;
  }
  return 0;
}

class Bombs : public ::testing::TestWithParam<std::tuple<std::size_t, const char*>> {};

TEST_P(Bombs, AreRefusedAtOnce) {
  const auto& [number, device_name] = GetParam();
  const Bomb bomb = bombs()[number];
  ::setenv("HEADRACE_STAGED_DECODE", "all", 1);
  ContextOptions options;
  options.threads = 2;
  options.host_budget_bytes = options.device_budget_bytes = bomb.limit;
  auto context = Context::create(options);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  auto store = Store::open(*context, std::string("memory://bomb-") + device_name + bomb.name);
  auto device = Device::open(device_name);
  ASSERT_TRUE(store.ok() && device.ok());
  {
    const std::string document = bomb.document();
    const bool is_v2 = document.find("\"zarr_format\":2") != std::string::npos;
    ASSERT_TRUE(Access::impl(*store)->put(is_v2 ? ".zarray" : "zarr.json", bytes_of(document)).ok());
    const std::size_t rank = std::count(bomb.selection, bomb.selection + std::strlen(bomb.selection), ',') + 1;
    const bool stored = !bomb.chunk || Access::impl(*store)->put(repeat("0", rank, "."), bomb.chunk()).ok();
    ASSERT_TRUE(stored);
  }

  ::malloc_trim(0);
  const bool measures =
      std::ofstream("/proc/self/clear_refs").write("5\n", 2).flush().good() && support::kAllocCounterWorks;
  const std::uint64_t before = status_bytes("VmRSS:");
  const std::clock_t start = std::clock();
  const Status status = [&]() -> Status {
    auto array = Array::open(*store);
    if (!array.ok()) return array.status();
    auto selection = parse_selection(bomb.selection);
    auto resolved = resolve_selection(*selection, array->info().shape);
    if (!resolved.ok()) return resolved.status();
    std::uint64_t size = array->info().dtype.item_bytes;
    for (const std::uint64_t n : resolved->shape) size *= n;
    EXPECT_LE(size, kMiB) << "the test's own tensor";
    auto buffer = Buffer::allocate(*device, size);
    if (!buffer.ok()) return buffer.status();
    return array->read(*selection, {*buffer, array->info().dtype, resolved->shape}, *device);
  }();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const std::uint64_t peak = status_bytes("VmHWM:");

  EXPECT_NE(std::find(bomb.expected.begin(), bomb.expected.end(), status.code()), bomb.expected.end())
      << status.to_string();
  if (!status.ok()) {
    EXPECT_LE(status.to_string().size(), 1000u);
  }
  if (measures) {
    EXPECT_LE(peak - std::min(before, peak), 2 * bomb.limit) << (peak - before) / kMiB << " MiB more than before";
  }
  // Sanitizers make everything an order of magnitude slower.
  EXPECT_LE(seconds, support::kAllocCounterWorks ? 1.0 : 30.0);
  RecordProperty("outcome", status.to_string().substr(0, 200));
  if (::getenv("HEADRACE_BOMBS_VERBOSE") != nullptr) {
    std::printf("%-36s %5.0f ms %5.0f MiB  %s\n", bomb.name, seconds * 1e3,
                static_cast<double>(peak - std::min(before, peak)) / static_cast<double>(kMiB),
                status.to_string().substr(0, 150).c_str());
  }
}

std::string bomb_name(const ::testing::TestParamInfo<std::tuple<std::size_t, const char*>>& row) {
  const std::string device = std::get<1>(row.param);
  return std::string(bombs()[std::get<0>(row.param)].name) + (device == "host" ? "" : "_staged");
}

// Metadata is read without a device. Its bombs measure time and memory, which AddressSanitizer changes; fuzz targets
// cover metadata under AddressSanitizer.
std::vector<std::tuple<std::size_t, const char*>> rows() {
  std::vector<std::tuple<std::size_t, const char*>> out;
  const std::size_t all = bombs().size(), before_metadata = all - metadata_bombs().size();
  for (std::size_t i = 0; i < (support::kAddressSanitizer ? before_metadata : all); ++i) {
    out.emplace_back(i, "host");
    if (i < before_metadata) out.emplace_back(i, "host-staged");
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Bombs, ::testing::ValuesIn(rows()), bomb_name);

TEST(BombList, IsLongEnough) { EXPECT_GE(bombs().size(), 60u); }

}  // namespace
}  // namespace headrace
