// The contract of every device, as one test suite. A test file instantiates DeviceSuite for its devices.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/device.h"
#include "support/box_model.h"
#include "support/sanitizer.h"

namespace headrace::device {

// HEADRACE_TEST_SIZE=small keeps runs under a GPU sanitizer to minutes.
inline bool small_run() {
  const char* text = std::getenv("HEADRACE_TEST_SIZE");
  return text != nullptr && std::string_view(text) == "small";
}

class Memory {
 public:
  Memory(Device& device, std::size_t bytes, bool pinned) : device_(device), bytes_(bytes), pinned_(pinned) {
    auto memory = pinned ? device.allocate_pinned(bytes) : device.allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.status().to_string();
    if (memory.ok()) data_ = *memory;
  }
  ~Memory() { pinned_ ? device_.deallocate_pinned(data_, bytes_) : device_.deallocate(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device& device_;
  std::size_t bytes_;
  bool pinned_;
  std::byte* data_ = nullptr;
};

class DeviceSuite : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const DeviceRow& row : devices()) {
      if (row.kind != GetParam()) continue;
      if (auto count = row.count(); !count.ok()) GTEST_SKIP() << GetParam() << ": " << count.status().to_string();
    }
    auto opened = open_device(GetParam());
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    device_ = *opened;
    auto stream = device_->create_stream();
    auto event = device_->create_event();
    ASSERT_TRUE(stream.ok()) << stream.status().to_string();
    ASSERT_TRUE(event.ok()) << event.status().to_string();
    stream_ = std::move(*stream);
    event_ = std::move(*event);
  }

