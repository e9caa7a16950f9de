// The device side of the mutation campaign: canaries, mutants, and the checks after decoding.
#pragma once

#include <cuda_runtime.h>

#include "campaign_layout.h"

namespace headrace::test {

struct CampaignBatch {
  WindowRange in, out;
  MutationSource source;
  const std::uint64_t* plain_offset;  // by source: offset of what a valid one decodes to
  const std::uint32_t* plain_bytes;   // by source: decoded size; 0xFFFFFFFF if invalid
  const unsigned char* plain;
  std::uint64_t seed, first;  // first: index of item 0
  std::uint64_t capacity;
  std::int64_t only_source;  // not -1: every item is this source, unmodified; -1: mutants
  bool may_be_host_only;
  std::uint64_t enough = 0;  // decoded bytes wanted of every item; 0: all
};

HEADRACE_BOTH inline MutationPlan plan_of(const CampaignBatch& batch, std::uint32_t item) {
  if (batch.only_source < 0) return plan_mutation(batch.source, batch.seed, batch.first + item);
  MutationPlan plan;
  plan.base = plan.tail = static_cast<std::uint32_t>(batch.only_source);
  plan.bytes = plan.cut = plan.source_bytes = batch.source.length[plan.base];
  return plan;
}

// The first violation found; stored as kind << 56 | item, or 0 if there is none.
enum class Wrong : unsigned { kNothing, kCanary, kRefusedValid, kWrongBytes, kTookInvalid, kNoOutcome };
__device__ inline void note(unsigned long long* wrong, Wrong kind, std::uint64_t where) {
  atomicCAS(wrong, 0ull, static_cast<unsigned long long>(kind) << 56 | where);
}

__global__ inline void fill_canaries(WindowRange out) {
  const std::uint64_t words = out.window_bytes / 8;
  for (std::uint32_t w = blockIdx.y; w < out.windows(); w += gridDim.y) {
    auto* const at = reinterpret_cast<std::uint64_t*>(out.base + w * out.stride);
    for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
      at[i] = mix(reinterpret_cast<std::uint64_t>(at + i) >> 3);
    }
  }
}

__global__ inline void check_canaries(WindowRange out, std::uint64_t capacity, unsigned long long* wrong) {
  const std::uint64_t words = out.window_bytes / 8;
  for (std::uint32_t w = blockIdx.y; w < out.windows(); w += gridDim.y) {
    unsigned char* const base = out.base + w * out.stride;
    for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
      const std::uint64_t at = i * 8;
      const bool first = out.taken(w, at, capacity), last = out.taken(w, at + 7, capacity);
      if (first && last && capacity >= 8) continue;
      const std::uint64_t got = *reinterpret_cast<const std::uint64_t*>(base + at);
      const std::uint64_t want = mix(reinterpret_cast<std::uint64_t>(base + at) >> 3);
      if (got == want) continue;
      for (unsigned b = 0; b < 8; ++b) {
        if ((got ^ want) >> (8 * b) & 0xFF && !out.taken(w, at + b, capacity)) {
          note(wrong, Wrong::kCanary, static_cast<std::uint64_t>(w) << 32 | (at + b));
        }
      }
    }
  }
}

// One warp per item and part; parts in y.
__global__ inline void make_mutants(CampaignBatch batch) {
  const std::uint32_t item = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (item >= batch.in.items) return;
  const MutationPlan plan = plan_of(batch, item);
  unsigned char* const to = batch.in.at(item, plan.bytes);
  for (std::uint64_t i = blockIdx.y * 32 + lane; i < plan.bytes; i += gridDim.y * 32) {
    to[i] = mutant_byte(batch.source, plan, static_cast<std::uint32_t>(i));
  }
}

