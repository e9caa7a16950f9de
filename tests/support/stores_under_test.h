// Every kind of store, filled with given objects: what is to hold of stores is tested on each. A new one is one row.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"

namespace headrace::testing {

using Objects = std::map<std::string, store::Bytes>;

struct StoreUnderTest {
  const char* name;
  bool writable;
  bool any_bytes;  // names need not be UTF-8
  // The URL of a store in the empty directory `dir` that holds `objects`; nothing if one of them is refused.
  std::string (*fill)(const std::string& dir, const Objects& objects);
};

namespace detail {

inline std::string fill_by_put(const std::string& url, const Objects& objects, std::shared_ptr<store::Store>& keep) {
  auto store = store::open_store(url);
  if (!store.ok()) return {};
  for (const auto& [key, bytes] : objects) {
    if (!(*store)->put(key, bytes).ok()) return {};
  }
  keep = *store;
  return url;
}

inline std::string fill_file(const std::string& dir, const Objects& objects) {
  std::shared_ptr<store::Store> keep;
  return fill_by_put(dir, objects, keep);
}

// A memory store lives as long as somebody holds it: the last one filled is held here.
inline std::string fill_memory(const std::string& dir, const Objects& objects) {
  static std::shared_ptr<store::Store> keep;
  static int count = 0;
  return fill_by_put("memory://" + dir + std::to_string(count++), objects, keep);
}

inline std::string fill_zip(const std::string& dir, const Objects& objects, bool deflate, const std::string& folder) {
  ZipWriter writer;
  int number = 0;
  for (const auto& [key, bytes] : objects) {
    writer.pad(static_cast<std::size_t>(number++ % 7));  // entries begin anywhere
    writer.add(folder + key, bytes, {.deflate = deflate, .descriptor = number % 2 == 0});
  }
  if (!folder.empty()) writer.add_text(folder, "");
  const std::string path = dir + "/objects.zip";
  return support::write_file(path, writer.finish()) ? path : "";
}
inline std::string fill_zip_stored(const std::string& dir, const Objects& objects) {
  return fill_zip(dir, objects, false, "");
}
inline std::string fill_zip_deflated(const std::string& dir, const Objects& objects) {
  return "zip://" + fill_zip(dir, objects, true, "");
}
inline std::string fill_zip_folder(const std::string& dir, const Objects& objects) {
  return fill_zip(dir, objects, false, "data/root.zarr/") + "/data/root.zarr";
}

inline std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Ranges of two files, whole files and inline values take turns.
inline std::string fill_reference(const std::string& dir, const Objects& objects) {
  store::Bytes data[2];
  std::string refs;
  int number = 0;
  for (const auto& [key, bytes] : objects) {
    refs += (refs.empty() ? "" : ",\n") + json_text(key) + ":";
    const bool text =
        bytes.size() < 2000 && std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b < std::byte{0x80}; });
    const std::string whole = std::to_string(number) + ".bin";
    if (text && number % 2 == 0) {
      refs += json_text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    } else if (number % 5 == 1) {
      if (!support::write_file(dir + "/" + whole, bytes)) return {};
      refs += "[\"" + whole + "\"]";
    } else {
      store::Bytes& file = data[number % 2];
      file.resize(file.size() + static_cast<std::size_t>(number % 7), std::byte{0xA5});
      refs += "[" + json_text(number % 2 == 0 ? "{{d}}/data0" : "data1") + "," + std::to_string(file.size()) + "," +
              std::to_string(bytes.size()) + "]";
      file.insert(file.end(), bytes.begin(), bytes.end());
    }
    ++number;
  }
  const std::string json =
      "{\"version\":1,\"templates\":{\"d\":" + json_text("file://" + dir) + "},\"refs\":{" + refs + "}}";
  const std::string path = dir + "/refs.json";
  if (!support::write_file(dir + "/data0", data[0]) || !support::write_file(dir + "/data1", data[1])) return {};
  return support::write_file(path, std::as_bytes(std::span(json))) ? "reference://" + path : "";
}

}  // namespace detail

inline constexpr StoreUnderTest kStoresUnderTest[] = {
    {"file", true, true, &detail::fill_file},
    {"memory", true, true, &detail::fill_memory},
    {"zip", false, true, &detail::fill_zip_stored},
    {"zip_deflated", false, true, &detail::fill_zip_deflated},
    {"zip_folder", false, true, &detail::fill_zip_folder},
    {"reference", false, false, &detail::fill_reference},
};

inline void PrintTo(const StoreUnderTest& row, std::ostream* out) { *out << row.name; }

// All objects of a store that is only what somebody has put into it.
inline Objects objects_of(store::Store& store, const std::string& prefix = "") {
  Objects objects;
  auto entries = store.list(prefix);
  if (!entries.ok()) return objects;
  for (const store::Entry& entry : *entries) {
    const std::string key = prefix.empty() ? entry.name : prefix + "/" + entry.name;
    if (entry.is_directory) {
      objects.merge(objects_of(store, key));
    } else if (auto bytes = store.get(key, std::uint64_t{1} << 32); bytes.ok()) {
      objects[key] = std::move(*bytes);
    }
  }
  return objects;
}

}  // namespace headrace::testing
