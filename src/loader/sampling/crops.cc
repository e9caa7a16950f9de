#include <headrace/crops.h>

#include <algorithm>
#include <utility>

#include "base/access.h"
#include "base/checked.h"
#include "loader/sampling/sampling_parts.h"
#include "loader/sampling/windows_impl.h"

namespace headrace {

using loader::in_quotes;
using loader::refuse;

class Crops::Impl {
 public:
  struct Axis {
    std::size_t at = 0;        // dimension of the array
    std::uint64_t extent = 0;  // elements
    std::uint64_t size = 0;    // elements of a crop
    std::uint64_t places = 1;  // where a crop may begin: [0, places)
    bool wraps = false, flips = false;
  };
  explicit Impl(Windows of) : frames(std::move(of)) {}

  Windows frames;
  std::vector<Axis> axes;
  std::uint64_t per_frame = 1, sample_count = 0;
};

namespace {

std::string of_crops(std::string_view parameter, std::string_view dim) {
  return std::string("crops: ") + std::string(parameter) + ": dimension " + in_quotes(dim) + ": ";
}

}  // namespace

Result<Crops> Crops::create(const Windows& frames, const CropOptions& options) {
  const Windows::Impl& of = *Access::impl(frames);
  auto impl = std::make_shared<Impl>(frames);
  if (options.per_frame == 0) return refuse("crops: per_frame: 0 crops of a frame");
  if (options.size.empty()) return refuse("crops: size: no dimension is cropped");
  for (const auto& cropped_dim : options.size) {
    const std::string& name = cropped_dim.first;
    const std::uint64_t size = cropped_dim.second;
    const auto axis =
        std::find_if(of.axes.begin(), of.axes.end(), [&](const auto& candidate) { return candidate.name == name; });
    if (axis == of.axes.end()) return refuse(of_crops("size", name) + "the array does not have it");
    Impl::Axis crop;
    crop.at = static_cast<std::size_t>(axis - of.axes.begin());
    if (std::find(of.sliced.begin(), of.sliced.end(), crop.at) != of.sliced.end()) {
      return refuse(of_crops("size", name) +
                    "the frames have windows along it; only dimensions taken whole can be cropped");
    }
    if (std::any_of(impl->axes.begin(), impl->axes.end(), [&](const auto& other) { return other.at == crop.at; })) {
      return refuse(of_crops("size", name) + "given twice");
    }
    if (size == 0 || size > axis->extent) {
      return refuse(of_crops("size", name) + "a crop of " + std::to_string(size) + " elements, but it has " +
                    std::to_string(axis->extent));
    }
    crop.extent = axis->extent;
    crop.size = size;
    crop.places = axis->extent - size + 1;
    impl->axes.push_back(crop);
  }
  const auto cropped = [&](std::string_view parameter, const std::string& name) -> Result<Impl::Axis*> {
    for (Impl::Axis& axis : impl->axes) {
      if (of.axes[axis.at].name == name) return &axis;
    }
    return refuse(of_crops(parameter, name) + "size does not have it");
  };
  for (const std::string& name : options.wrap) {
    HEADRACE_TRY_ASSIGN(Impl::Axis * axis, cropped("wrap", name));
    axis->wraps = true;
    axis->places = axis->extent;
  }
  for (const std::string& name : options.flip) {
    HEADRACE_TRY_ASSIGN(Impl::Axis * axis, cropped("flip", name));
    axis->flips = true;
  }
  const auto samples = base::checked_mul(of.sample_count, options.per_frame);
  if (!samples || *samples > loader::kMaxSamples) return refuse("crops: per_frame: more than 2^63 samples");
  impl->per_frame = options.per_frame;
  impl->sample_count = *samples;
  return Crops(std::move(impl));
}

const Windows& Crops::frames() const noexcept { return impl_->frames; }
std::uint64_t Crops::sample_count() const noexcept { return impl_->sample_count; }

std::vector<std::uint64_t> Crops::sample_grid() const {
  std::vector<std::uint64_t> grid = impl_->frames.sample_grid();
  grid.push_back(impl_->per_frame);
  return grid;
}

Status Crops::slices(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample, std::uint64_t window,
                     std::size_t output, std::span<DimSlice> out) const noexcept try {
  if (sample >= impl_->sample_count) {
    return refuse("sample " + std::to_string(sample) + " of " + std::to_string(impl_->sample_count));
  }
  const std::uint64_t frame = sample / impl_->per_frame, crop = sample % impl_->per_frame;
  HEADRACE_TRY(impl_->frames.slices(frame, window, output, out));
  const std::uint64_t key = loader::derive_key(seed, loader::Purpose::kCrops, epoch);
  for (const Impl::Axis& axis : impl_->axes) {
    // The dimension is part of the key, so that cropping further dimensions does not change the other draws.
    const auto random = loader::random_at(loader::mix(key + axis.at), frame, crop);
    DimSlice slice;
    slice.begin = loader::scale_to(random[0], axis.places);
    slice.count = std::min(axis.size, axis.extent - slice.begin);
    slice.wrapped_count = axis.size - slice.count;
    slice.flipped = axis.flips && (random[1] & 1) != 0;
    out[axis.at] = slice;
  }
  return {};
} catch (...) {
  return Status::out_of_memory();
}

LoaderSchema Crops::schema() const {
  LoaderSchema schema = impl_->frames.schema();
  loader::Digest digest;
  digest.add(impl_->per_frame);
  for (const Impl::Axis& axis : impl_->axes) digest.add(axis.at).add(axis.size).add(axis.wraps).add(axis.flips);
  schema.set("crops", digest.value());
  return schema;
}

}  // namespace headrace
