// headrace_demo: reads every array of the given stores and compares it with a manifest of SHA-256 sums.
//
//   headrace_demo [--device NAME] [--engine NAME] --manifest FILE STORE...
//
// The manifest holds sums on which two other Zarr implementations agree. Exit status: 0 all arrays are equal, 1 an
// array differs or cannot be read, 2 wrong usage.
#include <headrace/array.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headrace/sha256.h"
#include "report.h"

namespace {

using headrace::Status;

struct Options {
  std::string device = "auto", engine = "auto", manifest;
  std::vector<std::string> stores;
};

struct Expected {
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::string sha256;
};
using Manifest = std::map<std::string, std::map<std::string, Expected>>;  // store name, array path

struct Outcome {
  std::size_t arrays = 0, equal = 0;
  headrace::Stats total;
  std::string first_error;

  void fail(const std::string& what) {
    if (first_error.empty()) first_error = what;
    std::printf("      NOT EQUAL: %s\n", what.c_str());
  }
};

std::string indented(const std::string& text, const char* indent) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += indent;
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  return out;
}

Manifest load_manifest(const std::string& file, std::string& readers) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot open " + file);
  const auto document = nlohmann::json::parse(in);
  const auto versions = document.value("readers", nlohmann::json::object());
  for (const auto& [name, version] : versions.items()) {
    if (name == "zarr" || name == "tensorstore") {
      readers += (readers.empty() ? "" : " and ") + (name == "zarr" ? std::string("zarr-python") : name) + " " +
                 version.get<std::string>();
    }
  }
  Manifest manifest;
  for (const auto& array : document.at("arrays")) {
    manifest[array.at("store").get<std::string>()][array.at("array").get<std::string>()] = {
        array.at("shape").get<std::vector<std::uint64_t>>(), array.at("nbytes").get<std::uint64_t>(),
        array.at("sha256").get<std::string>()};
  }
  return manifest;
}

// Reads the whole array onto the device, and copies it to host memory.
Status read_all(const headrace::Array& array, const headrace::Device& device, std::vector<std::byte>& bytes,
                headrace::Stats& stats) {
  const headrace::ArrayInfo& info = array.info();
  HEADRACE_TRY_ASSIGN(auto buffer, headrace::Buffer::allocate(device, info.decoded_bytes));
  HEADRACE_TRY(array.read({}, {buffer, array.info().dtype, info.shape}, device, {}, &stats));
  bytes.resize(info.decoded_bytes);
  return buffer.copy_to_host(0, bytes.data(), bytes.size());
}

void check_array(const std::string& label, const headrace::Node& node, const Expected& expected,
                 const headrace::Device& device, Outcome& outcome) {
  std::printf("  %s\n", node.path.c_str());
  if (!node.array) return outcome.fail(label + ": " + node.status.to_string());
  const headrace::ArrayInfo& info = node.array->info();
  std::printf("      %s\n", demo::describe(info).c_str());
  if (info.shape != expected.shape || info.decoded_bytes != expected.bytes) {
    return outcome.fail(label + ": shape " + demo::human_shape(info.shape) + " of " +
                        std::to_string(info.decoded_bytes) + " bytes; the manifest says " +
                        demo::human_shape(expected.shape) + " of " + std::to_string(expected.bytes));
  }
  std::vector<std::byte> bytes;
  headrace::Stats stats;
  if (Status status = read_all(*node.array, device, bytes, stats); !status.ok()) {
    return outcome.fail(label + ": " + status.to_string());
  }
  outcome.total += stats;
  std::printf("      %llu chunk%s by %s: %s\n", static_cast<unsigned long long>(stats.chunks),
              stats.chunks == 1 ? "" : "s", stats.path.empty() ? "(path not reported)" : stats.path.c_str(),
              demo::describe_bytes(stats).c_str());
  std::printf("      %s | total %s\n", demo::describe_stages(stats).c_str(),
              demo::human_seconds(stats.wall_seconds).c_str());
  if (const std::string sha256 = headrace::cli::sha256_hex(bytes); sha256 != expected.sha256) {
    return outcome.fail(label + ": decoded bytes have SHA-256 " + sha256 + ", the manifest says " + expected.sha256);
  }
  ++outcome.equal;
}

