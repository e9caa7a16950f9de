// Measures how random the orders of <headrace/order.h> are, and how many chunk reads they cause, compared with a
// shuffle buffer as in DALI and tf.data: samples are read in order into a buffer, and a random one is returned and
// replaced by the next.
//
//   order_bench [SEEDS]    131,072 samples of 4,096 chunks, batches of 64; prints JSON, means over SEEDS (10) seeds
//
// For each order:
//   displacement      mean |sample - position| / samples; 1/3 for a full shuffle
//   correlation       of successive sample numbers
//   chunk_repeats     samples of a batch that share a chunk with an earlier one of the batch: they need no
//                     further read, but make the batch less varied
//   batch_spread      variance of the batches' mean sample number, relative to random samples: 1 is ideal, sequential
//                     batches have 64 (how far a gradient would stray if samples changed slowly along the array)
//   batch_mates_kept  fraction of pairs in one batch that are in one batch again in the next epoch; ideal: 64 / samples
//   loads_*           reads per chunk in an epoch, with the last 32, 64 and 256 chunks cached. A buffer needs no cache:
//                     it reads each chunk once, but keeps samples (1,024 are worth 32 chunks)
//   ns                to compute the sample at one position; a buffer must process all earlier samples first
#include <headrace/order.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using namespace headrace;
using Samples = std::vector<std::uint64_t>;

constexpr std::uint64_t kSamples = 131'072, kChunk = 32, kBatch = 64;

Samples by_order(const Order& order, std::uint64_t seed, std::uint64_t epoch) {
  const EpochOrder of_epoch = order.epoch(seed, epoch);
  Samples samples(kSamples);
  for (std::uint64_t i = 0; i < kSamples; ++i) samples[i] = of_epoch.sample(i);
  return samples;
}

// chunks_first: reads chunks in random order, like a list of files that was shuffled.
Samples by_buffer(std::size_t size, bool chunks_first, std::uint64_t seed, std::uint64_t epoch) {
  std::mt19937_64 random(seed * 1000 + epoch);
  Samples chunks(kSamples / kChunk), buffer, samples;
  for (std::uint64_t i = 0; i < chunks.size(); ++i) chunks[i] = i;
  if (chunks_first) std::shuffle(chunks.begin(), chunks.end(), random);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t next = chunks[i / kChunk] * kChunk + i % kChunk;
    if (buffer.size() < size) {
      buffer.push_back(next);
      continue;
    }
    std::uint64_t& slot = buffer[random() % size];
    samples.push_back(slot);
    slot = next;
  }
  std::shuffle(buffer.begin(), buffer.end(), random);
  samples.insert(samples.end(), buffer.begin(), buffer.end());
  return samples;
}

// Number of chunk reads if the `kept` most recently used chunks are cached.
double loads(const Samples& samples, std::size_t kept) {
  std::list<std::uint64_t> recent;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> where;
  std::uint64_t count = 0;
  for (const std::uint64_t sample : samples) {
    const std::uint64_t chunk = sample / kChunk;
    if (const auto found = where.find(chunk); found != where.end()) {
      recent.splice(recent.begin(), recent, found->second);
      continue;
    }
    ++count;
    recent.push_front(chunk);
    where[chunk] = recent.begin();
    if (recent.size() <= kept) continue;
    where.erase(recent.back());
    recent.pop_back();
  }
  return static_cast<double>(count) * kChunk / kSamples;
}

struct Figures {
  double displacement = 0, correlation = 0, chunk_repeats = 0, batch_spread = 0, batch_mates_kept = 0;
  double loads_32 = 0, loads_64 = 0, loads_256 = 0;
};

