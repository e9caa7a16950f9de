#include "plain_connections.h"

#include <utility>

#include "base/clock.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kMaxIdleNs = 60'000'000'000;  // then servers may have closed them, or firewalls forgotten them

}  // namespace

PlainConnections::PlainConnections(std::size_t most) : max_(most) {
  busy_.reserve(most);
  idle_.reserve(most);
}

bool PlainConnections::begin_on_idle(const CarriedExchange& carried) {
  for (std::size_t i = idle_.size(); i-- > 0;) {  // the most recently used first
    if (idle_[i].connection->host() != carried.target.host) continue;
    Idle idle = std::move(idle_[i]);
    idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
    if (base::now_ns() - idle.since_ns > kMaxIdleNs || idle.connection->is_stale()) continue;
    idle.connection->begin(carried);
    busy_.push_back(std::move(idle.connection));
    return true;
  }
  return false;
}

void PlainConnections::begin_on(os::OwnedDescriptor socket, const CarriedExchange& carried) {
  auto connection = std::make_unique<PlainConnection>(std::move(socket), carried.target.host);
  connection->begin(carried);
  busy_.push_back(std::move(connection));
}

CarriedExchange PlainConnections::remove(std::size_t index, bool keep) noexcept {
  std::unique_ptr<PlainConnection> connection = std::move(busy_[index]);
  busy_[index] = std::move(busy_.back());
  busy_.pop_back();
  const CarriedExchange carried = connection->carried();
  if (!keep || !connection->can_reuse_connection()) return carried;
  if (idle_.size() == max_) idle_.erase(idle_.begin());
  idle_.push_back({std::move(connection), base::now_ns()});
  return carried;
}

}  // namespace headrace::http
