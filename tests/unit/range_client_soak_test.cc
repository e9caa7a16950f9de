// A day of a client with a server that misbehaves at random. Each requested range ends exactly once, with the right
// bytes of one version or a fitting error. Nothing is written outside a buffer or after a range's end. At the end there
// are no more requests, connections, slots or memory than at the start.
//
// Time is virtual and randomness is seeded, so failures are repeatable. HEADRACE_SOAK_REQUESTS makes the test longer,
// HEADRACE_SOAK_SEED varies it; a million requests are more than a day, of which the test runs a part.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>

#include "base/clock.h"
#include "support/sanitizer.h"
#include "support/soak_server.h"
#include "support/virtual_transport.h"

namespace headrace::http {
namespace {

using testing::kMaxObject;
using testing::kObjects;
using testing::kVirtualSecond;
using testing::SoakDice;
using testing::SoakObjects;
using testing::SoakServer;
using testing::VirtualTime;
using testing::VirtualTransport;

constexpr std::uint64_t kDayNs = 86400 * kVirtualSecond;
constexpr std::uint64_t kDayRequests = 1'000'000;
constexpr std::uint64_t kMaxLifetime =
    1000 * kVirtualSecond;  // of a range: it has 300 s, and may wait before it begins
constexpr std::size_t kSlots = 128, kGuard = 256;
constexpr std::byte kUntouched{0xa5};

enum SoakEvent : int { kArrive = VirtualTransport::kFirstOther, kChange, kWeather, kCancelSlot, kResume };

class SoakService final : public RangeService {
 public:
  ServiceKind kind() const noexcept override { return ServiceKind::kS3; }
  Url place(std::string_view key) const override {
    Url url = *parse_url("http://server.example/bucket/");
    url.path += key;
    return url;
  }
  Result<bool> prepared() override { return ready; }
  std::uint64_t authorize(const Url&, std::int64_t, std::vector<std::string>& headers) override {
    headers.push_back(std::string("Authorization: ") + testing::kSoakSecret);
    return generation;
  }
  bool renew(std::uint64_t of) override {
    generation += of == generation ? 1 : 0;
    return true;
  }
  void learn_region(std::string_view) override {}
  bool ready = true;
  std::uint64_t generation = 1;
};

struct SoakSlot {
  std::vector<std::byte> memory = std::vector<std::byte>(kMaxObject + 2 * kGuard, kUntouched);
  RangeRead read;
  std::string key, version;
  bool open = false, cancelled = false;
  std::uint64_t begun_ns = 0, run = 0;
  std::size_t object = 0;
  std::uint64_t version_then = 0;  // the object's version when the range was requested
};

class Soak final : public RangeListener {
 public:
  Soak(std::uint64_t requests, std::uint64_t seed) : wanted_(requests), dice_(seed), server_(objects_, dice_) {
    ClientOptions options;
    options.transport.connections = 32;
    options.link.part_bytes = 64 << 10;
    options.hedge = true;
    options.clock = VirtualTime::clock();
    auto transport = std::make_unique<VirtualTransport>(time_, options.transport, [this](const Exchange& exchange) {
      const bool elsewhere = !exchange.url.starts_with("http://server.example/");
      for (const std::string& line : exchange.headers) {
        EXPECT_FALSE(elsewhere && line.find(testing::kSoakSecret) != std::string::npos) << exchange.url;
      }
      return server_.answer(exchange);
    });
    transport_ = transport.get();
    client_ = std::make_unique<RangeClient>(service_, options, std::move(transport));
    for (std::size_t i = 0; i < kSlots; ++i) {
      slots_[i].key = "0";
      slots_[i].read.user = i;
      slots_[i].read.listener = this;
    }
  }

