// Stores that change under an open array, between two reads or during one. A read returns the old content, the new
// content or an error, and never an element from another place.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cases.h"
#include "mutate.h"
#include "rewrite.h"
#include "support/writer_times.h"

namespace headrace::stress {
namespace {

struct Versions {
  ArraySpec spec;
  std::unique_ptr<ChunkCode> code;
  Stored old_stored, new_stored;
  Meaning old_meaning, new_meaning;
  std::string url;
};

Versions make_versions(Dice& dice, ArraySpec spec, bool whole_new) {
  Versions out;
  out.spec = std::move(spec);
  out.code = std::make_unique<ChunkCode>(out.spec);
  WriteOptions options;
  options.values_seed = dice.next();
  options.layout_seed = dice.next();
  options.gaps = dice.one_in(2);
  out.old_stored = write_array(out.spec, *out.code, options);
  options.values_seed = dice.next();
  options.layout_seed = dice.next();
  out.new_stored = write_array(out.spec, *out.code, options);
  if (!whole_new) {
    for (auto& [key, object] : out.new_stored.objects) {
      if (dice.one_in(2)) object = out.old_stored.objects[key];
    }
  }
  return out;
}

void place(Rig& rig, Versions& versions) {
  Objects objects;
  const std::string document = versions.spec.document();
  const auto text = std::as_bytes(std::span(document));
  objects[versions.spec.document_key()] = Bytes(text.begin(), text.end());
  for (const auto& [key, object] : versions.old_stored.objects) objects[key] = object.bytes;
  fresh_directory(rig.options().directory);
  versions.url = place_files(rig.options().directory, objects);
}

}  // namespace

const char* how_name(How how) {
  constexpr const char* kNames[] = {"in place", "cut and written again", "replaced by rename", "removed and created"};
  return kNames[static_cast<int>(how)];
}

void replace_file(const std::string& path, const Bytes& bytes, How how) {
  if (how == How::kInPlace) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return;
    [[maybe_unused]] const ssize_t wrote = ::pwrite(fd, bytes.data(), bytes.size(), 0);
    [[maybe_unused]] const int cut = ::ftruncate(fd, static_cast<off_t>(bytes.size()));
    ::close(fd);
    return;
  }
  if (how == How::kRecreated) ::unlink(path.c_str());
  const std::string to = how == How::kRenamed ? path + ".new" : path;
  write_whole(to, bytes);
  if (how == How::kRenamed) std::rename(to.c_str(), path.c_str());
}

std::string run_change(Rig& rig, Dice& dice) {
  SpecOptions shape;
  shape.sharded_only = dice.one_in(2);
  Versions versions = make_versions(dice, make_spec(dice, shape), false);
  place(rig, versions);
  const How how = dice.pick({How::kInPlace, How::kInPlace, How::kTruncating, How::kRenamed, How::kRecreated});
  // The new version may be damaged as well.
  const bool spoilt = dice.one_in(4);
  std::string what = how_name(how);
  if (spoilt) what += "; " + mutate_object(dice, versions.spec, versions.new_stored);
  const Meaning old_meaning = read_meaning(versions.spec, *versions.code, versions.old_stored.objects);
  const Meaning new_meaning = read_meaning(versions.spec, *versions.code, versions.new_stored.objects);

  // A file is mapped for a device only if it is read again a little later and no engine is named.
  const bool mapped = dice.one_in(12);
  const auto plan = [&] {
    ReadPlan out = rig.plan(dice);
    if (mapped) out.device = rig.options().devices.size() - 1;
    return out;
  };
  const Context& context = rig.context(mapped ? 0 : static_cast<std::size_t>(dice.below(rig.contexts())));
  auto store = Store::open(context, versions.url);
  if (!store.ok()) return "a good store was refused: " + store.status().to_string();
  OpenOptions options;
  options.revalidate = dice.one_in(2);
  auto array = Array::open(*store, "", options);
  if (!array.ok()) return "a good array was refused: " + array.status().to_string();
  const auto tell = [&](const std::string& wrong, const char* when) {
    return wrong + " (" + when + "; " + what + "; revalidate " + std::to_string(options.revalidate) + "; " +
           versions.spec.document() + ")";
  };
  for (std::uint64_t i = 0, n = mapped ? 5 : dice.between(1, 3); i < n; ++i) {
    if (mapped && i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(4));
    const std::string wrong = rig.read(*array, pick(dice, versions.spec.shape, 20000), {&old_meaning}, plan());
    if (!wrong.empty()) return tell(wrong, "before the change");
  }
  for (const auto& [key, object] : versions.old_stored.objects) {
    const std::string path = rig.options().directory + "/" + key;
    const auto now = versions.new_stored.objects.find(key);
    if (now == versions.new_stored.objects.end()) {
      ::unlink(path.c_str());
    } else if (now->second.bytes != object.bytes) {
      replace_file(path, now->second.bytes, how);
    }
  }
  for (const auto& [key, object] : versions.new_stored.objects) {
    if (versions.old_stored.objects.count(key) != 0) continue;
    const std::filesystem::path path(rig.options().directory + "/" + key);
    std::filesystem::create_directories(path.parent_path());
    write_whole(path, object.bytes);
  }
  // Without `revalidate`, an array may keep a shard's old index.
  std::vector<const Meaning*> meanings = {&new_meaning};
  if (!options.revalidate && !versions.spec.levels.empty()) meanings.push_back(&old_meaning);
  for (std::uint64_t i = 0, n = dice.between(1, 2); i < n; ++i) {
    ReadPlan after = plan();
    after.may_fail = true;
    const std::string wrong = rig.read(*array, pick(dice, versions.spec.shape, 20000), meanings, after);
    if (!wrong.empty()) return tell(wrong, "after the change");
  }
  auto again = Array::open(*store);
  if (!again.ok()) return "a good array was refused: " + again.status().to_string();
  const std::string wrong = rig.read(*again, pick(dice, versions.spec.shape, 20000), {&new_meaning}, rig.plan(dice));
  return wrong.empty() ? "" : tell(wrong, "opened again");
}

