#include "cases.h"

#include "backends/dev_host/staged_decoder.h"
#include "mutate.h"

namespace headrace::stress {
namespace {

// Chooses how the simulated GPU decodes in this case.
void choose_device_model(Dice& dice) {
  device::StagedDecodeModel& model = device::staged_decode_model();
  model.any_codec = !dice.one_in(4);
  model.host_only_every = dice.pick({0u, 0u, 0u, 1u, 2u, 3u});
  model.index = dice.one_in(3);
}

struct Made {
  ArraySpec spec;
  std::unique_ptr<ChunkCode> code;
  Stored stored;
};

Made make(Dice& dice, const SpecOptions& options = {}) {
  Made made;
  made.spec = make_spec(dice, options);
  made.code = std::make_unique<ChunkCode>(made.spec);
  WriteOptions write;
  write.values_seed = dice.next();
  write.layout_seed = dice.next();
  write.missing_one_in = dice.one_in(3) ? static_cast<unsigned>(dice.between(2, 6)) : 0;
  made.stored = write_array(made.spec, *made.code, write);
  return made;
}

std::string prefixed(const std::string& path, const std::string& key) { return path.empty() ? key : path + "/" + key; }

Objects objects_of(const Made& made, const std::string& path, const std::string& document) {
  Objects out;
  const auto text = std::as_bytes(std::span(document));
  out[prefixed(path, made.spec.document_key())] = Bytes(text.begin(), text.end());
  for (const auto& [key, object] : made.stored.objects) out[prefixed(path, key)] = object.bytes;
  return out;
}

// Opens a store with some of the contexts, reads it and compares with its meaning.
std::string read_store(Rig& rig, Dice& dice, const std::string& url, const std::string& path, const Meaning& meaning,
                       bool may_be_refused) {
  for (std::uint64_t i = 0, n = dice.between(1, 2); i < n; ++i) {
    const Context& context = rig.context(static_cast<std::size_t>(dice.below(rig.contexts())));
    auto store = Store::open(context, url);
    if (!store.ok()) {
      if (!may_be_refused) return "a good store was refused: " + store.status().to_string();
      ++rig.counts.opens_refused;
      continue;
    }
    OpenOptions options;
    options.revalidate = dice.one_in(3);
    auto array = Array::open(*store, path, options);
    if (!array.ok()) {
      if (!may_be_refused) return "a good array was refused: " + array.status().to_string();
      ++rig.counts.opens_refused;
      continue;
    }
    for (std::uint64_t k = 0, reads = dice.between(1, 3); k < reads; ++k) {
      const Picked picked = pick(dice, meaning.shape, 20000);
      std::string wrong = rig.read(*array, picked, {&meaning}, rig.plan(dice));
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

std::string some_path(Dice& dice) { return dice.one_in(3) ? "group/array" : ""; }

// Puts the objects into a store of a random kind and reads it.
std::string place_and_read(Rig& rig, Dice& dice, const Made& made, const std::string& what) {
  const std::string path = some_path(dice);
  const Objects objects = objects_of(made, path, made.spec.document());
  const Meaning meaning = read_meaning(made.spec, *made.code, made.stored.objects);
  const bool on_disk = !rig.options().disk.empty() && dice.one_in(40);
  const std::string directory = on_disk ? rig.options().disk : rig.options().directory;
  std::string url;
  std::optional<Store> keep;
  const std::uint64_t kind = on_disk ? 2 : dice.below(8);
  if (kind < 2) {
    url = place_memory(rig.context(0), objects, keep);
  } else {
    fresh_directory(directory);
    if (kind == 6) {
      url = place_zip(dice, directory, objects);
    } else if (kind == 7) {
      url = place_references(directory, objects);
    } else {
      url = place_files(directory, objects);
    }
  }
  if (on_disk) {
    for (const auto& [key, bytes] : objects) drop_cached(directory + "/" + key);
  }
  const std::string wrong = read_store(rig, dice, url, path, meaning, false);
  return wrong.empty() ? "" : wrong + " (" + what + "; " + url + "; " + made.spec.document() + ")";
}

}  // namespace

std::string run_valid(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  return place_and_read(rig, dice, make(dice), "as written");
}

std::string run_index(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  SpecOptions options;
  options.sharded_only = true;
  options.raw_one_in = 3;
  Made made = make(dice, options);
  std::string what = mutate_index(dice, made.spec, made.stored);
  return place_and_read(rig, dice, made, what);
}

std::string run_object(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  Made made = make(dice);
  std::string what;
  for (std::uint64_t i = 0, n = dice.between(1, 2); i < n; ++i) {
    what += mutate_object(dice, made.spec, made.stored) + "; ";
  }
  return place_and_read(rig, dice, made, what);
}

std::string run_spec(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  Made made = make(dice);
  const std::string what = mutate_spec(dice, made.spec);
  made.code = std::make_unique<ChunkCode>(made.spec);
  return place_and_read(rig, dice, made, what);
}

std::string run_text(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  const Made made = make(dice);
  std::string document = made.spec.document();
  const std::string what = mutate_text(dice, document);
  fresh_directory(rig.options().directory);
  const std::string url = place_files(rig.options().directory, objects_of(made, "", document));
  auto store = Store::open(rig.context(static_cast<std::size_t>(dice.below(rig.contexts()))), url);
  if (!store.ok()) return "a directory was refused: " + store.status().to_string();
  auto array = Array::open(*store);
  if (!array.ok()) {
    ++rig.counts.opens_refused;
    return array.status().key().empty() ? "the error names no key: " + array.status().to_string() + " " + document : "";
  }
  for (int i = 0; i < 2; ++i) {
    const Picked picked = pick(dice, array->info().shape, 5000);
    const std::string wrong = rig.read_any(*array, picked, rig.plan(dice));
    if (!wrong.empty()) return wrong + " (" + what + "; " + document + ")";
  }
  return "";
}

std::string run_zip(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  Made made = make(dice);
  const std::string document = made.spec.document();
  const Objects objects = objects_of(made, "", document);
  std::vector<std::string> keys;
  for (const auto& [key, bytes] : objects) keys.push_back(key);
  const std::string target = dice.of(keys);
  const std::uint64_t field = dice.below(14);
  const std::uint64_t some = dice.pick<std::uint64_t>({1, 4, 100, 0xFFFF, 0xFFFFFFF0, ~std::uint64_t{0}});
  const auto change = [&](testing::ZipRecord& record) {
    if (record.name != target) return;
    switch (field) {
      case 0:
        record.size += some;
        break;
      case 1:
        record.packed += some;
        break;
      case 2:
        record.crc32 ^= 1;
        break;
      case 3:
        record.header_at += some;
        break;
      case 4:
        record.method = record.method == 0 ? 8 : 0;
        break;
      case 5:
        record.local_name += "x";
        break;
      case 6:
        record.size -= record.size > 3 ? 3 : 0;
        record.packed = record.size;
        break;
      case 7:
        record.flags ^= 1;
        break;
      case 8:
        record.local_method ^= 8;
        break;
      case 9:
        record.local_size += some;
        record.local_packed += some;
        break;
      default:
        break;
    }
  };
  const auto change_end = [&](testing::ZipEnd& end) {
    switch (field) {
      case 10:
        end.entries += some;
        break;
      case 11:
        end.directory_at += some;
        break;
      case 12:
        end.directory_bytes += some;
        break;
      case 13:
        end.entries -= 1;
        break;
      default:
        break;
    }
  };
  // The changed archive may be refused, or read as if unchanged.
  for (auto& [key, object] : made.stored.objects) object.verdict = Verdict::kEither;
  fresh_directory(rig.options().directory);
  const std::string url = place_zip(dice, rig.options().directory, objects, change, change_end);
  const Meaning meaning = read_meaning(made.spec, *made.code, made.stored.objects);
  const std::string wrong = read_store(rig, dice, url, "", meaning, true);
  return wrong.empty() ? "" : wrong + " (ZIP, field " + std::to_string(field) + " of " + target + "; " + document + ")";
}

std::string run_reference(Rig& rig, Dice& dice) {
  choose_device_model(dice);
  Made made = make(dice);
  if (made.stored.objects.empty()) return "";
  std::vector<std::string> keys;
  for (const auto& [key, object] : made.stored.objects) keys.push_back(key);
  const std::string target = dice.of(keys);
  const Objects objects = objects_of(made, "", made.spec.document());
  const std::uint64_t how = dice.below(5), some = dice.pick<std::uint64_t>({1, 3, 16, 5000, 1ull << 40, 1ull << 62});
  std::string what;
  const auto change = [&](const std::string& key, std::uint64_t& offset, std::uint64_t& length, const Bytes& file) {
    if (key != target) return;
    if (how == 0) offset += some;
    if (how == 1) offset -= std::min(offset, some);
    if (how == 2) length += some;
    if (how == 3) length -= std::min(length, some);
    if (how == 4) offset = dice.below(file.size() + 1), length = dice.below(file.size() + 1);
    what = "reference of " + key + ": " + std::to_string(offset) + ", " + std::to_string(length) + " of " +
           std::to_string(file.size());
    Object& object = made.stored.objects[key];
    if (offset > file.size() || length > file.size() - offset) {
      object.verdict = Verdict::kRefused;
    } else {
      const auto from = file.begin() + static_cast<std::ptrdiff_t>(offset);
      object.bytes.assign(from, from + static_cast<std::ptrdiff_t>(length));
    }
  };
  fresh_directory(rig.options().directory);
  const std::string url = place_references(rig.options().directory, objects, change);
  const Meaning meaning = read_meaning(made.spec, *made.code, made.stored.objects);
  const std::string wrong = read_store(rig, dice, url, "", meaning, false);
  return wrong.empty() ? "" : wrong + " (" + what + "; " + made.spec.document() + ")";
}

const std::vector<CaseKind>& case_kinds() {
  static const std::vector<CaseKind> kinds = {
      {"valid", 150, &run_valid, "stores as they should be"},
      {"index", 210, &run_index, "entries of shard indexes"},
      {"object", 170, &run_object, "chunks and shards cut, extended, exchanged, spoilt"},
      {"spec", 120, &run_spec, "another document, as valid"},
      {"text", 80, &run_text, "a document that may be anything"},
      {"zip", 70, &run_zip, "directories of ZIP files"},
      {"reference", 60, &run_reference, "ranges of reference files"},
      {"strings", 40, &run_strings, "elements of variable length"},
      {"change", 90, &run_change, "stores that change between two reads"},
      {"race", 9, &run_race, "stores that change while they are read"},
      {"bomb", 1, &run_bomb, "small files that stand for gigabytes"},
  };
  return kinds;
}

}  // namespace headrace::stress
