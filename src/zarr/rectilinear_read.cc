#include "zarr/rectilinear_read.h"

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <system_error>
#include <thread>

#include "base/checked.h"
#include "transfer/context_impl.h"
#include "zarr/projection.h"

namespace headrace::zarr {

// The chunks of one edge length along one axis that hold selected elements.
struct EdgeClass {
  struct Run {
    std::uint64_t first_chunk = 0, first_element = 0;
    Projection chunks;         // within the run, as if it were a regular grid
    std::uint64_t before = 0;  // touched chunks in the runs before
  };
  std::uint64_t edge = 0, touched = 0;
  std::vector<Run> runs;
};

namespace {

using transfer::Group;
using transfer::TaskDetail;

std::vector<EdgeClass> group_by_edge(const std::vector<EdgeRun>& runs, const ResolvedSelection::Dim& selection) {
  std::map<std::uint64_t, EdgeClass> by_edge;
  const Projection all(selection, 1);
  for (const EdgeRun& run : runs) {
    const Intersection part = all.intersect(run.first_element, run.edge * run.count);
    if (part.count == 0) continue;
    EdgeClass& edges = by_edge[run.edge];
    edges.edge = run.edge;
    const Projection chunks({part.in_chunk, part.count, selection.step, false}, run.edge);
    edges.runs.push_back({run.first_chunk, run.first_element, chunks, edges.touched});
    edges.touched += chunks.touched();
  }
  std::vector<EdgeClass> out;
  for (auto& [edge, edges] : by_edge) out.push_back(std::move(edges));
  return out;
}

// The selected chunks of one shape; every chunk is an object of its own.
class ClassPlan final : public transfer::Plan {
 public:
  ClassPlan(std::shared_ptr<const Array::Impl> array, const ResolvedSelection& selection, const TensorView& tensor,
            const ReadConversion& conversion, std::vector<const EdgeClass*> axes, codec::Chain chain)
      : array_(std::move(array)),
        axes_(std::move(axes)),
        chain_(std::move(chain)),
        data_(tensor.data),
        op_(conversion.op),
        fill_(conversion.fill) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      projections_.emplace_back(selection.dims[i], 1);
      dst_strides_.push_back(selection.dims[i].dropped ? 0 : tensor.strides_bytes[kept]);
      kept += selection.dims[i].dropped ? 0 : 1;
      units_ *= axes_[i]->touched;
    }
  }

  Result<bool> fill(transfer::WaveTasks& wave) override {
    while (next_ < units_ && wave.tasks.size() < wave.max_tasks) {
      Group group;
      group.first_task = static_cast<std::uint32_t>(wave.tasks.size());
      group.task_count = 1;
      wave.groups.push_back(group);
      wave.tasks.push_back({next_++, 0, transfer::kWholeObject});
    }
    return next_ < units_;
  }

  void describe(const Group&, const transfer::Task& task, TaskDetail& detail) const override {
    const std::size_t rank = axes_.size();
    std::array<std::uint64_t, kMaxRank> chunk, begin;
    std::uint64_t rest = task.ordinal;
    for (std::size_t i = rank; i-- > 0;) {
      const EdgeClass& axis = *axes_[i];
      const std::uint64_t number = rest % axis.touched;
      rest /= axis.touched;
      // The last run that begins at or before it.
      const auto run = std::prev(std::upper_bound(
          axis.runs.begin(), axis.runs.end(), number,
          [](std::uint64_t value, const EdgeClass::Run& candidate) { return value < candidate.before; }));
      const std::uint64_t in_run = run->chunks.chunk_at(number - run->before);
      chunk[i] = run->first_chunk + in_run;
      begin[i] = run->first_element + in_run * axis.edge;
    }
    detail.key.clear();
    array_->append_prefix(detail.key);
    append_chunk_key(array_->metadata.keys, chunk.data(), rank, detail.key);
    make_box(begin.data(), detail);
  }

  std::uint64_t chunk_count() const noexcept override { return units_; }
  store::Store& store() const noexcept override { return *array_->store.impl(); }
  const codec::Chain& chain() const noexcept override { return chain_; }
  const device::ElementOp& element_op() const noexcept override { return op_; }
  const std::byte* fill_element() const noexcept override { return fill_.data(); }
  std::uint64_t max_group_bytes() const noexcept override { return 0; }

 private:
  void make_box(const std::uint64_t* begin, TaskDetail& detail) const {
    device::Box& box = detail.box;
    const std::vector<std::int64_t>& strides = chain_.strides_bytes();
    box.rank = static_cast<int>(axes_.size());
    std::int64_t src = 0, dst = 0;
    bool whole = true;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Intersection part = projections_[i].intersect(begin[i], axes_[i]->edge);
      box.dim[i] = {part.count, strides[i] * static_cast<std::int64_t>(projections_[i].step()), dst_strides_[i]};
      src += strides[i] * static_cast<std::int64_t>(part.in_chunk);
      dst += dst_strides_[i] * static_cast<std::int64_t>(part.in_result);
      whole = whole && part.count == axes_[i]->edge;
    }
    box.src = transfer::kBoxBase + src;
    box.dst = data_ + dst;
    device::simplify(box);
    detail.whole_chunk = whole && device::is_contiguous(box, op_.element_bytes);
  }

  const std::shared_ptr<const Array::Impl> array_;
  const std::vector<const EdgeClass*> axes_;
  const codec::Chain chain_;
  std::byte* const data_;
  const device::ElementOp op_;
  const std::vector<std::byte> fill_;
  std::vector<Projection> projections_;
  std::vector<std::int64_t> dst_strides_;
  std::uint64_t units_ = 1, next_ = 0;
};

}  // namespace