  void finish(Stream& stream) {
    expect_ok(device_->record(*event_, stream));
    expect_ok(device_->synchronize(*event_));
  }
  void finish() { finish(*stream_); }
  static void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.to_string(); }

  // Uploads one piece and blocks until it is done.
  void upload(std::byte* device_memory, const std::byte* host, std::size_t bytes) {
    if (bytes == 0) return;
    Memory pinned(*device_, bytes, true);
    std::memcpy(pinned.data(), host, bytes);
    const Piece piece{pinned.data(), device_memory, bytes};
    expect_ok(device_->copy_to_device({&piece, 1}, *stream_));
    finish();
  }
  std::vector<std::byte> download(const std::byte* device_memory, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    if (bytes == 0) return out;
    Memory pinned(*device_, bytes, true);
    const Piece piece{device_memory, pinned.data(), bytes};
    expect_ok(device_->copy_to_host({&piece, 1}, *stream_));
    finish();
    std::memcpy(out.data(), pinned.data(), bytes);
    return out;
  }

  // Copies pieces of these sizes from random places of one buffer into random gaps of another, and back.
  void round_trip(const std::vector<std::size_t>& sizes, std::uint64_t seed, std::size_t align = 1) {
    std::mt19937_64 rng(seed);
    std::vector<std::size_t> src_at, dst_at;
    std::size_t total = 0, longest = 0;
    for (std::size_t bytes : sizes) {
      total += rng() % 40 / align * align;
      dst_at.push_back(total);
      total += (bytes + align - 1) / align * align;
      longest = std::max(longest, bytes);
    }
    total += 64;
    const std::size_t source_bytes = longest + total / 2 + 64;
    for (std::size_t bytes : sizes) src_at.push_back(rng() % (source_bytes - bytes) / align * align);

    Memory source(*device_, source_bytes, true), target(*device_, total, false), back(*device_, total, true);
    testing::fill_random(source.data(), source_bytes, seed);
    std::vector<std::byte> want(total);
    testing::fill_random(want.data(), total, seed + 1);
    upload(target.data(), want.data(), total);
    std::vector<Piece> pieces, returns;
    std::memset(back.data(), 0x11, total);
    std::vector<std::byte> want_back(total, std::byte{0x11});
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      pieces.push_back({source.data() + src_at[i], target.data() + dst_at[i], sizes[i]});
      std::memcpy(want.data() + dst_at[i], source.data() + src_at[i], sizes[i]);
      // The way back uses other alignments; the last piece goes to the front.
      const std::size_t to = total - 64 - dst_at[i] - sizes[i] + (align == 1 ? 3 : 0);
      returns.push_back({target.data() + dst_at[i], back.data() + to, sizes[i]});
      std::memcpy(want_back.data() + to, source.data() + src_at[i], sizes[i]);
    }
    std::shuffle(pieces.begin(), pieces.end(), rng);
    expect_ok(device_->copy_to_device(pieces, *stream_));
    std::fill(pieces.begin(), pieces.end(), Piece{});  // the caller may reuse the list
    expect_ok(device_->copy_to_host(returns, *stream_));
    std::fill(returns.begin(), returns.end(), Piece{});
    finish();
    EXPECT_TRUE(std::memcmp(back.data(), want_back.data(), total) == 0);
    EXPECT_TRUE(download(target.data(), total) == want);
  }

  struct Placed {
    testing::BoxShape shape;
    bool fill = false;
  };
  // Assembles one wave of boxes and compares it with the model; the bytes around them must be unchanged.
  void assemble_wave(const std::vector<Placed>& boxes, const ElementOp& op, bool pinned_source, std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<std::size_t> src_at, dst_at;
    std::size_t src_bytes = 1, dst_bytes = 1;
    for (const Placed& b : boxes) {
      src_at.push_back(src_bytes += rng() % 3 == 0 ? rng() % 16 : (16 - src_bytes % 16) % 16);
      dst_at.push_back(dst_bytes += rng() % 3 == 0 ? rng() % 16 : (16 - dst_bytes % 16) % 16);
      src_bytes += b.shape.src_bytes;
      dst_bytes += b.shape.dst_bytes;
    }
    Memory source(*device_, src_bytes, pinned_source), target(*device_, dst_bytes, false);
    std::vector<std::byte> src(src_bytes), want(dst_bytes), fill(op.result_bytes());
    testing::fill_random(src.data(), src.size(), seed);
    testing::fill_random(want.data(), want.size(), seed + 1);
    testing::fill_random(fill.data(), fill.size(), seed + 2);
    if (pinned_source) {
      std::memcpy(source.data(), src.data(), src_bytes);
    } else {
      upload(source.data(), src.data(), src_bytes);
    }
    upload(target.data(), want.data(), dst_bytes);
    std::vector<Box> wave;
    auto same = [](auto* p) { return p; };
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      Box box = boxes[i].shape.box;
      const std::size_t from = src_at[i] + static_cast<std::size_t>(boxes[i].shape.src_origin);
      const std::size_t to = dst_at[i] + static_cast<std::size_t>(boxes[i].shape.dst_origin);
      box.src = boxes[i].fill ? nullptr : src.data() + from;
      box.dst = want.data() + to;
      testing::model_copy_box(box, op, fill.data(), same, same);
      box.src = boxes[i].fill ? nullptr : source.data() + from;
      box.dst = target.data() + to;
      simplify(box);
      wave.push_back(box);
    }
    expect_ok(device_->assemble(wave, op, fill.data(), *stream_));
    std::fill(fill.begin(), fill.end(), std::byte{0});  // the caller may reuse it
    wave.assign(wave.size(), Box{});
    finish();
    ASSERT_TRUE(download(target.data(), dst_bytes) == want)
        << boxes.size() << " boxes, element " << op.element_bytes << " swap " << op.swap_width << " seed " << seed;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> event_;
};

TEST_P(DeviceSuite, DescribesItself) {
  EXPECT_EQ(device_->info().name.substr(0, GetParam().size()), GetParam());
  EXPECT_FALSE(device_->info().description.empty());
  auto again = open_device(GetParam());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->get(), device_.get()) << "the same name is the same device";
}

TEST_P(DeviceSuite, MemoryIsAligned) {
  for (std::size_t bytes : {std::size_t{1}, std::size_t{255}, std::size_t{4096}, std::size_t{3} << 20}) {
    Memory memory(*device_, bytes, false), pinned(*device_, bytes, true);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.data()) % 4096, 0u);
    std::memset(pinned.data(), 1, bytes);
  }
  device_->deallocate(nullptr, 0);
  device_->deallocate_pinned(nullptr, 0);
}

