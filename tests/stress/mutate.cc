#include "mutate.h"

#include <algorithm>
#include <cstring>

namespace headrace::stress {
namespace {

std::uint64_t near(Dice& dice, std::uint64_t value) {
  switch (dice.below(5)) {
    case 0:
      return value + 1 + dice.below(16);
    case 1:
      return value - 1 - dice.below(16);
    case 2:
      return value * 2;
    case 3:
      return value / 2;
    default:
      return value + dice.below(1 << 16);
  }
}

std::uint64_t extreme(Dice& dice) {
  const std::uint64_t edge = dice.pick<std::uint64_t>(
      {0, 1, 1u << 20, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ull << 40, 1ull << 62, 1ull << 63, kEmpty});
  return edge + dice.below(3) - 1;
}

// Gives an entry longer content: the chunk's bytes and more after them, placed at the shard's end.
void lengthen(Dice& dice, const Level& level, Bytes& shard, std::vector<std::uint64_t>& words, std::size_t entry,
              std::size_t index_bytes) {
  const std::uint64_t more = dice.pick<std::uint64_t>({1, 4, 64, 4096, 20000, 100000}) + dice.below(16);
  const std::uint64_t body_end = shard.size() - (level.at_end ? index_bytes : 0);
  Bytes content(static_cast<std::size_t>(words[2 * entry + 1] + more), std::byte{0xBB});
  if (words[2 * entry] <= body_end && words[2 * entry + 1] <= body_end - words[2 * entry]) {
    std::copy_n(shard.begin() + static_cast<std::ptrdiff_t>(words[2 * entry]), words[2 * entry + 1], content.begin());
  }
  // Far from the other chunks, or next to them.
  if (dice.one_in(2)) content.insert(content.begin(), 20000, std::byte{0x66});
  words[2 * entry] = body_end + content.size() - words[2 * entry + 1] - more;
  words[2 * entry + 1] += more;
  shard.insert(shard.begin() + static_cast<std::ptrdiff_t>(body_end), content.begin(), content.end());
}

}  // namespace

std::string mutate_index(Dice& dice, const ArraySpec& spec, Stored& stored) {
  const std::vector<Site> indexes = stored.of_kind(true);
  if (indexes.empty()) return "";
  const Site site = dice.of(indexes);
  const Level& level = spec.levels[site.level];
  Bytes& bytes = stored.objects[site.key].bytes;
  const auto at = static_cast<std::ptrdiff_t>(site.at);
  const auto end = at + static_cast<std::ptrdiff_t>(site.bytes);
  const Bytes encoded(bytes.begin() + at, bytes.begin() + end);
  std::vector<std::uint64_t> words = ChunkCode::decode_index(encoded, level);
  if (words.empty()) return "";
  const std::size_t entries = words.size() / 2;
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < entries; ++i) {
    if (words[2 * i + 1] != kEmpty) there.push_back(i);
  }
  const std::size_t one = there.empty() || dice.one_in(8) ? dice.below(entries) : dice.of(there);
  const std::size_t other = there.empty() ? dice.below(entries) : dice.of(there);
  std::string what = "index entry " + std::to_string(one) + " of " + site.key + ": ";
  const bool outermost = site.level == 0;
  switch (dice.below(13)) {
    case 0:
      words[2 * one] = near(dice, words[2 * one]);
      what += "offset nearby";
      break;
    case 1:
      words[2 * one + 1] = near(dice, words[2 * one + 1]);
      what += "length nearby";
      break;
    case 2:
      words[2 * one + dice.below(2)] = extreme(dice);
      what += "an extreme";
      break;
    case 3:
      std::swap(words[2 * one], words[2 * other]);
      std::swap(words[2 * one + 1], words[2 * other + 1]);
      what += "changed places with " + std::to_string(other);
      break;
    case 4:
      words[2 * one] = words[2 * other];
      words[2 * one + 1] = words[2 * other + 1];
      what += "the same as " + std::to_string(other);
      break;
    case 5:
      words[2 * one] = words[2 * one + 1] = kEmpty;
      what += "missing";
      break;
    case 6:
      words[2 * one + dice.below(2)] = kEmpty;
      what += "half a sentinel";
      break;
    case 7:
      words[2 * one] = words[2 * other] + dice.below(words[2 * other + 1] + 1);
      what += "begins within " + std::to_string(other);
      break;
    case 8:
      words[2 * one] = site.at - site.base + dice.below(site.bytes);
      what += "begins in the index";
      break;
    case 9:
    case 10:
    case 11:
      if (outermost && words[2 * one + 1] != kEmpty && words[2 * one + 1] < (1u << 20)) {
        Bytes shard = bytes;
        lengthen(dice, level, shard, words, one, static_cast<std::size_t>(site.bytes));
        const Bytes index = ChunkCode::encode_index(words, level);
        std::copy(index.begin(), index.end(),
                  level.at_end ? shard.end() - static_cast<std::ptrdiff_t>(index.size()) : shard.begin());
        bytes = std::move(shard);
        return what + "longer content";
      }
      [[fallthrough]];
    default: {
      // Damages the checksum, or an entry without updating the checksum.
      bytes[static_cast<std::size_t>(site.at + dice.below(site.bytes))] ^= static_cast<std::byte>(1u << dice.below(8));
      return "index of " + site.key + ": a bit";
    }
  }
  const Bytes index = ChunkCode::encode_index(words, level);
  std::copy(index.begin(), index.end(), bytes.begin() + at);
  return what;
}

