// Every codec row with device code on every kind of device: valid streams decode exactly, and a bad stream is refused
// without affecting the others, whatever the batch's size and order.
#include <algorithm>
#include <map>
#include <set>

#include "backends/dev_host/staged_decoder.h"
#include "device/decode_scratch.h"
#include "support/decode_corpus.h"
#include "support/device_suite.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace headrace::device {
namespace {

using test::CorpusGroup;
using test::CorpusStream;

class ChunkDecoderTest : public DeviceSuite {
 protected:
  void SetUp() override {
    DeviceSuite::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    static const std::vector<CorpusGroup> corpus = [] {
      test::CorpusOptions options;
      options.largest = few_and_small() ? 4096 : 70000;
      return test::make_decode_corpus(options);
    }();
    groups_ = corpus;
  }

  // ThreadSanitizer checks every byte moved or compared, and short chunks exercise the threads just as well.
  static bool few_and_small() { return small_run() || support::kThreadSanitizer; }

  // A decoder for the group's streams, for batches of any size.
  std::unique_ptr<ChunkDecoder> decoder_of(const CorpusGroup& group) {
    auto made = test::make_decoder(group, *device_);
    EXPECT_TRUE(made.ok()) << group.name << ": " << made.status().to_string();
    return made.ok() ? std::move(*made) : nullptr;
  }

  // In: the index, or the word passed instead of one. Out: how it was used, and what was collected.
  struct ChunkIndex {
    std::uint32_t word = kIndexCollect;
    std::vector<std::byte> bytes;
  };

  // Decodes the streams in one batch, with contiguous inputs and outputs 5 to 8 bytes apart. Outcomes and bytes must
  // equal the CPU's, and the gaps between outputs must not change.
  void expect_as_cpu(const CorpusGroup& group, const std::vector<const CorpusStream*>& batch,
                     std::vector<ChunkIndex>* chunk_indices = nullptr) {
    const auto decoder = decoder_of(group);
    ASSERT_NE(decoder, nullptr);
    const std::size_t capacity = group.stage.capacity_bytes, n = batch.size();
    std::vector<std::byte> sources;
    std::vector<std::size_t> from, to;
    std::size_t out_bytes = 5;
    for (const CorpusStream* stream : batch) {
      from.push_back(sources.size());
      sources.insert(sources.end(), stream->encoded.begin(), stream->encoded.end());
      to.push_back(out_bytes);
      out_bytes += capacity + 5 + to.size() % 4;
    }
    out_bytes = to.back() + capacity;  // the last input and output end where their allocations end
    Memory in(*device_, std::max<std::size_t>(1, sources.size()), false), out(*device_, out_bytes, false);
    upload(in.data(), sources.data(), sources.size());
    const std::vector<std::byte> before(out_bytes, std::byte{0xA5});
    upload(out.data(), before.data(), before.size());
    std::vector<DecodeItem> items;
    for (std::size_t i = 0; i < n; ++i) {
      items.push_back({in.data() + from[i], batch[i]->encoded.size(), out.data() + to[i]});
    }
    const std::uint64_t scratch_bytes = decoder->scratch_bytes(limits_of(items));
    Memory scratch(*device_, std::max<std::size_t>(1, scratch_bytes), false),
        outcome_memory(*device_, n * sizeof(DecodeOutcome), true);
    const std::vector<std::byte> dirt(scratch_bytes, std::byte{0xC3});
    upload(scratch.data(), dirt.data(), dirt.size());
    const std::span<DecodeOutcome> outcomes{reinterpret_cast<DecodeOutcome*>(outcome_memory.data()), n};
    std::fill(outcomes.begin(), outcomes.end(), DecodeOutcome{0});
    const std::size_t area = DecodeIndices::bytes(n, decoder->index_stride());
    Memory index_pinned(*device_, area, true), index_there(*device_, area, false);
    DecodeIndices indices;
    if (chunk_indices != nullptr) {
      indices = {index_pinned.data(), index_there.data(), decoder->index_stride(), static_cast<std::uint32_t>(n)};
      for (std::size_t i = 0; i < n; ++i) {
        const ChunkIndex& own = (*chunk_indices)[i];
        ASSERT_LE(own.bytes.size(), indices.stride);
        indices.given(i) = own.bytes.empty() ? own.word : static_cast<std::uint32_t>(own.bytes.size());
        std::copy(own.bytes.begin(), own.bytes.end(), indices.entries(i));
      }
    }
    expect_ok(decoder->decode(items, {scratch.data(), scratch_bytes}, outcomes, *stream_, nullptr, indices));
    finish();
    for (std::size_t i = 0; chunk_indices != nullptr && i < n; ++i) {
      ChunkIndex& own = (*chunk_indices)[i];
      const bool collected = own.bytes.empty() && own.word == kIndexCollect;
      own.word = indices.made(i);
      if (!collected || own.word == kIndexNothing || own.word >= kIndexUseless) continue;
      ASSERT_LE(own.word, indices.stride);
      own.bytes.assign(indices.entries(i), indices.entries(i) + own.word);
    }
    const std::vector<std::byte> got = download(out.data(), out_bytes);
    std::size_t gap = 0;
    for (std::size_t i = 0; i < n; ++i) {
      SCOPED_TRACE(group.name + ", chunk " + std::to_string(i) + " of " + std::to_string(n));
      const DecodeOutcome outcome = outcomes[i];
      for (; gap < to[i]; ++gap) ASSERT_EQ(got[gap], std::byte{0xA5}) << "a byte between the outputs";
      gap = to[i] + capacity;
      if (outcome.host_only()) {
        EXPECT_TRUE(group.may_be_host_only || !batch[i]->valid) << "left to the CPU";
        continue;
      }
      ASSERT_EQ(outcome.ok(), batch[i]->valid) << decode_reason_text(outcome.reason()) << " at " << outcome.position();
      if (outcome.ok()) {
        ASSERT_TRUE(support::same_bytes(batch[i]->plain, std::span(got).subspan(to[i], batch[i]->plain.size())));
      } else {
        EXPECT_NE(outcome.reason(), DecodeReason::kNone);
        EXPECT_EQ(outcome.stage(), 0u);
      }
    }
  }

