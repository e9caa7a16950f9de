// Capabilities: what this build can read. The answers come from the engines, devices, stores and codecs themselves.
//
// Threads: any; a pure function.
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
  std::vector<std::string> v3_names;  // the registered name first; may be empty
  std::vector<std::string> v2_ids;    // numcodecs ids; may be empty
  // Where its bytes are decoded. Neither: the codec only describes the layout of elements and costs no decode step.
  bool cpu = false, gpu = false;
};

struct TypeCapability {
  std::string name;              // "float32", "datetime64", "int4"
  std::string v3, v2;            // an example in each format's spelling; "" if the format lacks the type
  std::uint32_t item_bytes = 0;  // size of the example's element after reading
  std::string note;              // "" if elements are exactly what the name says
};

struct Capabilities {
  std::vector<std::string> engines;  // most preferred first, as in all these lists
  std::vector<std::string> devices;  // kinds of device, whether or not this machine has one
  std::vector<std::string> stores;   // URL schemes
  std::vector<CodecCapability> codecs;
  std::vector<TypeCapability> data_types;
};

HEADRACE_API Result<Capabilities> capabilities();

}  // namespace headrace
