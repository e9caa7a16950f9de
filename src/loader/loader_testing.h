// Shared by the tests of Loader: an array whose elements encode their positions, and the contents that the sampling
// parts imply for a batch.
#pragma once

#include <gtest/gtest.h>
#include <headrace/loader.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace headrace::testing {

using Shape = std::vector<std::uint64_t>;

inline const Shape kShape = {23, 12, 16}, kChunk = {4, 5, 8};
inline constexpr std::int64_t kPadding = 7'000'000;

inline std::uint32_t value_at(std::span<const std::uint64_t> at, const Shape& shape) {
  std::uint64_t linear = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + at[d];
  return static_cast<std::uint32_t>(linear * 3 + 1);
}

template <class Function>
void for_each_index(const Shape& shape, const Function& function) {
  for (const std::uint64_t extent : shape) {
    if (extent == 0) return;
  }
  Shape at(shape.size());
  for (;;) {
    function(at);
    std::size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

inline std::string list_of(const Shape& shape) {
  std::string text;
  for (const std::uint64_t extent : shape) text += (text.empty() ? "" : ",") + std::to_string(extent);
  return "[" + text + "]";
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}

inline std::string key_of(const Shape& chunk) {
  std::string key = "c";
  for (const std::uint64_t index : chunk) key += "/" + std::to_string(index);
  return key;
}

// An array whose elements encode their positions.
inline Array make_array(const Store& store, const Shape& shape, const Shape& chunk) {
  const std::string document =
      R"({"zarr_format":3,"node_type":"array","shape":)" + list_of(shape) +
      R"(,"data_type":"uint32","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" + list_of(chunk) +
      R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":0,)" +
      R"("codecs":[{"name":"bytes","configuration":{"endian":"little"}}]})";
  EXPECT_TRUE(store.put("zarr.json", bytes_of(document)).ok());
  Shape grid;
  for (std::size_t d = 0; d < shape.size(); ++d) grid.push_back((shape[d] + chunk[d] - 1) / chunk[d]);
  for_each_index(grid, [&](const Shape& number) {
    std::vector<std::uint32_t> elements;
    for_each_index(chunk, [&](const Shape& inside) {
      Shape at(shape.size());
      for (std::size_t d = 0; d < shape.size(); ++d) at[d] = number[d] * chunk[d] + inside[d];
      elements.push_back(value_at(at, shape));
    });
    const auto bytes = std::as_bytes(std::span(elements));
    EXPECT_TRUE(store.put(key_of(number), bytes).ok());
  });
  return Array::open(store).value();
}

inline ByDim<std::uint64_t> dims(const Shape& shape) {
  const char* const names[] = {"time", "lat", "lon"};
  ByDim<std::uint64_t> out;
  for (std::size_t d = 0; d < shape.size(); ++d) out.emplace_back(names[d + 3 - shape.size()], shape[d]);
  return out;
}

// For one dimension of a sample: the array's index at each place, -1 for padding.
inline std::vector<std::int64_t> indices_of(const DimSlice& slice) {
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < slice.count; ++i)
    out.push_back(static_cast<std::int64_t>(slice.begin + i * slice.step));
  for (std::uint64_t i = 0; i < slice.wrapped_count; ++i)
    out.push_back(static_cast<std::int64_t>(slice.wrapped_begin + i * slice.step));
  out.insert(out.end(), slice.padding, -1);
  if (slice.flipped) std::reverse(out.begin(), out.end());
  return out;
}

class LoaderTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto device = Device::open(GetParam());
    if (!device.ok()) GTEST_SKIP() << "cuda: " << device.status().to_string();
    device_ = std::make_unique<Device>(*device);
    ContextOptions options;
    options.threads = 2;
    options.host_budget_bytes = std::size_t{16} << 20;
    context_ = std::make_unique<Context>(Context::create(options).value());
    array_ = std::make_unique<Array>(make_array(new_store(), kShape, kChunk));
  }
  Store new_store() {
    static int number = 0;
    return Store::open(*context_, "memory://loader" + std::to_string(++number)).value();
  }
  static std::vector<std::byte> padding_bytes() {
    const auto element = static_cast<std::uint32_t>(kPadding);
    std::vector<std::byte> out(4);
    std::memcpy(out.data(), &element, 4);
    return out;
  }
  LoaderArray plain(const std::variant<Windows, Crops>& samples) const {
    return {"x", *array_, samples, {}, padding_bytes()};
  }

  static std::vector<std::uint32_t> elements_of(const LoaderBatch& batch, std::size_t tensor) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : batch.tensor(tensor).shape) count *= extent;
    std::vector<std::uint32_t> out(count);
    EXPECT_TRUE(batch.copy_to_host(tensor, 0, reinterpret_cast<std::byte*>(out.data()), count * 4).ok());
    return out;
  }
  // A sample's contents as the sampling parts define them.
  static std::vector<std::uint32_t> expected(const LoaderArray& array, std::uint64_t seed, std::uint64_t epoch,
                                             std::uint64_t sample, std::size_t output) {
    const auto* const windows = std::get_if<Windows>(&array.samples);
    std::vector<std::uint32_t> out;
    std::vector<DimSlice> slices(array.array.info().shape.size());
    const std::uint64_t count = windows != nullptr ? windows->window_count(sample) : 1;
    for (std::uint64_t window = 0; window < count; ++window) {
      const Status status = windows != nullptr
                                ? windows->slices(sample, window, output, slices)
                                : std::get<Crops>(array.samples).slices(seed, epoch, sample, window, output, slices);
      EXPECT_TRUE(status.ok()) << status.to_string();
      std::vector<std::vector<std::int64_t>> indices;
      Shape shape;
      for (const DimSlice& slice : slices) {
        indices.push_back(indices_of(slice));
        for (const auto& [dim, positions] : array.positions) {
          if (dim + 1 != indices.size()) continue;
          for (std::int64_t& index : indices.back()) {
            if (index >= 0) index = positions[static_cast<std::size_t>(index)];
          }
        }
        shape.push_back(indices.back().size());
      }
      for_each_index(shape, [&](const Shape& at) {
        Shape from(at.size());
        bool padded = false;
        for (std::size_t d = 0; d < at.size(); ++d) {
          padded = padded || indices[d][at[d]] < 0;
          from[d] = static_cast<std::uint64_t>(indices[d][at[d]]);
        }
        out.push_back(padded ? static_cast<std::uint32_t>(kPadding) : value_at(from, array.array.info().shape));
      });
    }
    return out;
  }
  void check(const LoaderBatch& batch, const std::vector<LoaderArray>& arrays, std::uint64_t seed) const {
    std::size_t number = 0;
    for (const LoaderArray& array : arrays) {
      const auto* const windows = std::get_if<Windows>(&array.samples);
      const Windows& outputs = windows != nullptr ? *windows : std::get<Crops>(array.samples).frames();
      for (std::size_t output = 0; output < outputs.output_count(); ++output, ++number) {
        std::vector<std::uint32_t> wanted;
        for (const std::uint64_t sample : batch.samples()) {
          const auto one = expected(array, seed, batch.epoch(), sample, output);
          wanted.insert(wanted.end(), one.begin(), one.end());
        }
        ASSERT_TRUE(elements_of(batch, number) == wanted)
            << "epoch " << batch.epoch() << ", batch " << batch.number() << ", tensor " << number;
      }
    }
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Array> array_;
};

inline std::string loader_device_name(const ::testing::TestParamInfo<const char*>& row) {
  return std::string(row.param) == "host-staged" ? "host_staged" : std::string(row.param);
}

}  // namespace headrace::testing
