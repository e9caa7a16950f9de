// CredentialKeeper: holds a store's credentials and refreshes them before they expire.
//
// Credentials of roles, containers and instances expire after some hours. Some minutes before that, a thread fetches
// the next ones while requests continue with the current ones. Once they have expired, or a server says so, requests
// wait for that thread. Only one fetch runs at a time, however many requests wait.
//
// Threads: every call from any thread.
// Owns:    a thread, from the first fetch on; the destructor stops and joins it. Must be destroyed before the listener.
// Fails:   a failed fetch is reported to all waiting requests, and is not retried for some seconds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "http/credentials.h"

namespace headrace::http {

class CredentialKeeper {
 public:
  // Called on the fetching thread, with no lock held.
  using Listener = std::function<void(const Status&)>;

  // `obtain` null: the first credentials never expire. The destructor sets `stop`, which cancels a fetch in progress.
  CredentialKeeper(Credentials first, ObtainCredentials obtain, std::shared_ptr<std::atomic<bool>> stop,
                   Listener listener);
  CredentialKeeper(const CredentialKeeper&) = delete;
  CredentialKeeper& operator=(const CredentialKeeper&) = delete;
  ~CredentialKeeper();

  // Whether take() returns credentials that are usable at `now` (seconds since 1970). False: the listener is called
  // once they are, or with the reason why they cannot be obtained. An error: a recent fetch failed.
  Result<bool> ready(std::int64_t now);

  struct Held {
    std::shared_ptr<const Credentials> credentials;
    std::uint64_t generation = 0;
  };
  Held take() const;

  // A server says that the credentials of this generation have expired. False: no others can be obtained.
  bool renew(std::uint64_t generation);

  // For credentials of a given lifetime: how many seconds before their expiry they are refreshed, and how many before
  // it they are no longer used.
  static std::int64_t refresh_before_s(std::int64_t lifetime_s) noexcept;
  static std::int64_t margin_s(std::int64_t lifetime_s) noexcept;

 private:
  bool begin_fetch(std::int64_t now);
  void run() noexcept;

  const ObtainCredentials obtain_;
  const std::shared_ptr<std::atomic<bool>> stop_;
  const Listener listener_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Credentials> held_;  // guarded by mutex_, as all that follow
  std::uint64_t generation_ = 1;
  std::int64_t since_ = 0;  // when they were fetched
  bool ended_ = false;      // a server says that they have expired
  bool fetching_ = false, awaited_ = false, stopping_ = false;
  std::condition_variable wanted_;
  Status failed_;  // the last fetch's
  std::int64_t next_try_ = 0;
  std::thread thread_;
};

}  // namespace headrace::http
