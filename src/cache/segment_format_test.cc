// Scanning finds exactly the complete records of a segment, wherever it is truncated and however it is damaged; the
// record table behaves as a map; the hash matches its authors' vectors; and unsuitable options and directories are
// reported.
#include "cache/segment_format.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/cache_options.h"
#include "cache/record_index.h"
#include "support/temp_dir.h"

namespace headrace::cache {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint64_t kFingerprint = 77;

Bytes some_data(std::size_t size, std::uint8_t seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(seed + i * 7);
  return out;
}

template <class Part>
void append(Bytes& out, const Part& part) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&part);
  out.insert(out.end(), begin, begin + sizeof part);
}

struct Written {
  Bytes bytes;
  std::vector<ListedRecord> records;
  std::vector<std::uint64_t> ends;
};

Written write_segment(std::initializer_list<std::size_t> sizes) {
  Written out;
  append(out.bytes, make_segment_head(kFingerprint, 5));
  std::uint64_t number = 0;
  for (const std::size_t size : sizes) {
    const Bytes data = some_data(size, static_cast<std::uint8_t>(++number));
    const CacheKey id{number, ~number};
    out.records.push_back({id, static_cast<std::uint32_t>(out.bytes.size() / kSegmentUnit),
                           static_cast<std::uint32_t>(size), version_tag("v", 1000), 0});
    append(out.bytes, make_record_head(id, "v", 1000, data));
    out.bytes.insert(out.bytes.end(), data.begin(), data.end());
    while (out.bytes.size() % kSegmentUnit != 0) out.bytes.push_back({});
    out.ends.push_back(out.bytes.size());
  }
  return out;
}

void seal(Written& written) {
  const std::uint64_t at = written.bytes.size();
  for (const ListedRecord& record : written.records) append(written.bytes, record);
  while (written.bytes.size() % kSegmentUnit != 0) written.bytes.push_back({});
  append(written.bytes, make_segment_seal(kFingerprint, at, written.records.size()));
}

SegmentScan scan(const Bytes& bytes, std::vector<ListedRecord>& records, std::uint64_t from = 0,
                 std::uint64_t fingerprint = kFingerprint) {
  records.clear();
  const auto read = [&](std::uint64_t at, std::span<std::byte> out) -> std::size_t {
    if (at >= bytes.size()) return 0;
    const std::size_t count = std::min<std::size_t>(out.size(), bytes.size() - at);
    std::memcpy(out.data(), bytes.data() + at, count);
    return count;
  };
  return scan_segment(read, bytes.size(), fingerprint, from, [&](const ListedRecord& record) {
    records.push_back(record);
    return true;
  });
}

