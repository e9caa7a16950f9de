// Decode indices made by the CPU, saved and loaded.
#include "zarr/decode_index.h"

#include <headrace/decode_index.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <tuple>

#include "base/access.h"
#include "base/callback.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/file_handle.h"
#include "base/file_read.h"
#include "base/page_buffer.h"
#include "transfer/context_impl.h"
#include "transfer/fetcher.h"
#include "zarr/planner.h"

namespace headrace {
namespace zarr {
namespace {

using transfer::Group;
using transfer::Task;

constexpr std::size_t kTasksAtATime = 1024;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 36;
constexpr std::uint64_t kCopies = 3;  // of a file, with its records

std::string file_in(const std::string& directory) { return directory + "/decode.hrindex"; }

// What becomes of a task that has stored bytes.
struct Slot {
  Status status;
  bool absent = false;   // there is no such object: the chunk is the fill value
  IndexRecord record{};  // less its place among the others
  std::vector<std::byte> index;
  std::uint64_t stored = 0;  // bytes, once they are read
};

// What one thread needs to make indices.
class Maker {
 public:
  Maker(const codec::Chain& chain, std::shared_ptr<base::MemoryBudget> memory)
      : chain_(chain), memory_(std::move(memory)), workspace_(chain.make_workspace()) {}

  // Failures name the object.
  Status make(const transfer::Plan& plan, const transfer::WaveTasks& wave, const Group& group, const Task& task,
              Slot& out) {
    const transfer::Source* const source = group.source == transfer::kNoSource ? nullptr : &wave.sources[group.source];
    if (source != nullptr) {
      detail_.key = *source->key;
    } else {
      plan.describe(group, task, detail_);
    }
    Status status = make_of(plan, source, group, task, out);
    if (status.ok()) return status;
    status = std::move(status).with_key(detail_.key);
    return task.length == transfer::kWholeObject ? status : std::move(status).with_range(task.offset, task.length);
  }

 private:
  Status make_of(const transfer::Plan& plan, const transfer::Source* source, const Group& group, const Task& task,
                 Slot& out) {
    const transfer::Fetcher fetcher(plan.store());
    store::ByteSource own;
    transfer::StoredRange range;
    Status found = fetcher.find(source, detail_.key, task.offset, task.length, own, range, fetched_);
    out.absent = source == nullptr && found.code() == Code::kNotFound;
    HEADRACE_TRY(std::move(found));
    const std::uint64_t length = range.length;
    HEADRACE_TRY(chain_.check_encoded_size(length));
    const bool unpacks = range.source->offers(store::Offer::kWhole);
    HEADRACE_TRY(take_memory(length, unpacks ? store::Store::most_packed_bytes(length) : 0));
    stored_.resize(static_cast<std::size_t>(length));
    HEADRACE_TRY(fetcher.read(range, stored_, unpacking_, fetched_));
    out.stored = length;
    const transfer::IndexKey key = plan.index_key(group, task);
    out.record = {key.object, key.offset, length, 0, 0};
    std::span<const std::byte> encoded = stored_;
    const std::size_t first = chain_.device_stage_begin();
    if (first > 0) {
      half_decoded_.resize(static_cast<std::size_t>(chain_.capacity_before(first)));
      std::size_t produced = 0;
      HEADRACE_TRY(chain_.decode_until(first, encoded, half_decoded_, workspace_, produced));
      encoded = {half_decoded_.data(), produced};
      out.record.encoded_bytes = produced;
    }
    HEADRACE_TRY_ASSIGN(out.index, chain_.make_decode_index(encoded, between_, workspace_));
    out.record.bytes = static_cast<std::uint32_t>(out.index.size());
    return {};
  }

