// The kernels' source, run on the CPU thread by thread, moves the same bytes as the model and touches nothing else: its
// buffers end at guard pages or are surrounded by bytes that are compared.
// clang-format off: gives the kernels their keywords
#include "support/cuda_on_cpu.h"
// clang-format on

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends/dev_cuda/convert_kernels.cuh"
#include "backends/dev_cuda/warp_reduce.cuh"
#include "support/box_model.h"

namespace headrace::device::cuda {
namespace {

constexpr unsigned kThreads = 64;

// Memory between two inaccessible pages; its end is flush with the second.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes) : bytes_(bytes), body_((bytes + 4095) / 4096 * 4096) {
    base_ = static_cast<std::byte*>(mmap(nullptr, body_ + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (body_ != 0) mprotect(base_ + 4096, body_, PROT_READ | PROT_WRITE);
  }
  ~Fenced() { munmap(base_, body_ + 8192); }
  std::byte* right() const { return base_ + 4096 + body_ - bytes_; }
  std::byte* left() const { return base_ + 4096; }

 private:
  std::size_t bytes_, body_;
  std::byte* base_;
};

void move(const std::vector<PieceItem>& pieces, unsigned blocks) {
  testing::gpu::launch(blocks, kThreads,
                       [&] { move_pieces_body(pieces.data(), static_cast<unsigned>(pieces.size())); });
}

TEST(CudaKernels, APieceOfAnyAlignmentStaysInsideItsEdges) {
  std::mt19937_64 rng(3);
  const std::vector<std::size_t> sizes = {1,  2,   15,  16,  63,   64,   65,   67,   80,
                                          81, 100, 128, 500, 1023, 1100, 1200, 4097, 8192};
  for (std::size_t bytes : sizes) {
    Fenced src(bytes + 16), dst(bytes + 16);
    for (int round = 0; round < 40; ++round) {
      // Each side is flush with a guard page, or 1 to 16 bytes away from the one behind it.
      auto place = [&](const Fenced& memory) {
        switch (rng() % 3) {
          case 0:
            return memory.right() + 16;
          case 1:
            return memory.left();
          default:
            return memory.right() + rng() % 17;
        }
      };
      std::byte* from = place(src);
      std::byte* to = place(dst);
      testing::fill_random(from, bytes, rng());
      std::memset(to, 0x5a, bytes);
      move({{reinterpret_cast<unsigned char*>(from), reinterpret_cast<unsigned char*>(to), bytes}}, 1);
      ASSERT_EQ(std::memcmp(from, to, bytes), 0) << bytes << " bytes, " << from << " to " << to;
    }
  }
}

TEST(CudaKernels, ManyPiecesOverFewBlocks) {
  std::mt19937_64 rng(4);
  std::vector<std::byte> src(200000), dst(200000, std::byte{7}), want(200000, std::byte{7});
  testing::fill_random(src.data(), src.size(), 1);
  std::vector<PieceItem> pieces;
  for (std::size_t at = 0; at + 4100 < src.size();) {
    const std::size_t bytes = 1 + rng() % (rng() % 4 == 0 ? 4000 : 90), from = rng() % (src.size() - bytes);
    pieces.push_back({reinterpret_cast<unsigned char*>(src.data() + from),
                      reinterpret_cast<unsigned char*>(dst.data() + at), bytes});
    std::memcpy(want.data() + at, src.data() + from, bytes);
    at += bytes + rng() % 5;
  }
  move(pieces, 3);
  EXPECT_TRUE(dst == want);
}

class Assembly {
 public:
  void add(const testing::BoxShape& shape, const ElementOp& op, bool fill, std::uint64_t seed) {
    auto& p = places_.emplace_back();
    p.src.resize(shape.src_bytes);
    p.got.resize(shape.dst_bytes);
    testing::fill_random(p.src.data(), p.src.size(), seed);
    testing::fill_random(p.got.data(), p.got.size(), seed + 1);
    p.want = p.got;
    Box box = shape.box;
    box.src = fill ? nullptr : p.src.data() + shape.src_origin;
    box.dst = p.want.data() + shape.dst_origin;
    if (pattern_.empty()) {
      pattern_.resize(op.element_bytes);
      testing::fill_random(pattern_.data(), pattern_.size(), seed + 2);
      list_.clear();
      list_.set_pattern(pattern_.data(), op.element_bytes);
    }
    auto same = [](auto* q) { return q; };
    testing::model_copy_box(box, op, pattern_.data(), same, same);
    box.dst = p.got.data() + shape.dst_origin;
    list_.add(box, op);
  }
  bool run(unsigned blocks) {
    // The kernels load patterns as words.
    std::vector<uint4> aligned(list_.pattern.size() / 16 + 1);
    std::memcpy(aligned.data(), list_.pattern.data(), list_.pattern.size());
    alignas(16) static unsigned char shared[kTileBytes];
    testing::gpu::launch(blocks, kThreads, [&] {
      assemble_body(list_.items.data(), list_.first_unit.data(), static_cast<unsigned>(list_.items.size()),
                    list_.units(), reinterpret_cast<const unsigned char*>(aligned.data()), shared);
    });
    for (const Place& p : places_) {
      if (p.got != p.want) return false;
    }
    return true;
  }
  const BoxList& list() const { return list_; }

