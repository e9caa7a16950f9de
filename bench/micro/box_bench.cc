// Measures copy_box on one core, next to memcpy on the same buffers. Bytes are those written.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/box.h"

namespace {

using headrace::device::Box;
using headrace::device::BoxDim;
using headrace::device::ElementOp;
using headrace::device::NumberType;

constexpr std::size_t kBytes = std::size_t{64} << 20;

struct Buffers {
  std::vector<std::byte> src = std::vector<std::byte>(kBytes, std::byte{1});
  std::vector<std::byte> dst = std::vector<std::byte>(kBytes, std::byte{2});
};
Buffers& buffers() {
  static Buffers all;
  return all;
}

void run(benchmark::State& state, Box box, ElementOp op, bool fill = false) {
  Buffers& all = buffers();
  const std::vector<std::byte> pattern(op.element_bytes, std::byte{3});
  box.src = fill ? nullptr : all.src.data();
  box.dst = all.dst.data();
  for (auto _ : state) {
    headrace::device::copy_box(box, op, pattern.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * box.element_count() * op.element_bytes));
}

void memcpy_limit(benchmark::State& state) {
  Buffers& all = buffers();
  for (auto _ : state) {
    std::memcpy(all.dst.data(), all.src.data(), kBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kBytes));
}
BENCHMARK(memcpy_limit);

// Rows of `run` bytes from a source with gaps, such as a slab cut from chunks.
void rows(benchmark::State& state) {
  const auto row = state.range(0);
  Box box;
  box.rank = 2;
  box.dim[0] = BoxDim{static_cast<std::uint64_t>(static_cast<std::int64_t>(kBytes) / row / 2), 2 * row, row};
  box.dim[1] = BoxDim{static_cast<std::uint64_t>(row), 1, 1};
  run(state, box, ElementOp{1, 1});
}
BENCHMARK(rows)->Arg(4)->Arg(16)->Arg(48)->Arg(256)->Arg(4096);

void swap(benchmark::State& state) {
  const auto size = static_cast<std::uint32_t>(state.range(0));
  Box box;
  box.rank = 1;
  box.dim[0] = BoxDim{kBytes / size, size, size};
  run(state, box, ElementOp{size, size});
}
BENCHMARK(swap)->Arg(2)->Arg(4)->Arg(8)->Arg(16);

void every_second(benchmark::State& state) {
  const auto size = state.range(0);
  Box box;
  box.rank = 1;
  box.dim[0] = BoxDim{kBytes / static_cast<std::uint64_t>(size) / 2, 2 * size, size};
  run(state, box, ElementOp{static_cast<std::uint32_t>(size), 1});
}
BENCHMARK(every_second)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(16);

// C order to F order of a square matrix; the second argument also swaps bytes.
void transpose(benchmark::State& state) {
  const auto size = state.range(0);
  std::int64_t n = 64;
  while (4 * n * n * size <= static_cast<std::int64_t>(kBytes)) n *= 2;
  n -= state.range(2);
  Box box;
  box.rank = 2;
  box.dim[0] = BoxDim{static_cast<std::uint64_t>(n), n * size, size};
  box.dim[1] = BoxDim{static_cast<std::uint64_t>(n), size, n * size};
  run(state, box,
      ElementOp{static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(state.range(1) != 0 ? size : 1)});
}
BENCHMARK(transpose)->ArgsProduct({{1, 2, 4, 8, 16}, {0, 1}, {0, 8}});
BENCHMARK(transpose)->ArgsProduct({{12}, {0}, {8}});

// Counts bytes read and written, since a conversion changes their number; the limit is twice memcpy's rate.
void convert(benchmark::State& state, NumberType from, NumberType to, bool big_endian, bool scaled) {
  Buffers& all = buffers();
  ElementOp op;
  op.element_bytes = number_bytes(from);
  op.swap_width = big_endian ? op.element_bytes : 1;
  if (from != to || scaled) {
    op.conversion.from = from;
    op.conversion.to = to;
    op.conversion.scaled = scaled;
    op.conversion.scale = 0.0016514;
    op.conversion.offset = 273.15;
  }
  const auto in = static_cast<std::int64_t>(op.element_bytes), out = static_cast<std::int64_t>(op.result_bytes());
  Box box;
  box.src = all.src.data();
  box.dst = all.dst.data();
  box.rank = 1;
  box.dim[0] = BoxDim{kBytes / static_cast<std::uint64_t>(std::max(in, out)), in, out};
  for (auto _ : state) {
    headrace::device::copy_box(box, op, nullptr);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * box.dim[0].extent) * (in + out));
}
BENCHMARK_CAPTURE(convert, i2_to_f4_scaled, NumberType::kInt16, NumberType::kFloat32, false, true);
BENCHMARK_CAPTURE(convert, big_endian_i2_to_f4_scaled, NumberType::kInt16, NumberType::kFloat32, true, true);
BENCHMARK_CAPTURE(convert, u1_to_f4, NumberType::kUint8, NumberType::kFloat32, false, false);
BENCHMARK_CAPTURE(convert, f4_to_f2, NumberType::kFloat32, NumberType::kFloat16, false, false);
BENCHMARK_CAPTURE(convert, f4_to_bf16, NumberType::kFloat32, NumberType::kBfloat16, false, false);
BENCHMARK_CAPTURE(convert, f2_to_f4, NumberType::kFloat16, NumberType::kFloat32, false, false);
BENCHMARK_CAPTURE(convert, f8_to_f4, NumberType::kFloat64, NumberType::kFloat32, false, false);
BENCHMARK_CAPTURE(convert, f8_to_bf16, NumberType::kFloat64, NumberType::kBfloat16, false, false);
BENCHMARK_CAPTURE(convert, big_endian_f4, NumberType::kFloat32, NumberType::kFloat32, true, false);
BENCHMARK_CAPTURE(convert, big_endian_f4_to_bf16, NumberType::kFloat32, NumberType::kBfloat16, true, false);
BENCHMARK_CAPTURE(convert, i4_to_f4, NumberType::kInt32, NumberType::kFloat32, false, false);
BENCHMARK_CAPTURE(convert, i8_to_f4, NumberType::kInt64, NumberType::kFloat32, false, false);

void fill(benchmark::State& state) {
  const auto size = static_cast<std::uint32_t>(state.range(0));
  Box box;
  box.rank = 1;
  box.dim[0] = BoxDim{kBytes / size, size, size};
  run(state, box, ElementOp{size, 1}, true);
}
BENCHMARK(fill)->Arg(1)->Arg(4)->Arg(12);

}  // namespace

BENCHMARK_MAIN();
