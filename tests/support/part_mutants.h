// Mutants of parts of chunks: a damaged stream, an interval of decoded bytes, and what StreamCoder::cut() makes of
// both. Damage is to bytes (mutation.h), and to what the fields of a Blosc container mean: the starts of its blocks,
// the sizes of its streams, its own sizes and flags. A mutant depends only on the group, the seed and its index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "device/decode.h"
#include "support/decode_corpus.h"
#include "support/mutation.h"

namespace headrace::test {

struct PartMutant {
  std::vector<std::byte> stream;
  bool untouched = false;  // `stream` is one of the group's streams
  std::uint32_t source = 0;
  std::uint64_t begin = 0, end = 0;  // the decoded bytes that are wanted; perhaps no valid interval
  bool is_cut = false;
  codec::StreamPart part;
  std::vector<std::byte> container;  // the part: its head, then its range of the stream
};

// Threads: every call from any number of threads, each with its own mutant and Judge.
class PartMutants {
 public:
  // REQUIRES: group.cpu->part_table_bytes() > 0; the group outlives this object.
  explicit PartMutants(const CorpusGroup& group);

  // Overwrites `out`. Returns what is wrong with the cut itself: a part outside of its stream, for instance; else "".
  std::string make(std::uint64_t seed, std::uint64_t index, PartMutant& out) const;
  std::size_t longest() const noexcept { return longest_ + MutationPlan::kMaxAppended; }  // of a stream, so of a part

  // Compares what a decoder made of a part with what the CPU's decoder makes of it, and of the whole stream.
  class Judge {
   public:
    explicit Judge(const CorpusGroup& group);
    // Returns what is wrong with the outcome, or "". `bytes`: the part's output, of part.decoded_bytes.
    std::string check(const PartMutant& mutant, device::DecodeOutcome outcome, std::span<const std::byte> bytes);
    // Counts of parts: judged, and of those whose decoding succeeded, and whose whole stream decodes.
    std::uint64_t judged = 0, decoded = 0, of_valid = 0;

   private:
    bool decode(std::span<const std::byte> stream, std::vector<std::byte>& out);
    const CorpusGroup& group_;
    const std::unique_ptr<codec::Scratch> scratch_;
    std::vector<std::byte> whole_, part_;
  };

 private:
  void damage_meaning(Draw& draw, std::vector<std::byte>& stream) const;
  void choose_interval(Draw& draw, PartMutant& mutant) const;

  const CorpusGroup& group_;
  std::vector<unsigned char> bytes_;
  std::vector<std::uint64_t> offset_;
  std::vector<std::uint32_t> length_;
  std::size_t longest_ = 0;
};

}  // namespace headrace::test
