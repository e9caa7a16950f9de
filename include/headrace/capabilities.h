// Capabilities: what this build can read, by which parts, asked of the parts themselves.
//
// Threads: a pure function.
#pragma once

#include <headrace/export.h>
#include <headrace/open_options.h>
#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <vector>

namespace headrace {

struct CodecCapability {
  std::string name;
  std::vector<std::string> v3_names;  // the first is the registered one; may be empty
  std::vector<std::string> v2_ids;    // numcodecs; may be empty
  // Where its bytes are decoded. Neither: it only says how elements lie, and costs no decode step.
  bool cpu = false, gpu = false;
};

struct TypeCapability {
  std::string name;              // "float32", "datetime64", "int4"
  std::string v3, v2;            // an example of each format's own text, "" where the format has none
  std::uint32_t item_bytes = 0;  // of the example's element, once read
  std::string note;              // "" where the elements are what the name says
};

struct Capabilities {
  std::vector<std::string> engines;  // preferred first, as all the lists
  std::vector<std::string> devices;  // kinds; not whether one is in this machine
  std::vector<std::string> stores;   // URL schemes
  std::vector<CodecCapability> codecs;
  std::vector<TypeCapability> data_types;
};

HEADRACE_API Result<Capabilities> capabilities();

}  // namespace headrace
