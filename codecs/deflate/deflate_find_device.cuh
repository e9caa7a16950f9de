// Step of the DEFLATE decoder that finds positions where dynamic blocks may begin. Device code without a CUDA header.
//
// A dynamic block's header obeys so many rules that bits which satisfy all of them are very likely a header. Every bit
// of a segment is tried. First the fixed fields are checked, 32 positions at a time. Of the fifth that remains, each
// lane checks one position for a complete precode (sums of four lengths, from a table). The few that still remain are
// parsed to the end of the header. Stored and fixed blocks have no such headers; runs pass through them.
#pragma once

#include "deflate_headers_device.cuh"
#include "deflate_tables_device.cuh"

namespace headrace::codec::gpu::deflate {

inline constexpr unsigned kFindWarps = 4;
inline constexpr unsigned kFindParts = 4;  // per segment, one warp each
inline constexpr std::uint32_t kFindBits = kSegmentBits / kFindParts;
// A header may reach past the range, with its fixed fields and precode lengths.
inline constexpr unsigned kFindWords = kFindBits / 32 + 5;
inline constexpr unsigned kFindTurnBits = 32 * 32;  // bits whose fixed fields a warp checks per turn
// Positions per turn with valid fixed fields (never two adjacent ones), plus less than a warp's worth left from the
// turn before.
inline constexpr unsigned kPossible = kFindTurnBits / 2 + 32;
inline constexpr unsigned kCandidates = 64;  // queue of a warp: headers with a complete precode
// Approximate limit of headers parsed per segment; further candidates are ignored.
inline constexpr std::uint32_t kMaxCandidates = 512;

// A member's last block is searched for only this close to the stream's end, which halves the work. Last blocks of
// members in the middle of a stream belong to the run before.
inline constexpr std::uint32_t kLastBlockBits = 1u << 20;

// A bit of a stream at which a block may begin.
struct Candidate {
  std::uint32_t at, segment, stream;
};
using Candidates = Candidate[kCandidates];

struct FindSpace {
  Byte sums[4096];  // of four lengths of the precode: how many of the 128 codes they use; 255: that many or more
  std::uint32_t words[kFindWarps][kFindWords];
  std::uint16_t possible[kFindWarps][kPossible];
  Candidates candidates[kFindWarps];
};

__device__ inline void fill_sums(FindSpace& space) {
  for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x) {
    unsigned sum = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned length = i >> (3 * k) & 7;
      if (length != 0) sum += 128u >> length;
    }
    space.sums[i] = static_cast<Byte>(sum < 255 ? sum : 255);
  }
}

// Among the 32 bits starting with the lowest of `low`, those at which the fixed fields of a dynamic block's header are
// valid: block type and numbers of lengths. `high`: the bits after `low`. `last`: include a member's last block.
__device__ inline std::uint32_t may_begin(std::uint32_t low, std::uint32_t high, bool last) {
  const auto ahead = [&](unsigned bits) { return __funnelshift_r(low, high, bits); };
  const std::uint32_t type = ~ahead(1) & ahead(2);
  const std::uint32_t literals = ahead(4) & ahead(5) & ahead(6) & ahead(7);      // 287 or 288, which are invalid
  const std::uint32_t distances = ahead(9) & ahead(10) & ahead(11) & ahead(12);  // 31 or 32, which are invalid
  return type & ~literals & ~distances & (last ? ~0u : ~low);
}

// Whether the precode is complete in a header that begins at bit `at` of a window.
__device__ inline bool precode_is_complete(const FindSpace& space, const std::uint32_t* words, std::uint32_t at) {
  const std::uint32_t w = at / 32, bit = at % 32;
  const std::uint32_t second = words[w + 1], third = words[w + 2];
  const std::uint32_t a = __funnelshift_r(words[w], second, bit), b = __funnelshift_r(second, third, bit),
                      c = __funnelshift_r(third, words[w + 3], bit);
  // Shifts its lengths, 12 to 57 bits, to the top, which drops the bits after them.
  const unsigned out = 64 - 3 * ((a >> 13 & 15) + 4);
  const std::uint64_t lengths =
      (static_cast<std::uint64_t>(__funnelshift_r(b, c, 17)) << 32 | __funnelshift_r(a, b, 17)) << out;
  const auto low = static_cast<std::uint32_t>(lengths), high = static_cast<std::uint32_t>(lengths >> 32);
  const unsigned sum = space.sums[high >> 20] + space.sums[high >> 8 & 4095] +
                       space.sums[__funnelshift_r(low, high, 28) & 4095] + space.sums[low >> 16 & 4095] +
                       space.sums[low >> 4 & 4095];
  return sum == 1u << kPrecodeLog;
}

