// Crops: samples that are boxes at random places in the windows of a Windows, its frames.
//
// Sample f * per_frame + k is crop k of frame f. Its place and its flips are a pure function of (seed, epoch, f, k):
// the same on every rank, on every machine and in whatever order samples are asked for. Every place is equally likely,
// to within one part in 2^64.
//
// Threads: immutable values; every call from any thread.
// Fails:   kInvalidArgument naming the parameter and the dimension. Functions that allocate throw std::bad_alloc.
#pragma once

#include <headrace/export.h>
#include <headrace/loader_schema.h>
#include <headrace/status.h>
#include <headrace/windows.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace headrace {

struct CropOptions {
  ByDim<std::uint64_t> size = {};      // elements of a crop along dimensions that the frames take whole
  std::uint64_t per_frame = 1;         // crops of each frame and epoch
  std::vector<std::string> wrap = {};  // of `size`: crops may begin anywhere and go on at the dimension's beginning
  std::vector<std::string> flip = {};  // of `size`: each crop is reversed along it with probability 1/2
};

class HEADRACE_API Crops {
 public:
  // Also fails: more than 2^63 samples.
  static Result<Crops> create(const Windows& frames, const CropOptions& options);

  const Windows& frames() const noexcept;
  std::uint64_t sample_count() const noexcept;
  // The frames' grid, and per_frame as the last dimension.
  std::vector<std::uint64_t> sample_grid() const;

  // As Windows::slices(). All windows and outputs of a sample are cropped alike.
  Status slices(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample, std::uint64_t window, std::size_t output,
                std::span<DimSlice> out) const noexcept;

  LoaderSchema schema() const;

  class Impl;

 private:
  friend struct Access;
  explicit Crops(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace headrace
