#include "transfer/read/turns.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace headrace::transfer {

void Turns::begin(Wave& wave, std::uint64_t mapped_bytes) const {
  const auto most = static_cast<std::size_t>(wave.form->sizes.tasks);
  wave.tasks.max_tasks = wave.tasks.room_tasks = most;
  wave.turn.kind = kind_;
  if (policy_ == nullptr) return;
  wave.turn.started_ns = base::now_ns();
  const WaveChoice choice = policy_->begin(wave.turn.started_ns, mapped_bytes);
  wave.turn.kind = choice.kind;
  wave.turn.probe = choice.probe;
  wave.turn.in_policy = true;
  wave.turn.cpu_decoded.store(0, std::memory_order_relaxed);
  wave.turn.cpu_decode_ns.store(0, std::memory_order_relaxed);
  if (choice.trial) wave.tasks.max_tasks = static_cast<std::size_t>(wave.form->sizes.trial_tasks);
  // A probe takes about as long as one chunk, and leaves threads to the device's waves where chunks are large.
  if (choice.probe) {
    const std::size_t few = std::max({sizes_.workers / 2, most / 8, std::size_t{1}});
    wave.tasks.max_tasks = std::min(most, few);
  }
}

void Turns::end(Wave& wave, bool abandoned) const {
  if (!std::exchange(wave.turn.in_policy, false)) return;
  const bool is_measurement = !abandoned && wave.turn.is_measurement;
  const std::uint64_t bytes = is_measurement ? wave.tasks.tasks.size() * wave.form->chunks->chain->decoded_bytes() : 0;
  policy_->end({wave.turn.kind, wave.turn.probe}, wave.turn.started_ns, bytes, base::now_ns(), cpu_work(wave));
}

CpuWork Turns::cpu_work(const Wave& wave) const {
  const std::uint64_t ns = wave.turn.cpu_decode_ns.load(std::memory_order_relaxed);
  if (wave.turn.kind == WaveKind::kGpu || ns == 0) return {};
  const auto bytes = static_cast<double>(wave.turn.cpu_decoded.load(std::memory_order_relaxed));
  return {bytes * 1e9 / static_cast<double>(ns), sizes_.workers,
          std::min<std::uint64_t>(sizes_.chunks, wave.form->sizes.tasks)};
}

}  // namespace headrace::transfer
