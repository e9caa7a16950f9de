#include "io_sequence.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace headrace::bench {
namespace {

bool below_percent(std::uint64_t draw, unsigned percent) {
  return static_cast<unsigned>(static_cast<unsigned __int128>(draw) * 100 >> 64) < percent;
}

// Number of ranks that each file occupies in the distribution of file_service_type, as in fio.
constexpr std::uint64_t kRanksOfFile = 1024;

}  // namespace

IoSequence::IoSequence(const JobOptions& options, const std::vector<std::uint64_t>& region_bytes, std::uint64_t seed)
    : sizes_{options.sizes[0], options.sizes[1]},
      law_(options.distribution.law),
      service_law_(options.service_law.law),
      random_(options.random),
      mixed_(options.mixed()),
      write_(options.write),
      unaligned_(options.unaligned),
      sizes_by_order_(options.sizes_by_order),
      run_repeats_(options.run_repeats),
      read_percent_(options.read_percent),
      percent_random_(options.percent_random),
      list_(options.list),
      sequential_run_(options.sequential_run),
      service_ios_(options.service_ios),
      hole_bytes_(options.hole_bytes),
      seed_(seed),
      service_(options.service) {
  least_ = options.smallest_block();
  unit_ = options.align_bytes == 0 ? least_ : options.align_bytes;
  const bool fixed = options.largest_block() == least_;
  each_once_ = options.each_block_once();
  whole_ = fixed && unit_ == least_;
  if (service_ == FileService::kDrawn) {
    service_distribution_ = Distribution(options.service_law, region_bytes.size() * kRanksOfFile);
  }
  files_.reserve(region_bytes.size());
  unfinished_files_.reserve(region_bytes.size());
  for (std::size_t i = 0; i < region_bytes.size(); ++i) {
    const std::uint64_t bytes = whole_ || !unaligned_ ? region_bytes[i] / least_ * least_ : region_bytes[i];
    const std::uint64_t positions = (bytes - least_) / unit_ + 1;
    FileState file{
        OffsetGenerator(positions, random_, options.norandommap, seed + (i << 32)), {}, {}, bytes, positions};
    if (law_ == DistributionKind::Law::kZoned) {
      for (unsigned way = 0; way < 2; ++way) {
        file.zones[way] = ZoneMap(options.distribution.zones[way], region_bytes[i], unit_, positions);
      }
    } else if (law_ != DistributionKind::Law::kUniform) {
      file.distribution = Distribution(options.distribution, positions);
    }
    files_.push_back(std::move(file));
  }
  begin_pass(0);
}

void IoSequence::begin_pass(std::uint64_t pass) {
  pass_ = pass;
  key_ = mix64(seed_ ^ mix64(pass ^ 0x5eed));
  taken_ = 0;
  turn_ = 0;
  service_left_ = group_left_ = 0;
  have_ = joins_ = false;
  unfinished_files_.resize(files_.size());
  std::iota(unfinished_files_.begin(), unfinished_files_.end(), std::size_t{0});
  for (FileState& file : files_) {
    file.position = file.done = 0;
    file.cursor[0] = file.cursor[1] = 0;
    file.run = 0;
  }
}

bool IoSequence::ended(const FileState& file) const noexcept {
  if (random_) return file.position == file.positions || file.done + least_ > file.bytes;
  if (mixed_) return file.done + least_ > file.bytes;
  return file.cursor[write_ ? 1 : 0] + least_ > file.bytes;
}