  void run() {
    time_.plan(VirtualTime::now() + kVirtualSecond, kChange, 0);
    time_.plan(VirtualTime::now() + 600 * kVirtualSecond, kWeather, 0);
    for (std::size_t i = 0; i < kSlots; ++i) ask(slots_[i], true);  // the maximum number in flight
    start_asked();
    pass(wanted_ / 5);
    const auto bytes = ::mallinfo2().uordblks;
    const std::uint64_t jobs = transport_->exchanges_seen();
    pass(wanted_ / 5 * 4);
    const std::uint64_t hedges = transport_->hedges;
    pass(wanted_);
    if (!support::kAddressSanitizer && !support::kThreadSanitizer) {
      EXPECT_LT(static_cast<double>(::mallinfo2().uordblks) - static_cast<double>(bytes), 1 << 20) << "memory was lost";
    }
    EXPECT_LT(transport_->exchanges_seen() - jobs, 100u) << "requests are not used again";
    EXPECT_GT(transport_->hedges, hedges) << "the memory of second requests was not given back";
    EXPECT_EQ(transport_->started, transport_->ended);
    EXPECT_EQ(completions_, started_);
    for (const SoakSlot& slot : slots_) EXPECT_TRUE(is_untouched(slot));
    EXPECT_LE(transport_->max_under_way, 32u);
    EXPECT_LT(transport_->min_limit, 16u) << "no storm lowered the connection limit";
  }

  std::uint64_t started() const { return started_; }
  void tell(std::ostream& out) const {
    out << started_ << " ranges in " << static_cast<double>(VirtualTime::now()) / 3.6e12 << " h: " << good_
        << " right, " << bytes_ << " bytes, " << transport_->started << " requests, " << transport_->hedges
        << " of them second ones, " << transport_->exchanges_seen() << " jobs\n";
    for (const auto& [code, count] : ends_) out << "  ended " << code_name(code) << ": " << count << "\n";
    for (const auto& [what, count] : server_.did) out << "  server: " << what << ": " << count << "\n";
  }

 private:
  // Runs until `until` ranges have been requested and all of them have ended.
  void pass(std::uint64_t until) {
    until_ = until;
    time_.plan(VirtualTime::now(), kArrive, 0);
    while (started_ < until_ || open_ > 0) {
      ASSERT_TRUE(time_.any()) << open_ << " ranges were lost";
      happen(time_.next());
      if (::testing::Test::HasFailure()) return;
    }
    // Processes the transport's remaining events, which must have no effect.
    const std::uint64_t ended = transport_->ended;
    for (int i = 0; i < 20'000 && time_.any(); ++i) {
      happen(time_.next());
      if (transport_->under_way() + transport_->waiting() == 0 && i > 1000) break;
    }
    EXPECT_EQ(transport_->under_way() + transport_->waiting(), 0u);
    EXPECT_EQ(transport_->started, transport_->ended) << ended;
  }

  void happen(const VirtualTime::Event& event) {
    const std::uint64_t now = VirtualTime::now();
    switch (event.kind) {
      case kArrive: {
        if (started_ >= until_) return;
        const std::uint64_t wave = std::min<std::uint64_t>(dice_.between(1, 16), until_ - started_);
        for (SoakSlot& slot : slots_) {
          if (!slot.open && asked_.size() < wave) ask(slot, false);
        }
        const std::uint64_t some = std::max<std::uint64_t>(asked_.size(), 1);
        start_asked();
        // On average, a million per day.
        time_.plan(now + dice_.below(2 * kDayNs / kDayRequests * some), kArrive, 0);
        return;
      }
      case kChange: {
        const std::size_t object = dice_.below(kObjects);
        if (SoakObjects::has_etag(object)) ++objects_.now[object];
        time_.plan(now + dice_.between(1, 2000) * 1'000'000, kChange, 0);
        return;
      }
      case kWeather: {
        using Weather = SoakServer::Weather;
        constexpr Weather kKinds[] = {Weather::kFair,   Weather::kFair,  Weather::kFair,
                                      Weather::kFair,   Weather::kRough, Weather::kFair,
                                      Weather::kOutage, Weather::kStorm, Weather::kSlow};
        server_.weather = kKinds[dice_.below(std::size(kKinds))];
        if (service_.ready && dice_.percent(20)) {  // credentials become unavailable
          service_.ready = false;
          time_.plan(now + dice_.between(1, 30) * kVirtualSecond, kResume, 0);
        }
        for (const SoakSlot& slot : slots_) {
          EXPECT_TRUE(!slot.open || now - slot.begun_ns < kMaxLifetime) << "a range was lost";
        }
        const bool bad = server_.weather == Weather::kOutage || server_.weather == Weather::kStorm;
        time_.plan(now + dice_.between(5, bad ? 40 : 120) * kVirtualSecond, kWeather, 0);
        return;
      }
      case kResume:
        service_.ready = true;
        return client_->resume(dice_.percent(80) ? Status()
                                                 : Status(Code::kPermission, Layer::kStore, "no credentials"));
      case kCancelSlot: {
        SoakSlot& slot = slots_[event.who % kSlots];
        if (!slot.open || slot.run != event.who / kSlots) return;
        slot.cancelled = true;
        RangeRead* const one[] = {&slot.read};
        return client_->cancel(one);
      }
      default:
        return transport_->happen(event);
    }
  }

