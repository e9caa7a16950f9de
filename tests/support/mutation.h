// Mutations of encoded chunks. A plan depends only on (seed, index), and the plan determines every byte of the mutant.
// The mutants of a campaign need not be stored or copied: device and host generate the same ones.
//
// Needs no CUDA header; with a CUDA compiler the functions are compiled for both processors.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define HEADRACE_BOTH __host__ __device__
#else
#define HEADRACE_BOTH
#endif

namespace headrace::test {

HEADRACE_BOTH inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's finisher
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 27) * 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

// Random numbers that depend only on the seed and on how many were drawn.
struct Draw {
  std::uint64_t state;
  HEADRACE_BOTH std::uint64_t next() { return mix(state += 0x9E3779B97F4A7C15ull); }
  HEADRACE_BOTH std::uint32_t below(std::uint32_t bound) {  // returns 0 for a bound of 0
    return static_cast<std::uint32_t>((next() >> 32) * bound >> 32);
  }
};

// Streams of one kind, concatenated.
struct MutationSource {
  const unsigned char* bytes;
  const std::uint64_t* offset;
  const std::uint32_t* length;
  std::uint32_t count;
};

struct MutationPlan {
  static constexpr unsigned kMaxEdits = 8;
  static constexpr std::uint32_t kMaxAppended = 40;  // largest excess over the longest source, in bytes

  std::uint64_t noise = 0;         // seed of the bytes after the end and of random stretches
  std::uint32_t base = 0;          // source of the head
  std::uint32_t tail = 0;          // source of what follows the head
  std::uint32_t cut = 0;           // length of the head
  std::uint32_t tail_from = 0;     // offset in the tail's source where it continues
  std::uint32_t bytes = 0;         // length of the mutant
  std::uint32_t source_bytes = 0;  // from here on there is noise
  std::uint32_t run_from = 0, run_bytes = 0;
  std::uint16_t run_value = 0;  // 256: noise
  bool untouched = true;        // an unmodified source
  unsigned char edits = 0;
  std::uint32_t edit_at[kMaxEdits] = {};
  unsigned char edit_and[kMaxEdits] = {}, edit_xor[kMaxEdits] = {};  // byte = (byte & and) ^ xor
};

