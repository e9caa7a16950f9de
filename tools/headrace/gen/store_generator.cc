#include "gen/store_generator.h"

#include <headrace/array_writer.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

#include "gen/parallel.h"

namespace headrace::cli {
namespace {

Status write_text(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wbx");
  bool good = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good) return {};
  return Status(Code::kIo, Layer::kApi, "cannot write a metadata document")
      .with_key(path)
      .with_cause(std::generic_category().message(error))
      .with_errno(error);
}

std::span<float> as_floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

void fill_chunk(const ArrayPlan& array, const FieldSource& source, std::span<const std::uint64_t> chunk,
                std::span<std::byte> elements) {
  const std::size_t rank = array.shape.size();
  // Normalised to four axes: time, channel, row, column.
  std::uint64_t first[4] = {0, 0, 0, 0}, end[4] = {1, 1, 1, 1}, extent[4] = {1, 1, 1, 1};
  bool inside = true;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis = i == 0 ? 0 : i + 4 - rank;
    extent[axis] = array.chunk[i];
    first[axis] = chunk[i] * array.chunk[i];
    end[axis] = std::min(first[axis] + extent[axis], array.shape[i]);
    inside = inside && first[axis] + extent[axis] <= array.shape[i];
  }
  if (!inside) std::memset(elements.data(), 0, elements.size());
  const Grid grid = {array.shape[rank - 2], array.shape[rank - 1]};
  const std::span<float> out = as_floats(elements);
  for (std::uint64_t time = first[0]; time < end[0]; ++time) {
    for (std::uint64_t c = first[1]; c < end[1]; ++c) {
      const Channel& channel = array.channels[c];
      const FieldId id = {channel.variable, time, channel.level};
      for (std::uint64_t row = first[2]; row < end[2]; ++row) {
        const std::uint64_t at =
            (((time - first[0]) * extent[1] + c - first[1]) * extent[2] + row - first[2]) * extent[3];
        const std::span<float> values = out.subspan(at, end[3] - first[3]);
        if (channel.model != nullptr) {
          source.field_row(*channel.model, id, grid, row, first[3], values);
        } else {
          source.uniform_row(id, row, first[3], values);
        }
      }
    }
  }
}

Result<GeneratedStore> generate_store(const StorePlan& plan, const FieldSource& source, const std::string& path,
                                      unsigned threads,
                                      const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  ContextOptions options;
  options.threads = 1;  // only used by reads
  HEADRACE_TRY_ASSIGN(const Context context, Context::create(options));
  HEADRACE_TRY_ASSIGN(const Store store, Store::open(context, path));
  const int zarr_format = plan.format == StoreFormat::kV2 ? 2 : 3;
  std::vector<ArrayWriter> writers;
  std::vector<std::uint64_t> first_item = {0};  // per array
  GeneratedStore result;
  for (const ArrayPlan& array : plan.arrays) {
    HEADRACE_TRY_ASSIGN(ArrayWriter writer,
                        ArrayWriter::create(store, array.name, zarr_format, array_document(array, plan.format)));
    first_item.push_back(first_item.back() + writer.object_count());
    result.chunks += writer.info().chunk_count;
    writers.push_back(std::move(writer));
  }
  result.objects = first_item.back();

  std::atomic<std::uint64_t> stored{0}, done{0};
  const auto make_work = [&]() -> Result<Work> {
    struct State {
      std::size_t array = SIZE_MAX;
      std::optional<ArrayWriter::Worker> worker;  // for that array
    };
    auto state = std::make_shared<State>();
    return Work([&, state](std::uint64_t item) -> Status {
      const auto found = std::upper_bound(first_item.begin(), first_item.end(), item) - 1;
      const auto number = static_cast<std::size_t>(found - first_item.begin());
      const ArrayPlan& array = plan.arrays[number];
      if (state->array != number) {
        state->worker.reset();  // frees its buffers before those of the next array are allocated
        HEADRACE_TRY_ASSIGN(ArrayWriter::Worker worker, writers[number].make_worker());
        state->worker.emplace(std::move(worker));
        state->array = number;
      }
      const auto fill = [&](std::span<const std::uint64_t> chunk, std::span<std::byte> elements) -> Status {
        if (array.channels.empty()) {
          std::copy(array.values.begin(), array.values.end(), elements.begin());
        } else {
          fill_chunk(array, source, chunk, elements);
        }
        progress(done.fetch_add(elements.size()) + elements.size(), plan.decoded_bytes);
        return {};
      };
      HEADRACE_TRY_ASSIGN(const std::uint64_t bytes, state->worker->write(item - *found, fill));
      stored += bytes;
      return {};
    });
  };
  HEADRACE_TRY(run_parallel(threads, result.objects, make_work));
  result.stored_bytes = stored;

  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (zarr_format == 2) {
      HEADRACE_TRY(write_text(path + "/" + plan.arrays[i].name + "/.zattrs", v2_attributes(plan.arrays[i])));
    }
    HEADRACE_TRY(writers[i].finish());
  }
  if (zarr_format == 3) {
    HEADRACE_TRY(write_text(path + "/zarr.json", v3_group_document(plan)));
  } else {
    HEADRACE_TRY(write_text(path + "/.zattrs", json_text(plan.attributes) + "\n"));
    HEADRACE_TRY(write_text(path + "/.zmetadata", v2_consolidated_document(plan)));
    HEADRACE_TRY(write_text(path + "/.zgroup", "{\"zarr_format\": 2}\n"));
  }
  return result;
}

}  // namespace headrace::cli