void IoSequence::choose_file(std::uint64_t draw) {
  if (service_ == FileService::kRandom && service_left_ == 0) {
    turn_ = static_cast<std::size_t>(static_cast<unsigned __int128>(mix64(draw ^ 4)) * unfinished_files_.size() >> 64);
    service_left_ = service_ios_;
  } else if (service_ == FileService::kDrawn) {
    // The most likely rank belongs to an arbitrary file, the same in every pass; for a normal distribution, to the
    // middle one. Draws of a file that has ended go to the next file.
    const std::uint64_t ranks = files_.size() * kRanksOfFile;
    std::uint64_t rank = service_distribution_.pick(mix64(draw ^ 4));
    if (service_law_ != DistributionKind::Law::kNormal) rank = (rank + mix64(seed_ ^ 7) % ranks) % ranks;
    const auto live = std::lower_bound(unfinished_files_.begin(), unfinished_files_.end(),
                                       static_cast<std::size_t>(rank / kRanksOfFile));
    turn_ = live == unfinished_files_.end() ? 0 : static_cast<std::size_t>(live - unfinished_files_.begin());
  } else if (service_ == FileService::kRoundRobin && service_left_ == 0) {
    turn_ = taken_ == 0 ? 0 : (turn_ + 1) % unfinished_files_.size();
    service_left_ = service_ios_;
  }
}

std::uint64_t IoSequence::random_offset(FileState& file, bool write, std::uint64_t draw) {
  if (law_ == DistributionKind::Law::kZoned) {
    return file.zones[write ? 1 : 0].pick(mix64(draw ^ 6), mix64(draw ^ 3)) * unit_;
  }
  if (law_ == DistributionKind::Law::kUniform) return file.map.block(pass_, file.position++) * unit_;
  std::uint64_t index = file.distribution.pick(mix64(draw ^ 3));
  // The most likely blocks are the same in every pass.
  if (law_ != DistributionKind::Law::kNormal) index = file.map.block(UINT64_MAX, index);
  return index * unit_;
}

const Io* IoSequence::peek() {
  if (have_) return &next_;
  joins_ = group_left_ > 0;
  while (!unfinished_files_.empty() && (turn_ >= unfinished_files_.size() || ended(files_[unfinished_files_[turn_]]))) {
    if (turn_ < unfinished_files_.size())
      unfinished_files_.erase(unfinished_files_.begin() + static_cast<std::ptrdiff_t>(turn_));
    // The turn passes to the next file.
    if (turn_ >= unfinished_files_.size()) turn_ = 0;
    joins_ = false;
    service_left_ = service_ios_;
  }
  if (unfinished_files_.empty()) return nullptr;
  const std::uint64_t draw = mix64(key_ + taken_);
  if (!joins_) {
    const std::size_t before = unfinished_files_[turn_];
    choose_file(draw);
    // The chosen file had already ended.
    if (unfinished_files_[turn_] != before && ended(files_[unfinished_files_[turn_]])) {
      group_left_ = 0;
      return peek();
    }
    if (service_left_ > 0) --service_left_;
    group_left_ = list_;
    next_.write = mixed_ ? !below_percent(mix64(draw ^ 1), read_percent_) : write_;
  }
  --group_left_;
  next_.file = unfinished_files_[turn_];
  FileState& file = files_[next_.file];
  std::uint64_t& cursor = file.cursor[!random_ && next_.write ? 1 : 0];
  const bool jump = random_ && (file.run == 0 || cursor + least_ > file.bytes) &&
                    (percent_random_ == 100 || below_percent(mix64(draw ^ 5), percent_random_));
  if (jump) {
    next_.offset = random_offset(file, next_.write, draw);
    file.run = sequential_run_ - 1;
  } else {
    if (file.run > 0) --file.run;
    if (cursor + least_ > file.bytes) cursor = 0;
    next_.offset = run_repeats_ ? file.last : cursor;
  }
  next_.bytes = sizes_[(sizes_by_order_ ? jump : next_.write) ? 1 : 0].pick(mix64(draw ^ 2), unaligned_);
  const std::uint64_t left = file.bytes - next_.offset;
  if (next_.bytes > left) next_.bytes = unaligned_ ? left : std::max(left / least_ * least_, std::min(least_, left));
  file.done += next_.bytes;
  file.last = next_.offset;
  cursor = next_.offset + next_.bytes + (random_ ? 0 : hole_bytes_);
  ++taken_;
  have_ = true;
  return &next_;
}

}  // namespace headrace::bench
