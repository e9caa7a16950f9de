// headrace info: shows the content of a store, from its metadata.
#include <headrace/capabilities.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "cli_common.h"
#include "json_text.h"

namespace headrace::cli {
namespace {

// Total size of the objects under a directory, excluding metadata documents.
struct StoredSize {
  std::uint64_t bytes = 0, objects = 0;
  bool known = false;
  std::string why_not;
};

// The folder that relative paths in a reference file refer to: for "reference:///folder/file.json/node?root=...", the
// file's own folder, whatever the root. Empty for other stores.
std::string folder_of_references(const std::string& path) {
  constexpr std::string_view kScheme = "reference://";
  if (path.compare(0, kScheme.size(), kScheme) != 0) return {};
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path file = path.substr(kScheme.size(), path.find('?') - kScheme.size());
  while (!fs::is_regular_file(file, error) && file.has_relative_path()) file = file.parent_path();
  return file.has_relative_path() ? fs::absolute(file, error).parent_path().string() : std::string();
}

StoredSize stored_size(const std::string& path) {
  constexpr std::uint64_t kMaxFiles = 1'000'000;
  StoredSize size;
  if (const std::string folder = folder_of_references(path); !folder.empty()) {
    size.why_not = "what it refers to is elsewhere; relative paths in the reference file begin at " + one_line(folder);
    return size;
  }
  const auto directory = local_directory(path);
  if (!directory) {
    size.why_not = "not a local store";
    return size;
  }
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(*directory, error)) {
    size.why_not = "not a directory";
    return size;
  }
  fs::recursive_directory_iterator walk(*directory, error), end;
  while (!error && walk != end) {
    const std::string name = walk->path().filename().string();
    struct stat info {};
    if (::lstat(walk->path().c_str(), &info) == 0 && S_ISREG(info.st_mode) && name != ".zarray" && name != ".zattrs" &&
        name != ".zgroup" && name != ".zmetadata" && name != "zarr.json") {
      if (size.objects == kMaxFiles) {
        size.why_not = "more than " + human_count(kMaxFiles) + " objects";
        return size;
      }
      ++size.objects;
      size.bytes += static_cast<std::uint64_t>(info.st_size);
    }
    walk.increment(error);
  }
  if (error) {
    size.why_not = error.message();
    return size;
  }
  size.known = true;
  return size;
}

// Names of the codecs that need no pass over the bytes.
std::vector<std::string> codecs_without_pass() {
  std::vector<std::string> out;
  if (const auto found = capabilities(); found.ok()) {
    for (const CodecCapability& codec : found->codecs) {
      if (codec.cpu || codec.gpu) continue;
      out.insert(out.end(), codec.v3_names.begin(), codec.v3_names.end());
      out.insert(out.end(), codec.v2_ids.begin(), codec.v2_ids.end());
    }
  }
  return out;
}

std::string codec_chain(const ArrayInfo& info, const char* without_pass = "") {
  static const std::vector<std::string> no_pass = codecs_without_pass();
  std::string out;
  for (std::size_t i = 0; i < info.codecs.size(); ++i) {
    const bool gpu = i < info.codec_on_gpu.size() && info.codec_on_gpu[i];
    const bool passes = std::find(no_pass.begin(), no_pass.end(), info.codecs[i]) == no_pass.end();
    out += (i == 0 ? "" : " -> ") + info.codecs[i] + (gpu ? " (GPU)" : passes ? " (CPU)" : without_pass);
  }
  return out.empty() ? "none" : one_line(out);
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " -> ") + name;
  return one_line(out);
}

// Adds to the JSON object of the array's node.
void add_array(Json& json, const ArrayInfo& info) {
  const bool variable = info.dtype.is_variable_length();
  Json names, codecs = Json::array();
  for (const auto& name : info.dimension_names) names.push_back(or_null(name));
  for (std::size_t i = 0; i < info.codecs.size(); ++i) {
    codecs.push_back({{"name", info.codecs[i]}, {"gpu", i < info.codec_on_gpu.size() && info.codec_on_gpu[i]}});
  }
  json.update({{"zarr_format", info.zarr_format},
               {"shape", info.shape},
               {"data_type", dtype_text(info.dtype)},
               {"item_bytes", variable ? Json() : Json(info.dtype.item_bytes)},
               {"chunk_shape", info.chunk_shape},
               {"chunk_grid", info.chunk_grid},
               {"shard_shape", info.shard_shape.empty() ? Json() : Json(info.shard_shape)},
               {"dimension_names", std::move(names)},
               {"codecs", std::move(codecs)},
               {"outer_codecs", info.outer_codecs},
               {"fill_value", info.fill_text},
               {"chunk_count", info.chunk_count},
               {"decoded_bytes", variable ? Json() : Json(info.decoded_bytes)},
               {"lenient", info.lenient_uses}});
}