 private:
  struct Place {
    std::vector<std::byte> src, got, want;
  };
  std::vector<Place> places_;
  std::vector<std::byte> pattern_;
  BoxList list_;
};

constexpr std::uint32_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 40};

TEST(CudaKernels, RandomBoxesMatchTheModel) {
  std::mt19937_64 rng(5);
  int modes[3] = {};
  for (int round = 0; round < 150; ++round) {
    ElementOp op;
    op.element_bytes = kSizes[rng() % std::size(kSizes)];
    op.swap_width = testing::random_swap_width(rng, op.element_bytes);
    Assembly assembly;
    const int boxes = 1 + static_cast<int>(rng() % 40);
    for (int b = 0; b < boxes; ++b) {
      assembly.add(testing::random_box(rng, op.element_bytes), op, rng() % 5 == 0, rng());
    }
    ASSERT_TRUE(assembly.run(1 + rng() % 4))
        << "round " << round << " element " << op.element_bytes << " swap " << op.swap_width;
    for (const BoxItem& item : assembly.list().items) ++modes[item.mode];
  }
  for (int mode : modes) EXPECT_GT(mode, 10) << "every mode is exercised";
}

TEST(CudaKernels, LongRowsAndTransposesMatchTheModel) {
  std::mt19937_64 rng(6);
  for (std::uint32_t size : kSizes) {
    for (std::uint64_t rows : {1, 9, 33, 70}) {
      const std::uint64_t columns = 40 + rng() % 100;
      const auto s = static_cast<std::int64_t>(size), r = static_cast<std::int64_t>(rows),
                 c = static_cast<std::int64_t>(columns);
      ElementOp op{size, testing::random_swap_width(rng, size)};
      Assembly assembly;
      testing::BoxShape transpose;
      transpose.box.rank = 2;
      transpose.box.dim[0] = {rows, s, c * s};
      transpose.box.dim[1] = {columns, r * s, s};
      transpose.src_bytes = transpose.dst_bytes = static_cast<std::size_t>(r * c * s);
      testing::BoxShape slab;  // rows cut out of a wider source at an odd offset; also as fill
      slab.box.rank = 2;
      slab.box.dim[0] = {rows, 11 * c * s + 1, 11 * c * s};
      slab.box.dim[1] = {11 * columns, s, s};
      slab.src_origin = static_cast<std::int64_t>(rng() % 16);
      slab.src_bytes = slab.dst_bytes = static_cast<std::size_t>(r * (11 * c * s + 1) + 32);
      assembly.add(transpose, op, false, rng());
      assembly.add(slab, op, false, rng());
      assembly.add(slab, op, true, rng());
      ASSERT_TRUE(assembly.run(3)) << size << " rows " << rows;
    }
  }
}

// The code that replaces the instructions on GPUs before compute capability 8.0.
TEST(CudaKernels, LanesAreJoinedByShufflesAsByInstructions) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<unsigned> values(32);
    for (unsigned& value : values) value = static_cast<unsigned>(rng() >> (round % 33));
    testing::gpu::launch(1, 32, [&] {
      const unsigned own = values[threadIdx.x], all = 0xffffffffu;
      const auto join = [&](auto by) { return gpu::reduce_by_shuffle(own, by); };
      EXPECT_EQ(join([](unsigned a, unsigned b) { return a + b; }), __reduce_add_sync(all, own));
      EXPECT_EQ(join([](unsigned a, unsigned b) { return a | b; }), __reduce_or_sync(all, own));
      EXPECT_EQ(join([](unsigned a, unsigned b) { return a < b ? a : b; }), __reduce_min_sync(all, own));
      EXPECT_EQ(join([](unsigned a, unsigned b) { return a < b ? b : a; }), __reduce_max_sync(all, own));
    });
  }
}

