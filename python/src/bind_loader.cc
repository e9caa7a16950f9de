// Bindings of Loader and its batches.
#include <headrace/loader.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bind.h"
#include "describe.h"
#include "device_memory.h"
#include "errors.h"
#include "exit_gate.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

// A batch. It is returned to the loader once none of its tensors is left, after the work on the streams that use them.
class HeldBatch {
 public:
  explicit HeldBatch(LoaderBatch batch) : batch_(std::move(batch)) {}
  HeldBatch(const HeldBatch&) = delete;
  HeldBatch& operator=(const HeldBatch&) = delete;
  ~HeldBatch() { static_cast<void>(batch_.release(streams_)); }

  const LoaderBatch& batch() const noexcept { return batch_; }
  void used_on(void* stream) {
    if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
  }

 private:
  LoaderBatch batch_;
  std::vector<void*> streams_;
};

class BatchMemory final : public MemoryOnDevice {
 public:
  BatchMemory(const Device& device, std::shared_ptr<HeldBatch> held, std::size_t number, std::byte* first,
              std::size_t bytes)
      : MemoryOnDevice(device, first, bytes), held_(std::move(held)), number_(number) {}
  Status copy_to_host(std::size_t offset_bytes, std::byte* to, std::size_t bytes) const override {
    return held_->batch().copy_to_host(number_, offset_bytes, to, bytes);
  }
  void used_on(void* native_stream) override { held_->used_on(native_stream); }

 private:
  const std::shared_ptr<HeldBatch> held_;
  const std::size_t number_;
};

// Times of the last batches: a ring of `capacity` rows with the columns of _timing.py.
class BatchTimes {
 public:
  static constexpr std::size_t kColumns = 16, kAsked = 6, kLeft = 15;
  using Row = std::array<double, kColumns>;  // kLeft is set when the next batch is requested

  explicit BatchTimes(std::size_t capacity) : rows_(std::max<std::size_t>(capacity, 1)) {}
  std::uint64_t count() const noexcept { return count_; }  // including overwritten rows
  void add(const Row& row) noexcept {
    leave(row[kAsked]);
    Row& own = rows_[count_++ % rows_.size()];
    own = row;
    own[kLeft] = std::numeric_limits<double>::quiet_NaN();
  }
  // Marks the last batch as used: the next one was requested, an epoch ended, or the loop was left.
  void leave(double now) noexcept {
    if (count_ == 0) return;
    double& left = rows_[(count_ - 1) % rows_.size()][kLeft];
    if (!(left <= now)) left = now;  // unset (NaN), or later than `now`
  }
  // Rows, oldest first.
  nb::bytes rows() const {
    const std::size_t size = rows_.size(), first = count_ > size ? count_ % size : 0;
    std::vector<Row> out(rows_.begin() + static_cast<std::ptrdiff_t>(first), rows_.end());
    out.insert(out.end(), rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(first));
    return nb::bytes(out.data(), std::min<std::size_t>(size, count_) * sizeof(Row));
  }

 private:
  std::vector<Row> rows_;
  std::uint64_t count_ = 0;
};

