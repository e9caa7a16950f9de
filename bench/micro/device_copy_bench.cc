// Measures transfers to a device: one large copy (the limit), pieces of each size, and assembly.
//
//   device_copy_bench [DEVICE=auto] [TOTAL_MIB=1024] [convert]      "convert": only conversions
//
// Prints one JSON object per line. "gbytes_per_s" is 1e9 payload bytes per second: for copies the bytes that cross the
// bus, for assembly those written to the destination (a copy within device memory moves each byte twice), for
// conversions and "device_copy" those read and written. "host_ns_per_item" is the time that the calling thread spends
// in the call. Reports the best of five rounds, after a warm-up.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "device/device.h"

namespace {

using namespace headrace;
using namespace headrace::device;

[[noreturn]] void fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}
void must(const Status& status) {
  if (!status.ok()) fail(status);
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.status());
  return std::move(result).value();
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Bench {
 public:
  Bench(std::shared_ptr<Device> device, std::size_t bytes) : device_(std::move(device)), bytes_(bytes) {
    stream_ = take(device_->create_stream());
    event_ = take(device_->create_event());
    host_ = take(device_->allocate_pinned(bytes));
    from_ = take(device_->allocate(bytes));
    to_ = take(device_->allocate(bytes));
    for (std::size_t i = 0; i < bytes; i += 8) std::memcpy(host_ + i, &i, 8);
    const Piece all{host_, from_, bytes};
    must(device_->copy_to_device({&all, 1}, *stream_));
    wait();
  }
  ~Bench() {
    device_->deallocate(to_, bytes_);
    device_->deallocate(from_, bytes_);
    device_->deallocate_pinned(host_, bytes_);
  }

  void copies() {
    for (std::size_t piece = 4096; piece <= std::min<std::size_t>(bytes_, std::size_t{16} << 20); piece *= 4) {
      copy("h2d_pieces", piece, 0, true);
      copy("d2h_pieces", piece, 0, false);
    }
    copy("h2d_whole", bytes_, 0, true);
    copy("d2h_whole", bytes_, 0, false);
    copy("h2d_pieces_unaligned", 65536, 5, true);
    copy("h2d_pieces_tiny", 256, 0, true);
  }

  void assemblies() {
    const auto total = static_cast<std::int64_t>(bytes_);
    for (std::int64_t row : {64, 512, 4096, 65536}) {
      Box box;
      box.rank = 2;
      box.dim[0] = {static_cast<std::uint64_t>(total / row / 2), 2 * row, row};
      box.dim[1] = {static_cast<std::uint64_t>(row / 4), 4, 4};
      assemble("assemble_rows", box, ElementOp{4, 1}, row);
      assemble("assemble_rows_swap", box, ElementOp{4, 4}, row);
    }
    Box whole;
    whole.rank = 1;
    whole.dim[0] = {static_cast<std::uint64_t>(total), 1, 1};
    assemble("assemble_contiguous", whole, ElementOp{1, 1}, total);
    Box odd = whole;
    odd.dim[0].extent -= 64;
    odd_offset_ = 3;
    assemble("assemble_contiguous_unaligned", odd, ElementOp{1, 1}, total);
    odd_offset_ = 0;
    for (std::int64_t size : {1, 2, 4, 8, 16}) {
      std::int64_t n = 1024;
      while (4 * n * n * size <= total) n *= 2;
      Box box;
      box.rank = 2;
      box.dim[0] = {static_cast<std::uint64_t>(n), size, n * size};
      box.dim[1] = {static_cast<std::uint64_t>(n), n * size, size};
      assemble("assemble_transpose", box, ElementOp{static_cast<std::uint32_t>(size), 1}, size);
      Box step;
      step.rank = 1;
      step.dim[0] = {static_cast<std::uint64_t>(total / size / 2), 2 * size, size};
      assemble("assemble_every_second", step, ElementOp{static_cast<std::uint32_t>(size), 1}, size);
    }
    fill_ = true;
    assemble("assemble_fill", whole, ElementOp{1, 1}, total);
    fill_ = false;
    chunks();
  }

 private:
  void wait() {
    must(device_->record(*event_, *stream_));
    must(device_->synchronize(*event_));
  }
  void report(const char* what, std::int64_t parameter, std::size_t items, std::size_t bytes,
              const std::function<void()>& call) {
    double best = 1e99, best_host = 1e99;
    for (int round = 0; round < 6; ++round) {
      const double start = now();
      call();
      const double queued = now();
      wait();
      if (round == 0) continue;
      best = std::min(best, now() - start);
      best_host = std::min(best_host, queued - start);
    }
    std::printf("{\"test\": \"%s\", \"bytes_per_item\": %" PRId64
                ", \"items\": %zu, \"bytes\": %zu, \"seconds\": %.6f, "
                "\"gbytes_per_s\": %.2f, \"host_ns_per_item\": %.0f}\n",
                what, parameter, items, bytes, best, static_cast<double>(bytes) / best / 1e9,
                best_host / static_cast<double>(items) * 1e9);
    std::fflush(stdout);
  }

  void copy(const char* what, std::size_t piece, std::size_t offset, bool to_device) {
    // At most a wave of pieces, in an order that defeats prefetchers.
    const std::size_t count =
        std::max<std::size_t>(1, std::min<std::size_t>(bytes_ / piece, 16384) - (offset != 0 ? 1 : 0));
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t j = (i * 7919) % count;
      std::byte* host = host_ + j * piece + offset;
      pieces.push_back(to_device ? Piece{host, to_ + i * piece, piece} : Piece{to_ + i * piece, host, piece});
    }
    report(what, static_cast<std::int64_t>(piece), count, count * piece, [&] {
      must(to_device ? device_->copy_to_device(pieces, *stream_) : device_->copy_to_host(pieces, *stream_));
    });
  }

  void assemble(const char* what, Box box, ElementOp op, std::int64_t parameter) {
    box.src = fill_ ? nullptr : from_ + odd_offset_;
    box.dst = to_;
    simplify(box);
    const std::byte zeros[16] = {};
    const std::size_t bytes = box.element_count() * op.element_bytes;
    report(what, parameter, 1, bytes, [&] { must(device_->assemble({&box, 1}, op, zeros, *stream_)); });
  }

 public:
  // Counts bytes read and written, since a conversion changes their number; compared with a copy within device memory
  // that is counted in the same way.
  void conversions() {
    const auto bytes = static_cast<std::int64_t>(bytes_);
    Box whole;
    whole.rank = 1;
    whole.dim[0] = {static_cast<std::uint64_t>(bytes), 1, 1};
    convert("device_copy", whole, ElementOp{1, 1});
    struct Pair {
      const char* name;
      NumberType from, to;
      bool big_endian, scaled, nan;
    };
    for (const Pair& pair :
         {Pair{"f4_big_endian", NumberType::kFloat32, NumberType::kFloat32, true, false, false},
          Pair{"i2_to_f4", NumberType::kInt16, NumberType::kFloat32, false, true, false},
          Pair{"i2_to_f4_big_endian_nan", NumberType::kInt16, NumberType::kFloat32, true, true, true},
          Pair{"i2_to_bf16", NumberType::kInt16, NumberType::kBfloat16, false, true, false},
          Pair{"u1_to_f4", NumberType::kUint8, NumberType::kFloat32, false, false, false},
          Pair{"f4_to_f2", NumberType::kFloat32, NumberType::kFloat16, false, false, false},
          Pair{"f4_to_bf16", NumberType::kFloat32, NumberType::kBfloat16, false, false, false},
          Pair{"f4_to_bf16_scaled", NumberType::kFloat32, NumberType::kBfloat16, false, true, false},
          Pair{"f4_scaled_big_endian", NumberType::kFloat32, NumberType::kFloat32, true, true, false},
          Pair{"f8_to_f4", NumberType::kFloat64, NumberType::kFloat32, false, false, false},
          Pair{"f8_to_bf16_scaled", NumberType::kFloat64, NumberType::kBfloat16, false, true, false},
          Pair{"i8_to_f4", NumberType::kInt64, NumberType::kFloat32, false, false, false},
          Pair{"i4_to_i2", NumberType::kInt32, NumberType::kInt16, false, false, false}}) {
      ElementOp op;
      op.element_bytes = number_bytes(pair.from);
      op.swap_width = pair.big_endian ? op.element_bytes : 1;
      if (pair.from != pair.to || pair.scaled) {
        op.conversion.from = pair.from;
        op.conversion.to = pair.to;
        op.conversion.scaled = pair.scaled;
        op.conversion.scale = 0.0016514;
        op.conversion.offset = 273.15;
        op.conversion.fill_to_nan = pair.nan;
      }
      const auto in = static_cast<std::int64_t>(op.element_bytes), out = static_cast<std::int64_t>(op.result_bytes());
      const std::int64_t count = bytes / std::max(in, out);
      const std::string name = pair.name;
      Box run;
      run.rank = 1;
      run.dim[0] = {static_cast<std::uint64_t>(count), in, out};
      convert(("convert_run_" + name).c_str(), run, op);
      Box rows;  // rows of 1,440 elements, into a tensor twice as wide
      rows.rank = 2;
      rows.dim[0] = {static_cast<std::uint64_t>(count / 2 / 1440), 1440 * in, 2880 * out};
      rows.dim[1] = {1440, in, out};
      convert(("convert_rows_" + name).c_str(), rows, op);
      Box step = run;
      step.dim[0] = {static_cast<std::uint64_t>(count / 2), 2 * in, out};
      convert(("convert_every_second_" + name).c_str(), step, op);
      const std::int64_t n = static_cast<std::int64_t>(std::sqrt(static_cast<double>(count))) / 32 * 32;
      Box transpose;
      transpose.rank = 2;
      transpose.dim[0] = {static_cast<std::uint64_t>(n), in, n * out};
      transpose.dim[1] = {static_cast<std::uint64_t>(n), n * in, out};
      convert(("convert_transpose_" + name).c_str(), transpose, op);
    }
  }

 private:
  void convert(const char* what, Box box, const ElementOp& op) {
    box.src = from_;
    box.dst = to_;
    simplify(box);
    const std::uint32_t both = op.element_bytes + op.result_bytes();
    report(what, both, 1, box.element_count() * both, [&] {
      must(device_->assemble({&box, 1}, op, nullptr, *stream_));
    });
  }

  // A wave of 64 KiB chunks (16 x 32 x 32 float32) into one array: the typical work of a read.
  void chunks() {
    constexpr std::int64_t kZ = 16, kY = 32, kX = 32, kElement = 4, kChunk = kZ * kY * kX * kElement;
    const std::int64_t across = 32, count = std::min<std::int64_t>(4096, static_cast<std::int64_t>(bytes_) / kChunk) /
                                            across * across;
    if (count == 0) return;
    const std::int64_t row = across * kX * kElement, plane = row * kY * (count / across);
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i < count; ++i) {
      Box box;
      box.src = from_ + i * kChunk;
      box.dst = to_ + i / across * kY * row + i % across * kX * kElement;
      box.rank = 3;
      box.dim[0] = {kZ, kY * kX * kElement, plane};
      box.dim[1] = {kY, kX * kElement, row};
      box.dim[2] = {kX, kElement, kElement};
      simplify(box);
      boxes.push_back(box);
    }
    for (std::uint32_t swap : {1u, 4u}) {
      report(swap == 1 ? "assemble_wave_of_chunks" : "assemble_wave_of_chunks_swap", kChunk, boxes.size(),
             boxes.size() * static_cast<std::size_t>(kChunk), [&] {
               must(device_->assemble(boxes, ElementOp{4, swap}, nullptr, *stream_));
             });
    }
  }

  std::shared_ptr<Device> device_;
  std::size_t bytes_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> event_;
  std::byte* host_ = nullptr;
  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::size_t odd_offset_ = 0;
  bool fill_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  auto device = take(open_device(argc > 1 ? argv[1] : "auto"));
  const std::size_t mib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  if (mib < 16 || mib > (1u << 20)) {
    std::fprintf(stderr, "usage: device_copy_bench [DEVICE] [TOTAL_MIB >= 16] [convert]\n");
    return 2;
  }
  std::printf("{\"device\": \"%s\", \"description\": \"%s\", \"total_mib\": %zu}\n", device->info().name.c_str(),
              device->info().description.c_str(), mib);
  const std::string only = argc > 3 ? argv[3] : "";
  Bench bench(std::move(device), mib << 20);
  if (only != "convert") {
    bench.copies();
    bench.assemblies();
  }
  bench.conversions();
  return 0;
}