  // Groups of chunks with many short sequences, which decode indexes are for, one for each codec whose decoder uses
  // them.
  std::vector<CorpusGroup> indexed_groups() {
    std::map<std::string, const CorpusGroup*> found;
    for (const CorpusGroup& group : groups_) {
      if (group.stage.capacity_bytes < 1000 || !group.cpu->has_decode_index()) continue;
      const auto decoder = decoder_of(group);
      if (decoder == nullptr || decoder->index_stride() == 0 || !group.cpu->make_encoder().ok()) continue;
      found.try_emplace(group.codec + std::to_string(group.stage.parameters[0]), &group);
    }
    std::vector<CorpusGroup> out;
    for (const auto& [name, like] : found) {
      for (const std::size_t bytes :
           {std::size_t{6000}, few_and_small() ? std::size_t{20'000} : std::size_t{700'000}}) {
        CorpusGroup& group = out.emplace_back();
        group.name = "indexed/" + name + "/" + std::to_string(bytes);
        group.codec = like->codec;
        group.cpu = like->cpu;
        group.stage = like->stage;
        group.stage.capacity_bytes = bytes;
        const auto encoder = std::move(group.cpu->make_encoder()).value();
        for (unsigned seed = 0; seed < 7; ++seed) {
          std::vector<std::byte> plain(bytes);
          std::uint32_t state = seed + 1;
          const auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };
          for (std::size_t i = 0; i < bytes;) {
            const std::uint32_t word = next() % (5 + 9 * seed) * 2654435761u;
            for (unsigned k = 0; k < 4 && i < bytes; ++k) plain[i++] = static_cast<std::byte>(word >> (8 * k));
            if (i < bytes) plain[i++] = static_cast<std::byte>(next());
          }
          std::vector<std::byte> encoded(encoder->bound_bytes(bytes));
          encoded.resize(encoder->encode(plain, encoded).value());
          group.streams.push_back(test::decode_on_cpu(group, encoded));
          EXPECT_TRUE(group.streams.back().valid);
        }
        group.streams.push_back(cut_short(group));
      }
    }
    return out;
  }

  // For each codec, one group of streams that a device must decode, with chunks of about 1,000 bytes.
  std::vector<const CorpusGroup*> small_groups() const {
    std::map<std::string, const CorpusGroup*> found;
    for (const CorpusGroup& group : groups_) {
      const std::size_t bytes = group.stage.capacity_bytes;
      if (group.name.find("/seed/") != std::string::npos || group.name.ends_with("/cpu")) continue;
      if (bytes >= 1000 && bytes <= 1536) found[group.codec] = &group;
    }
    std::vector<const CorpusGroup*> out;
    for (const auto& [codec, group] : found) out.push_back(group);
    return out;
  }
  static std::vector<const CorpusStream*> valid_of(const CorpusGroup& group) {
    std::vector<const CorpusStream*> out;
    for (const CorpusStream& stream : group.streams) {
      if (stream.valid) out.push_back(&stream);
    }
    return out;
  }
  // The first valid stream without its last quarter.
  static CorpusStream cut_short(const CorpusGroup& group) {
    const std::vector<std::byte>& whole = valid_of(group).front()->encoded;
    return test::decode_on_cpu(group, {whole.data(), whole.size() - whole.size() / 4});
  }