// `attributes`: valid JSON from the library, or empty.
Json attributes_of(const std::string& attributes) {
  return attributes.empty() ? Json::object() : Json::parse(attributes);
}

Json node_json(const Node& node) {
  Json json = {{"path", node.path}, {"node_type", node.is_array ? "array" : "group"}};
  if (node.array) {
    add_array(json, node.array->info());
  } else {
    json["zarr_format"] = node.zarr_format;
  }
  if (node.status.ok()) {
    json["attributes"] = attributes_of(node.attributes_json);
  } else {
    json["error"] = {{"code", code_name(node.status.code())}, {"message", node.status.to_string()}};
  }
  return json;
}

Json info_json(const std::string& path, const std::vector<Node>& nodes, const StoredSize& size) {
  const Node& root = nodes.front();
  Json json = {{"path", path}, {"node_type", root.is_array ? "array" : root.zarr_format == 0 ? "folder" : "group"}};
  if (root.array) {
    add_array(json, root.array->info());
  } else {
    json["zarr_format"] = root.zarr_format == 0 ? Json() : Json(root.zarr_format);
  }
  json["attributes"] = attributes_of(root.attributes_json);
  json["stored_bytes"] = size.known ? Json(size.bytes) : Json();
  json["stored_objects"] = size.known ? Json(size.objects) : Json();
  if (!root.is_array) {
    Json& listed = json["nodes"] = Json::array();
    for (std::size_t i = 1; i < nodes.size(); ++i) listed.push_back(node_json(nodes[i]));
  }
  return json;
}

std::string stored_text(const StoredSize& size, std::uint64_t decoded) {
  if (!size.known) return "unknown: " + size.why_not;
  std::string out =
      human_bytes(size.bytes) + " in " + human_count(size.objects) + (size.objects == 1 ? " object" : " objects");
  if (size.bytes > 0 && decoded > 0 && decoded != UINT64_MAX) {
    char ratio[48];
    std::snprintf(ratio, sizeof(ratio), ", decoded/stored %.2f",
                  static_cast<double>(decoded) / static_cast<double>(size.bytes));
    out += ratio;
  }
  return out;
}

void print_row(const char* name, const std::string& text) { std::printf("%-16s%s\n", name, text.c_str()); }

std::string decoded_text(const ArrayInfo& info) {
  if (info.dtype.is_variable_length()) return "known once read: elements have variable length";
  if (info.decoded_bytes == UINT64_MAX) return "more than 2^64 bytes";
  const std::string text = human_bytes(info.decoded_bytes);
  return info.decoded_bytes < 1000 ? text : text + " (" + human_count(info.decoded_bytes) + " bytes)";
}

void print_array(const std::string& path, const Node& node, const ArrayInfo& info, const StoredSize& size) {
  print_row("array", one_line(path));
  print_row("format", "Zarr v" + std::to_string(info.zarr_format));
  print_row("shape", shape_text(info.shape));
  if (!info.dimension_names.empty()) {
    std::string names;
    for (const auto& name : info.dimension_names) names += (names.empty() ? "" : ", ") + name.value_or("-");
    print_row("dimensions", one_line(names));
  }
  print_row("data type",
            dtype_text(info.dtype) + (info.dtype.is_variable_length()
                                          ? ", variable length"
                                          : ", " + std::to_string(info.dtype.item_bytes) + " bytes an element"));
  print_row("chunk shape", shape_text(info.chunk_shape) + ", " + human_count(info.chunk_count) +
                               (info.chunk_count == 1 ? " chunk" : " chunks") +
                               (info.chunk_grid == "rectilinear" ? ", rectilinear: each up to this" : ""));
  if (!info.shard_shape.empty()) print_row("shard shape", shape_text(info.shard_shape));
  print_row("codecs", codec_chain(info, " (no decode step)"));
  if (!info.outer_codecs.empty()) print_row("outer codecs", joined(info.outer_codecs));
  print_row("fill value", info.fill_text.empty() ? "none" : one_line(info.fill_text));
  for (const std::string& use : info.lenient_uses) print_row("accepted", one_line(use));
  print_row("decoded size", decoded_text(info));
  print_row("stored size", stored_text(size, info.decoded_bytes));
  if (!node.attributes_json.empty() && node.attributes_json != "{}") {
    std::string text = one_line(node.attributes_json);
    constexpr std::size_t kMax = 400;
    if (text.size() > kMax) text = text.substr(0, kMax) + "... (all of it: --json)";
    print_row("attributes", text);
  }
}

