#include <initializer_list>

#include "io/engine.h"

// clang-format off: needs what is declared above
#include "builtin_io.inc"
// clang-format on

namespace headrace::io {

std::span<const EngineRow> engines() {
  static constexpr std::initializer_list<EngineRow> kRows = {HEADRACE_BUILTIN_ROWS};
  return {kRows.begin(), kRows.size()};
}

Result<std::unique_ptr<Engine>> make_engine(std::string_view name, const EngineOptions& options, std::string* why_not) {
  for (const EngineRow& row : engines()) {
    if (name != "auto" && name != row.name) continue;
    if (options.must_reach_device && !row.reaches_device_memory) continue;
    EngineOptions chosen = options;
    if (name == "auto" && row.reaches_device_memory) {
      if (!options.to_device) continue;
      chosen.only_direct = true;
    }
    auto engine = row.make(chosen);
    if (engine.ok() || name != "auto") return engine;
    if (why_not != nullptr) *why_not += std::string(row.name) + ": " + engine.status().to_string() + "\n";
  }
  if (options.must_reach_device) {
    return Status(Code::kUnsupported, Layer::kIo, "no usable I/O engine reads into device memory");
  }
  std::string known;
  for (const EngineRow& row : engines()) known += std::string(known.empty() ? "" : ", ") + row.name;
  return Status(name == "auto" ? Code::kUnsupported : Code::kInvalidArgument, Layer::kIo,
                name == "auto" ? "no I/O engine is usable here"
                               : "no I/O engine named '" + std::string(name) + "'; choose auto, " + known);
}

}  // namespace headrace::io