  std::vector<CorpusGroup> groups_;
};

TEST_P(ChunkDecoderTest, DecodesWhatTheCpuDecodes) {
  std::map<std::string, std::size_t> valid;
  std::set<std::string> generated;  // the other codecs have no encoder, only seeds
  for (const CorpusGroup& group : groups_) {
    if (group.name.find("/seed/") == std::string::npos) generated.insert(group.codec);
    std::vector<const CorpusStream*> batch;
    for (const CorpusStream& stream : group.streams) {
      batch.push_back(&stream);
      valid[group.codec] += stream.valid;
    }
    expect_as_cpu(group, batch);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(valid.size(), 1u);
  for (const auto& [codec, count] : valid) EXPECT_GT(count, generated.contains(codec) ? 10u : 3u) << codec;
}

TEST_P(ChunkDecoderTest, OneBadChunkAnywhereLeavesTheOthersExact) {
  ASSERT_FALSE(small_groups().empty());
  for (const CorpusGroup* group : small_groups()) {
    const CorpusStream bad = cut_short(*group);
    ASSERT_FALSE(bad.valid) << group->name;
    const auto valid = valid_of(*group);
    const std::size_t n = few_and_small() ? 9 : 67;
    for (std::size_t position = 0; position < n; ++position) {
      std::vector<const CorpusStream*> batch;
      for (std::size_t i = 0; i < n; ++i) batch.push_back(i == position ? &bad : valid[i % valid.size()]);
      expect_as_cpu(*group, batch);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ChunkDecoderTest, EmptyChunksAreRefusedAlone) {
  const CorpusStream empty;
  for (const CorpusGroup* group : small_groups()) {
    const auto valid = valid_of(*group);
    expect_as_cpu(*group, {&empty});
    expect_as_cpu(*group, {&empty, valid.front(), &empty, valid.back(), &empty});
    expect_as_cpu(*group, std::vector<const CorpusStream*>(100, &empty));
  }
}

TEST_P(ChunkDecoderTest, BatchesOfAnySize) {
  std::vector<std::size_t> sizes{1, 2, 3, 31, 32, 33, 127, 129, 1000};
  if (!few_and_small()) sizes.insert(sizes.end(), {4096, 20000});
  for (const CorpusGroup* group : small_groups()) {
    const CorpusStream bad = cut_short(*group);
    const auto valid = valid_of(*group);
    for (const std::size_t n : sizes) {
      std::vector<const CorpusStream*> batch;
      for (std::size_t i = 0; i < n; ++i) batch.push_back(i % 100 == 57 ? &bad : valid[i % valid.size()]);
      expect_as_cpu(*group, batch);
      if (HasFatalFailure()) return;
    }
  }
}

// Whether the index is one that a decode has collected, none, or garbage, every chunk decodes as on the CPU, and a
// wrong index is reported.
TEST_P(ChunkDecoderTest, DecodeIndicesChangeNothing) {
  struct Indexing {
    Indexing() { staged_decode_model().index = true; }
    ~Indexing() { staged_decode_model().index = false; }
  };
  const Indexing indexing;
  const std::vector<CorpusGroup> groups = indexed_groups();
  ASSERT_FALSE(groups.empty());
  const int turns = std::getenv("HEADRACE_UNDER_SANITIZER") == nullptr ? 2 : 1;  // a minute per turn
  std::size_t collected = 0;
  for (const CorpusGroup& group : groups) {
    SCOPED_TRACE(group.name);
    std::vector<const CorpusStream*> batch;
    for (const CorpusStream& stream : group.streams) batch.push_back(&stream);
    const std::size_t n = batch.size();
    const auto is_index = [](const ChunkIndex& index) { return !index.bytes.empty(); };
    std::vector<ChunkIndex> first(n);
    expect_as_cpu(group, batch, &first);
    if (HasFatalFailure()) return;
    std::vector<ChunkIndex> given = first;
    for (std::size_t i = 0; i < n; ++i) {
      collected += is_index(first[i]) && batch[i]->valid;
      if (!is_index(given[i])) given[i].word = kIndexNone;
    }
    for (int again = 0; again < turns; ++again) {
      std::vector<ChunkIndex> second = given;
      expect_as_cpu(group, batch, &second);
      if (HasFatalFailure()) return;
      for (std::size_t i = 0; i < n; ++i) {
        if (batch[i]->valid) {
          EXPECT_EQ(second[i].word, kIndexNothing) << i;
        }
      }
    }
    for (int kind = 0; kind < 3 * turns; ++kind) {
      SCOPED_TRACE("wrong indices, kind " + std::to_string(kind));
      std::vector<ChunkIndex> wrong = given;
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<std::byte>& bytes = wrong[i].bytes;
        if (bytes.empty() || i % 3 == 2) continue;  // some indexes stay right, next to wrong ones
        if (kind == 0) std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
        if (kind == 1) std::fill(bytes.begin(), bytes.end(), std::byte{0});
        if (kind == 2) bytes[bytes.size() / 2] ^= std::byte{1};
        if (kind == 3) bytes.pop_back();
        if (kind == 4) std::rotate(bytes.begin(), bytes.begin() + 1, bytes.end());
        for (std::size_t k = 0; kind == 5 && k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(k * 73 + i * 31);
      }
      const std::vector<ChunkIndex> was = wrong;
      expect_as_cpu(group, batch, &wrong);
      if (HasFatalFailure()) return;
      for (std::size_t i = 0; i < n; ++i) {
        if (!is_index(was[i]) || !batch[i]->valid) continue;
        EXPECT_EQ(wrong[i].word, was[i].bytes == first[i].bytes ? kIndexNothing : kIndexBad) << i;
      }
    }
  }
  EXPECT_GT(collected, groups.size());
}

TEST_P(ChunkDecoderTest, WithLittleMemorySmallerBatchesSucceed) {
  for (const CorpusGroup* group : small_groups()) {
    const auto decoder = decoder_of(*group);
    ASSERT_NE(decoder, nullptr);
    const CorpusStream& stream = *valid_of(*group).front();
    // The scratch size depends on the limits alone and grows at most in proportion to them.
    DecodeLimits one, many;
    one.items = 1, one.src_bytes = one.largest_src_bytes = stream.encoded.size();
    many = one;
    many.items = 1'000'000, many.src_bytes *= many.items;
    EXPECT_GT(decoder->scratch_bytes(one), 0u);
    EXPECT_LE(decoder->scratch_bytes(many), decoder->scratch_bytes(one) * many.items);
    EXPECT_EQ(decoder->scratch_bytes(one), decoder->scratch_bytes(one));
    auto absurd = device_->allocate(std::size_t{1} << 50);
    ASSERT_FALSE(absurd.ok());
    EXPECT_EQ(absurd.status().code(), Code::kResourceExhausted);
    // A batch that does not fit into its scratch is refused before anything is queued.
    const std::uint64_t need = decoder->scratch_bytes(one);
    if (GetParam() == "cuda" && need >= 512) {
      Memory in(*device_, stream.encoded.size(), false), out(*device_, group->stage.capacity_bytes, false);
      Memory scratch(*device_, need, false), outcomes(*device_, sizeof(DecodeOutcome), true);
      const DecodeItem item{in.data(), stream.encoded.size(), out.data()};
      EXPECT_FALSE(decoder
                       ->decode({&item, 1}, {scratch.data(), need - 256},
                                {reinterpret_cast<DecodeOutcome*>(outcomes.data()), 1}, *stream_)
                       .ok());
    }
    expect_as_cpu(*group, {&stream});
  }
}

TEST_P(ChunkDecoderTest, NothingIsDecodedOfAnEmptyBatch) {
  for (const CorpusGroup* group : small_groups()) {
    const auto decoder = decoder_of(*group);
    ASSERT_NE(decoder, nullptr);
    expect_ok(decoder->decode({}, {}, {}, *stream_));
    finish();
  }
}

TEST_P(ChunkDecoderTest, RefusesUnsupportedStages) {
  EXPECT_FALSE(device_->make_decoder({}).ok());
  DecodeStage unknown;
  unknown.codec = "no such codec";
  unknown.capacity_bytes = 100;
  auto made = device_->make_decoder({&unknown, 1});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kUnsupported);
  EXPECT_NE(made.status().message().find("no such codec"), std::string::npos);
}

std::vector<std::string> kinds() {
  std::vector<std::string> out;
  for (const DeviceRow& row : devices()) {
    if (std::string_view(row.kind) != "host") out.push_back(row.kind);  // decodes straight into the tensor instead
  }
  return out;
}

}  // namespace
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceSuite);  // device_conformance_test runs it
namespace {

INSTANTIATE_TEST_SUITE_P(Kinds, ChunkDecoderTest, ::testing::ValuesIn(kinds()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace headrace::device