TEST_P(DeviceSuite, AbsurdSizesAreRefusedAndTheDeviceWorksOn) {
  for (std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0} - 100, ~std::size_t{0}}) {
    EXPECT_EQ(device_->allocate(bytes).status().code(), Code::kResourceExhausted);
    EXPECT_EQ(device_->allocate_pinned(bytes).status().code(), Code::kResourceExhausted);
  }
  round_trip({100}, 1);
}

TEST_P(DeviceSuite, OnePiece) {
  for (std::size_t bytes : {1, 17, 4096, 100000, 3000000}) round_trip({bytes}, bytes);
}

TEST_P(DeviceSuite, NoPieces) {
  expect_ok(device_->copy_to_device({}, *stream_));
  expect_ok(device_->copy_to_host({}, *stream_));
  expect_ok(device_->assemble({}, ElementOp{4, 1}, nullptr, *stream_));
  round_trip({0, 5, 0, 0, 7, 0}, 3);
}

TEST_P(DeviceSuite, ManySmallPiecesOfAnyAlignment) {
  std::mt19937_64 rng(11);
  for (int round = 0; round < (small_run() ? 2 : 6); ++round) {
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 400; ++i) sizes.push_back(1 + rng() % (std::size_t{1} << rng() % 17));
    round_trip(sizes, rng());
  }
  for (std::size_t align : {4, 8, 16}) {
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 100; ++i) sizes.push_back(align * (1 + rng() % 700));
    round_trip(sizes, rng(), align);
  }
}

TEST_P(DeviceSuite, LargePieces) {
  round_trip({300000, 262144, 1000001, 262143, 500000, 700000, 2000000}, 21);
  round_trip(std::vector<std::size_t>(5, std::size_t{1} << 20), 22, 16);
}

TEST_P(DeviceSuite, MixedPieces) {
  std::mt19937_64 rng(31);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 60; ++i) sizes.push_back(i % 9 == 0 ? 262144 + rng() % 200000 : 1 + rng() % 20000);
    round_trip(sizes, rng());
  }
}

TEST_P(DeviceSuite, NeighbouringPiecesAreExact) {
  std::vector<std::byte> want(1 << 20);
  testing::fill_random(want.data(), want.size(), 4);
  Memory source(*device_, want.size(), true), target(*device_, want.size(), false);
  std::memcpy(source.data(), want.data(), want.size());
  std::vector<Piece> pieces;
  std::mt19937_64 rng(5);
  for (std::size_t at = 0; at < want.size();) {
    const std::size_t bytes = std::min(want.size() - at, 1 + rng() % 9000);
    pieces.push_back({source.data() + at, target.data() + at, bytes});
    at += bytes;
  }
  expect_ok(device_->copy_to_device(pieces, *stream_));
  finish();
  EXPECT_TRUE(download(target.data(), want.size()) == want);
}

TEST_P(DeviceSuite, RandomBoxesMatchTheModel) {
  constexpr std::uint32_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 40};
  std::mt19937_64 rng(41);
  const int rounds = small_run() || support::kThreadSanitizer ? 12 : 80;
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    ElementOp op;
    op.element_bytes = kSizes[rng() % std::size(kSizes)];
    op.swap_width = testing::random_swap_width(rng, op.element_bytes);
    std::vector<Placed> boxes(1 + rng() % 200);
    for (Placed& b : boxes) b = {testing::random_box(rng, op.element_bytes), rng() % 6 == 0};
    assemble_wave(boxes, op, round % 4 == 0, rng());
  }
}