RectilinearRead::RectilinearRead(std::shared_ptr<const Array::Impl> array, const ResolvedSelection& selection,
                                 const TensorView& tensor, ReadConversion conversion,
                                 std::shared_ptr<device::Device> device, ReadOptions options)
    : array_(std::move(array)),
      selection_(selection),
      tensor_(tensor),
      conversion_(std::move(conversion)),
      device_(std::move(device)),
      options_(std::move(options)) {}

RectilinearRead::~RectilinearRead() = default;

Result<std::shared_ptr<RectilinearRead>> RectilinearRead::create(std::shared_ptr<const Array::Impl> array,
                                                                 const ResolvedSelection& selection,
                                                                 const TensorView& tensor, ReadConversion conversion,
                                                                 std::shared_ptr<device::Device> device,
                                                                 ReadOptions options) {
  std::shared_ptr<RectilinearRead> read(new RectilinearRead(std::move(array), selection, tensor, std::move(conversion),
                                                            std::move(device), std::move(options)));
  const RectilinearGrid& grid = *read->array_->metadata.rectilinear;
  read->chunks_total_ = 1;
  for (std::size_t i = 0; i < grid.axes.size(); ++i) {
    read->axes_.push_back(group_by_edge(grid.axes[i], selection.dims[i]));
    std::uint64_t touched = 0;
    for (const EdgeClass& edges : read->axes_.back()) touched += edges.touched;
    read->chunks_total_ = base::checked_mul(read->chunks_total_, touched).value_or(~std::uint64_t{0});
  }
  return read;
}

Status RectilinearRead::run_class(const std::vector<std::size_t>& at) {
  std::vector<const EdgeClass*> axes;
  std::vector<std::uint64_t> shape;
  std::uint64_t chunks = 1;
  for (std::size_t i = 0; i < at.size(); ++i) {
    axes.push_back(&axes_[i][at[i]]);
    shape.push_back(axes.back()->edge);
    chunks *= axes.back()->touched;
  }
  HEADRACE_TRY_ASSIGN(codec::Chain chain, array_->build_chain_for(shape));
  auto plan = std::make_unique<ClassPlan>(array_, selection_, tensor_, conversion_, std::move(axes), std::move(chain));
  ReadOptions options = options_;
  if (options_.progress) {
    options.progress = [this](std::uint64_t done, std::uint64_t) {
      options_.progress(chunks_before_ + done, chunks_total_);
    };
  }
  const auto& resources = array_->store.context().impl()->resources;
  HEADRACE_TRY_ASSIGN(auto operation,
                      transfer::ReadOperation::create(*resources, std::move(plan), device_, std::move(options)));
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return Status(Code::kCancelled, Layer::kTransfer, "the read was cancelled");
    current_ = operation;
  }
  Status status = operation->run();
  stats_ += operation->stats();
  errors_.insert(errors_.end(), operation->errors().begin(), operation->errors().end());
  chunks_before_ += chunks;
  const std::lock_guard lock(mutex_);
  current_ = nullptr;
  return status;
}

Status RectilinearRead::run_all() {
  for (const auto& axis : axes_) {
    if (axis.empty()) return {};  // nothing is selected
  }
  std::vector<std::size_t> at(axes_.size(), 0);
  Status first;
  while (true) {
    Status status = run_class(at);
    // With collect_errors a bad chunk does not keep the others from being read.
    if (!status.ok() && (!options_.collect_errors || errors_.empty() || status.code() == Code::kCancelled))
      return status;
    if (first.ok()) first = std::move(status);
    std::size_t axis = axes_.size();
    while (axis > 0 && ++at[axis - 1] == axes_[axis - 1].size()) at[--axis] = 0;
    if (axis == 0) return first;
  }
}

Status RectilinearRead::run() {
  Status status;
  try {
    status = run_all();
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    current_ = nullptr;
    done_ = true;
  }
  ended_.notify_all();
  return status;
}

Status RectilinearRead::start() {
  try {
    std::thread([self = shared_from_this()] { (void)self->run(); }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kResourceExhausted, Layer::kTransfer, "no thread for the read").with_cause(error.what());
  }
  return {};
}

Status RectilinearRead::wait() const {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return done_; });
  return status_;
}

bool RectilinearRead::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void RectilinearRead::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (current_ != nullptr) current_->cancel();
}

}  // namespace headrace::zarr
