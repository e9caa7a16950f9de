// Executes a StorePlan: writes every chunk of every array, then the metadata documents.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gen/field_source.h"
#include "gen/workload.h"

namespace headrace::cli {

struct GeneratedStore {
  std::uint64_t objects = 0;  // stored objects, without metadata documents
  std::uint64_t chunks = 0;
  std::uint64_t stored_bytes = 0;  // of the objects
};

// Fills one chunk of a data array, with zeros outside the array. Exposed for tests.
void fill_chunk(const ArrayPlan& array, const FieldSource& source, std::span<const std::uint64_t> chunk,
                std::span<std::byte> elements);

// Writes the plan into the empty directory `path`. `progress` is called with decoded bytes, from any thread. The bytes
// written depend on the plan and the source only.
Result<GeneratedStore> generate_store(const StorePlan& plan, const FieldSource& source, const std::string& path,
                                      unsigned threads,
                                      const std::function<void(std::uint64_t done, std::uint64_t total)>& progress);

}  // namespace headrace::cli
