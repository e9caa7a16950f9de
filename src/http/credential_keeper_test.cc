// Credentials are refreshed before they expire and when a server rejects them, with one fetch at a time, and waiting
// requests are notified.
#include "http/credential_keeper.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace headrace::http {
namespace {

std::int64_t now_s() { return static_cast<std::int64_t>(::time(nullptr)); }

Credentials lasting(std::int64_t seconds, const std::string& id = "A") {
  Credentials made;
  made.keys.id = id;
  made.expires = now_s() + seconds;
  return made;
}

// A credential service that blocks until the test lets it respond.
class Service {
 public:
  Result<Credentials> answer() {
    std::unique_lock lock(mutex_);
    ++fetches_;
    done_signal_.notify_all();
    done_signal_.wait(lock, [&] { return open_; });
    if (!fails_.ok()) return Status(fails_);
    return next_;
  }
  void told(const Status& status) {
    std::lock_guard lock(mutex_);
    told_.push_back(status.code());
    done_signal_.notify_all();
  }
  void set(bool open, Credentials next = lasting(3600, "B"), Status fails = {}) {
    std::lock_guard lock(mutex_);
    open_ = open;
    next_ = std::move(next);
    fails_ = std::move(fails);
    done_signal_.notify_all();
  }
  template <class Done>
  bool wait(Done done) {
    std::unique_lock lock(mutex_);
    return done_signal_.wait_for(lock, std::chrono::seconds(20), [&] { return done(*this); });
  }
  std::size_t fetches_ = 0;
  std::vector<Code> told_;

 private:
  std::mutex mutex_;
  std::condition_variable done_signal_;
  bool open_ = true;
  Credentials next_ = lasting(3600, "B");
  Status fails_;
};

struct Kept {
  explicit Kept(const Credentials& first)
      : keeper(
            first, [this] { return service.answer(); }, nullptr,
            [this](const Status& status) { service.told(status); }) {}
  std::string id() { return keeper.take().credentials->keys.id; }
  bool becomes(const std::string& wanted) {
    for (int i = 0; i < 2000 && id() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return id() == wanted;
  }
  Service service;
  CredentialKeeper keeper;
};

TEST(CredentialKeeper, RefreshesBeforeExpiry) {
  Kept kept(lasting(4000));
  EXPECT_TRUE(*kept.keeper.ready(now_s()));
  EXPECT_TRUE(*kept.keeper.ready(now_s() + 3300));
  EXPECT_EQ(kept.service.fetches_, 0u);
  EXPECT_TRUE(*kept.keeper.ready(now_s() + 3500)) << "the old ones still do";
  EXPECT_TRUE(kept.becomes("B"));
  EXPECT_TRUE(kept.service.told_.empty()) << "nobody waits";
}

TEST(CredentialKeeper, WaitsForOneFetchAtExpiry) {
  Kept kept(lasting(4000));
  kept.service.set(false);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(*kept.keeper.ready(now_s() + 3990));
  kept.service.set(true);
  EXPECT_TRUE(kept.service.wait([](Service& service) { return service.told_.size() == 1; }));
  EXPECT_EQ(kept.service.told_[0], Code::kOk);
  EXPECT_EQ(kept.service.fetches_, 1u);
  EXPECT_EQ(kept.id(), "B");
  EXPECT_TRUE(*kept.keeper.ready(now_s()));
}

TEST(CredentialKeeper, ARejectionCountsOncePerGeneration) {
  Kept kept(lasting(4000));
  const auto held = kept.keeper.take();
  EXPECT_TRUE(kept.keeper.renew(held.generation));
  EXPECT_FALSE(*kept.keeper.ready(now_s()));
  EXPECT_TRUE(kept.becomes("B"));
  EXPECT_TRUE(kept.keeper.renew(held.generation)) << "of a request that was under way: there are others now";
  EXPECT_TRUE(*kept.keeper.ready(now_s()));
  EXPECT_FALSE(kept.keeper.renew(kept.keeper.take().generation)) << "just fetched: others would not be taken either";
  EXPECT_TRUE(*kept.keeper.ready(now_s()));
  EXPECT_EQ(kept.service.fetches_, 1u);
}

TEST(CredentialKeeper, AFailureIsReportedAndNotRetriedAtOnce) {
  Kept kept(lasting(4000));
  kept.service.set(true, {}, Status(Code::kPermission, Layer::kStore, "no"));
  EXPECT_FALSE(*kept.keeper.ready(now_s() + 3990));
  EXPECT_TRUE(kept.service.wait([](Service& service) { return service.told_.size() == 1; }));
  EXPECT_EQ(kept.service.told_[0], Code::kPermission);
  kept.keeper.renew(kept.keeper.take().generation);
  EXPECT_EQ(kept.keeper.ready(now_s()).status().code(), Code::kPermission);
  EXPECT_EQ(kept.service.fetches_, 1u);
  kept.service.set(true);
  EXPECT_FALSE(*kept.keeper.ready(now_s() + 60)) << "after a while it is";
  EXPECT_TRUE(kept.becomes("B"));
}

TEST(CredentialKeeper, CredentialsWithoutExpiryAreKeptUntilRejected) {
  Credentials ever;
  ever.keys.id = "A";
  Kept kept(ever);
  EXPECT_TRUE(*kept.keeper.ready(now_s() + 1'000'000'000));
  kept.keeper.renew(kept.keeper.take().generation);
  EXPECT_FALSE(*kept.keeper.ready(now_s()));
  EXPECT_TRUE(kept.becomes("B"));
  CredentialKeeper fixed(ever, nullptr, nullptr, [](const Status&) {});
  EXPECT_FALSE(fixed.renew(1));
  EXPECT_TRUE(*fixed.ready(now_s()));
}

TEST(CredentialKeeper, MarginsFitTheLifetime) {
  for (const std::int64_t seconds : {-5, 0, 1, 10, 900, 3600, 43200}) {
    EXPECT_LE(CredentialKeeper::margin_s(seconds), CredentialKeeper::refresh_before_s(seconds));
    EXPECT_LT(CredentialKeeper::refresh_before_s(seconds), std::max<std::int64_t>(seconds, 1));
  }
  EXPECT_EQ(CredentialKeeper::refresh_before_s(3600), 600);
  EXPECT_EQ(CredentialKeeper::margin_s(3600), 60);
}

}  // namespace
}  // namespace headrace::http