// Unmodified valid sources must decode exactly, and invalid ones must be refused.
__global__ inline void check_untouched(CampaignBatch batch, const unsigned long long* outcomes,
                                       unsigned long long* wrong) {
  constexpr unsigned kHostOnly = 8;
  const std::uint32_t item = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (item >= batch.in.items) return;
  const MutationPlan plan = plan_of(batch, item);
  const bool parts_first = blockIdx.y == 0 && lane == 0;
  if (!plan.untouched) return;
  const unsigned long long outcome = outcomes[item];
  const bool ok = outcome == ~0ull;
  if (outcome == 0) {  // the value set before decoding
    if (parts_first) note(wrong, Wrong::kNoOutcome, item);
    return;
  }
  const std::uint32_t want = batch.plain_bytes[plan.base];
  if (want == 0xFFFFFFFFu) {
    // The fault may be behind the bytes that were wanted.
    if (ok && parts_first && batch.enough == 0) note(wrong, Wrong::kTookInvalid, item);
    return;
  }
  if (!ok) {
    if (parts_first && !(batch.may_be_host_only && (outcome & 255) == kHostOnly)) {
      note(wrong, Wrong::kRefusedValid, item);
    }
    return;
  }
  const unsigned char* const got = batch.out.at(item, batch.capacity);
  const unsigned char* const plain = batch.plain + batch.plain_offset[plan.base];
  const std::uint64_t compared = batch.enough != 0 && batch.enough < want ? batch.enough : want;
  for (std::uint64_t i = blockIdx.y * 32 + lane; i < compared; i += gridDim.y * 32) {
    if (got[i] != plain[i]) {
      note(wrong, Wrong::kWrongBytes, item);
      return;
    }
  }
}

// Plants a decoder bug after decoding; each must be detected. `item` is an unmodified valid source.
enum class Plant : unsigned { kNone, kCanary, kPastWindow, kBytes, kSample, kInput, kOutcome, kVerdict, kSlow, kIndex };
__global__ inline void plant_bug(CampaignBatch batch, Plant plant, std::uint32_t item, unsigned long long* outcomes) {
  unsigned char* const out = batch.out.at(item, batch.capacity);
  switch (plant) {
    case Plant::kCanary:
      out[batch.out.offset(item / batch.out.per, item % batch.out.per, batch.capacity) == 0 ? batch.capacity : -1] ^= 1;
      break;
    case Plant::kPastWindow:
      batch.out.base[batch.out.window_bytes] = 1;
      break;
    case Plant::kBytes:
      out[batch.capacity - 1] ^= 1;
      break;
    case Plant::kSample:  // in a mutant that decoded
    case Plant::kIndex:   // the same, for codecs with decode indexes
      for (std::uint32_t i = 0; i < batch.out.items; ++i) {
        if (outcomes[i] != ~0ull || plan_of(batch, i).untouched) continue;
        *batch.out.at(i, batch.capacity) ^= 1;
        break;
      }
      break;
    case Plant::kInput:
      batch.in.at(item, plan_of(batch, item).bytes)[0] ^= 1;
      break;
    case Plant::kOutcome:
      outcomes[item] = 0;
      break;
    case Plant::kVerdict:  // a refused item passes
      for (std::uint32_t i = 0; i < batch.out.items; ++i) {
        if (outcomes[i] == ~0ull) continue;
        outcomes[i] = ~0ull;
        break;
      }
      break;
    case Plant::kSlow: {
      long long start = 0, time = 0;
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
      do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
      } while (time - start < 100'000'000);
      break;
    }
    default:
      break;
  }
}

// Sums the bytes of each successful output, to compare two decodes of a batch. The sums must be zero before. One warp
// per item and part.
__global__ inline void sum_outputs(CampaignBatch batch, const unsigned long long* outcomes, unsigned long long* sums) {
  const std::uint32_t item = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (item >= batch.out.items || outcomes[item] != ~0ull) return;
  const unsigned char* const out = batch.out.at(item, batch.capacity);
  unsigned long long sum = 0;
  for (std::uint64_t i = blockIdx.y * 32 + lane; i < batch.capacity; i += gridDim.y * 32) sum += mix(i << 8 | out[i]);
  for (unsigned d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, d);
  if (lane == 0) atomicAdd(sums + item, sum);
}

// Copies items start, start + step, ... and their outputs into contiguous rows for the host.
__global__ inline void gather_samples(CampaignBatch batch, std::uint32_t start, std::uint32_t step,
                                      std::uint32_t samples, std::uint64_t row_bytes, unsigned char* rows) {
  for (std::uint32_t s = blockIdx.x; s < samples; s += gridDim.x) {
    const std::uint32_t item = start + s * step;
    const std::uint32_t bytes = plan_of(batch, item).bytes;
    const unsigned char* const out = batch.out.at(item, batch.capacity);
    const unsigned char* const in = batch.in.at(item, bytes);
    unsigned char* const row = rows + s * row_bytes;
    for (std::uint64_t i = threadIdx.x; i < batch.capacity; i += blockDim.x) row[i] = out[i];
    for (std::uint64_t i = threadIdx.x; i < bytes; i += blockDim.x) row[batch.capacity + i] = in[i];
  }
}

}  // namespace headrace::test