std::string mutate_object(Dice& dice, const ArraySpec& spec, Stored& stored) {
  if (stored.objects.empty()) return "";
  std::vector<std::string> keys;
  for (const auto& [key, object] : stored.objects) keys.push_back(key);
  const std::string key = dice.of(keys), other = dice.of(keys);
  Bytes& bytes = stored.objects[key].bytes;
  const std::string what = "object " + key + ": ";
  switch (dice.below(9)) {
    case 0:
      bytes.resize(static_cast<std::size_t>(dice.below(bytes.size())));
      return what + "cut to " + std::to_string(bytes.size());
    case 1:
      bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), 1 + dice.below(16)));
      return what + "cut by a few";
    case 2:
      bytes.resize(bytes.size() + dice.pick<std::uint64_t>({1, 4, 16, 512, 4096, 70000}), std::byte{0xCC});
      return what + "extended";
    case 3:
      stored.objects.erase(key);
      return what + "deleted";
    case 4:
      std::swap(bytes, stored.objects[other].bytes);
      return what + "changed places with " + other;
    case 5:
      bytes = Bytes(stored.objects[other].bytes);
      return what + "a copy of " + other;
    case 6:
      bytes.clear();
      return what + "empty";
    case 7: {
      Shape beyond(spec.shape.size());
      for (std::uint64_t& number : beyond) number = dice.below(40);
      Object moved = std::move(stored.objects[key]);
      stored.objects.erase(key);
      stored.objects[spec.chunk_key(beyond)] = std::move(moved);
      return what + "under another key";
    }
    default:
      if (bytes.empty()) return "";
      for (std::uint64_t i = 0, n = dice.between(1, 3); i < n; ++i) {
        bytes[static_cast<std::size_t>(dice.below(bytes.size()))] ^= static_cast<std::byte>(1u << dice.below(8));
      }
      return what + "bits";
  }
}

std::string mutate_spec(Dice& dice, ArraySpec& spec) {
  const std::size_t rank = spec.shape.size();
  const std::size_t axis = rank == 0 ? 0 : static_cast<std::size_t>(dice.below(rank));
  Codecs& codecs = spec.codecs;
  switch (dice.below(10)) {
    case 0:
      set_fill(spec, static_cast<unsigned>(dice.below(100)));
      return "another fill value";
    case 1:
      codecs.big_endian = !codecs.big_endian;
      codecs.delta = false;
      return "the other byte order";
    case 2:
      if (rank == 0 || !spec.edges.empty()) return "";
      spec.shape[axis] = std::min<std::uint64_t>(spec.shape[axis] + dice.below(7), 3000);
      spec.shape[axis] -= dice.below(std::min<std::uint64_t>(spec.shape[axis] + 1, 7));
      return "another extent";
    case 3:
      if (rank < 2) return "";
      if (codecs.order.empty()) {
        for (std::size_t i = rank; i-- > 0;) codecs.order.push_back(i);
      } else {
        codecs.order.clear();
      }
      return "the other order of axes";
    case 4: {
      if (spec.levels.empty()) return "";
      Level& level = spec.levels[static_cast<std::size_t>(dice.below(spec.levels.size()))];
      if (dice.one_in(3))
        level.index_checked = !level.index_checked;
      else if (dice.one_in(2))
        level.index_big = !level.index_big;
      else
        level.at_end = !level.at_end;
      return "another index";
    }
    case 5: {
      const ArraySpec drawn = make_spec(dice, {});
      spec.type = drawn.type;
      codecs.delta = codecs.delta && spec.type.integer;
      codecs.shuffle_bytes = codecs.shuffle_bytes == 0 ? 0 : spec.type.bytes;
      set_fill(spec, 7);
      return "another type";
    }
    case 6:
      codecs.squeeze = dice.pick({Squeeze::kNone, Squeeze::kZstd, Squeeze::kLz4, Squeeze::kGzip, Squeeze::kZlib});
      return "another compressor";
    case 7:
      if (rank == 0 || !spec.levels.empty() || !spec.edges.empty()) return "";
      spec.chunk[axis] += 1;
      return "another chunk shape";
    case 8:
      spec.slash = !spec.slash;
      return "the other separator";
    default:
      if (spec.format == 2) return "";
      codecs.checked = !codecs.checked;
      return "a checksum more or less";
  }
}

std::string mutate_text(Dice& dice, std::string& document) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const bool digit = document[i] >= '0' && document[i] <= '9';
    if (digit && (document[i - 1] == ',' || document[i - 1] == '[' || document[i - 1] == ':')) numbers.push_back(i);
  }
  if (numbers.empty() || dice.one_in(6)) {
    const auto from = static_cast<std::size_t>(dice.below(document.size()));
    document.erase(from, static_cast<std::size_t>(1 + dice.below(12)));
    return "document: a part left out";
  }
  const std::size_t at = dice.of(numbers);
  std::size_t end = at;
  while (end < document.size() && document[end] >= '0' && document[end] <= '9') ++end;
  const char* const values[] = {"0",
                                "-1",
                                "1",
                                "2147483648",
                                "4294967296",
                                "9223372036854775807",
                                "1099511627776",
                                "9223372036854775808",
                                "18446744073709551615",
                                "18446744073709551616",
                                "1e30",
                                "1.5",
                                "1000000",
                                "33554432",
                                "null",
                                "\"4\"",
                                "[]"};
  const std::string value = values[dice.below(std::size(values))];
  document.replace(at, end - at, value);
  return "document: a number is " + value;
}

}  // namespace headrace::stress
