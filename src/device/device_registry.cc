#include <charconv>
#include <initializer_list>
#include <map>
#include <mutex>

#include "base/fork_generation.h"
#include "device/device.h"

// clang-format off: needs what is declared above
#include "builtin_device.inc"
// clang-format on

namespace headrace::device {

std::span<const DeviceRow> devices() {
  static constexpr std::initializer_list<DeviceRow> kRows = {HEADRACE_BUILTIN_ROWS};
  return {kRows.begin(), kRows.size()};
}

namespace {

std::string known_kinds() {
  std::string known = "auto";
  for (const DeviceRow& row : devices()) known += std::string(", ") + row.kind;
  return known;
}

}  // namespace

MemoryPlace locate_memory(const void* address) noexcept {
  for (const DeviceRow& row : devices()) {
    if (row.locate == nullptr) continue;
    const MemoryPlace place = row.locate(address);
    if (place.kind != MemoryPlace::Kind::kHost) return place;
  }
  return {};
}

const char* kind_in_use() noexcept {
  for (const DeviceRow& row : devices()) {
    if (row.in_use != nullptr && row.in_use()) return row.kind;
  }
  return nullptr;
}

Result<std::shared_ptr<Device>> open_device(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Device>, std::less<>> open;  // guarded by mutex
  static unsigned generation = base::fork_generation();                   // guarded by mutex

  std::string_view kind = name;
  int index = 0;
  if (auto colon = name.find(':'); colon != std::string_view::npos) {
    kind = name.substr(0, colon);
    const std::string_view digits = name.substr(colon + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index < 0) {
      return Status(
          Code::kInvalidArgument, Layer::kDevice,
          "'" + std::string(name) + "' is not a device name; use KIND or KIND:N with KIND one of " + known_kinds());
    }
  }
  if (kind == "auto") {
    kind = "host";
    for (const DeviceRow& row : devices()) {
      if (std::string_view(row.kind).substr(0, 4) == "host") continue;
      if (auto count = row.count(); count.ok() && *count > 0) {
        kind = row.kind;
        break;
      }
    }
  }
  const std::string full = std::string(kind) + ":" + std::to_string(index);
  std::lock_guard lock(mutex);
  if (generation != base::fork_generation()) {  // what the parent opened is of no use in its child
    open.clear();
    generation = base::fork_generation();
  }
  if (auto found = open.find(full); found != open.end()) {
    if (auto device = found->second.lock()) return device;
  }
  for (const DeviceRow& row : devices()) {
    if (kind != row.kind) continue;
    HEADRACE_TRY_ASSIGN(auto device, row.open(index));
    open[full] = device;
    return device;
  }
  return Status(Code::kInvalidArgument, Layer::kDevice,
                "no device kind '" + std::string(kind) + "'; choose " + known_kinds());
}

}  // namespace headrace::device