// Lets threads in one after the other, in the order in which they came.
class Turns {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&, own = came_++] { return own == served_; });
  }
  void unlock() {
    {
      std::lock_guard lock(mutex_);
      ++served_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t came_ = 0, served_ = 0;  // guarded by mutex_
};

// A Loader is for one thread at a time, which a program in Python may disregard: its calls take turns. next() ends its
// turn now and then while it waits. Turns are taken without the GIL.
class PythonLoader {
 public:
  PythonLoader(const Device& device, std::vector<LoaderArray> arrays, const LoaderOptions& options)
      : device_(device),
        seed_(options.state ? options.state->seed : options.seed),
        samples_(samples_of(arrays)),
        loader_(std::make_shared<Loader>(
            take(without_gil([&] { return Loader::create(device, std::move(arrays), options); })))),
        stopped_at_exit_([loader = loader_] { loader->cancel(); }, [](std::chrono::nanoseconds) { return true; }) {}
  ~PythonLoader() {
    const ReleasedGil released;
    loader_.reset();
    if (inherited()) static_cast<void>(turns_.release());  // destroying it could wait for the parent's threads
  }
  // What needs no turn: release_cache() and what never changes.
  Loader& loader() noexcept { return *loader_; }
  template <class Body>
  auto in_turn(Body&& body) {
    const ReleasedGil released;
    if (inherited()) return body(*loader_);  // the lock may be held for ever
    std::lock_guard turn(*turns_);
    return body(*loader_);
  }
  // Begins a loop and ends the previous one, which gets no more batches.
  std::uint64_t begin_loop() {
    return in_turn([&](Loader&) { return ++loop_; });
  }

  // For each dimension of array `array`: begin, count, step, wrapped begin, wrapped count, padding, flipped.
  nb::list where(std::size_t array, std::uint64_t sample, std::uint64_t epoch, std::uint64_t window,
                 std::size_t output) const {
    const auto& samples = samples_.at(array);
    const auto* const windows = std::get_if<Windows>(&samples);
    const Crops* const crops = std::get_if<Crops>(&samples);
    std::vector<DimSlice> slices((windows != nullptr ? *windows : crops->frames()).dim_count());
    check(windows != nullptr ? windows->slices(sample, window, output, slices)
                             : crops->slices(seed_, epoch, sample, window, output, slices));
    nb::list out;
    for (const DimSlice& slice : slices) {
      out.append(nb::make_tuple(slice.begin, slice.count, slice.step, slice.wrapped_begin, slice.wrapped_count,
                                slice.padding, slice.flipped));
    }
    return out;
  }

  // Returns None at the end of an epoch, and if `loop` is not the present one (0: any), else (memory of each tensor,
  // sample numbers, valid, epoch, number). The sample numbers are bytes of std::uint64_t, since most loops do not use
  // them. Adds the batch's times to `into`. Most of the work is done in C++ because during training the caches hold
  // none of Python's code.
  nb::object next(BatchTimes& into, std::uint64_t loop) {
    const auto asked = std::chrono::steady_clock::now().time_since_epoch();
    std::optional<Result<std::optional<LoaderBatch>>> taken;
    while (!taken) {
      in_turn([&](Loader& loader) {
        if (loop != 0 && loop != loop_) {
          taken = std::optional<LoaderBatch>();
        } else if (loader.wait_for(kSignalPeriod)) {
          taken = loader.next();
        }
      });
      if (!taken && PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    std::optional<LoaderBatch> batch = take(*std::move(taken));
    if (!batch) {
      into.leave(std::chrono::duration<double>(asked).count());
      return nb::none();
    }
    const auto held = std::make_shared<HeldBatch>(std::move(*batch));
    const LoaderBatch& given = held->batch();
    nb::list tensors;
    for (std::size_t i = 0; i < loader_->tensors().size(); ++i) {
      const TensorView view = given.tensor(i);
      std::size_t bytes = view.dtype.item_bytes;
      for (const std::uint64_t extent : view.shape) bytes *= extent;
      tensors.append(
          nb::cast(std::make_unique<BatchMemory>(device_, held, i, view.memory.data() + view.first_byte, bytes)));
    }
    const std::span<const std::uint64_t> samples = given.samples();
    const LoaderTiming timing = given.timing();
    const auto seconds = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; };
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    // In the order of _timing.py's columns.
    into.add({number(given.epoch()), number(given.number()), number(timing.batches), seconds(timing.planned_ns),
              seconds(timing.begun_ns), seconds(timing.ready_ns), seconds(timing.asked_ns), seconds(timing.given_ns),
              timing.read_seconds, timing.decode_seconds, timing.place_seconds, number(timing.chunks),
              number(timing.kept_chunks), number(timing.read_bytes), number(timing.decoded_bytes), 0});
    return nb::make_tuple(tensors, nb::bytes(samples.data(), samples.size_bytes()), given.valid(), given.epoch(),
                          given.number());
  }

 private:
  using Samples = std::variant<Windows, Crops>;
  static std::vector<Samples> samples_of(const std::vector<LoaderArray>& arrays) {
    std::vector<Samples> out;
    for (const LoaderArray& array : arrays) out.push_back(array.samples);
    return out;
  }

  bool inherited() const noexcept { return maker_ != ::getpid(); }

  const Device device_;
  const std::uint64_t seed_;
  const std::vector<Samples> samples_;  // one per array
  const pid_t maker_ = ::getpid();
  std::unique_ptr<Turns> turns_ = std::make_unique<Turns>();
  std::uint64_t loop_ = 0;  // changed and read in a turn
  std::shared_ptr<Loader> loader_;
  StoppedAtExit stopped_at_exit_;
};

template <class T>
T at(const nb::dict& from, const char* name) {
  return nb::cast<T>(from[name]);
}

std::vector<std::byte> bytes_at(const nb::dict& from, const char* name) {
  const auto bytes = at<nb::bytes>(from, name);
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.c_str());
  return {first, first + bytes.size()};
}

ByDim<Boundary> to_boundaries(const ByDim<int>& numbers) {
  ByDim<Boundary> out;
  for (const auto& [dim, number] : numbers) out.emplace_back(dim, static_cast<Boundary>(number));
  return out;
}

// `from`: _loader.py's description of an array, with the names of WindowOptions, CropOptions and ReadOptions as keys.
LoaderArray to_array(const nb::dict& from) {
  WindowOptions windows;
  windows.input_dims = at<ByDim<std::uint64_t>>(from, "input_dims");
  windows.input_overlap = at<ByDim<std::uint64_t>>(from, "input_overlap");
  windows.input_stride = at<ByDim<std::uint64_t>>(from, "input_stride");
  windows.input_starts = at<ByDim<std::vector<std::uint64_t>>>(from, "input_starts");
  windows.batch_dims = at<ByDim<std::uint64_t>>(from, "batch_dims");
  windows.concat_input_dims = at<bool>(from, "concat_input_dims");
  windows.boundary = static_cast<Boundary>(at<int>(from, "boundary"));
  windows.boundary_of = to_boundaries(at<ByDim<int>>(from, "boundary_of"));
  for (const nb::handle output : at<nb::list>(from, "outputs")) {
    const auto [name, dim, offset, count, step] =
        nb::cast<std::tuple<std::string, std::string, std::uint64_t, std::uint64_t, std::uint64_t>>(output);
    windows.outputs.push_back({.name = name, .dim = dim, .offset = offset, .count = count, .step = step});
  }
  const auto frames = take(Windows::create(at<ByDim<std::uint64_t>>(from, "dims"), windows));
  LoaderArray array{at<std::string>(from, "name"), at<Array>(from, "array"),      frames, {},
                    bytes_at(from, "padding"),     at<std::string>(from, "stack")};
  CropOptions crops;
  crops.size = at<ByDim<std::uint64_t>>(from, "crops");
  crops.per_frame = at<std::uint64_t>(from, "crops_per_frame");
  crops.wrap = at<std::vector<std::string>>(from, "crop_wrap");
  crops.flip = at<std::vector<std::string>>(from, "crop_flip");
  if (!crops.size.empty()) array.samples = take(Crops::create(frames, crops));
  array.read.dtype = at<std::string>(from, "dtype");
  array.read.scale = at<double>(from, "scale");
  array.read.offset = at<double>(from, "offset");
  array.read.fill_as_nan = at<bool>(from, "fill_as_nan");
  array.read.damage_as_nan = at<bool>(from, "damage_as_nan");
  array.read.missing = bytes_at(from, "missing");
  for (const nb::handle one : at<nb::list>(from, "positions")) {
    const auto [dim, bytes] = nb::cast<std::pair<std::size_t, nb::bytes>>(one);
    std::vector<std::int64_t> positions(bytes.size() / sizeof(std::int64_t));
    std::memcpy(positions.data(), bytes.c_str(), positions.size() * sizeof(std::int64_t));
    array.positions.emplace_back(dim, std::move(positions));
  }
  array.scale_by.dims = at<std::vector<std::size_t>>(from, "scale_by_dims");
  array.scale_by.scale = at<std::vector<double>>(from, "scales");
  array.scale_by.offset = at<std::vector<double>>(from, "offsets");
  return array;
}

// `how`: ("sequential",), ("full",), ("block", groups in a buffer, partitions, batch size), ("list", numbers,
// shuffled),
// ("weighted", weights, draws).
Order to_order(const nb::tuple& how, const LoaderArray& first) {
  const auto kind = nb::cast<std::string>(how[0]);
  const std::uint64_t samples = std::visit([](const auto& some) { return some.sample_count(); }, first.samples);
  if (kind == "full") return take(Order::full_shuffle(samples));
  if (kind == "list") {
    return take(Order::list(nb::cast<std::vector<std::uint64_t>>(how[1]), samples, nb::cast<bool>(how[2])));
  }
  if (kind == "weighted") {
    WeightOptions options;
    options.draws = nb::cast<std::uint64_t>(how[2]);
    const auto weights = nb::cast<std::vector<double>>(how[1]);
    if (weights.size() != samples) {
      check(Status(Code::kInvalidArgument, Layer::kApi,
                   "weights: " + std::to_string(weights.size()) + " of them, and there are " + std::to_string(samples) +
                       " samples"));
    }
    return take(Order::weighted(weights, options));
  }
  if (kind == "block") {
    const std::vector<std::uint64_t> chunk = first.array.info().chunk_shape;
    BlockShuffle block;
    block.groups_in_buffer = nb::cast<std::uint64_t>(how[1]);
    block.partitions = nb::cast<std::uint64_t>(how[2]);
    block.partition_run = nb::cast<std::uint64_t>(how[3]);
    if (const auto* const windows = std::get_if<Windows>(&first.samples)) {
      block.grid = windows->sample_grid();
      block.group = take(windows->samples_per_chunk(chunk));
    } else {
      const Crops& crops = std::get<Crops>(first.samples);
      block.grid = crops.sample_grid();
      block.group = take(crops.frames().samples_per_chunk(chunk));
      block.group.push_back(block.grid.back());
    }
    return take(Order::block_shuffle(block));
  }
  return take(Order::sequential(samples));
}

std::unique_ptr<PythonLoader> make_loader(const Device& device, const nb::list& arrays, const nb::tuple& order,
                                          const nb::dict& with) {
  std::vector<LoaderArray> made;
  for (const nb::handle array : arrays) made.push_back(to_array(nb::cast<nb::dict>(array)));
  LoaderOptions options;
  if (!made.empty()) options.order = to_order(order, made.front());
  options.split.rank = at<std::uint32_t>(with, "rank");
  options.split.world = at<std::uint32_t>(with, "world");
  options.split.reader_group = at<std::uint32_t>(with, "reader_group");
  options.split.batch_size = at<std::uint64_t>(with, "batch_size");
  options.split.tail = static_cast<Tail>(at<int>(with, "tail"));
  options.seed = at<std::uint64_t>(with, "seed");
  options.epochs = 0;
  options.read_together = at<std::uint32_t>(with, "read_together");
  options.read_ahead = at<std::uint32_t>(with, "read_ahead");
  options.channels_last = at<bool>(with, "channels_last");
  options.on_damage = at<bool>(with, "skip_damage") ? OnDamage::kSkip : OnDamage::kFail;
  options.memory_bytes = at<std::uint64_t>(with, "memory_bytes");
  options.cache_bytes = at<std::uint64_t>(with, "cache_bytes");
  options.leave_free_bytes = at<std::uint64_t>(with, "leave_free_bytes");
  options.host_cache_bytes = at<std::uint64_t>(with, "host_cache_bytes");
  options.cache_form = at<bool>(with, "cache_encoded") ? CacheForm::kEncoded : CacheForm::kDecoded;
  if (const auto state = at<std::optional<std::string>>(with, "state")) {
    options.state = take(LoaderState::from_json(*state));
  }
  return std::make_unique<PythonLoader>(device, std::move(made), options);
}

}  // namespace

