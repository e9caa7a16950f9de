// Arrays of strings: with changed lengths and counts, and with text that is not UTF-8.
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "cases.h"

namespace headrace::stress {
namespace {

using Strings = std::vector<std::string>;

std::string some_string(Dice& dice) {
  std::string out;
  for (std::uint64_t i = 0, n = dice.one_in(4) ? 0 : dice.below(dice.one_in(9) ? 300 : 12); i < n; ++i) {
    out += dice.pick<const char*>({"a", "b", " ", "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x8C\x80"});
  }
  return out;
}

void append_length(std::string& out, std::uint64_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::string encode(const Strings& elements) {
  std::string out;
  append_length(out, elements.size());
  for (const std::string& element : elements) {
    append_length(out, element.size());
    out += element;
  }
  return out;
}

// Returns false if the chunk violates its format.
bool decode(const std::string& bytes, std::size_t count, Strings& elements) {
  std::size_t at = 0;
  const auto number = [&](std::uint32_t& out) {
    if (bytes.size() - at < 4) return false;
    std::memcpy(&out, bytes.data() + at, 4);
    at += 4;
    return true;
  };
  std::uint32_t length = 0;
  if (!number(length) || length != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!number(length) || length > bytes.size() - at) return false;
    elements.push_back(bytes.substr(at, length));
    at += length;
  }
  return at == bytes.size();
}

bool is_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
    const unsigned first = byte(i);
    const std::size_t more = first < 0x80                    ? 0
                             : first >= 0xC2 && first < 0xE0 ? 1
                             : first >= 0xE0 && first < 0xF0 ? 2
                             : first >= 0xF0 && first < 0xF5 ? 3
                                                             : 9;
    if (more == 9) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    if ((first == 0xE0 && byte(i + 1) < 0xA0) || (first == 0xED && byte(i + 1) > 0x9F) ||
        (first == 0xF0 && byte(i + 1) < 0x90) || (first == 0xF4 && byte(i + 1) > 0x8F)) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

std::string mutate(Dice& dice, std::string& bytes, bool& truncated) {
  const auto at = static_cast<std::size_t>(dice.below(bytes.size()));
  switch (dice.below(6)) {
    case 0:
      bytes.resize(at);
      truncated = true;
      return "cut";
    case 1:
      bytes += std::string(1 + dice.below(9), '\0');
      return "extended";
    case 2:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice.below(8)));
      return "a bit";
    case 3:
      for (std::size_t i = 0; i < std::min<std::size_t>(4, bytes.size() - at); ++i)
        bytes[at + i] = static_cast<char>(dice.pick({0, 0xFF, 0x7F}));
      return "a length";
    case 4:
      bytes[0] = static_cast<char>(bytes[0] + dice.pick({1, -1}));
      return "the count";
    default:
      bytes[at] = static_cast<char>(dice.pick({0x80, 0xC0, 0xF8, 0xFF, 0xED}));
      return "text that is none";
  }
}

std::string document(const ArraySpec& spec, bool text, bool squeezed) {
  const std::string codec = text ? "vlen-utf8" : "vlen-bytes";
  if (spec.format == 2) {
    return R"({"zarr_format":2,"shape":)" + json_list(spec.shape) + R"(,"chunks":)" + json_list(spec.chunk) +
           R"(,"dtype":"|O","order":"C","fill_value":"","filters":[{"id":")" + codec + R"("}],"compressor":)" +
           (squeezed ? R"({"id":"zstd","level":1})" : "null") + "}";
  }
  return R"({"zarr_format":3,"node_type":"array","shape":)" + json_list(spec.shape) + R"(,"data_type":")" +
         (text ? "string" : "variable_length_bytes") +
         R"(","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" + json_list(spec.chunk) +
         R"(}},"chunk_key_encoding":{"name":"default"},"fill_value":"","codecs":[{"name":")" + codec + "\"}" +
         (squeezed ? R"(,{"name":"zstd","configuration":{"level":1,"checksum":false}})" : "") + "]}";
}

struct Expected {
  Strings elements;               // the array's
  std::vector<Verdict> verdicts;  // one for each element
  std::vector<std::string> keys;
};

std::string check(const VariableResult& result, const Picked& picked, const Shape& shape, const Expected& expected) {
  std::string wrong;
  std::set<std::string> listed;
  for (const ChunkError& error : result.errors) listed.insert(error.key);
  picked.each(shape, [&](std::uint64_t place, std::uint64_t element) {
    const auto i = static_cast<std::size_t>(element);
    const bool refused = listed.count(expected.keys[i]) != 0;
    const bool right = result[place] == expected.elements[i];
    const bool fine = expected.verdicts[i] == Verdict::kExact    ? right
                      : expected.verdicts[i] == Verdict::kEither ? right || refused
                                                                 : refused;
    if (!fine && wrong.empty()) wrong = "element " + std::to_string(element) + " of " + expected.keys[i] + " is wrong";
  });
  return wrong;
}

}  // namespace