TEST(CudaKernels, RanksBeyondTheKernelsAreSplit) {
  testing::BoxShape shape;
  shape.box.rank = 9;
  std::int64_t src = 6, dst = 6;
  for (int d = 8; d >= 0; --d) {
    shape.box.dim[static_cast<std::size_t>(d)] = {2, src, dst};
    src = src * 2 + 6;
    dst *= 2;
  }
  shape.src_bytes = static_cast<std::size_t>(src) + 64;
  shape.dst_bytes = static_cast<std::size_t>(dst) + 64;
  for (std::uint32_t swap : {1u, 2u, 3u, 6u}) {
    Assembly assembly;
    assembly.add(shape, ElementOp{6, swap}, false, 1);
    EXPECT_GT(assembly.list().items.size(), 1u);
    EXPECT_TRUE(assembly.run(2)) << swap;
  }
}

// ---- conversions ----

class Converting {
 public:
  explicit Converting(const ElementOp& op) : op_(op) { list_.clear(); }
  void add(const testing::BoxShape& shape, std::uint64_t seed) {
    auto& p = places_.emplace_back();
    p.src = std::make_unique<Fenced>(shape.src_bytes);
    p.got = std::make_unique<Fenced>(shape.dst_bytes);
    // The last byte of each side is at the guard page, except for the slack that allows any alignment.
    std::byte* const src = p.src->right();
    std::byte* const got = p.got->right();
    testing::fill_random(src, shape.src_bytes, seed);
    testing::fill_random(got, shape.dst_bytes, seed + 1);
    p.want.assign(got, got + shape.dst_bytes);
    Box box = shape.box;
    box.src = src + shape.src_origin;
    box.dst = p.want.data() + shape.dst_origin;
    auto same = [](auto* q) { return q; };
    const std::byte unused[8] = {};
    testing::model_copy_box(box, op_, unused, same, same);
    box.dst = got + shape.dst_origin;
    list_.add_converting(box, op_);
  }
  bool run(unsigned blocks) {
    static std::uint64_t tile[kConvertTileWords];
    testing::gpu::launch(blocks, kThreads, [&] {
      convert_body(list_.items.data(), list_.first_unit.data(), static_cast<unsigned>(list_.items.size()),
                   list_.units(), op_.conversion, tile);
    });
    return std::all_of(places_.begin(), places_.end(),
                       [](const Place& p) { return std::memcmp(p.got->right(), p.want.data(), p.want.size()) == 0; });
  }
  const BoxList& list() const { return list_; }

 private:
  struct Place {
    std::unique_ptr<Fenced> src, got;
    std::vector<std::byte> want;
  };
  const ElementOp op_;
  std::vector<Place> places_;
  BoxList list_;
};

std::string describe(const ElementOp& op) {
  return std::string(testing::name_of(op.conversion.from)) + " to " + testing::name_of(op.conversion.to) + " swap " +
         std::to_string(op.swap_width) + (op.conversion.scaled ? " scaled" : "") +
         (op.conversion.fill_to_nan ? " fill" : "");
}

TEST(CudaKernels, RandomConvertedBoxesMatchTheModel) {
  std::mt19937_64 rng(15);
  int modes[3] = {};
  for (int round = 0; round < 300; ++round) {
    const ElementOp op = testing::random_converting_op(rng);
    Converting assembly(op);
    const int boxes = 1 + static_cast<int>(rng() % 12);
    for (int b = 0; b < boxes; ++b) assembly.add(testing::random_box_for(rng, op), rng());
    ASSERT_TRUE(assembly.run(1 + rng() % 4)) << "round " << round << " " << describe(op);
    for (const BoxItem& item : assembly.list().items) ++modes[item.mode];
  }
  for (int mode : modes) EXPECT_GT(mode, 10) << "every mode is exercised";
}