  // For a chunk of so many stored bytes, which take `unpacking` bytes more to unpack.
  Status take_memory(std::uint64_t length, std::uint64_t unpacking) {
    const std::uint64_t temporary = chain_.temporary_bytes();
    const std::size_t first = chain_.device_stage_begin();
    std::uint64_t bytes = length;
    for (const std::uint64_t more :
         {temporary, temporary, temporary, first > 0 ? chain_.capacity_before(first) : 0, unpacking}) {
      bytes = base::checked_add(bytes, more).value_or(UINT64_MAX);
    }
    HEADRACE_TRY(memory_.grow_to(bytes, "the decode index of a chunk"));
    for (int i = 0; i < 2; ++i) {
      temporary_[i].resize(static_cast<std::size_t>(temporary));
      workspace_.temporary[i] = temporary_[i];
    }
    between_.resize(static_cast<std::size_t>(temporary));
    return {};
  }

  const codec::Chain& chain_;
  base::Charge memory_;
  codec::Chain::Workspace workspace_;
  std::vector<std::byte> temporary_[2], between_, half_decoded_, stored_;
  base::PageBuffer unpacking_;
  Stats fetched_;
  transfer::TaskDetail detail_;
};

struct Made {
  DecodeIndexReport report;
  std::vector<IndexRecord> records;
  std::vector<std::byte> indices;
};

Status stored_on_gpu(const Array::Impl& array) {
  const auto unsupported = [](std::string why) {
    return Status(Code::kUnsupported, Layer::kZarr, "there are no decode indices for this array: " + why);
  };
  if (array.metadata.dtype.is_variable_length()) return unsupported("its elements have variable length");
  if (array.metadata.rectilinear != nullptr) return unsupported("its chunks differ in shape (rectilinear)");
  const codec::Chain& chain = array.unit_chain();
  if (chain.index_stage() == chain.stage_count()) {
    return unsupported("no codec of it is one whose GPU decoder uses them (zstd, and Blosc with zstd inside)");
  }
  return {};
}

Result<Made> make_all(const Array& array, const DecodeIndexOptions& options) {
  const std::shared_ptr<const Array::Impl>& impl = Access::impl(array);
  const auto& resources = Access::impl(impl->store.context())->resources;
  HEADRACE_TRY(resources->check_usable());
  HEADRACE_TRY(stored_on_gpu(*impl));
  const codec::Chain& chain = impl->unit_chain();
  // Where boxes would go does not matter; the tensor is never touched.
  HEADRACE_TRY_ASSIGN(const ResolvedSelection all, impl->resolve_selection({}));
  HEADRACE_TRY_ASSIGN(ReadConversion conversion, make_conversion(impl->metadata.dtype, impl->element_op, impl->fill,
                                                                 !impl->metadata.fill.empty(), ReadOptions()));
  TensorView tensor;
  tensor.shape = all.shape;
  tensor.strides_bytes.assign(all.shape.size(), 0);
  HEADRACE_TRY_ASSIGN(const auto plan, make_plan(impl, all, tensor, std::move(conversion)));

  Made made;
  made.report.codec = std::string(chain.stage_name(chain.index_stage()));
  transfer::WaveTasks wave;
  wave.max_tasks = kTasksAtATime;
  std::uint64_t done = 0;
  const unsigned threads = std::max(1u, resources->threads());
  const auto cancelled = [&] { return options.cancel && options.cancel->asked(); };
  for (bool more = true; more;) {
    wave.clear();
    HEADRACE_TRY_ASSIGN(more, plan->fill(wave));
    std::vector<std::pair<const Group*, const Task*>> tasks;
    for (const Group& group : wave.groups) {
      for (std::uint32_t i = 0; i < group.task_count; ++i) {
        const Task& task = wave.tasks[group.first_task + i];
        if (task.length != 0) tasks.emplace_back(&group, &task);
      }
    }
    std::vector<Slot> slots(tasks.size());
    std::atomic<std::size_t> next{0};
    const auto work = [&]() noexcept {
      std::size_t i = tasks.size();
      try {
        Maker maker(chain, impl->memory.budget());
        while (!cancelled() && (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks.size()) {
          slots[i].status = maker.make(*plan, wave, *tasks[i].first, *tasks[i].second, slots[i]);
        }
      } catch (const std::bad_alloc&) {
        if (i < tasks.size()) slots[i].status = Status::out_of_memory();
        next.store(tasks.size());
      }
    };
    std::vector<std::thread> others;
    try {
      while (others.size() + 1 < threads && others.size() + 1 < tasks.size()) others.emplace_back(work);
    } catch (const std::exception&) {  // fewer, then
    }
    work();
    for (std::thread& thread : others) thread.join();
    if (cancelled()) return Status(Code::kCancelled, Layer::kZarr, "making decode indices was cancelled");
    HEADRACE_TRY(transfer::Fetcher(plan->store()).check_unchanged(wave.sources));
    for (Slot& slot : slots) {
      if (slot.absent) continue;
      if (slot.status.code() == Code::kResourceExhausted) return slot.status;
      ++made.report.chunks;
      made.report.stored_bytes += slot.stored;
      made.report.decoded_bytes += chain.decoded_bytes();
      if (slot.status.code() == Code::kUnsupported && made.report.indexed + made.report.small == 0) return slot.status;
      if (!slot.status.ok()) {
        ++made.report.without;
        continue;
      }
      ++(slot.index.empty() ? made.report.small : made.report.indexed);
      slot.record.at = made.indices.size();
      made.indices.insert(made.indices.end(), slot.index.begin(), slot.index.end());
      made.records.push_back(slot.record);
    }
    done += wave.tasks.size();
    if (options.progress) {
      HEADRACE_TRY(base::run_callback(base::kProgressThrew, options.progress, done, plan->chunk_count()));
    }
  }
  made.report.index_bytes = made.indices.size();
  return made;
}

// `memory` is what it and its records take.
Result<std::vector<std::byte>> read_file(const std::string& path, base::Charge& memory) {
  base::FileHandle file;
  HEADRACE_TRY(base::FileHandle::open(path, {}, file));
  std::uint64_t bytes = 0;
  HEADRACE_TRY(file.size(bytes));
  if (bytes > kMostFileBytes) return Status(Code::kResourceExhausted, Layer::kZarr, "larger than any such file");
  HEADRACE_TRY(memory.take(kCopies * bytes, "a file of decode indices").with_key(path));
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  HEADRACE_TRY(base::read_exactly(file.fd(), 0, out));
  return out;
}

// Under another name until it is complete, and nothing that has that name is written to: the directory may be one that
// others can write to.
Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  static std::atomic<unsigned> counter{0};
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, ".%d-%u-%llx", static_cast<int>(::getpid()), counter.fetch_add(1),
                static_cast<unsigned long long>(base::now_ns()));
  const std::string temporary = path + suffix;
  base::FileHandle file;
  HEADRACE_TRY(base::FileHandle::open(temporary, {.write = true, .create = true, .exclusive = true}, file));
  std::uint64_t calls = 0;
  Status status = base::write_exactly(file.fd(), 0, bytes.data(), bytes.size(), calls);
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(temporary, path, error);
    if (error) {
      status = Status(Code::kIo, Layer::kZarr, "cannot write").with_key(path).with_errno(error.value());
    }
  }
  if (!status.ok()) std::filesystem::remove(temporary, error);
  return status;
}

}  // namespace

Result<std::string> load_decode_index(const Array::Impl& array, const std::string& directory) {
  transfer::IndexCache& cache = Access::impl(array.store.context())->resources->indices();
  if (array.index_array == 0) {
    return Status(Code::kInvalidArgument, Layer::kApi,
                  "decode indices are named and ContextOptions::index_budget_bytes leaves no room for any");
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
    return std::string("ignored: they are of codec '") + file->codec + "'";
  }
  transfer::IndexCache::Access access(cache);
  for (const IndexRecord& record : file->records) {
    const transfer::IndexKey key{array.index_array, record.object, record.offset};
    if (record.bytes == 0) {
      access.keep_useless(key, record.encoded_bytes);
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
    HEADRACE_TRY(zarr::write_file(made.report.file, bytes));
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
