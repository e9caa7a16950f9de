// `headrace info --capabilities`: what this build can read.
#include <headrace/capabilities.h>

#include <cstdio>

#include "cli_common.h"
#include "json_text.h"

namespace headrace::cli {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out.empty() ? "-" : out;
}

Json capabilities_json(const Capabilities& found) {
  // Names of types are JSON: a string, or in v3 possibly an object.
  const auto type_name = [](const std::string& text) { return text.empty() ? Json() : Json::parse(text); };
  Json codecs = Json::array(), types = Json::array(), rows = Json::array();
  for (const CodecCapability& codec : found.codecs) {
    codecs.push_back({{"name", codec.name},
                      {"v3_names", codec.v3_names},
                      {"v2_ids", codec.v2_ids},
                      {"cpu", codec.cpu},
                      {"gpu", codec.gpu}});
  }
  for (const TypeCapability& type : found.data_types) {
    types.push_back({{"name", type.name},
                     {"v3", type_name(type.v3)},
                     {"v2", type_name(type.v2)},
                     {"item_bytes", type.item_bytes},
                     {"note", type.note}});
  }
  for (const LeniencyRow& row : leniencies()) rows.push_back({{"name", row.name}, {"what", row.what}});
  return {{"engines", found.engines},    {"devices", found.devices},       {"stores", found.stores},
          {"codecs", std::move(codecs)}, {"data_types", std::move(types)}, {"leniencies", std::move(rows)}};
}

}  // namespace

int print_capabilities(bool as_json) {
  const auto found = capabilities();
  if (!found.ok()) return fail(found.status(), "capabilities");
  if (as_json) {
    print_json(capabilities_json(*found));
    return kExitOk;
  }
  std::printf("I/O engines   %s\n", joined(found->engines).c_str());
  std::printf("devices       %s\n", joined(found->devices).c_str());
  std::printf("stores        %s\n\n", joined(found->stores).c_str());
  std::printf("%-20s %-10s %-48s %s\n", "codec", "decoded on", "Zarr v3 names", "Zarr v2 ids");
  for (const CodecCapability& codec : found->codecs) {
    std::printf("%-20s %-10s %-48s %s\n", codec.name.c_str(),
                codec.gpu   ? "CPU GPU"
                : codec.cpu ? "CPU"
                            : "-",
                joined(codec.v3_names).c_str(), joined(codec.v2_ids).c_str());
  }
  std::printf("\n%-28s %6s  %-44s %s\n", "data type", "bytes", "for example", "");
  for (const TypeCapability& type : found->data_types) {
    std::string example = type.v3.size() > 24 || type.v3.empty() ? type.v2 : type.v3;
    if (example.empty()) example = type.v3;
    std::printf("%-28s %6u  %-44s %s\n", type.name.c_str(), type.item_bytes, example.c_str(), type.note.c_str());
  }
  std::printf("\n%-28s accepted with --lenient\n", "leniency");
  for (const LeniencyRow& row : leniencies()) std::printf("%-28s %s\n", row.name, row.what);
  return kExitOk;
}

}  // namespace headrace::cli
