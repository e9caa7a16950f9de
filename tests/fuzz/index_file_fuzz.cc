// Files of decode indexes: any bytes are either refused, or every index lies within them. If bit 0 of byte 0 is set, a
// valid file is first written from the input's records: it must parse to as many records and bytes.
#include <algorithm>
#include <vector>

#include "tests/fuzz/fuzz_check.h"
#include "zarr/index/index_file.h"

using namespace headrace;
using namespace headrace::zarr;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin + 1, begin + size);
  if ((data[0] & 1) != 0 && bytes.size() >= 64) {
    // Takes as many records from the bytes as fit.
    std::vector<IndexRecord> records;
    std::size_t at = 64, used = 0;
    const std::size_t count = std::min<std::size_t>(data[0] >> 1, (bytes.size() - 64) / 32);
    const std::size_t indices_at = 64 + count * 32;
    for (std::size_t i = 0; i < count; ++i, at += 32) {
      IndexRecord record;
      record.object = std::to_integer<std::uint64_t>(bytes[at]);
      record.offset = std::to_integer<std::uint64_t>(bytes[at + 8]);
      record.bytes = static_cast<std::uint32_t>(
          std::min<std::size_t>(std::to_integer<std::size_t>(bytes[at + 24]), bytes.size() - indices_at - used));
      record.at = used;
      used += record.bytes;
      records.push_back(record);
    }
    const std::vector<std::byte> written =
        write_index_file("zstd", records, std::span(bytes).subspan(indices_at, used));
    const auto parsed = parse_index_file(written);
    FUZZ_CHECK(parsed.ok());
    FUZZ_CHECK(parsed->records.size() == count && parsed->indices.size() == used);
  }
  const auto parsed = parse_index_file(bytes);
  if (!parsed.ok()) return 0;
  std::size_t sum = 0;
  for (const IndexRecord& record : parsed->records) {
    FUZZ_CHECK(record.at == sum);
    sum += record.bytes;
    for (const std::byte b : parsed->index(record)) FUZZ_CHECK(std::to_integer<int>(b) < 256);
  }
  FUZZ_CHECK(sum == parsed->indices.size());
  return 0;
}
