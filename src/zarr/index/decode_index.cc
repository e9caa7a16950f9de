// Builds decode indices on the CPU, saves them, and loads them.
#include "zarr/index/decode_index.h"

#include <headrace/decode_index.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>

#include "base/access.h"
#include "base/callback.h"
#include "base/checked.h"
#include "base/clock.h"
#include "os/file_handle.h"
#include "os/file_read.h"
#include "os/replace_file.h"
#include "transfer/context/context_impl.h"
#include "transfer/read/read.h"
#include "zarr/plan/planner.h"

namespace headrace {
namespace zarr {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 36;
constexpr std::uint64_t kCopies = 3;  // of a file, including its records

std::string file_in(const std::string& directory) { return directory + "/decode.hrindex"; }

struct Made {
  DecodeIndexReport report;
  std::vector<IndexRecord> records;  // by object, then by offset
  std::vector<std::byte> indices;
};

// The sink of a read that keeps the decode indices of chunks, not their elements.
class IndexSink final : public transfer::ChunkSink {
 public:
  // `out` must outlive the read.
  IndexSink(const transfer::ReadTasks& tasks, Made& out) noexcept : ChunkSink(tasks), out_(out) {}
  // A worker's working memory: what make_decode_index() and the stages before it need besides decoding.
  static std::uint64_t lane_bytes(const codec::Chain& chain) noexcept {
    const std::size_t first = chain.device_stage_begin();
    return base::checked_add(chain.temporary_bytes(), first > 0 ? chain.capacity_before(first) : 0)
        .value_or(UINT64_MAX);
  }

 private:
  Status fill_task(transfer::Wave& wave, std::uint32_t task_index, transfer::Worker& worker) override {
    return (void)wave, (void)task_index, (void)worker, Status();
  }
  Status take_task(transfer::Wave& wave, const transfer::TaskGroup& group, std::uint32_t task_index,
                   const transfer::StoredChunk& stored, transfer::Worker& worker) override;
  Result<std::vector<std::byte>> make(const transfer::Wave& wave, std::span<const std::byte> encoded,
                                      std::uint64_t& encoded_bytes, transfer::Worker& worker) const;