std::string run_race(Rig& rig, Dice& dice) {
  ArraySpec spec = make_spec(dice, {});
  const How how = dice.pick({How::kInPlace, How::kRenamed});
  // If files are written in place, only a checksum, or elements too small to tear, keep old and new bytes apart.
  if (how == How::kInPlace && spec.type.bytes > 1) {
    if (spec.format == 2) return "";
    spec.codecs.checked = true;
  }
  if (how == How::kInPlace && spec.codecs.squeeze != Squeeze::kNone && !spec.codecs.checked) return "";
  if (how == How::kInPlace && (spec.codecs.delta || spec.codecs.shuffle_bytes > 1)) return "";
  Versions versions = make_versions(dice, spec, true);
  place(rig, versions);
  const Meaning old_meaning = read_meaning(versions.spec, *versions.code, versions.old_stored.objects);
  const Meaning new_meaning = read_meaning(versions.spec, *versions.code, versions.new_stored.objects);
  const Context& context = rig.context(static_cast<std::size_t>(dice.below(rig.contexts())));
  auto store = Store::open(context, versions.url);
  if (!store.ok()) return "a good store was refused: " + store.status().to_string();
  OpenOptions options;
  options.revalidate = dice.one_in(2);
  std::atomic<bool> stop{false};
  support::WriterTimes times;
  std::thread writer([&] {
    for (bool to_new = true; !stop; to_new = !to_new) {
      const Stored& from = to_new ? versions.new_stored : versions.old_stored;
      for (const auto& [key, object] : from.objects) {
        if (stop) break;
        times.begin();
        replace_file(rig.options().directory + "/" + key, object.bytes, how);
        times.end();
      }
    }
  });
  std::string wrong;
  auto array = Array::open(*store, "", options);
  if (!array.ok()) wrong = "a good array was refused: " + array.status().to_string();
  for (int i = 0; i < 12 && wrong.empty(); ++i) {
    ReadPlan plan = rig.plan(dice);
    plan.may_fail = true;
    const std::int64_t started = support::WriterTimes::now();
    wrong = rig.read(*array, pick(dice, spec.shape, 20000), {&old_meaning, &new_meaning}, plan);
    // Linux stamps a file when a write call begins, so nobody can detect the writes of a writer that is suspended
    // within the call (docs/reference/changing_stores.md).
    if (how == How::kInPlace && wrong.starts_with("element") && times.held_up_since(started)) {
      wrong.clear();
      ++rig.counts.not_judged;
    }
  }
  stop = true;
  writer.join();
  return wrong.empty() ? ""
                       : wrong + " (while written " + how_name(how) + "; revalidate " +
                             std::to_string(options.revalidate) + "; " + spec.document() + ")";
}

}  // namespace headrace::stress
