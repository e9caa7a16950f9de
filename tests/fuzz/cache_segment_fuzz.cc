// Segments of a cache directory. An input describes changes to a valid segment: lengths, offsets, counts, recomputed
// checksums, truncation, reordered parts. Whatever results, the scan stays within the bytes, ends, and reports only
// records inside them; a record that passes every check must be one that was written.
//
// An input is a sequence of four-byte steps: the kind of change, where, and with what.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "cache/segment_format.h"
#include "tests/fuzz/fuzz_check.h"

using namespace headrace;
using namespace headrace::cache;

namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint64_t kFingerprint = 0x1234;
constexpr std::size_t kRecords = 5;

template <class Part>
void append(Bytes& out, const Part& part) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&part);
  out.insert(out.end(), begin, begin + sizeof part);
}

Bytes data_of(std::size_t number) {
  Bytes data(number * 50);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(number * 31 + i);
  return data;
}

Bytes segment(bool sealed) {
  Bytes out;
  append(out, make_segment_head(kFingerprint, 1));
  std::vector<ListedRecord> list;
  for (std::size_t number = 0; number < kRecords; ++number) {
    const Bytes data = data_of(number);
    list.push_back({{number, number},
                    static_cast<std::uint32_t>(out.size() / kSegmentUnit),
                    static_cast<std::uint32_t>(data.size()),
                    0,
                    0});
    append(out, make_record_head({number, number}, "v", 4096, data));
    out.insert(out.end(), data.begin(), data.end());
    while (out.size() % kSegmentUnit != 0) out.push_back({});
  }
  if (!sealed) return out;
  const std::uint64_t at = out.size();
  for (const ListedRecord& record : list) append(out, record);
  while (out.size() % kSegmentUnit != 0) out.push_back({});
  append(out, make_segment_seal(kFingerprint, at, list.size()));
  return out;
}

constexpr std::uint64_t kNumbers[] = {0,
                                      1,
                                      63,
                                      64,
                                      65,
                                      4095,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      std::uint64_t{1} << 32,
                                      1ull << 58,
                                      1ull << 63,
                                      ~0ull,
                                      ~0ull - 63,
                                      256ull << 20,
                                      (256ull << 20) + 1};

// Recomputes the checksum of the bytes at `at`, taken as a head or a seal.
void make_right(Bytes& bytes, std::size_t at, bool seal) {
  const std::size_t size = seal ? sizeof(SegmentSeal) : sizeof(RecordHead);
  if (at + size > bytes.size()) return;
  const std::uint32_t crc = base::crc32c(bytes.data() + at + 8, size - 8);
  std::memcpy(bytes.data() + at + 4, &crc, sizeof crc);
}

void apply(Bytes& bytes, const std::uint8_t* step) {
  if (bytes.size() < kSegmentUnit) return;
  const std::size_t units = bytes.size() / kSegmentUnit;
  const std::size_t at = step[1] % units * kSegmentUnit;
  const std::uint64_t number = kNumbers[step[2] % std::size(kNumbers)];
  const std::size_t field = step[3] % (kSegmentUnit / 4) * 4;
  switch (step[0] % 8) {
    case 0:  // overwrites a word of a head, a list or a seal
      std::memcpy(bytes.data() + at + field, &number, std::min<std::size_t>(8, kSegmentUnit - field));
      break;
    case 1:
      std::memcpy(bytes.data() + at + field, &number, 4);
      make_right(bytes, at, false);
      break;
    case 2:
      std::memcpy(bytes.data() + bytes.size() - kSegmentUnit + field, &number,
                  std::min<std::size_t>(8, kSegmentUnit - field));
      make_right(bytes, bytes.size() - kSegmentUnit, true);
      break;
    case 3:
      bytes.resize(std::min(bytes.size(), at + step[3]));
      break;
    case 4: {  // swaps two parts
      const std::size_t other = step[2] % units * kSegmentUnit;
      std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                       bytes.begin() + static_cast<std::ptrdiff_t>(at + kSegmentUnit),
                       bytes.begin() + static_cast<std::ptrdiff_t>(other));
      break;
    }
    case 5: {  // duplicates the rest from a part on
      if (bytes.size() > (64 << 10)) break;
      const Bytes part(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
      bytes.insert(bytes.end(), part.begin(), part.end());
      break;
    }
    case 6:
      bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(at + kSegmentUnit));
      break;
    default:
      bytes[(at + step[2]) % bytes.size()] ^= static_cast<std::byte>(1u << step[3] % 8);
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  Bytes bytes = segment((input[0] & 1) != 0);
  for (std::size_t i = 1; i + 4 <= std::min<std::size_t>(size, 400); i += 4) apply(bytes, input + i);
  const auto read = [&](std::uint64_t at, std::span<std::byte> out) -> std::size_t {
    FUZZ_CHECK(at <= bytes.size());
    const std::size_t count = std::min<std::size_t>(out.size(), bytes.size() - at);
    if (count > 0) std::memcpy(out.data(), bytes.data() + at, count);
    return count;
  };
  std::size_t records = 0;
  const SegmentScan scan = scan_segment(read, bytes.size(), kFingerprint, 0, [&](const ListedRecord& record) {
    FUZZ_CHECK(++records <= bytes.size() / sizeof(ListedRecord));
    const std::uint64_t at = record.unit * kSegmentUnit;
    FUZZ_CHECK(at >= kSegmentUnit && record.data_bytes <= kMaxRecordBytes);
    FUZZ_CHECK(at + record_bytes(record.data_bytes) <= bytes.size());
    // A reader serves a record only if all of this holds.
    RecordHead head;
    std::memcpy(&head, bytes.data() + at, sizeof head);
    const std::byte* const data = bytes.data() + at + sizeof head;
    if (!is_record(head) || head.id != record.id || head.data_bytes != record.data_bytes ||
        head.version_text() != "v" || head.object_bytes != 4096 ||
        base::crc32c(data, record.data_bytes) != head.data_crc) {
      return true;
    }
    // A head with a recomputed checksum may name another record, whose data is not there.
    const Bytes written = data_of(head.id.low < kRecords ? static_cast<std::size_t>(head.id.low) : 0);
    if (head.id.low == head.id.high && head.id.low < kRecords && head.data_bytes == written.size()) {
      FUZZ_CHECK(std::equal(written.begin(), written.end(), data));
    }
    return true;
  });
  FUZZ_CHECK(scan.end <= bytes.size() && (scan.ours || records == 0));
  return 0;
}