void bind_loader(nb::module_& module) {
  nb::class_<BatchMemory, MemoryOnDevice>(module, "BatchMemory");
  nb::class_<BatchTimes>(module, "BatchTimes")
      .def(nb::init<std::size_t>(), "capacity"_a)
      .def_prop_ro("count", &BatchTimes::count)
      .def(
          "add",
          [](BatchTimes& self, const std::vector<double>& row) {
            BatchTimes::Row own{};
            std::copy_n(row.begin(), std::min(row.size(), own.size()), own.begin());
            self.add(own);
          },
          "row"_a)
      .def("leave", &BatchTimes::leave, "now"_a)
      .def("rows", &BatchTimes::rows);
  nb::class_<PythonLoader>(module, "Loader")
      .def("begin_loop", &PythonLoader::begin_loop)
      .def("next", &PythonLoader::next, "times"_a, "loop"_a = 0)
      .def(
          "restart_at",
          [](PythonLoader& self, const std::string& state) {
            const LoaderState at = take(LoaderState::from_json(state));
            check(self.in_turn([&](Loader& loader) { return loader.restart_at(at); }));
          },
          "state"_a)
      .def(
          "release_cache", [](PythonLoader& self) { self.loader().release_cache(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("where", &PythonLoader::where, "array"_a, "sample"_a, "epoch"_a, "window"_a, "output"_a)
      .def(
          "state",
          [](PythonLoader& self, std::uint64_t epoch_from_start) {
            LoaderState state = self.in_turn([](Loader& loader) { return loader.state(); });
            if (epoch_from_start != 0) state.at = {epoch_from_start, 0};
            return state.to_json();
          },
          "epoch_from_start"_a = 0)
      .def_prop_ro("batches", [](PythonLoader& self) { return self.loader().batches(); })
      .def_prop_ro(
          "batches_left",
          [](PythonLoader& self) { return self.in_turn([](Loader& loader) { return loader.batches_left(); }); })
      .def_prop_ro("sample_count", [](PythonLoader& self) { return self.loader().sample_count(); })
      .def_prop_ro(
          "epoch",
          [](PythonLoader& self) { return self.in_turn([](Loader& loader) { return loader.state().at.epoch; }); })
      .def_prop_ro("stats",
                   [](PythonLoader& self) {
                     const LoaderStats stats = self.in_turn([](Loader& loader) { return loader.stats(); });
                     return nb::make_tuple(stats.batches, stats.skipped, stats.wait_seconds, stats.reads,
                                           stats.kept_bytes, stats.cache_released, stats.host_kept_bytes);
                   })
      .def_prop_ro("tensors", [](PythonLoader& self) {
        nb::list out;
        for (const LoaderTensor& tensor : self.loader().tensors()) {
          out.append(nb::make_tuple(tensor.array, tensor.output, describe(tensor.dtype), to_tuple(tensor.shape)));
        }
        return out;
      });
  module.def("make_loader", &make_loader, "device"_a, "arrays"_a, "order"_a, "options"_a);
}

}  // namespace headrace::python
