// Where each sample of a batch is placed, and which reads and fills put it there.
#pragma once

#include <headrace/loader.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/box.h"

namespace headrace::loader {

// Elements of a batch that share one entry of their array's ScaleBy.
struct ScaledBox {
  std::size_t entry = 0;
  device::Box box;  // src and dst are the same
};

// The parts of a read. Their memory is reused by the next read.
class PartList {
 public:
  void clear() noexcept { used_ = 0; }
  ReadPart& add() {  // contains values of an earlier read
    if (used_ == parts_.size()) parts_.emplace_back();
    return parts_[used_++];
  }
  std::span<const ReadPart> parts() const noexcept { return std::span(parts_).first(used_); }

 private:
  std::vector<ReadPart> parts_;
  std::size_t used_ = 0;
};

// The work of batches that are read together: the parts to read per array, and the padding to fill first.
struct BatchReads {
  std::vector<PartList> parts;  // by array
  // Boxes of padding, by array, since each array has its own padding element.
  std::vector<std::vector<device::Box>> padding;
  std::vector<std::vector<ScaledBox>> scaled;  // by array; applied after the read

  void begin(std::size_t arrays) {
    parts.resize(arrays);
    padding.resize(arrays);
    scaled.resize(arrays);
    for (PartList& list : parts) list.clear();
    for (std::vector<device::Box>& boxes : padding) boxes.clear();
    for (std::vector<ScaledBox>& boxes : scaled) boxes.clear();
  }
};

// Threads: immutable.
class BatchLayout {
 public:
  static Result<BatchLayout> create(std::span<const LoaderArray> arrays, std::uint64_t batch_size, bool channels_last);

  const std::vector<LoaderTensor>& tensors() const noexcept { return tensors_; }
  std::uint64_t batch_bytes() const noexcept { return batch_bytes_; }  // all tensors of one batch
  std::uint64_t sample_count() const noexcept { return sample_count_; }
  TensorView tensor(std::size_t number, std::span<std::byte> memory) const;
  const DataType& dtype_of(std::size_t array) const noexcept;  // type of its elements in the tensors

  // Adds to `out` what puts `sample` into place `place` of the batch at `memory`, which has batch_bytes() bytes.
  // REQUIRES: sample < sample_count(), place < the batch size; out.begin() has been called.
  Status add(std::span<const LoaderArray> arrays, std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample,
             std::uint64_t place, std::span<std::byte> memory, BatchReads& out) const;

 private:
  // Where an output of an array is placed.
  struct Place {
    std::size_t array = 0, output = 0, tensor = 0;
    std::uint64_t channel = 0;     // of the tensor
    std::uint64_t windows = 1;     // per sample
    std::uint64_t first_byte = 0;  // of sample 0, in the batch's memory
    std::uint64_t sample_bytes = 0, window_bytes = 0;
    std::vector<std::uint64_t> window_shape;  // of the array's dimensions
    std::vector<std::int64_t> strides_bytes;  // of the same
  };
  Result<Place> place_of(const LoaderArray& array, std::size_t number, std::size_t output) const;
  Status put(const LoaderArray& array, Place& at, std::uint64_t batch_size);
  Status lay_out(std::uint64_t batch_size, bool channels_last);
  void add_window(const LoaderArray& array, const Place& at, std::span<const DimSlice> slices, std::uint64_t first_byte,
                  std::span<std::byte> memory, BatchReads& out) const;

  struct Form {  // of a tensor
    bool stacked = false;
    std::uint64_t channels = 1;
    std::uint64_t first_byte = 0;  // in the batch's memory
  };

  std::vector<LoaderTensor> tensors_;
  std::vector<Form> forms_;  // one for each of tensors_
  std::vector<Place> places_;
  std::uint64_t batch_bytes_ = 0, sample_count_ = 0;
};

// The number type of tensors that ScaleBy supports: float32 and float64. kNone for all others.
device::NumberType number_type_of(const DataType& dtype) noexcept;

// The windows of an array's samples, or the frames of its crops.
const Windows& windows_of(const LoaderArray& array) noexcept;

}  // namespace headrace::loader