// Number of shown nodes that are ancestors of `path`.
std::size_t parents_among(const std::set<std::string_view>& shown, std::string_view path) {
  std::size_t parents = 0;
  for (std::size_t at = path.find('/'); at != std::string_view::npos; at = path.find('/', at + 1)) {
    parents += shown.count(path.substr(0, at));
  }
  return parents;
}

void print_group(const std::string& path, const std::vector<Node>& nodes, const StoredSize& size) {
  std::size_t arrays = 0, failed = 0;
  std::uint64_t decoded = 0;
  for (const Node& node : nodes) {
    if (node.is_array) ++arrays;
    if (!node.status.ok()) ++failed;
    if (node.array && __builtin_add_overflow(decoded, node.array->info().decoded_bytes, &decoded)) decoded = UINT64_MAX;
  }
  const bool folder = nodes.front().zarr_format == 0;
  print_row(folder ? "folder" : "group", one_line(path));
  print_row("format", folder ? "no group of its own, as it has no zarr.json"
                             : "Zarr v" + std::to_string(nodes.front().zarr_format));
  print_row("arrays",
            human_count(arrays) + (failed > 0 ? ", " + human_count(failed) + " of them cannot be opened" : ""));
  print_row("decoded size", decoded == UINT64_MAX ? "more than 2^64 bytes" : human_bytes(decoded));
  print_row("stored size", stored_text(size, decoded));
  std::printf("\n");
  std::set<std::string_view> shown;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    std::string line(2 * parents_among(shown, node.path), ' ');
    shown.insert(node.path);
    line += "/" + one_line(node.path);
    if (line.size() < 24) line.resize(24, ' ');
    if (!node.status.ok()) {
      line += "  cannot be opened: " + describe(node.status);
    } else if (node.array) {
      const ArrayInfo& info = node.array->info();
      line +=
          "  " + shape_text(info.shape) + "  " + dtype_text(info.dtype) + "  chunks " + shape_text(info.chunk_shape);
      if (!info.shard_shape.empty()) line += " in shards " + shape_text(info.shard_shape);
      line += "  " + codec_chain(info);
      for (const std::string& use : info.lenient_uses) line += "  accepted: " + one_line(use);
    } else {
      line += "  group";
    }
    std::printf("%s\n", line.c_str());
  }
}

int run_info(const CommonOptions& options, bool show_capabilities) {
  if (show_capabilities) {
    if (options.path.empty()) return print_capabilities(options.json);
    print_error("--capabilities is of this build, not of a store", "headrace info", "leave out PATH or --capabilities");
    return kExitUsage;
  }
  if (options.path.empty()) {
    print_error("PATH is required", "headrace info", "name a store, or ask for --capabilities");
    return kExitUsage;
  }
  CommonOptions one_thread = options;
  one_thread.threads = 1;
  auto context = make_context(one_thread);
  if (!context.ok()) return fail(context.status(), options.path);
  auto store = Store::open(*context, options.location, options.storage);
  if (!store.ok()) return fail(store.status(), options.path);
  auto listed = list_nodes(*store, "", open_options(options));
  if (!listed.ok()) return fail(listed.status(), options.path);
  const std::vector<Node>& nodes = *listed;
  if (nodes.empty()) {
    return fail(Status(Code::kNotFound, Layer::kApi, "neither a Zarr array nor a group"), options.path);
  }
  const Node& root = nodes.front();
  if (!root.status.ok()) return fail(root.status, options.path);

  const StoredSize size = stored_size(options.path);
  if (options.json) {
    print_json(info_json(options.path, nodes, size));
  } else if (root.array) {
    print_array(options.path, root, root.array->info(), size);
  } else {
    print_group(options.path, nodes, size);
  }
  return kExitOk;
}

}  // namespace

Verb add_info_command(CLI::App& app) {
  auto options = std::make_shared<CommonOptions>();
  CLI::App* verb = app.add_subcommand("info", "show what an array or group holds, from its metadata");
  add_path_and_json(*verb, *options);
  add_stored_budget(*verb, *options);
  verb->get_option("PATH")->required(false);
  add_lenient(*verb, *options);
  verb->add_flag("--no-consolidated", options->no_consolidated,
                 "look for arrays in the store itself, not in consolidated metadata");
  auto show_capabilities = std::make_shared<bool>(false);
  verb->add_flag("--capabilities", *show_capabilities, "show what this build can read, and by which parts");
  verb->footer(
      "Examples:\n"
      "  headrace info era5.zarr            the tree of groups and arrays\n"
      "  headrace info era5.zarr/t2m        one array: types, chunks, codecs, sizes\n"
      "  headrace info era5.zarr/t2m --json\n"
      "  headrace info --capabilities       codecs, data types, stores, engines and devices of this build");
  return {verb, [options, show_capabilities] { return run_info(*options, *show_capabilities); }};
}

}  // namespace headrace::cli