// Every pair of sizes runs its vector loop: dense rows at every alignment, and transposes.
TEST(CudaKernels, ConvertedRowsOfEveryPairMatchTheModel) {
  std::mt19937_64 rng(16);
  for (NumberType from : testing::kSourceTypes) {
    for (NumberType to : testing::kTargetTypes) {
      ElementOp op;
      op.conversion = testing::random_conversion(rng);
      op.conversion.from = from;
      op.conversion.to = to;
      op.conversion.fill_to_nan = op.conversion.fill_to_nan && is_float(to);
      op.element_bytes = number_bytes(from);
      op.swap_width = rng() % 2 == 0 ? 1 : op.element_bytes;
      const auto in = static_cast<std::int64_t>(op.element_bytes), out = static_cast<std::int64_t>(op.result_bytes());
      Converting assembly(op);
      for (int round = 0; round < 6; ++round) {
        const std::uint64_t rows = 1 + rng() % 3, columns = round == 0 ? 2300 : 64 + rng() % 200;
        const auto r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
        testing::BoxShape shape;
        shape.box.rank = 2;
        // Rows at odd places, at places aligned to elements, and at places aligned to groups.
        const std::int64_t src_gap = round < 2   ? 1
                                     : round < 4 ? in
                                                 : 16 * in,
                           dst_gap = round < 2   ? 3
                                     : round < 4 ? out
                                                 : 16 * out;
        const std::int64_t src_row = round >= 4 ? (c * in + 15) / 16 * 16 + src_gap : c * in + src_gap;
        const std::int64_t dst_row = round >= 4 ? (c * out + 15) / 16 * 16 + dst_gap : c * out + dst_gap;
        shape.box.dim[0] = {rows, src_row, dst_row};
        shape.box.dim[1] = {columns, in, out};
        shape.src_bytes = static_cast<std::size_t>((r - 1) * src_row + c * in);
        shape.dst_bytes = static_cast<std::size_t>((r - 1) * dst_row + c * out);
        if (round >= 4)
          shape.src_bytes = (shape.src_bytes + 63) / 64 * 64, shape.dst_bytes = (shape.dst_bytes + 63) / 64 * 64;
        assembly.add(shape, rng());
      }
      testing::BoxShape transpose;
      transpose.box.rank = 2;
      transpose.box.dim[0] = {40, in, 35 * out};
      transpose.box.dim[1] = {35, 40 * in, out};
      transpose.src_bytes = static_cast<std::size_t>(1400 * in);
      transpose.dst_bytes = static_cast<std::size_t>(1400 * out);
      assembly.add(transpose, rng());
      ASSERT_TRUE(assembly.run(3)) << describe(op);
    }
  }
}

TEST(CudaKernels, EveryNumberConvertsAsTheModelDoes) {
  for (NumberType from : testing::kSourceTypes) {
    const std::vector<std::byte> numbers = testing::notable_numbers(from, 5);
    const std::uint32_t in = number_bytes(from);
    const std::size_t count = numbers.size() / in;
    for (NumberType to : testing::kTargetTypes) {
      ElementOp op;
      op.element_bytes = in;
      op.conversion.from = from;
      op.conversion.to = to;
      const std::uint32_t out = op.result_bytes();
      std::vector<std::uint64_t> memory(count + 2);
      auto* got = reinterpret_cast<std::byte*>(memory.data());
      Box box;
      box.src = numbers.data();
      box.dst = got;
      box.rank = 1;
      box.dim[0] = {count, in, out};
      BoxList list;
      list.clear();
      list.add_converting(box, op);
      static std::uint64_t tile[kConvertTileWords];
      testing::gpu::launch(4, kThreads, [&] {
        convert_body(list.items.data(), list.first_unit.data(), 1, list.units(), op.conversion, tile);
      });
      for (std::size_t i = 0; i < count; ++i) {
        std::byte want[8];
        testing::model_convert(op.conversion, numbers.data() + i * in, want);
        ASSERT_EQ(std::memcmp(got + i * out, want, out), 0) << describe(op) << " number " << i;
      }
    }
  }
}

}  // namespace
}  // namespace headrace::device::cuda
