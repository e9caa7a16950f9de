#include "cufile/session.h"

#include <atomic>
#include <cstring>
#include <string>

namespace headrace::cufile {

int queue_key(const device::MemoryPlace& place) noexcept {
  constexpr int kHost = -1, kPerKind = 1024;
  if (place.kind != device::MemoryPlace::Kind::kDevice) return kHost;
  int key = place.device;
  for (const device::DeviceRow& row : device::devices()) {
    if (std::strcmp(place.device_kind, row.kind) == 0) break;
    key += kPerKind;
  }
  return key;
}

Result<std::shared_ptr<Session>> Session::create(const Config& config) {
  static std::atomic<std::uint64_t> next{0};
  std::shared_ptr<Session> session(new Session(config));
  session->id_ = ++next;
  ContextOptions options;
  options.engine = config.engine;
  options.threads = config.threads;
  HEADRACE_TRY_ASSIGN(session->resources_, transfer::Resources::create(options));
  return session;
}

Result<std::shared_ptr<device::Device>> Session::device(const device::MemoryPlace& place) {
  const int key = queue_key(place);
  std::lock_guard lock(mutex_);
  if (const auto found = devices_.find(key); found != devices_.end()) return found->second;
  const std::string name =
      key < 0 ? std::string("host") : std::string(place.device_kind) + ":" + std::to_string(place.device);
  HEADRACE_TRY_ASSIGN(auto opened, device::open_device(name));
  devices_.emplace(key, opened);
  return opened;
}

}  // namespace headrace::cufile