// Reads bits of a stream in device memory sequentially, with the next word prefetched.
class StreamBits {
 public:
  StreamBits() = default;
  __device__ StreamBits(const Input& input, std::uint32_t at) {
    const std::uint32_t bit = at + input.lead;
    next_ = bit / 32;
    const std::uint32_t first = input.word(next_), second = input.word(next_ + 1);
    low_ = __funnelshift_r(first, second, bit % 32);
    high_ = second >> (bit % 32);
    ahead_ = input.word(next_ + 2);
    next_ += 3;
    have_ = 64 - bit % 32;
  }
  // Ensures that 32 bits are available.
  __device__ void fill(const Input& input) {
    if (have_ >= 32) return;
    low_ |= ahead_ << have_;
    high_ = __funnelshift_l(ahead_, 0, have_);
    ahead_ = input.word(next_++);
    have_ += 32;
  }
  __device__ std::uint32_t low() const { return low_; }
  // REQUIRES: bits < 32.
  __device__ std::uint32_t take(unsigned bits) {
    const std::uint32_t out = low_ & ((1u << bits) - 1);
    low_ = __funnelshift_r(low_, high_, bits);
    high_ >>= bits;
    have_ -= bits;
    return out;
  }

 private:
  std::uint32_t next_ = 0, low_ = 0, high_ = 0, ahead_ = 0;
  unsigned have_ = 0;
};

// Reads a header's code lengths, by one lane, to check whether both codes are complete.
class HeaderReader {
 public:
  enum class State : std::uint8_t { kReading, kGood, kBad };

  HeaderReader() = default;
  // REQUIRES: the precode of the header at `at` is complete.
  __device__ HeaderReader(const Input& input, std::uint32_t at) : bits_(input, at + 3) {
    literals_ = bits_.take(5) + 257;
    total_ = literals_ + bits_.take(5) + 1;
    const unsigned present = bits_.take(4) + 4;
    std::uint64_t lengths = 0;
    for (unsigned i = 0; i < present; ++i) {
      bits_.fill(input);
      lengths |= static_cast<std::uint64_t>(bits_.take(3)) << (3 * i);
    }
    // Number of code words of each length, a byte each.
    std::uint64_t counts = 0;
    for (unsigned i = 0; i < present; ++i) {
      const unsigned length = static_cast<unsigned>(lengths >> (3 * i)) & 7;
      if (length != 0) counts += std::uint64_t{1} << (8 * length);
    }
    std::uint64_t next = (counts << 8) * 0x0101010101010101;  // a byte each: number of shorter code words
    std::uint64_t ends = 0, offsets = 0;
    unsigned first = 0;
    for (unsigned length = 1; length <= kPrecodeLog; ++length) {
      const unsigned count = static_cast<unsigned>(counts >> (8 * length)) & 255;
      const unsigned index = static_cast<unsigned>(next >> (8 * length)) & 255;
      ends |= static_cast<std::uint64_t>((first + count) << (kPrecodeLog - length)) << (8 * (length - 1));
      offsets |= static_cast<std::uint64_t>((index - first) & 255) << (8 * (length - 1));
      first = (first + count) * 2;
    }
    ends |= std::uint64_t{1u << kPrecodeLog} << 56;
    for (unsigned symbol = 0; symbol < kPrecodeSymbols; ++symbol) {
      const unsigned length = static_cast<unsigned>(lengths >> (3 * precode_place(symbol))) & 7;
      if (length == 0) continue;
      const unsigned place = static_cast<unsigned>(next >> (8 * length)) & 31;
      next += std::uint64_t{1} << (8 * length);
      const std::uint64_t shifted = static_cast<std::uint64_t>(symbol) << (5 * (place < 12 ? place : place - 12));
      if (place < 12) {
        sorted_[0] |= shifted;
      } else {
        sorted_[1] |= shifted;
      }
    }
    for (unsigned k = 0; k < 2; ++k) {
      ends_[k] = static_cast<std::uint32_t>(ends >> (32 * k));
      offsets_[k] = static_cast<std::uint32_t>(offsets >> (32 * k));
    }
  }

