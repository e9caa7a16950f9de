// CredentialKeeper: who asks a store, asked for anew before it ends.
//
// Credentials of roles, containers and instances end after some hours. Some minutes before, a thread fetches the next
// ones while requests go on with those that are held; when they have ended, or a server says so, requests wait for that
// thread. There is one fetch at a time, whoever waits.
//
// Threads: every call from any thread.
// Owns:    a thread, from the first fetch on, which it stops and waits for when it goes. Goes before the listener.
// Fails:   a fetch that failed is said to whoever waits, and is not tried again for some seconds.
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
  // Called on the fetch's thread, with no lock held.
  using Listener = std::function<void(const Status&)>;

  // `obtain` null: the first ones are for ever. `stop` is set when it goes, so that a fetch under way ends.
  CredentialKeeper(Credentials first, ObtainCredentials obtain, std::shared_ptr<std::atomic<bool>> stop,
                   Listener listener);
  CredentialKeeper(const CredentialKeeper&) = delete;
  CredentialKeeper& operator=(const CredentialKeeper&) = delete;
  ~CredentialKeeper();

  // Whether take() gives credentials that can be used at `now` (seconds since 1970). False: the listener is called when
  // they can be, or with the reason why they cannot. An error: they could not be fetched a moment ago.
  Result<bool> ready(std::int64_t now);

  struct Held {
    std::shared_ptr<const Credentials> credentials;
    std::uint64_t generation = 0;
  };
  Held take() const;

  // A server says that those of this generation have ended. False: there are no others to be had.
  bool renew(std::uint64_t generation);

  // Seconds before their end when credentials of a lifetime are fetched anew, and when they are not used any more.
  static std::int64_t early_s(std::int64_t lifetime_s) noexcept;
  static std::int64_t margin_s(std::int64_t lifetime_s) noexcept;

 private:
  bool begin_fetch(std::int64_t now);
  void run() noexcept;

  const ObtainCredentials obtain_;
  const std::shared_ptr<std::atomic<bool>> stop_;
  const Listener listener_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Credentials> held_;  // guarded by mutex_, as all that follows
  std::uint64_t generation_ = 1;
  std::int64_t since_ = 0;  // when they were fetched
  bool ended_ = false;      // a server says so
  bool fetching_ = false, awaited_ = false, stopping_ = false;
  std::condition_variable wanted_;
  Status failed_;  // of the last fetch
  std::int64_t next_try_ = 0;
  std::thread thread_;
};

}  // namespace headrace::http
