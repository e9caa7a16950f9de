// Prints the README's table of this build's capabilities.
#include <headrace/capabilities.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

std::string code(const std::string& name) { return "`" + name + "`"; }

std::string list(const std::vector<std::string>& names, const char* none) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + code(name);
  return text.empty() ? none : text;
}

const char* processors(const headrace::CodecCapability& codec) {
  if (codec.gpu) return "CPU, GPU";
  return codec.cpu ? "CPU" : "no decode step";
}

}  // namespace

int main() {
  const auto found = headrace::capabilities();
  if (!found.ok()) {
    std::fprintf(stderr, "%s\n", found.status().to_string().c_str());
    return 1;
  }
  std::printf("| part | in this version, preferred first |\n|---|---|\n");
  std::printf("| I/O engines | %s |\n", list(found->engines, "none").c_str());
  std::printf("| devices | %s |\n", list(found->devices, "none").c_str());
  std::printf("| stores | %s |\n", list(found->stores, "none").c_str());
  // One name per type; `headrace info --capabilities` prints both formats.
  std::vector<std::string> types;
  for (const auto& type : found->data_types) types.push_back(type.name);
  std::printf("| data types | %s |\n", list(types, "none").c_str());
  std::printf("\n| codec | Zarr v3 names | Zarr v2 ids | decoded on |\n|---|---|---|---|\n");
  for (const auto& codec : found->codecs) {
    std::printf("| %s | %s | %s | %s |\n", codec.name.c_str(), list(codec.v3_names, "-").c_str(),
                list(codec.v2_ids, "-").c_str(), processors(codec));
  }
}