std::string run_strings(Rig& rig, Dice& dice) {
  ArraySpec spec;
  spec.format = dice.one_in(3) ? 2 : 3;
  spec.slash = spec.format == 3;
  for (std::uint64_t d = 0, rank = dice.between(1, 2); d < rank; ++d) {
    spec.shape.push_back(dice.between(1, 20));
    spec.chunk.push_back(dice.between(1, spec.shape.back()));
  }
  const bool text = !dice.one_in(3), squeezed = dice.one_in(2);
  const auto count = static_cast<std::size_t>(product(spec.shape));
  Expected expected{Strings(count), std::vector<Verdict>(count, Verdict::kExact), std::vector<std::string>(count)};
  Objects objects;
  const std::string about = document(spec, text, squeezed);
  const auto about_bytes = std::as_bytes(std::span(about));
  objects[spec.document_key()] = Bytes(about_bytes.begin(), about_bytes.end());
  const Shape grid = spec.grid();
  const std::uint64_t bad = dice.one_in(3) ? product(grid) : dice.below(product(grid));
  std::uint64_t number = 0;
  std::string what;
  Shape at(grid.size(), 0);
  do {
    const std::string key = spec.chunk_key(at);
    Strings elements(static_cast<std::size_t>(product(spec.chunk)));
    for (std::string& element : elements) element = some_string(dice);
    std::string plain = encode(elements);
    bool truncated = false;
    if (number++ == bad) what = mutate(dice, plain, truncated) + " of " + key;
    const bool missing = dice.one_in(6);
    Strings meant;
    const bool valid = decode(plain, elements.size(), meant);
    meant.resize(elements.size());
    bool all_text = true;
    for (const std::string& element : meant) all_text = all_text && (!text || is_utf8(element));
    Shape in(at.size(), 0);
    std::size_t i = 0;
    do {
      Shape place(at.size());
      bool within = true;
      for (std::size_t d = 0; d < at.size(); ++d) {
        place[d] = at[d] * spec.chunk[d] + in[d];
        within = within && place[d] < spec.shape[d];
      }
      if (within) {
        const auto element = static_cast<std::size_t>(linear(place, spec.shape));
        expected.keys[element] = key;
        if (!missing) {
          expected.elements[element] = meant[i];
          // A reader may, but need not, check text that is not selected.
          expected.verdicts[element] = !valid || (text && !is_utf8(meant[i])) ? Verdict::kRefused
                                       : all_text                             ? Verdict::kExact
                                                                              : Verdict::kEither;
        }
      }
      ++i;
    } while (advance(in, spec.chunk));
    if (missing) continue;
    Bytes stored(plain.size());
    if (!plain.empty()) std::memcpy(stored.data(), plain.data(), plain.size());
    if (squeezed) {
      stored.resize(ZSTD_compressBound(plain.size()));
      stored.resize(ZSTD_compress(stored.data(), stored.size(), plain.data(), plain.size(), 1));
    }
    objects[key] = std::move(stored);
  } while (advance(at, grid));

  const Context& context = rig.context(static_cast<std::size_t>(dice.below(rig.contexts())));
  std::optional<Store> keep;
  std::string url;
  if (dice.one_in(2)) {
    url = place_memory(context, objects, keep);
  } else {
    fresh_directory(rig.options().directory);
    url = place_files(rig.options().directory, objects);
  }
  auto store = Store::open(context, url);
  if (!store.ok()) return "a good store was refused: " + store.status().to_string();
  auto array = Array::open(*store);
  if (!array.ok()) return "a good array was refused: " + array.status().to_string() + " " + about;
  std::string wrong;
  for (int k = 0; k < 2 && wrong.empty(); ++k) {
    const Picked picked = pick(dice, spec.shape, 1000);
    VariableReadOptions options;
    options.collect_errors = dice.one_in(2);
    const auto result = array->read_variable(picked.selection, options);
    ++rig.counts.reads;
    if (result.ok()) {
      wrong = check(*result, picked, spec.shape, expected);
      rig.counts.refused_chunks += result->errors.size();
      continue;
    }
    ++rig.counts.failed;
    bool allowed = false, named = false;
    picked.each(spec.shape, [&](std::uint64_t, std::uint64_t element) {
      const auto i = static_cast<std::size_t>(element);
      if (expected.verdicts[i] == Verdict::kExact) return;
      allowed = true;
      named = named || result.status().key() == expected.keys[i];
    });
    if (!allowed || options.collect_errors)
      wrong = "a good chunk was refused: " + result.status().to_string();
    else if (!named)
      wrong = "the error names no chunk that is bad: " + result.status().to_string();
  }
  return wrong.empty() ? "" : wrong + " (" + what + "; " + about + ")";
}

}  // namespace headrace::stress