TEST_P(DeviceSuite, LargeBoxesMatchTheModel) {
  std::mt19937_64 rng(43);
  const std::uint64_t scale = small_run() || support::kThreadSanitizer ? 1 : 3;
  for (std::uint32_t size : {1u, 2u, 3u, 4u, 8u, 12u, 16u}) {
    const auto s = static_cast<std::int64_t>(size);
    const std::uint64_t rows = scale * 90 + rng() % 50, columns = scale * 150 + rng() % 50;
    const auto r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
    std::vector<Placed> boxes;
    auto add = [&](BoxDim slow, BoxDim fast, std::int64_t src_origin, bool fill) {
      testing::BoxShape shape;
      shape.box.rank = 2;
      shape.box.dim[0] = slow;
      shape.box.dim[1] = fast;
      shape.src_origin = src_origin;
      shape.src_bytes = static_cast<std::size_t>(2 * r * c * s + 64);
      shape.dst_bytes = static_cast<std::size_t>(r * c * s);
      boxes.push_back({shape, fill});
    };
    add({rows, c * s, c * s}, {columns, s, s}, 0, false);             // one run
    add({rows, 2 * c * s, c * s}, {columns, s, s}, 0, false);         // rows out of a wider source
    add({rows, 2 * c * s - 1, c * s}, {columns, s, s}, 13, false);    // odd offsets
    add({rows, s, c * s}, {columns, r * s, s}, 0, false);             // transposed
    add({rows, -s, c * s}, {columns, r * s, s}, (r - 1) * s, false);  // transposed, backwards
    add({rows, c * s, c * s}, {columns, -s, s}, (c - 1) * s, false);  // mirrored rows
    add({rows, 0, c * s}, {columns, s, s}, 0, false);                 // one row repeated
    add({rows, 0, c * s}, {columns, 0, s}, 0, true);                  // fill
    for (std::uint32_t swap : {1u, size % 2 == 0 ? 2u : size, size}) {
      assemble_wave(boxes, ElementOp{size, swap}, false, rng());
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(DeviceSuite, ConvertedBoxesMatchTheModel) {
  std::mt19937_64 rng(47);
  const int rounds = small_run() || support::kThreadSanitizer ? 40 : 250;
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    const ElementOp op = testing::random_converting_op(rng);
    std::vector<Placed> boxes(1 + rng() % 30);
    for (Placed& b : boxes) b = {testing::random_box_for(rng, op), rng() % 6 == 0};
    assemble_wave(boxes, op, round % 4 == 0, rng());
  }
}

TEST_P(DeviceSuite, LargeConvertedBoxesMatchTheModel) {
  std::mt19937_64 rng(48);
  const int rounds = small_run() || support::kThreadSanitizer ? 8 : 60;
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    ElementOp op = testing::random_converting_op(rng);
    const std::uint64_t rows = 30 + rng() % 60, columns = 200 + rng() % 300;
    const auto in = static_cast<std::int64_t>(op.element_bytes), out = static_cast<std::int64_t>(op.result_bytes()),
               r = static_cast<std::int64_t>(rows), c = static_cast<std::int64_t>(columns);
    std::vector<Placed> boxes;
    auto add = [&](BoxDim slow, BoxDim fast, std::int64_t src_origin, bool fill) {
      testing::BoxShape shape;
      shape.box.rank = 2;
      shape.box.dim[0] = slow;
      shape.box.dim[1] = fast;
      shape.src_origin = src_origin;
      shape.src_bytes = static_cast<std::size_t>(2 * r * c * in + 64);
      shape.dst_bytes = static_cast<std::size_t>(2 * r * c * out + 64);
      boxes.push_back({shape, fill});
    };
    add({rows, c * in, c * out}, {columns, in, out}, 0, false);                   // one run
    add({rows, 2 * c * in, c * out}, {columns, in, out}, 0, false);               // rows out of a wider source
    add({rows, 2 * c * in, 2 * c * out}, {columns, in, out}, in, false);          // aligned to one element only
    add({rows, 2 * c * in - 1, 2 * c * out - 1}, {columns, in, out}, 13, false);  // odd offsets
    add({rows, in, c * out}, {columns, r * in, out}, 0, false);                   // transposed
    add({rows, in, out}, {columns, r * in, r * out}, 0, false);                   // both sides transposed
    add({rows, -in, c * out}, {columns, r * in, out}, (r - 1) * in, false);       // transposed, backwards
    add({rows, c * in, c * out}, {columns, -in, out}, (c - 1) * in, false);       // mirrored rows
    add({rows, 0, c * out}, {columns, in, out}, 0, false);                        // one row repeated
    add({rows, c * in, 2 * c * out}, {columns, in, 2 * out}, 0, false);           // every second element of the tensor
    add({rows, 0, c * out}, {columns, 0, out}, 0, true);                          // fill
    assemble_wave(boxes, op, false, rng());
  }
}

TEST_P(DeviceSuite, EveryPairOfTypesConvertsAsTheModelDoes) {
  std::mt19937_64 rng(49);
  for (NumberType from : testing::kSourceTypes) {
    std::vector<std::byte> numbers = testing::notable_numbers(from, 5);
    const std::uint32_t in = number_bytes(from);
    if (support::kThreadSanitizer) numbers.resize(std::min<std::size_t>(numbers.size(), 1000 * in));
    const std::size_t count = numbers.size() / in;
    Memory source(*device_, numbers.size(), false), target(*device_, count * 8, false);
    upload(source.data(), numbers.data(), numbers.size());
    for (NumberType to : testing::kTargetTypes) {
      for (int scaled = 0; scaled < 2; ++scaled) {
        ElementOp op;
        op.element_bytes = in;
        op.conversion.from = from;
        op.conversion.to = to;
        if (scaled == 1) {
          op.conversion.scaled = true;
          op.conversion.scale = 0.0016514;
          op.conversion.offset = -273.15;
          op.conversion.fill_to_nan = is_float(to);
          std::memcpy(&op.conversion.fill_bits, numbers.data() + rng() % count * in, in);
        }
        const std::uint32_t out = op.result_bytes();
        Box box;
        box.src = source.data();
        box.dst = target.data();
        box.rank = 1;
        box.dim[0] = {count, in, out};
        expect_ok(device_->assemble({&box, 1}, op, nullptr, *stream_));
        finish();
        const std::vector<std::byte> got = download(target.data(), count * out);
        for (std::size_t i = 0; i < count; ++i) {
          std::byte want[8] = {};
          testing::model_convert(op.conversion, numbers.data() + i * in, want);
          std::uint64_t wanted = 0, found = 0, number = 0;
          std::memcpy(&wanted, want, out);
          std::memcpy(&found, got.data() + i * out, out);
          std::memcpy(&number, numbers.data() + i * in, in);
          ASSERT_EQ(found, wanted) << testing::name_of(from) << " bits " << number << " to " << testing::name_of(to)
                                   << (scaled == 1 ? ", scaled" : "");
        }
      }
    }
  }
}

TEST_P(DeviceSuite, EventsTellWhenWorkIsDone) {
  auto fresh = device_->query(*event_);
  ASSERT_TRUE(fresh.ok());
  EXPECT_TRUE(*fresh) << "nothing was recorded";
  expect_ok(device_->synchronize(*event_));
  Memory source(*device_, 1 << 20, true), target(*device_, 1 << 20, false);
  std::memset(source.data(), 1, 1 << 20);
  const Piece piece{source.data(), target.data(), 1 << 20};
  for (int i = 0; i < 20; ++i) {
    expect_ok(device_->copy_to_device({&piece, 1}, *stream_));
    expect_ok(device_->record(*event_, *stream_));  // repeatedly on one event
  }
  for (;;) {
    auto done = device_->query(*event_);
    ASSERT_TRUE(done.ok());
    if (*done) break;
  }
  expect_ok(device_->synchronize(*event_));
}

TEST_P(DeviceSuite, AStreamKeepsItsOrderAndAnEventGivesSlabsBack) {
  // Three slabs in flight, as in a reader: fill one, copy it, assemble elsewhere, copy the result back, and reuse the
  // slab when its event is done.
  constexpr std::size_t kSlab = 100003;
  const int waves = small_run() ? 12 : 60;
  struct Slab {
    std::unique_ptr<Memory> in, on_device, assembled, out;
    std::unique_ptr<Event> done;
    int wave = -1;
  };
  std::vector<Slab> slabs(3);
  for (Slab& slab : slabs) {
    slab.in = std::make_unique<Memory>(*device_, kSlab, true);
    slab.out = std::make_unique<Memory>(*device_, kSlab, true);
    slab.on_device = std::make_unique<Memory>(*device_, kSlab, false);
    slab.assembled = std::make_unique<Memory>(*device_, kSlab, false);
    slab.done = device_->create_event().value();
  }
  auto check = [&](Slab& slab) {
    if (slab.wave < 0) return;
    expect_ok(device_->synchronize(*slab.done));
    std::vector<std::byte> want(kSlab);
    testing::fill_random(want.data(), kSlab, static_cast<std::uint64_t>(slab.wave));
    std::reverse(want.begin(), want.end());
    EXPECT_TRUE(std::memcmp(slab.out->data(), want.data(), kSlab) == 0) << "wave " << slab.wave;
  };
  for (int wave = 0; wave < waves; ++wave) {
    Slab& slab = slabs[static_cast<std::size_t>(wave) % slabs.size()];
    check(slab);
    slab.wave = wave;
    testing::fill_random(slab.in->data(), kSlab, static_cast<std::uint64_t>(wave));
    std::vector<Piece> pieces, back;
    for (std::size_t at = 0; at < kSlab; at += 5001) {
      const std::size_t bytes = std::min<std::size_t>(5001, kSlab - at);
      pieces.insert(pieces.begin(), {slab.in->data() + at, slab.on_device->data() + at, bytes});
      back.insert(back.begin(), {slab.assembled->data() + at, slab.out->data() + at, bytes});
    }
    expect_ok(device_->copy_to_device(pieces, *stream_));
    Box box;
    box.src = slab.on_device->data() + kSlab - 1;
    box.dst = slab.assembled->data();
    box.rank = 1;
    box.dim[0] = {kSlab, -1, 1};
    expect_ok(device_->assemble({&box, 1}, ElementOp{1, 1}, nullptr, *stream_));
    expect_ok(device_->copy_to_host(back, *stream_));
    expect_ok(device_->record(*slab.done, *stream_));
  }
  for (Slab& slab : slabs) check(slab);
}

TEST_P(DeviceSuite, StreamsOfTheirOwnDoNotDisturbEachOther) {
  constexpr std::size_t kBytes = 200000;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Memory>> in, out;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(device_->create_stream().value());
    events.push_back(device_->create_event().value());
    in.push_back(std::make_unique<Memory>(*device_, kBytes, true));
    out.push_back(std::make_unique<Memory>(*device_, kBytes, false));
    testing::fill_random(in.back()->data(), kBytes, static_cast<std::uint64_t>(i));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<Piece> pieces;
    for (std::size_t at = 0; at < kBytes; at += 1000)
      pieces.insert(pieces.begin(), {in[i]->data() + at, out[i]->data() + at, 1000});
    expect_ok(device_->copy_to_device(pieces, *streams[i]));
    expect_ok(device_->record(*events[i], *streams[i]));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    expect_ok(device_->synchronize(*events[i]));
    const std::vector<std::byte> got = download(out[i]->data(), kBytes);
    EXPECT_TRUE(std::memcmp(got.data(), in[i]->data(), kBytes) == 0);
  }
}

TEST_P(DeviceSuite, AStreamMayBeDestroyedWithWorkQueued) {
  Memory source(*device_, 1 << 20, true), target(*device_, 1 << 20, false);
  std::memset(source.data(), 3, 1 << 20);
  const Piece piece{source.data(), target.data(), 1 << 20};
  {
    auto stream = device_->create_stream();
    ASSERT_TRUE(stream.ok());
    expect_ok(device_->copy_to_device({&piece, 1}, **stream));
    expect_ok(device_->record(*event_, **stream));
  }
  expect_ok(device_->synchronize(*event_));
  EXPECT_TRUE(download(target.data(), 1 << 20) == std::vector<std::byte>(1 << 20, std::byte{3}));
}

TEST_P(DeviceSuite, OrdersWithTheCallersDefaultStream) {
  expect_ok(device_->wait_native(*stream_, nullptr));
  expect_ok(device_->record(*event_, *stream_));
  expect_ok(device_->make_native_wait(*event_, nullptr));
  finish();
}

}  // namespace headrace::device