  // Reads one symbol of the precode.
  __device__ State step(const Input& input) {
    bits_.fill(input);
    // Compares the next seven bits, as a number, with the ends of all lengths, a byte each.
    const std::uint32_t word = __brev(bits_.low()) >> (32 - kPrecodeLog);
    const std::uint32_t each = word * 0x01010101 | 0x80808080;
    const auto length = 1 + static_cast<unsigned>(__popc((each - ends_[0]) & 0x80808080)) +
                        static_cast<unsigned>(__popc((each - ends_[1]) & 0x80808080));
    const unsigned place = ((word >> (kPrecodeLog - length)) + __byte_perm(offsets_[0], offsets_[1], length - 1)) & 255;
    const unsigned symbol =
        static_cast<unsigned>(place < 12 ? sorted_[0] >> (5 * place) : sorted_[1] >> (5 * (place - 12))) & 31;
    bits_.take(length);
    unsigned repeat = 1;
    if (symbol < 16) {
      before_ = symbol;
    } else {
      if (symbol == 16 && done_ == 0) return State::kBad;
      repeat = bits_.take(symbol == 16 ? 2 : symbol == 17 ? 3 : 7) + (symbol == 18 ? 11 : 3);
      if (symbol != 16) before_ = 0;
    }
    if (repeat > total_ - done_) return State::kBad;
    if (before_ != 0) {
      const std::uint32_t share = 1u << (kMaxLength - before_);
      const unsigned of_literals = done_ >= literals_ ? 0 : done_ + repeat <= literals_ ? repeat : literals_ - done_;
      literal_space_ += of_literals * share;
      distance_space_ += (repeat - of_literals) * share;
      distance_words_ += repeat - of_literals;
      end_of_block_ = end_of_block_ || (done_ <= kEndOfBlock && done_ + repeat > kEndOfBlock);
      if (literal_space_ > 1u << kMaxLength || distance_space_ > 1u << kMaxLength) return State::kBad;
    }
    done_ += repeat;
    if (done_ < total_) return State::kReading;
    if (!end_of_block_ || literal_space_ != 1u << kMaxLength) return State::kBad;
    const bool good = distance_space_ == 1u << kMaxLength || distance_words_ == 0 ||
                      (distance_words_ == 1 && distance_space_ == 1u << (kMaxLength - 1));
    return good ? State::kGood : State::kBad;
  }

 private:
  StreamBits bits_;
  std::uint32_t ends_[2] = {0, 0};     // end of the code words of each length, as numbers of seven bits
  std::uint32_t offsets_[2] = {0, 0};  // added to a code word, gives its index in `sorted`, modulo 256
  std::uint64_t sorted_[2] = {0, 0};   // symbols in the order of their code words, five bits each
  unsigned literals_ = 0, total_ = 0, done_ = 0, before_ = 0;
  std::uint32_t literal_space_ = 0, distance_space_ = 0, distance_words_ = 0;
  bool end_of_block_ = false;
};

// A warp's queue of candidates, and the headers that its lanes are parsing. A lane that has finished a header takes the
// next one. Candidates wait until there are enough to keep the lanes busy, whichever segments they come from.
struct Headers {
  const Job& job;
  Candidates& waiting;
  const unsigned lane;
  std::uint32_t first = 0, count = 0;  // of the waiting candidates
  bool reading = false;
  Candidate own{};
  Input input{nullptr, 0};
  HeaderReader reader;

  __device__ Headers(const Job& j, Candidates& w, unsigned l) : job(j), waiting(w), lane(l) {}

  // Adds the candidates of the lanes with `found`. REQUIRES: fewer than a warp's worth are waiting.
  __device__ void add(bool found, const Candidate& candidate) {
    const unsigned votes = __ballot_sync(kAllLanes, found);
    if (found) {
      const auto place = static_cast<std::uint32_t>(__popc(votes & lanes_below(lane)));
      waiting[(first + count + place) % kCandidates] = candidate;
    }
    count += static_cast<std::uint32_t>(__popc(votes));
    __syncwarp();
  }
  // Parses until no candidate waits and few lanes are busy; at the `end`, until none is.
  __device__ void read(bool end) {
    constexpr int kFewLanes = 16;
    constexpr unsigned kSteps = 8;  // between checks for idle lanes
    for (;;) {
      const unsigned busy = __ballot_sync(kAllLanes, reading);
      if (count != 0 && __popc(busy) <= kFewLanes) {
        const auto place = static_cast<std::uint32_t>(__popc(~busy & lanes_below(lane)));
        if (!reading && place < count) {
          own = waiting[(first + place) % kCandidates];
          const DeflateStream& stream = job.streams[own.stream];
          input = Input(stream.src, stream.src_bytes);
          reader = HeaderReader(input, own.at);
          reading = true;
        }
        const auto idle = static_cast<std::uint32_t>(32 - __popc(busy)), taken = idle < count ? idle : count;
        first += taken;
        count -= taken;
        __syncwarp();
        continue;
      }
      if (busy == 0 || (!end && __popc(busy) <= kFewLanes)) return;
      for (unsigned k = 0; k < kSteps && reading; ++k) {
        const HeaderReader::State state = reader.step(input);
        if (state == HeaderReader::State::kReading) continue;
        reading = false;
        if (state != HeaderReader::State::kGood) continue;
        if (atomicMin(&job.starts[own.segment], own.at) == kNone) {
          job.run_list[atomicAdd(&job.totals->runs, 1u)] = {own.segment, own.stream};
        }
      }
    }
  }
};

