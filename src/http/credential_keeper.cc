#include "http/credential_keeper.h"

#include <time.h>

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "os/signals_blocked.h"

namespace headrace::http {
namespace {

constexpr std::int64_t kFailedSeconds = 2;  // delay before a failed fetch is retried if requests wait for it
constexpr std::int64_t kFreshSeconds = 10;
constexpr std::int64_t kEarlyTrySeconds = 30;  // and if none do

std::int64_t now_s() noexcept { return static_cast<std::int64_t>(::time(nullptr)); }

}  // namespace

std::int64_t CredentialKeeper::refresh_before_s(std::int64_t lifetime_s) noexcept {
  return std::min<std::int64_t>(600, std::max<std::int64_t>(lifetime_s, 0) / 4);
}

std::int64_t CredentialKeeper::margin_s(std::int64_t lifetime_s) noexcept {
  return std::min<std::int64_t>(60, std::max<std::int64_t>(lifetime_s, 0) / 10);
}

CredentialKeeper::CredentialKeeper(Credentials first, ObtainCredentials obtain, std::shared_ptr<std::atomic<bool>> stop,
                                   Listener listener)
    : obtain_(std::move(obtain)),
      stop_(std::move(stop)),
      listener_(std::move(listener)),
      held_(std::make_shared<const Credentials>(std::move(first))),
      since_(now_s()) {}

CredentialKeeper::~CredentialKeeper() {
  if (stop_ != nullptr) *stop_ = true;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

CredentialKeeper::Held CredentialKeeper::take() const {
  std::lock_guard lock(mutex_);
  return {held_, generation_};
}

Result<bool> CredentialKeeper::ready(std::int64_t now) {
  std::lock_guard lock(mutex_);
  if (!obtain_ || (!ended_ && held_->expires == Credentials::kNever)) return true;
  // Credentials without an expiry get here only after a server rejected them: they have no lifetime.
  const bool ends = held_->expires != Credentials::kNever;
  const std::int64_t lifetime = ends ? held_->expires - since_ : 0;
  const std::int64_t left = ends ? held_->expires - now : 0;
  if (!ended_ && left > margin_s(lifetime)) {
    if (left <= refresh_before_s(lifetime) && !fetching_ && now >= next_try_) begin_fetch(now);
    return true;
  }
  if (!fetching_) {
    if (!failed_.ok() && now < next_try_) return Status(failed_);
    // Without a thread, use the old credentials: the server will report what is wrong with them.
    if (!begin_fetch(now)) return true;
  }
  awaited_ = true;
  return false;
}

bool CredentialKeeper::renew(std::uint64_t generation) {
  std::lock_guard lock(mutex_);
  if (!obtain_) return false;
  if (generation != generation_) return true;
  // If freshly fetched credentials are rejected too, do not fetch again for each request.
  if (generation_ > 1 && now_s() - since_ < kFreshSeconds) return false;
  ended_ = true;
  return true;
}

// With the lock. False: no thread could be started.
bool CredentialKeeper::begin_fetch(std::int64_t now) {
  if (!thread_.joinable()) {
    const os::SignalsBlocked blocked;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {
      next_try_ = now + kFailedSeconds;
    }
    if (!thread_.joinable()) return false;
  }
  fetching_ = true;
  wanted_.notify_one();
  return true;
}

void CredentialKeeper::run() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return fetching_ || stopping_; });
    if (stopping_) return;
    lock.unlock();
    Status status;
    std::shared_ptr<const Credentials> fresh;
    try {
      auto found = obtain_();
      if (found.ok()) {
        fresh = std::make_shared<const Credentials>(*std::move(found));
      } else {
        status = std::move(found).status();
      }
    } catch (const std::bad_alloc&) {
      status = Status::out_of_memory();
    }
    lock.lock();
    const std::int64_t now = now_s();
    if (fresh != nullptr) {
      held_ = std::move(fresh);
      ++generation_;
      since_ = now;
      ended_ = false;
      next_try_ = now + kFailedSeconds;  // also if the new credentials are about to expire
    } else {
      next_try_ = now + (awaited_ ? kFailedSeconds : kEarlyTrySeconds);
    }
    failed_ = Status(status);
    fetching_ = false;  // requests that arrive while the listener runs start another fetch
    if (!std::exchange(awaited_, false)) continue;
    lock.unlock();
    listener_(status);
    lock.lock();
  }
}

}  // namespace headrace::http