// One mutant in 16 is an unmodified source. Stream lengths are small numbers in a few bytes near the front, and runs of
// 0xFF, so these bytes are edited more often than at random.
HEADRACE_BOTH inline MutationPlan plan_mutation(const MutationSource& source, std::uint64_t seed, std::uint64_t index) {
  Draw draw{mix(seed) ^ mix(index + 0x632BE59BD9B4E019ull)};
  MutationPlan plan;
  plan.noise = draw.next();
  plan.base = plan.tail = draw.below(source.count);
  plan.bytes = plan.source_bytes = plan.cut = source.length[plan.base];
  if (draw.below(16) == 0) return plan;
  plan.untouched = false;
  // Assigned field by field: the result must not depend on the evaluation order of arguments.
  const auto edit = [&](std::uint32_t at, unsigned keep, unsigned flip) {
    if (plan.edits == MutationPlan::kMaxEdits) return;
    plan.edit_at[plan.edits] = at;
    plan.edit_and[plan.edits] = static_cast<unsigned char>(keep);
    plan.edit_xor[plan.edits] = static_cast<unsigned char>(flip);
    ++plan.edits;
  };
  // Half of all places are in the first 64 bytes.
  const auto place = [&] {
    const std::uint32_t end = plan.bytes < 64 || draw.below(2) == 0 ? plan.bytes : 64;
    return draw.below(end);
  };
  const std::uint32_t rounds = draw.below(4) == 0 ? 2 : 1;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    switch (draw.below(10)) {
      case 0:
      case 1: {  // flip bits
        const std::uint32_t flips = 1 + draw.below(3);
        for (std::uint32_t i = 0; i < flips; ++i) {
          const std::uint32_t at = place(), bit = draw.below(8);
          edit(at, 0xFF, 1u << bit);
        }
        break;
      }
      case 2:
      case 3: {  // replace bytes
        const unsigned char telling[8] = {0x00, 0xFF, 0x01, 0x7F, 0x80, 0xF0, 0x0F, 0xFE};
        const std::uint32_t sets = 1 + draw.below(4);
        for (std::uint32_t i = 0; i < sets; ++i) {
          const std::uint32_t at = place(), which = draw.below(16), any = draw.below(256);
          edit(at, 0, which < 8 ? telling[which] : any);
        }
        break;
      }
      case 4:  // truncate
        plan.bytes = draw.below(2) == 0 ? draw.below(plan.bytes + 1) : plan.bytes - draw.below(17) % (plan.bytes + 1);
        break;
      case 5: {  // the head of one source and the tail of another
        plan.tail = draw.below(source.count);
        const std::uint32_t other = source.length[plan.tail];
        const std::uint32_t longest = plan.bytes > other ? plan.bytes : other;
        const std::uint32_t own = source.length[plan.base];
        plan.cut = draw.below((plan.bytes < own ? plan.bytes : own) + 1);
        plan.tail_from = draw.below(2) == 0 && plan.cut <= other ? plan.cut : draw.below(other + 1);
        const std::uint64_t whole = std::uint64_t{plan.cut} + other - plan.tail_from;
        plan.bytes = plan.source_bytes = static_cast<std::uint32_t>(whole < longest ? whole : longest);
        break;
      }
      case 6:
      case 7: {  // a length or offset: a little-endian word of 2 or 4 bytes
        const std::uint32_t width = draw.below(2) == 0 ? 2 : 4;
        if (plan.bytes < width) break;
        std::uint32_t at = place();
        at = draw.below(2) == 0 ? at & ~3u : at;
        if (at > plan.bytes - width) at = plan.bytes - width;
        const std::uint32_t values[8] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, plan.bytes, 0xFFFF, plan.bytes + 1};
        const std::uint32_t which = draw.below(16), any = draw.below(plan.bytes + 32);
        const std::uint32_t value = which < 8 ? values[which] : any;
        for (std::uint32_t i = 0; i < width; ++i) edit(at + i, 0, value >> (8 * i) & 0xFF);
        break;
      }
      case 8: {  // a run of 0xFF, as in long lengths, of another byte, or of noise
        const std::uint32_t kind = draw.below(4);
        const std::uint32_t at = place(), most = plan.bytes - (plan.bytes == 0 ? 0 : at);
        plan.run_from = at;
        plan.run_bytes = draw.below(2) == 0 ? draw.below(most + 1) : draw.below((most < 40 ? most : 40) + 1);
        plan.run_value = static_cast<std::uint16_t>(kind < 2 ? 0xFF : kind == 2 ? draw.below(256) : 256);
        break;
      }
      default: {  // append bytes
        plan.bytes += 1 + draw.below(MutationPlan::kMaxAppended / 2);
        break;
      }
    }
  }
  return plan;
}

HEADRACE_BOTH inline unsigned char mutant_byte(const MutationSource& source, const MutationPlan& plan,
                                               std::uint32_t at) {
  const auto noise = [&] { return static_cast<unsigned char>(mix(plan.noise + (at >> 3)) >> (at % 8 * 8)); };
  unsigned char value = 0;
  if (at >= plan.source_bytes) {
    value = noise();
  } else if (at < plan.cut) {
    value = source.bytes[source.offset[plan.base] + at];
  } else {
    value = source.bytes[source.offset[plan.tail] + plan.tail_from + (at - plan.cut)];
  }
  if (at - plan.run_from < plan.run_bytes)
    value = plan.run_value == 256 ? noise() : static_cast<unsigned char>(plan.run_value);
  for (unsigned i = 0; i < plan.edits; ++i) {
    if (plan.edit_at[i] == at) value = static_cast<unsigned char>((value & plan.edit_and[i]) ^ plan.edit_xor[i]);
  }
  return value;
}

}  // namespace headrace::test