  void ask(SoakSlot& slot, bool large) {
    EXPECT_TRUE(is_untouched(slot)) << "something was written after the end";
    RangeRead& read = slot.read;
    slot.object = dice_.below(kObjects);
    slot.key = std::to_string(slot.object);
    slot.version_then = objects_.now[slot.object];
    std::size_t bytes = dice_.between(1, 8192);
    if (large || dice_.percent(5)) bytes = dice_.between(8192, kMaxObject);
    if (!large && dice_.percent(1)) bytes = 0;
    read.key = slot.key;
    read.offset = dice_.below(kMaxObject / 2 + 1);
    if (large || dice_.percent(30)) read.offset = 0;
    if (dice_.percent(1)) read.offset = ~std::uint64_t{0} - dice_.below(10);
    read.from_end = !large && dice_.percent(10);
    read.out = std::span(slot.memory).subspan(kGuard, bytes);
    slot.version.clear();
    if (dice_.percent(10) && SoakObjects::has_etag(slot.object)) {
      slot.version = SoakObjects::etag(slot.object,
                                       slot.version_then - std::min<std::uint64_t>(slot.version_then, dice_.below(2)));
    }
    read.version = slot.version;
    read.status = {};
    read.bytes = 99;
    slot.cancelled = false;
    asked_.push_back(&read);
  }

  void start_asked() {
    if (asked_.empty()) return;
    const std::uint64_t now = VirtualTime::now();
    for (RangeRead* const read : asked_) {
      SoakSlot& slot = slots_[read->user];
      slot.open = true;
      slot.begun_ns = now;
      ++slot.run;
      ++open_;
      ++started_;
      if (dice_.percent(3)) {
        time_.plan(now + dice_.below(3 * kVirtualSecond), kCancelSlot, slot.run * kSlots + read->user);
      }
    }
    ASSERT_TRUE(client_->start(asked_).ok());
    asked_.clear();
  }

  void done(std::span<RangeRead* const> reads) noexcept override {
    for (RangeRead* const read : reads) end(slots_[read->user]);
  }

  void end(SoakSlot& slot) {
    ASSERT_TRUE(slot.open) << "a range ended twice";
    slot.open = false;
    --open_;
    ++completions_;
    RangeRead& read = slot.read;
    EXPECT_LT(VirtualTime::now() - slot.begun_ns, kMaxLifetime);
    EXPECT_EQ(read.status.to_string().find(testing::kSoakSecret), std::string::npos) << read.status.to_string();
    ++ends_[read.status.code()];
    if (read.status.ok()) {
      check_bytes(slot);
    } else {
      check_error(slot);
    }
    const auto guard = [&](std::size_t at) {
      const auto bytes = std::span(slot.memory).subspan(at, kGuard);
      return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kUntouched; });
    };
    EXPECT_TRUE(guard(0) && guard(kGuard + read.out.size())) << "bytes were written outside of a range";
    std::memset(read.out.data(), static_cast<int>(kUntouched), read.out.size());
    read.found_version = std::string();
    read.status = {};
  }

