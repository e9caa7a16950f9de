#include "read_delivery.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cli_common.h"

namespace headrace::cli {
namespace {

// Passes the first `bytes` of a buffer to `sink` in order, copying them from the device if necessary.
template <class Sink>
Status for_each_piece(const Buffer& buffer, const Device& device, std::uint64_t bytes, Sink&& sink) {
  constexpr std::uint64_t kPiece = std::uint64_t{32} << 20;
  std::vector<std::byte> bounce;
  if (!device.host_addressable()) bounce.resize(static_cast<std::size_t>(std::min(bytes, kPiece)));
  for (std::uint64_t offset = 0; offset < bytes; offset += kPiece) {
    const auto count = static_cast<std::size_t>(std::min(kPiece, bytes - offset));
    const std::byte* data = buffer.data() + offset;
    if (!device.host_addressable()) {
      HEADRACE_TRY(buffer.copy_to_host(static_cast<std::size_t>(offset), bounce.data(), count));
      data = bounce.data();
    }
    HEADRACE_TRY(sink(offset, std::span<const std::byte>(data, count)));
  }
  return {};
}

// Offsets, in the whole result, of the contiguous runs of elements of a part.
class Runs {
 public:
  Runs(const ReadSlab& slab, std::span<const std::uint64_t> shape, std::uint64_t item_bytes) : slab_(slab) {
    strides_.resize(shape.size());
    std::uint64_t stride = item_bytes;
    std::size_t within = shape.size();  // the axes from here on form one run
    bool whole = true;
    for (std::size_t d = shape.size(); d-- > 0;) {
      strides_[d] = stride;
      stride *= shape[d];
      if (!whole) continue;
      within = d;
      run_bytes_ = strides_[d] * slab.shape[d];
      whole = slab.shape[d] == shape[d];
    }
    axes_ = within;
  }
  std::uint64_t run_bytes() const { return run_bytes_; }
  // Offset of run `index`.
  std::uint64_t offset(std::uint64_t index) const {
    std::uint64_t offset = 0;
    for (std::size_t d = axes_; d < strides_.size(); ++d) offset += slab_.start[d] * strides_[d];
    for (std::size_t d = axes_; d-- > 0;) {
      offset += (slab_.start[d] + index % slab_.shape[d]) * strides_[d];
      index /= slab_.shape[d];
    }
    return offset;
  }

 private:
  const ReadSlab& slab_;
  std::vector<std::uint64_t> strides_;
  std::size_t axes_ = 0;  // number of leading axes that index the runs
  std::uint64_t run_bytes_ = 0;
};

}  // namespace

ReadDelivery::ReadDelivery(const Array& array, const Device& device, DataType dtype, ReadOptions options,
                           RunReport& report)
    : array_(array), device_(device), dtype_(std::move(dtype)), options_(std::move(options)), report_(report) {}

Status ReadDelivery::allocate(const ReadSlabs& slabs) {
  const std::size_t count = slabs.one() ? 1 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    HEADRACE_TRY_ASSIGN(buffers_[i], Buffer::allocate(device_, static_cast<std::size_t>(slabs.max_bytes())));
  }
  return {};
}

Result<Completion> ReadDelivery::start(const ReadSlab& slab, std::size_t buffer) {
  return array_.read_async(slab.selection, {buffers_[buffer], dtype_, slab.shape}, device_, options_);
}

Status ReadDelivery::finish(Result<Completion>& reading) {
  if (!reading.ok()) return reading.status();
  HEADRACE_TRY(reading->wait());
  stats_ += reading->stats();
  return {};
}

Status ReadDelivery::take(std::span<const std::byte> bytes) {
  if (to_.hash != nullptr) to_.hash->update(bytes);
  return to_.output != nullptr ? to_.output->write(bytes) : Status();
}

Status ReadDelivery::deliver(const ReadSlab& slab, const Buffer& buffer, bool in_order,
                             std::span<const std::uint64_t> shape) {
  if (in_order) {
    return for_each_piece(buffer, device_, slab.bytes,
                          [&](std::uint64_t, std::span<const std::byte> piece) { return take(piece); });
  }
  const Runs runs(slab, shape, std::max<std::uint64_t>(1, dtype_.item_bytes));
  return for_each_piece(buffer, device_, slab.bytes, [&](std::uint64_t offset, std::span<const std::byte> piece) {
    while (!piece.empty()) {
      const std::uint64_t into = offset % runs.run_bytes();
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), runs.run_bytes() - into));
      const std::uint64_t at = to_.offset + runs.offset(offset / runs.run_bytes()) + into;
      if (Status status = to_.output->write_at(at, piece.first(count)); !status.ok()) return status;
      piece = piece.subspan(count);
      offset += count;
    }
    return Status();
  });
}

Status ReadDelivery::run(ReadSlabs& slabs, const To& to, std::span<const std::uint64_t> shape, ProgressBar& bar) {
  to_ = to;
  total_bytes_ = std::max<std::uint64_t>(1, decoded_bytes(shape, dtype_.item_bytes).value_or(UINT64_MAX));
  ReadSlab slab, next;
  bool more = slabs.next(slab);
  const auto watch = [&](const ReadSlab& read) {
    const double bytes = static_cast<double>(read.bytes);
    options_.progress = [this, &bar, bytes](std::uint64_t done, std::uint64_t total) {
      const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
      bar.update(done_bytes_ + static_cast<std::uint64_t>(share * bytes), total_bytes_);
    };
  };
  watch(slab);
  Result<Completion> reading = start(slab, 0);
  for (std::size_t buffer = 0; more; buffer ^= 1) {
    HEADRACE_TRY(finish(reading));
    done_bytes_ += slab.bytes;
    more = slabs.next(next);
    if (more) {
      watch(next);
      reading = start(next, buffer ^ 1);
    }
    if (to_.any()) {
      const std::uint64_t begin_ns = RunReport::now_ns();
      Status delivered = deliver(slab, buffers_[buffer], slabs.in_order(), shape);
      report_.wrote(begin_ns, slab.bytes);
      if (!delivered.ok()) {
        if (more && reading.ok()) {  // it still writes to its buffer
          reading->cancel();
          (void)reading->wait();
        }
        output_failed_ = true;
        return delivered;
      }
    }
    std::swap(slab, next);
  }
  return {};
}

}  // namespace headrace::cli