Status check_store(const std::string& url, const headrace::Context& context, const headrace::Device& device,
                   std::map<std::string, Expected> expected, Outcome& outcome) {
  HEADRACE_TRY_ASSIGN(auto store, headrace::Store::open(context, url));
  HEADRACE_TRY_ASSIGN(auto nodes, headrace::list_nodes(store));
  const std::string name = std::filesystem::path(url).filename();
  std::size_t groups = 0;
  for (const headrace::Node& node : nodes) groups += node.is_array ? 0 : 1;
  std::printf("\n%s: Zarr v%d, %zu group%s, %zu arrays\n", name.c_str(), nodes.empty() ? 0 : nodes.front().zarr_format,
              groups, groups == 1 ? "" : "s", nodes.size() - groups);
  for (const headrace::Node& node : nodes) {
    if (!node.is_array) continue;
    ++outcome.arrays;
    const std::string label = name + "/" + node.path;
    auto entry = expected.find(node.path);
    if (entry == expected.end()) {
      outcome.fail(label + ": not in the manifest");
      continue;
    }
    check_array(label, node, entry->second, device, outcome);
    expected.erase(entry);
  }
  for (const auto& [path, unused] : expected) {
    ++outcome.arrays;
    outcome.fail(name + "/" + path + ": in the manifest, but the store's listing lacks it");
  }
  return {};
}

Status run(const Options& options, const Manifest& manifest, const std::string& readers, Outcome& outcome) {
  headrace::ContextOptions context_options;
  context_options.engine = options.engine;
  HEADRACE_TRY_ASSIGN(auto context, headrace::Context::create(context_options));
  HEADRACE_TRY_ASSIGN(auto device, headrace::Device::open(options.device));
  std::printf("device  %s (%s)\n", device.name().c_str(), device.description().c_str());
  std::printf("engine  %s\n", context.engine_name().c_str());
  std::printf("        %s\n", indented(context.engine_report(), "        ").c_str());
  std::printf("Times of stages are summed over threads, so they may exceed the total. GB/s = 1e9 bytes a second.\n");

  const auto start = std::chrono::steady_clock::now();
  for (const std::string& url : options.stores) {
    auto expected = manifest.find(std::filesystem::path(url).filename());
    if (expected == manifest.end()) {
      return Status(headrace::Code::kInvalidArgument, headrace::Layer::kApi, "the manifest has no store of this name")
          .with_key(url);
    }
    HEADRACE_TRY(check_store(url, context, device, expected->second, outcome));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  std::printf("\nall arrays\n      %s\n", demo::describe_bytes(outcome.total).c_str());
  std::printf(
      "      read_bytes by path: O_DIRECT %s, engine buffered %s, page cache %s, memory %s\n",
      demo::human_bytes(outcome.total.direct_bytes).c_str(), demo::human_bytes(outcome.total.engine_bytes).c_str(),
      demo::human_bytes(outcome.total.buffered_bytes).c_str(), demo::human_bytes(outcome.total.memory_bytes).c_str());
  std::printf("      %s\n", demo::describe_stages(outcome.total).c_str());
  std::printf("      reads %s one after the other; with opening, listing and SHA-256 %s\n",
              demo::human_seconds(outcome.total.wall_seconds).c_str(), demo::human_seconds(seconds.count()).c_str());
  std::printf("\n%zu of %zu arrays equal to the bytes two foreign readers gave%s\n", outcome.equal, outcome.arrays,
              readers.empty() ? "" : (" (" + readers + ")").c_str());
  return {};
}

int usage(const char* problem) {
  std::fprintf(stderr,
               "headrace_demo: %s\nusage: headrace_demo [--device NAME] [--engine NAME] --manifest FILE STORE...\n",
               problem);
  return 2;
}

int main_checked(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    std::string* value = argument == "--device"     ? &options.device
                         : argument == "--engine"   ? &options.engine
                         : argument == "--manifest" ? &options.manifest
                                                    : nullptr;
    if (value != nullptr) {
      if (++i == argc) return usage((argument + " needs a value").c_str());
      *value = argv[i];
    } else if (argument.starts_with("-")) {
      return usage(("unknown option " + argument).c_str());
    } else {
      options.stores.push_back(argument);
    }
  }
  if (options.manifest.empty() || options.stores.empty()) return usage("a manifest and at least one store are needed");

  std::string readers;
  const Manifest manifest = load_manifest(options.manifest, readers);
  Outcome outcome;
  Status status = run(options, manifest, readers, outcome);
  if (status.ok() && outcome.equal == outcome.arrays && outcome.arrays > 0) return 0;
  std::fflush(stdout);
  const std::string error = !status.ok()          ? status.to_string()
                            : outcome.arrays == 0 ? "no arrays found"
                                                  : outcome.first_error;
  std::fprintf(stderr, "headrace_demo: %s\n", error.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return main_checked(argc, argv);
  } catch (const std::exception& exception) {  // the manifest is malformed
    std::fprintf(stderr, "headrace_demo: %s\n", exception.what());
    return 1;
  }
}
