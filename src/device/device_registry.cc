#include <charconv>
#include <initializer_list>
#include <map>
#include <mutex>

#include "base/fork.h"
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

// The first kind of GPU that can be used, otherwise the host; `note` then says why there is none.
std::string_view best_kind(std::string& note) {
  std::string why;
  for (const DeviceRow& row : devices()) {
    if (is_host(row)) continue;
    const auto count = row.count();
    if (count.ok() && *count > 0) return row.kind;
    why += (why.empty() ? "" : "; ") + std::string(row.kind) + ": " +
           (count.ok() ? "no device" : count.status().to_string());
  }
  note = "no GPU is used: " + (why.empty() ? "this build knows none" : why);
  return "host";
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
  struct Opened {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<Device>, std::less<>> devices;  // guarded by mutex
  };
  static base::PerProcess<Opened> opened;  // what the parent opened is useless in its child

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
  std::string note;
  if (kind == "auto") kind = best_kind(note);
  // A host chosen as a fallback is a different device from one asked for by name, since it has a note.
  const std::string full = (note.empty() ? std::string(kind) : "auto") + ":" + std::to_string(index);
  Opened& open = opened.get();
  std::lock_guard lock(open.mutex);
  if (auto found = open.devices.find(full); found != open.devices.end()) {
    if (auto device = found->second.lock()) return device;
  }
  for (const DeviceRow& row : devices()) {
    if (kind != row.kind) continue;
    HEADRACE_TRY_ASSIGN(auto device, row.open(index));
    if (!note.empty()) device->set_note(std::move(note));
    open.devices[full] = device;
    return device;
  }
  return Status(Code::kInvalidArgument, Layer::kDevice,
                "no device kind '" + std::string(kind) + "'; choose " + known_kinds());
}

}  // namespace headrace::device