  // The answer gives the version of the bytes. If it does not, any version that existed during the request is right.
  void check_bytes(const SoakSlot& slot) {
    const RangeRead& read = slot.read;
    ++good_;
    bytes_ += read.bytes;
    ASSERT_TRUE(SoakObjects::exists(slot.object)) << "bytes of a missing object";
    // An answer of "beyond the end" contains no version.
    const bool beyond = read.bytes == 0 && read.found_version.empty();
    EXPECT_TRUE(slot.version.empty() || beyond || read.found_version == slot.version) << read.found_version;
    const std::uint64_t last = objects_.now[slot.object];
    std::uint64_t from = 0;
    bool right = false;
    for (from = read.found_version.empty() ? slot.version_then : 0; from <= last && !right; ++from) {
      if (!read.found_version.empty()) {
        const std::size_t dash = read.found_version.find('-');
        from = std::stoull(read.found_version.substr(dash + 1));
        ASSERT_EQ(read.found_version, SoakObjects::etag(slot.object, from));
        ASSERT_LE(from, last);
      }
      right = is_version(slot, from);
      if (!read.found_version.empty()) break;
    }
    EXPECT_TRUE(right) << "object " << slot.object << " version '" << read.found_version << "' offset " << read.offset
                       << " from_end " << read.from_end << " out " << read.out.size() << " bytes " << read.bytes
                       << " of " << read.object_bytes;
  }
  bool is_version(const SoakSlot& slot, std::uint64_t version) const {
    const RangeRead& read = slot.read;
    const auto content = objects_.content(slot.object, version);
    const std::uint64_t size = content.size(), room = read.out.size();
    const std::uint64_t first = read.from_end ? size - std::min(size, room) : std::min(size, read.offset);
    const std::uint64_t count = std::min(room, size - first);
    return read.bytes == count && (read.object_bytes == size || read.object_bytes == RangeRead::kUnknown) &&
           (count == 0 || std::memcmp(read.out.data(), content.data() + first, count) == 0);
  }

  void check_error(const SoakSlot& slot) {
    const Code code = slot.read.status.code();
    switch (code) {
      case Code::kNotFound:
        EXPECT_FALSE(SoakObjects::exists(slot.object)) << "an existing object was reported as absent";
        break;
      case Code::kCancelled:
        EXPECT_TRUE(slot.cancelled) << "the range was not cancelled";
        break;
      case Code::kIo:
      case Code::kShort:
      case Code::kTimeout:
      case Code::kPermission:
      case Code::kUnsupported:
        break;
      case Code::kAgainExhausted:  // also if a server is busy for too long
        EXPECT_TRUE(SoakObjects::has_etag(slot.object) ||
                    slot.read.status.message().find("replaced") == std::string::npos)
            << slot.read.status.to_string();
        break;
      default:
        ADD_FAILURE() << slot.read.status.to_string();
    }
  }

  static bool is_untouched(const SoakSlot& slot) {
    return slot.open || std::memcmp(slot.memory.data(), slot.memory.data() + 1, slot.memory.size() - 1) == 0;
  }

  const std::uint64_t wanted_;
  SoakDice dice_;
  VirtualTime time_;
  SoakObjects objects_;
  SoakServer server_;
  SoakService service_;
  std::array<SoakSlot, kSlots> slots_;
  VirtualTransport* transport_ = nullptr;
  std::unique_ptr<RangeClient> client_;
  std::vector<RangeRead*> asked_;
  std::uint64_t until_ = 0, started_ = 0, open_ = 0, completions_ = 0, good_ = 0, bytes_ = 0;
  std::map<Code, std::uint64_t> ends_;
};

std::uint64_t number_of(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  std::uint64_t number = usual;
  if (text != nullptr) (void)std::from_chars(text, text + std::strlen(text), number);
  return number;
}

TEST(RangeClientSoak, NothingIsLostDoubledOrLeaked) {
  const std::uint64_t requests = number_of("HEADRACE_SOAK_REQUESTS", 20'000), seed = number_of("HEADRACE_SOAK_SEED", 1);
  const std::uint64_t began = base::now_ns();
  auto soak = std::make_unique<Soak>(requests, seed);
  soak->run();
  EXPECT_GE(soak->started(), requests);
  soak->tell(std::cout);
  std::cout << "seed " << seed << ", " << static_cast<double>(base::now_ns() - began) * 1e-9 << " s\n";
}

}  // namespace
}  // namespace headrace::http
