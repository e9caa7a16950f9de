// Invariants of all metadata that a parser accepts, whatever the document was.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tests/fuzz/fuzz_check.h"
#include "zarr/metadata/lenient.h"
#include "zarr/metadata/metadata.h"

namespace headrace::zarr {

inline std::uint64_t bytes_covered(const std::vector<DataType::SwapRun>& runs) {
  std::uint64_t bytes = 0;
  for (const DataType::SwapRun& run : runs) {
    FUZZ_CHECK(run.width_bytes > 0 && run.count > 0);
    bytes += std::uint64_t{run.width_bytes} * run.count;
  }
  return bytes;
}

inline void check_type(const DataType& type) {
  if (type.is_variable_length()) {
    FUZZ_CHECK(type.item_bytes == 0 && type.fields.empty() && type.swap_runs.empty() && type.stored_swap_runs.empty());
    FUZZ_CHECK(type.name == (type.kind == TypeKind::kString ? "string" : "bytes"));
    return;
  }
  FUZZ_CHECK(type.item_bytes > 0);
  FUZZ_CHECK(!type.name.empty());
  FUZZ_CHECK(bytes_covered(type.swap_runs) == type.item_bytes);
  FUZZ_CHECK(type.stored_swap_runs.empty() || bytes_covered(type.stored_swap_runs) == type.item_bytes);
  FUZZ_CHECK((type.kind == TypeKind::kStruct) == !type.fields.empty());
  std::uint64_t offset = 0;
  for (const DataType::Field& field : type.fields) {
    FUZZ_CHECK(field.offset_bytes == offset);
    FUZZ_CHECK(!field.type.is_variable_length());
    check_type(field.type);
    std::uint64_t bytes = field.type.item_bytes;
    for (std::uint64_t extent : field.shape) bytes *= extent;
    offset += bytes;
  }
  FUZZ_CHECK(type.fields.empty() || offset == type.item_bytes);
}

inline void check_refusal(const Status& status) {
  FUZZ_CHECK(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported ||
             status.code() == Code::kInvalidArgument);
  FUZZ_CHECK(!status.message().empty() && status.message().size() < 1000);
  // Messages are UTF-8 whatever the document contained: dump() throws on anything else.
  (void)base::Json(status.message()).dump();
}

// Limits of leniency: a document that is valid without it is read the same with it, and whatever is accepted satisfies
// the invariants.
inline void check_lenient(const Result<ArrayMetadata>& strict, std::string_view text,
                          Result<ArrayMetadata> (*parse)(std::string_view, Lenient*));

inline void check_array(const ArrayMetadata& array) {
  FUZZ_CHECK(array.shape.size() <= kMaxRank);
  FUZZ_CHECK(array.chunk_shape.size() == array.shape.size());
  FUZZ_CHECK(array.dimension_names.empty() || array.dimension_names.size() == array.shape.size());
  FUZZ_CHECK(array.keys.separator == '.' || array.keys.separator == '/');
  FUZZ_CHECK(array.attributes.is_object());
  check_type(array.dtype);
  FUZZ_CHECK(array.dtype.is_variable_length() || array.fill.size() == array.dtype.item_bytes ||
             (array.zarr_format == 2 && array.fill.empty()));
  FUZZ_CHECK(array.dtype.kind != TypeKind::kBool || array.fill.empty() || array.fill[0] <= std::byte{1});
  unsigned __int128 bytes = std::max<std::uint32_t>(array.dtype.item_bytes, 1);
  const bool empty = std::count(array.chunk_shape.begin(), array.chunk_shape.end(), 0u) > 0;
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    FUZZ_CHECK(array.chunk_shape[i] > 0 || array.shape[i] == 0);
    if (!empty) bytes *= array.chunk_shape[i];
    FUZZ_CHECK(bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  }
  if (array.rectilinear != nullptr) {
    FUZZ_CHECK(array.rectilinear->axes.size() == array.shape.size());
    for (std::size_t i = 0; i < array.shape.size(); ++i) {
      unsigned __int128 elements = 0, chunks = 0;
      for (const EdgeRun& run : array.rectilinear->axes[i]) {
        FUZZ_CHECK(run.edge > 0 && run.edge <= array.chunk_shape[i] && run.count > 0);
        FUZZ_CHECK(run.first_element == elements && run.first_chunk == chunks);
        elements += static_cast<unsigned __int128>(run.edge) * run.count;
        chunks += run.count;
      }
      FUZZ_CHECK(elements >= array.shape[i] && elements <= std::numeric_limits<std::int64_t>::max());
    }
  }
  for (const CodecSpec& codec : array.codecs) FUZZ_CHECK(!codec.name.empty() && codec.config.is_object());
}

inline void check_lenient(const Result<ArrayMetadata>& strict, std::string_view text,
                          Result<ArrayMetadata> (*parse)(std::string_view, Lenient*)) {
  Lenient lenient = Lenient::parse("all").value();
  const auto array = parse(text, &lenient);
  if (!array.ok()) {
    check_refusal(array.status());
    FUZZ_CHECK(!strict.ok());
    return;
  }
  check_array(*array);
  FUZZ_CHECK(strict.ok() || !lenient.uses.empty());
  FUZZ_CHECK(!strict.ok() || (strict->fill == array->fill && strict->shape == array->shape));
}

}  // namespace headrace::zarr