  std::mutex mutex_;
  Made& out_;  // guarded by mutex_
};

Result<std::vector<std::byte>> IndexSink::make(const transfer::Wave& wave, std::span<const std::byte> encoded,
                                               std::uint64_t& encoded_bytes, transfer::Worker& worker) const {
  const codec::Chain& chain = wave.tasks.chain();
  const std::size_t first = chain.device_stage_begin();
  const auto before = static_cast<std::size_t>(first > 0 ? chain.capacity_before(first) : 0);
  const auto between = static_cast<std::size_t>(chain.temporary_bytes());
  const std::span<std::byte> room = worker.memory->decoded.reserve(std::max<std::size_t>(before + between, 1));
  if (room.data() == nullptr || !prepare(wave, worker)) return Status::out_of_memory();
  if (first > 0) {
    std::size_t produced = 0;
    HEADRACE_TRY(chain.decode_until(first, encoded, room.first(before), worker.workspace, produced));
    encoded = room.first(produced);
  }
  encoded_bytes = encoded.size();
  return chain.make_decode_index(encoded, room.subspan(before, between), worker.workspace);
}

Status IndexSink::take_task(transfer::Wave& wave, const transfer::TaskGroup& group, std::uint32_t task_index,
                            const transfer::StoredChunk& chunk, transfer::Worker& worker) {
  const std::uint64_t stored = chunk.bytes.size(), delivered = tasks_.element_bytes(wave.tasks, worker.detail);
  const transfer::IndexKey key = tasks_.plan().index_key(group, wave.tasks.tasks[task_index]);
  IndexRecord record{key.object, key.offset, stored, 0, 0};
  auto index = make(wave, chunk.bytes, record.encoded_bytes, worker);
  count_taken(wave.tasks, delivered, worker);
  std::lock_guard lock(mutex_);
  DecodeIndexReport& report = out_.report;
  ++report.chunks;
  report.stored_bytes += stored;
  report.decoded_bytes += wave.tasks.chain().decoded_bytes();
  if (!index.ok()) {
    // The cause is not this chunk: the next one would fail the same way.
    const Code code = index.status().code();
    if (code == Code::kResourceExhausted || (code == Code::kUnsupported && report.indexed + report.small == 0)) {
      tasks_.report().stop(std::move(index).status().with_key(transfer::ReadTasks::key_of(wave.tasks, group, worker)));
      return {};
    }
    ++report.without;
    return {};
  }
  ++(index->empty() ? report.small : report.indexed);
  record.bytes = static_cast<std::uint32_t>(index->size());
  record.at = out_.indices.size();
  out_.indices.insert(out_.indices.end(), index->begin(), index->end());
  out_.records.push_back(record);
  return {};
}

// Puts the records in order, so that every run gives the same file, whichever chunk arrived first.
void sort_by_place(Made& made) {
  std::ranges::sort(made.records, {},
                    [](const IndexRecord& record) { return std::pair(record.object, record.offset); });
  std::vector<std::byte> indices;
  indices.reserve(made.indices.size());
  for (IndexRecord& record : made.records) {
    const auto index = std::span(made.indices).subspan(record.at, record.bytes);
    record.at = indices.size();
    indices.insert(indices.end(), index.begin(), index.end());
  }
  made.indices = std::move(indices);
}

Status stored_on_gpu(const Array::Impl& array) {
  const auto unsupported = [](std::string why) {
    return Status(Code::kUnsupported, Layer::kZarr, "there are no decode indices for this array: " + why);
  };
  if (array.metadata.dtype.is_variable_length()) return unsupported("its elements have variable length");
  if (array.metadata.rectilinear != nullptr) return unsupported("its chunks differ in shape (rectilinear)");
  const codec::Chain& chain = array.unit_chain();
  if (chain.index_stage() == chain.stage_count()) {
    return unsupported("none of its codecs has a GPU decoder that uses indices (zstd, and Blosc with zstd inside)");
  }
  return {};
}

Result<Made> make_all(const Array& array, const DecodeIndexOptions& options) {
  const std::shared_ptr<const Array::Impl>& impl = Access::impl(array);
  const auto& resources = Access::impl(impl->store.context())->resources;
  HEADRACE_TRY(resources->check_usable());
  HEADRACE_TRY(stored_on_gpu(*impl));
  const codec::Chain& chain = impl->unit_chain();
  // The tensor is never touched, so the destinations of boxes do not matter.
  HEADRACE_TRY_ASSIGN(const ResolvedSelection all, impl->resolve_selection({}));
  HEADRACE_TRY_ASSIGN(ReadConversion conversion, make_conversion(impl->metadata.dtype, impl->element_op, impl->fill,
                                                                 !impl->metadata.fill.empty(), ReadOptions()));
  TensorView tensor;
  tensor.shape = all.shape;
  tensor.strides_bytes.assign(all.shape.size(), 0);
  HEADRACE_TRY_ASSIGN(auto plan, make_plan(impl, all, tensor, std::move(conversion)));

  const std::uint64_t chunks = plan->chunk_count();
  Made made;
  made.report.codec = std::string(chain.stage_name(chain.index_stage()));
  ReadOptions reading;
  reading.progress = options.progress;
  reading.cancel = options.cancel;
  reading.collect_errors = true;
  HEADRACE_TRY_ASSIGN(const Device host, Device::open("host"));
  const transfer::HostTarget target{
      [&made](const transfer::ReadTasks& tasks) { return std::make_unique<IndexSink>(tasks, made); },
      IndexSink::lane_bytes(chain)};
  HEADRACE_TRY_ASSIGN(const auto read, transfer::Read::create(*resources, std::move(plan), Access::impl(host),
                                                              std::move(reading), {base::now_ns()}, target));
  Status status = read->run();
  for (const ChunkError& error : read->errors()) {
    if (error.status.code() == Code::kResourceExhausted) return error.status;
  }
  HEADRACE_TRY(std::move(status));
  if (options.progress) {
    HEADRACE_TRY(base::run_callback(base::kProgressThrew, options.progress, chunks, chunks));
  }
  // Chunks that could not be read.
  made.report.chunks += read->errors().size();
  made.report.without += read->errors().size();
  sort_by_place(made);
  made.report.index_bytes = made.indices.size();
  return made;
}

// Charges the file and its records to `memory`.
Result<std::vector<std::byte>> read_file(const std::string& path, base::Charge& memory) {
  os::FileHandle file;
  HEADRACE_TRY(os::FileHandle::open(path, {}, file));
  std::uint64_t bytes = 0;
  HEADRACE_TRY(file.size(bytes));
  if (bytes > kMaxFileBytes) return Status(Code::kResourceExhausted, Layer::kZarr, "larger than any such file");
  HEADRACE_TRY(memory.take(kCopies * bytes, "a file of decode indices").with_key(path));
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  HEADRACE_TRY(os::read_exactly(file.fd(), 0, out));
  return out;
}

}  // namespace

Result<std::string> load_decode_index(const Array::Impl& array, const std::string& directory) {
  transfer::IndexCache& cache = Access::impl(array.store.context())->resources->indices();
  if (array.index_array == 0) {
    return Status(
        Code::kInvalidArgument, Layer::kApi,
        "a decode index directory is given, but ContextOptions::index_budget_bytes leaves no room for indices");
  }
  const auto ignored = [](const Status& why) { return "ignored: " + why.message(); };
  base::Charge memory(array.memory.budget());
  const auto bytes = read_file(file_in(directory), memory);
  if (bytes.status().code() == Code::kNotFound) return std::string("none saved in ") + directory;
  if (!bytes.ok()) return ignored(bytes.status());
  const auto file = parse_index_file(*bytes);
  if (!file.ok()) return ignored(file.status());
  const codec::Chain& chain = array.unit_chain();
  const std::size_t stage = chain.index_stage();
  if (stage == chain.stage_count() || file->codec != chain.stage_name(stage)) {
    return std::string("ignored: the indices are for codec '") + file->codec + "'";
  }
  transfer::IndexCache::Access access(cache);
  for (const IndexRecord& record : file->records) {
    const transfer::IndexKey key{array.index_array, record.object, record.offset};
    if (record.bytes == 0) {
      access.mark_useless(key, record.encoded_bytes);
    } else {
      access.keep(key, record.encoded_bytes, file->index(record));
    }
  }
  return std::to_string(file->records.size()) + " chunks, " + std::to_string(file->indices.size()) + " bytes";
}

}  // namespace zarr