// Finds bits in [from, to), a part of a segment, at which a dynamic block may begin. By a warp.
__device__ inline void find_blocks(FindSpace& space, const Input& input, std::uint32_t from, std::uint32_t to,
                                   bool last, std::uint32_t segment, std::uint32_t stream, Headers& headers) {
  const unsigned warp = threadIdx.x / 32, lane = headers.lane;
  std::uint16_t* const possible = space.possible[warp];
  const BitSpan window = BitSpan::load(input, from, space.words[warp], kFindWords, lane);
  std::uint32_t left = 0, read = 0;
  const std::uint32_t bits = to - window.first;  // relative to where the first word begins
  for (std::uint32_t base = 0; base < bits; base += kFindTurnBits) {
    const std::uint32_t word = base / 32 + lane;
    std::uint32_t mask = 0;
    if (32 * word < bits) {
      mask = may_begin(window.words[word], window.words[word + 1], last);
      if (bits - 32 * word < 32) mask &= (1u << (bits - 32 * word)) - 1;
      if (word == 0) mask &= kAllLanes << (from - window.first);
    }
    const auto own = static_cast<std::uint32_t>(__popc(mask));
    const std::uint32_t upto = sum_upto(own, lane), all = left + __shfl_sync(kAllLanes, upto, 31);
    for (std::uint32_t x = left + upto - own; mask != 0; mask &= mask - 1, ++x) {
      possible[x] = static_cast<std::uint16_t>(32 * word + lowest_bit(mask));
    }
    __syncwarp();
    std::uint32_t x = 0;
    const bool end = base + kFindTurnBits >= bits;
    for (; x + 32 <= all || (end && x < all); x += 32) {
      const std::uint32_t at = possible[x + lane < all ? x + lane : 0];
      const bool found = x + lane < all && precode_is_complete(space, window.words, at);
      const std::uint32_t before = headers.count;
      headers.add(found, {window.first + at, segment, stream});
      read += headers.count - before;
      if (headers.count >= 32) headers.read(false);
      if (read >= kMaxCandidates) return;
    }
    // Moves the rest to the front for the next turn.
    left = end ? 0 : all - x;
    const std::uint16_t moved = possible[lane < left ? x + lane : 0];
    __syncwarp();
    if (lane < left) possible[lane] = moved;
    __syncwarp();
  }
}

// Finds each segment's start and lists the runs. REQUIRES: no segment has a start.
__device__ inline void find_body(const Job& job, FindSpace& space) {
  const unsigned lane = lane_id();
  const std::uint32_t streams = job.stream_count(), count = job.totals->searched;
  // Each stream's first run. A warp takes places for all its lanes at once.
  const std::uint32_t threads = gridDim.x * blockDim.x;
  for (std::uint32_t x = blockIdx.x * blockDim.x + threadIdx.x; x - lane < streams; x += threads) {
    const bool any = x < streams && job.states[x].segments != 0;
    const unsigned votes = __ballot_sync(kAllLanes, any);
    std::uint32_t place = 0;
    if (lane == 0 && votes != 0) place = atomicAdd(&job.totals->runs, static_cast<std::uint32_t>(__popc(votes)));
    place = __shfl_sync(kAllLanes, place, 0) + static_cast<std::uint32_t>(__popc(votes & lanes_below(lane)));
    if (!any) continue;
    const StreamState& state = job.states[x];
    const std::uint32_t segment = state.first_segment + state.start / kSegmentBits;
    job.starts[segment] = state.start;
    job.run_list[place] = {segment, x};
  }
  // The blocks before this one have enough warps for all parts.
  if (std::uint64_t{blockIdx.x} * kFindWarps >= std::uint64_t{count} * kFindParts) return;
  fill_sums(space);
  __syncthreads();
  Headers headers(job, space.candidates[threadIdx.x / 32], lane);
  for (;;) {
    const std::uint32_t ticket = take_ticket(job.totals->find_ticket, lane);
    if (ticket / kFindParts >= count) break;
    const std::uint32_t x = ticket / kFindParts, part = ticket % kFindParts;
    const std::uint32_t i = stream_of_searched(job, x);
    const StreamState& state = job.states[i];
    const DeflateStream& stream = job.streams[i];
    const std::uint32_t own = state.segments - state.searched + (x - state.first_searched);
    const Input input(stream.src, stream.src_bytes);
    const std::uint32_t begin = own * kSegmentBits + part * kFindBits, end = input.bytes * 8;
    if (begin >= end) continue;
    const std::uint32_t to = end - begin < kFindBits ? end : begin + kFindBits;
    if (to <= state.search_from) continue;
    // Usually members end with the stream.
    const bool last = end - begin <= kLastBlockBits;
    find_blocks(space, input, begin > state.search_from ? begin : state.search_from, to, last,
                state.first_segment + own, i, headers);
  }
  headers.read(true);
}

}  // namespace headrace::codec::gpu::deflate
