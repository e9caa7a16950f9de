// Sparse files that stand for gigabytes: they must be refused. The process that runs the cases watches the memory.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cases.h"

namespace headrace::stress {
namespace {

// Writes a hole of `bytes`, followed by `tail`.
void write_sparse(const std::string& path, std::uint64_t bytes, std::span<const std::byte> tail = {}) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] const int cut = ::ftruncate(fd, static_cast<off_t>(bytes));
  [[maybe_unused]] const ssize_t wrote = ::pwrite(fd, tail.data(), tail.size(), static_cast<off_t>(bytes));
  ::close(fd);
}

ArraySpec small_array(bool sharded, Squeeze squeeze) {
  ArraySpec spec;
  spec.shape = spec.chunk = {8};
  spec.type = {"uint32", "u4", 4, 4, true};
  if (sharded) {
    Level level;
    level.inner = {4};
    spec.levels.push_back(level);
  }
  spec.codecs.squeeze = squeeze;
  set_fill(spec, 0);
  return spec;
}

}  // namespace

std::string run_bomb(Rig& rig, Dice& dice) {
  const std::string& directory = rig.options().directory;
  fresh_directory(directory);
  const std::uint64_t hole = dice.pick<std::uint64_t>({400, 700, 1100}) << 20;
  const std::uint64_t kind = dice.below(6);
  const Squeeze squeeze =
      dice.pick({Squeeze::kZstd, Squeeze::kZstd, Squeeze::kLz4, Squeeze::kGzip, Squeeze::kBlosc, Squeeze::kNone});
  ArraySpec spec = small_array(kind < 3, squeeze);
  std::string what;
  if (kind < 2) {
    what = "an inner chunk of " + std::to_string(hole) + " bytes";
    write_sparse(directory + "/c/0", hole, ChunkCode::encode_index({0, hole, kEmpty, kEmpty}, spec.levels[0]));
  } else if (kind == 2) {
    what = "a shard index of 512 MiB";
    const std::uint64_t entries = std::uint64_t{32} << 20;
    spec.shape = spec.chunk = {entries};
    spec.levels[0].inner = {1};
    spec.levels[0].index_checked = false;
    write_sparse(directory + "/c/0", 16 * entries);
  } else if (kind == 3) {
    what = "a chunk of " + std::to_string(hole) + " stored bytes";
    write_sparse(directory + "/c/0", hole);
  } else if (kind == 4) {
    what = "a chunk of 8 GiB, decoded";
    spec.shape = spec.chunk = {std::uint64_t{1} << 31};
    write_sparse(directory + "/c/0", 1000);
  } else {
    what = "a document of " + std::to_string(hole) + " bytes";
    write_sparse(directory + "/zarr.json", hole);
  }
  const std::string document = spec.document();
  if (kind != 5) write_whole(directory + "/zarr.json", std::as_bytes(std::span(document)));
  std::string wrong;
  const Context& context = rig.context(static_cast<std::size_t>(dice.below(rig.contexts())));
  auto store = Store::open(context, directory);
  if (!store.ok()) return "a directory was refused: " + store.status().to_string();
  auto array = Array::open(*store);
  if (array.ok()) {
    Dice first(1, 1);
    Picked picked;
    picked.selection = {SelectionItem{}};
    picked.selection[0].stop = 4;
    picked.lists = {{0, 1, 2, 3}};
    picked.dropped = {false};
    ReadPlan plan = rig.plan(dice);
    plan.collect = false;
    const std::uint64_t failed = rig.counts.failed;
    wrong = rig.read_any(*array, picked, plan);
    if (wrong.empty() && rig.counts.failed == failed) wrong = "it was read";
  } else if (kind != 5) {
    wrong = "a good document was refused: " + array.status().to_string();
  }
  fresh_directory(directory);
  return wrong.empty() ? "" : wrong + " (" + what + "; " + document + ")";
}

}  // namespace headrace::stress