Result<DecodeIndexReport> build_decode_index(const Array& array, const std::string& directory,
                                             const DecodeIndexOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(zarr::Made made, zarr::make_all(array, options));
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
      return Status(Code::kIo, Layer::kZarr, "cannot make the directory").with_key(directory).with_errno(error.value());
    }
    made.report.file = zarr::file_in(directory);
    const auto bytes = zarr::write_index_file(made.report.codec, made.records, made.indices);
    made.report.file_bytes = bytes.size();
    HEADRACE_TRY(os::replace_file(made.report.file, bytes));
    return made.report;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Result<DecodeIndexReport> check_decode_index(const Array& array, const std::string& directory,
                                             const DecodeIndexOptions& options) {
  try {
    base::Charge memory(Access::impl(array)->memory.budget());
    HEADRACE_TRY_ASSIGN(const auto bytes, zarr::read_file(zarr::file_in(directory), memory));
    HEADRACE_TRY_ASSIGN(const zarr::IndexFile saved, zarr::parse_index_file(bytes));
    HEADRACE_TRY_ASSIGN(zarr::Made made, zarr::make_all(array, options));
    DecodeIndexReport& report = made.report;
    report.file = zarr::file_in(directory);
    report.file_bytes = bytes.size();
    constexpr std::uint64_t kPlaceBytes = 96;
    HEADRACE_TRY(memory.take(saved.records.size() * kPlaceBytes, "a file of decode indices"));
    std::map<std::pair<std::uint64_t, std::uint64_t>, const zarr::IndexRecord*> by_place;
    for (const zarr::IndexRecord& record : saved.records) by_place[{record.object, record.offset}] = &record;
    for (const zarr::IndexRecord& record : made.records) {
      const auto found = by_place.find({record.object, record.offset});
      if (found == by_place.end()) {
        ++report.missing;
        continue;
      }
      const zarr::IndexRecord& kept = *found->second;
      const auto own = std::span(made.indices).subspan(record.at, record.bytes);
      const bool same = saved.codec == report.codec && kept.encoded_bytes == record.encoded_bytes &&
                        std::ranges::equal(saved.index(kept), own);
      report.stale += same ? 0 : 1;
      by_place.erase(found);
    }
    report.stale += by_place.size();
    return std::move(report);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