bool same(const ListedRecord& a, const ListedRecord& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

TEST(SegmentScan, FindsWhatWasWritten) {
  for (const bool sealed : {false, true}) {
    Written written = write_segment({0, 1, 63, 64, 65, 900});
    const std::uint64_t end = written.bytes.size();
    if (sealed) seal(written);
    std::vector<ListedRecord> records;
    const SegmentScan found = scan(written.bytes, records);
    EXPECT_TRUE(found.ours);
    EXPECT_EQ(found.sealed, sealed);
    EXPECT_EQ(found.end, end);
    EXPECT_EQ(found.created_ns, 5u);
    ASSERT_EQ(records.size(), written.records.size());
    for (std::size_t i = 0; i < records.size(); ++i) EXPECT_TRUE(same(records[i], written.records[i])) << i;
    // Continue from the end of an earlier scan.
    EXPECT_EQ(scan(written.bytes, records, written.ends[2]).end, end);
    EXPECT_EQ(records.size(), 3u);
    EXPECT_FALSE(scan(written.bytes, records, 0, kFingerprint + 1).ours) << "another directory's";
    EXPECT_TRUE(records.empty());
  }
}

TEST(SegmentScan, EndsAtAnyTruncation) {
  Written written = write_segment({10, 200, 0, 70});
  const std::vector<std::uint64_t> ends = written.ends;
  const std::uint64_t whole = written.bytes.size();
  seal(written);
  for (std::size_t size = 0; size < written.bytes.size(); ++size) {
    const Bytes cut(written.bytes.begin(), written.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    std::vector<ListedRecord> records;
    const SegmentScan found = scan(cut, records);
    EXPECT_EQ(found.ours, size >= kSegmentUnit);
    EXPECT_FALSE(found.sealed);
    std::size_t complete = 0;
    while (complete < ends.size() && ends[complete] <= size) ++complete;
    EXPECT_EQ(records.size(), size >= kSegmentUnit ? complete : 0) << size;
    if (found.ours) {
      EXPECT_EQ(found.end, complete > 0 ? ends[complete - 1] : kSegmentUnit);
    }
    EXPECT_LE(found.end, std::max<std::uint64_t>(whole, size));
  }
}

TEST(SegmentScan, DamageEndsTheWalkAndNoListLeadsOutOfTheSegment) {
  Written written = write_segment({10, 200, 0, 70});
  for (const bool sealed : {false, true}) {
    if (sealed) seal(written);
    std::mt19937_64 dice(3);
    for (int i = 0; i < 20'000; ++i) {
      Bytes damaged = written.bytes;
      const std::size_t at = dice() % damaged.size();
      if (dice() % 2 == 0) {
        damaged[at] ^= static_cast<std::byte>(1u << dice() % 8);
      } else {
        const std::uint64_t word = dice() % 3 == 0 ? ~std::uint64_t{0} : dice() >> dice() % 64;
        std::memcpy(damaged.data() + at, &word, std::min<std::size_t>(8, damaged.size() - at));
      }
      std::vector<ListedRecord> records;
      const SegmentScan found = scan(damaged, records);
      EXPECT_LE(found.end, damaged.size());
      for (const ListedRecord& record : records) {
        EXPECT_GE(record.unit * kSegmentUnit, kSegmentUnit);
        EXPECT_LE(record.unit * kSegmentUnit + record_bytes(record.data_bytes), damaged.size());
      }
    }
  }
}

TEST(SegmentScan, ARecordIsNotTakenForASealOrAHead) {
  // Object data that looks like the seal of a segment: writers of objects do not know the secret.
  Written written = write_segment({200});
  Bytes data;
  append(data, make_segment_seal(kFingerprint + 1, kSegmentUnit, 0));
  append(written.bytes, make_record_head({9, 9}, "v", 1000, data));
  written.bytes.insert(written.bytes.end(), data.begin(), data.end());
  std::vector<ListedRecord> records;
  EXPECT_FALSE(scan(written.bytes, records).sealed);
  EXPECT_EQ(records.size(), 2u);
}

TEST(RecordIndex, IsAMap) {
  RecordIndex index(1 << 12);
  std::map<std::uint64_t, RecordPlace> model;
  std::mt19937_64 dice(1);
  for (int i = 0; i < 50'000; ++i) {
    // Few home slots, so that many entries are displaced.
    const std::uint64_t number = dice() % 700;
    const CacheKey id{number % 37 * 64 + (number % 3), number};
    const RecordPlace place{static_cast<std::uint32_t>(1 + dice() % 5), static_cast<std::uint32_t>(dice() % 1000),
                            static_cast<std::uint32_t>(i), 0};
    if (dice() % 3 != 0) {
      std::optional<RecordPlace> replaced;
      ASSERT_TRUE(index.put(id, place, replaced));
      EXPECT_EQ(replaced.has_value(), model.contains(number));
      if (replaced) {
        EXPECT_EQ(*replaced, model[number]);
      }
      model[number] = place;
    } else if (model.contains(number)) {
      EXPECT_FALSE(index.erase(id, place)) << "of another place";
      EXPECT_TRUE(index.erase(id, model[number]));
      model.erase(number);
    }
    if (i % 5000 == 0) {
      index.erase_if([](const RecordPlace& one) { return one.segment == 3; });
      std::erase_if(model, [](const auto& one) { return one.second.segment == 3; });
    }
    const auto found = index.find(id);
    ASSERT_EQ(found.has_value(), model.contains(number));
    ASSERT_EQ(index.size(), model.size());
  }
}

TEST(RecordIndex, IsBounded) {
  RecordIndex index(1024);
  std::optional<RecordPlace> replaced;
  std::uint64_t count = 0;
  while (index.put({count, count}, {1, 1, 1, 1}, replaced)) ++count;
  EXPECT_EQ(count, 768u);
  for (std::uint64_t i = 0; i < count; ++i) EXPECT_TRUE(index.find({i, i}).has_value());
}

TEST(KeyedHash, IsSipHash) {
  // The first two of the authors' vectors for 128 bits: key 00 01 .. 0f, inputs of 0 and 1 byte.
  const KeyedHash hash({0x0706050403020100u, 0x0f0e0d0c0b0a0908u});
  EXPECT_EQ(hash.of(""), (CacheKey{0xe6a825ba047f81a3u, 0x930255c71472f66du}));
  EXPECT_EQ(hash.of(std::string_view("\0", 1)), (CacheKey{0x44af996bd8c187dau, 0x45fc229b11597634u}));
  const CacheKey base{1, 2};
  EXPECT_NE(hash.of(base, "a"), hash.of(base, "b"));
  EXPECT_NE(hash.of(base, 1, 2), hash.of(base, 2, 1));
}

TEST(CacheOptions, Sizes) {
  EXPECT_EQ(parse_cache_size("1000"), 1000u);
  EXPECT_EQ(parse_cache_size("64G"), std::uint64_t{64} << 30);
  EXPECT_EQ(parse_cache_size("3t"), std::uint64_t{3} << 40);
  for (const char* text : {"", "G", "-1", "1GB", "1 G", "99999999999999999999", "99999999T", "1.5G", "0x10"}) {
    EXPECT_FALSE(parse_cache_size(text).has_value()) << text;
  }
}

TEST(CacheOptions, AreRefusedByName) {
  const auto find = [](std::vector<StorageOption> options) { return find_cache_options(options); };
  EXPECT_FALSE(find({})->has_value());
  EXPECT_FALSE(find({{"cache_dir", "off"}})->has_value());
  const auto all = find({{"Cache_Dir", "/x/../y/"},
                         {"cache_bytes", "2G"},
                         {"cache_trust", "store"},
                         {"cache_policy", "recent"},
                         {"cache_max_age", "0.5"},
                         {"anon", "true"}});
  ASSERT_TRUE(all.ok() && all->has_value());
  EXPECT_EQ((*all)->directory, "/y/");
  EXPECT_EQ((*all)->most_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ((*all)->trust, CacheTrust::kStore);
  EXPECT_EQ((*all)->policy, CachePolicy::kRecent);
  EXPECT_EQ((*all)->max_age_ns, 500'000'001u);
  for (const StorageOption& wrong : std::initializer_list<StorageOption>{{"cache_dir", "s3://bucket"},
                                                                         {"cache_bytes", "many"},
                                                                         {"cache_bytes", "0"},
                                                                         {"cache_trust", "all"},
                                                                         {"cache_policy", "lru"},
                                                                         {"cache_max_age", "-1"},
                                                                         {"cache_max_age", "soon"}}) {
    const auto refused = find({wrong, {"cache_dir", "/y"}});
    ASSERT_FALSE(refused.ok()) << wrong.name;
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(wrong.name), std::string::npos);
  }
}

// A file in its place or a missing parent is blamed on the option, not reported as a missing array.
TEST(CacheDirectory, ReportsAFileOrMissingParentInItsPlace) {
  const support::TempDir folder;
  ASSERT_TRUE(support::write_file(folder / "file", {}));
  ASSERT_EQ(::symlink((folder / "file").c_str(), (folder / "link").c_str()), 0);
  for (const auto& [name, why] : {std::pair{"file", "is a file, not a directory"},
                                  {"file/", "is a file, not a directory"},
                                  {"link", "is a file, not a directory"},
                                  {"file/below", "its parent is a file"},
                                  {"no/such", "its parent directory does not exist"}}) {
    const std::string path = folder / name;
    const Status refused = CacheDirectory::open(path, true).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << path;
    for (const std::string& part : {"the cache directory " + path, std::string(why), std::string("cache_dir")}) {
      EXPECT_NE(refused.to_string().find(part), std::string::npos) << refused.to_string();
    }
  }
  EXPECT_EQ(CacheDirectory::open(folder / "file", false).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CacheDirectory::open(folder / "none", false).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace headrace::cache
