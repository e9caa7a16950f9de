// Crops: samples that are randomly placed boxes within the windows of a Windows, called its frames.
//
// Sample f * per_frame + k is crop k of frame f. Its position and flips are a pure function of (seed, epoch, f, k), so
// they are the same on every rank and machine and in any order of access. All positions are equally likely, to within
// one part in 2^64.
//
// Threads: immutable values; every call from any thread.
// Fails:   kInvalidArgument names the parameter and the dimension. Functions that allocate throw std::bad_alloc.
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
  ByDim<std::uint64_t> size = {};      // crop size in elements, along dimensions that the frames take whole
  std::uint64_t per_frame = 1;         // crops per frame and epoch
  std::vector<std::string> wrap = {};  // dimensions of `size` whose crops may start anywhere and wrap around the end
  std::vector<std::string> flip = {};  // dimensions of `size` along which each crop is reversed with probability 1/2
};

class HEADRACE_API Crops {
 public:
  // Also fails for more than 2^63 samples.
  static Result<Crops> create(const Windows& frames, const CropOptions& options);

  const Windows& frames() const noexcept;
  std::uint64_t sample_count() const noexcept;
  // The frames' grid with per_frame appended as the last dimension.
  std::vector<std::uint64_t> sample_grid() const;

  // As Windows::slices(). All windows and outputs of a sample are cropped at the same place.
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
