// What this build can read, for `headrace info --capabilities`.
#include <headrace/capabilities.h>

#include <cstdio>

#include "cli_common.h"

namespace headrace::cli {
namespace {

void write_list(JsonWriter& json, const char* key, const std::vector<std::string>& values) {
  json.key(key).begin_array();
  for (const std::string& value : values) json.value(value);
  json.end_array();
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out.empty() ? "-" : out;
}

void print_json(const Capabilities& found) {
  JsonWriter json;
  json.begin_object();
  write_list(json, "engines", found.engines);
  write_list(json, "devices", found.devices);
  write_list(json, "stores", found.stores);
  json.key("codecs").begin_array();
  for (const CodecCapability& codec : found.codecs) {
    json.begin_object().member("name", codec.name);
    write_list(json, "v3_names", codec.v3_names);
    write_list(json, "v2_ids", codec.v2_ids);
    json.member("cpu", codec.cpu).member("gpu", codec.gpu).end_object();
  }
  json.end_array().key("data_types").begin_array();
  for (const TypeCapability& type : found.data_types) {
    json.begin_object().member("name", type.name).key("v3");
    type.v3.empty() ? json.null() : json.raw(type.v3);
    json.key("v2");
    type.v2.empty() ? json.null() : json.raw(type.v2);
    json.member("item_bytes", type.item_bytes).member("note", type.note).end_object();
  }
  json.end_array().key("leniencies").begin_array();
  for (const LeniencyRow& row : leniencies()) {
    json.begin_object().member("name", row.name).member("what", row.what).end_object();
  }
  json.end_array().end_object();
  std::fputs(json.text().c_str(), stdout);
}

}  // namespace

int print_capabilities(bool as_json) {
  const auto found = capabilities();
  if (!found.ok()) return fail(found.status(), "capabilities");
  if (as_json) {
    print_json(*found);
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