void add(Figures& sum, const Samples& samples, const Samples& next_epoch) {
  const double n = kSamples, mean = (n - 1) / 2, variance = (n * n - 1) / 12;
  double displacement = 0, product = 0, spread = 0, repeats = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    displacement += std::abs(static_cast<double>(samples[i]) - static_cast<double>(i));
    if (i > 0) product += (static_cast<double>(samples[i]) - mean) * (static_cast<double>(samples[i - 1]) - mean);
  }
  for (std::uint64_t begin = 0; begin < kSamples; begin += kBatch) {
    std::vector<std::uint64_t> chunks;
    double batch_mean = 0;
    for (std::uint64_t i = begin; i < begin + kBatch; ++i) {
      batch_mean += static_cast<double>(samples[i]) / kBatch;
      chunks.push_back(samples[i] / kChunk);
    }
    std::sort(chunks.begin(), chunks.end());
    const auto end = std::unique(chunks.begin(), chunks.end());
    repeats += static_cast<double>(chunks.end() - end);
    spread += (batch_mean - mean) * (batch_mean - mean);
  }
  Samples next_batch(kSamples);
  for (std::uint64_t i = 0; i < kSamples; ++i) next_batch[next_epoch[i]] = i / kBatch;
  double kept = 0, pairs = 0;
  for (std::uint64_t begin = 0; begin < kSamples; begin += kBatch) {
    for (std::uint64_t i = begin; i < begin + kBatch; ++i) {
      for (std::uint64_t j = begin; j < i; ++j, ++pairs) kept += next_batch[samples[i]] == next_batch[samples[j]];
    }
  }
  const double batches = n / kBatch;
  sum.displacement += displacement / n / n;
  sum.correlation += product / variance / (n - 1);
  sum.chunk_repeats += repeats / batches;
  sum.batch_spread += spread / batches / (variance / kBatch);
  sum.batch_mates_kept += kept / pairs;
  sum.loads_32 += loads(samples, 32);
  sum.loads_64 += loads(samples, 64);
  sum.loads_256 += loads(samples, 256);
}

double ns_a_position(const Order& order) {
  const EpochOrder of_epoch = order.epoch(1, 1);
  double fastest = 1e9;
  std::uint64_t sum = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < kSamples; ++i) sum += of_epoch.sample(i);
    fastest =
        std::min(fastest, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  // Uses the sum, so that the loop is not optimised away.
  return sum == 0 ? 0 : fastest / kSamples;
}

Order block(std::uint64_t groups) { return Order::block_shuffle({{kSamples}, {kChunk}, groups}).value(); }

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 10;
  struct Row {
    std::string name;
    std::function<Samples(std::uint64_t, std::uint64_t)> make;
    double ns = 0;
  };
  std::vector<Row> rows;
  const auto add_order = [&](std::string name, const Order& order) {
    rows.push_back({std::move(name), [order](std::uint64_t s, std::uint64_t e) { return by_order(order, s, e); },
                    ns_a_position(order)});
  };
  add_order("sequential", Order::sequential(kSamples).value());
  add_order("full_shuffle", Order::full_shuffle(kSamples).value());
  for (const std::uint64_t groups : {4, 16, 32, 128})
    add_order("block_shuffle, " + std::to_string(groups) + " groups", block(groups));
  for (const bool chunks_first : {false, true}) {
    for (const std::size_t size : {512, 1024, 4096}) {
      rows.push_back({"buffer of " + std::to_string(size) + (chunks_first ? " samples, chunks shuffled" : " samples"),
                      [=](std::uint64_t s, std::uint64_t e) { return by_buffer(size, chunks_first, s, e); }});
    }
  }
  std::printf("{\n  \"samples\": %llu, \"samples_per_chunk\": %llu, \"batch\": %llu, \"seeds\": %d,\n  \"orders\": [",
              static_cast<unsigned long long>(kSamples), static_cast<unsigned long long>(kChunk),
              static_cast<unsigned long long>(kBatch), seeds);
  const char* separator = "\n";
  for (const Row& row : rows) {
    Figures sum;
    for (int seed = 1; seed <= seeds; ++seed) add(sum, row.make(seed, 0), row.make(seed, 1));
    std::printf(
        "%s    {\"order\": \"%s\", \"displacement\": %.4f, \"correlation\": %.4f, \"chunk_repeats\": %.2f, "
        "\"batch_spread\": %.2f, \"batch_mates_kept\": %.5f",
        separator, row.name.c_str(), sum.displacement / seeds, sum.correlation / seeds, sum.chunk_repeats / seeds,
        sum.batch_spread / seeds, sum.batch_mates_kept / seeds);
    if (row.ns > 0) {
      std::printf(", \"loads_32\": %.2f, \"loads_64\": %.2f, \"loads_256\": %.2f, \"ns\": %.0f", sum.loads_32 / seeds,
                  sum.loads_64 / seeds, sum.loads_256 / seeds, row.ns);
    }
    std::printf("}");
    separator = ",\n";
  }
  std::printf("\n  ]\n}\n");
  return 0;
}
