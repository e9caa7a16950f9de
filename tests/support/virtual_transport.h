// VirtualTransport: a Transport without sockets and threads, in virtual time. A test decides each request's outcome.
// Answers arrive when the virtual clock reaches their time, and it advances as fast as the test runs.
//
// It keeps the order guarantees of the libcurl transport: start() calls nothing back, a request begins when a
// connection is free, time-outs follow the options, and each request ends exactly once.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "http/range_client.h"

namespace headrace::testing {

constexpr std::uint64_t kVirtualSecond = 1'000'000'000;

// The clock and the queue of events. Simultaneous events happen in the order in which they were planned.
class VirtualTime {
 public:
  static constexpr std::int64_t kEpoch = 1'700'000'000;
  static std::uint64_t now() noexcept { return now_; }
  static std::int64_t unix_s() noexcept { return kEpoch + static_cast<std::int64_t>(now_ / kVirtualSecond); }
  static http::ClientClock clock() noexcept { return {&now, &unix_s}; }
  // Starts another run. The clock does not start at 0, which an Exchange reads as "no time".
  VirtualTime() { now_ = kVirtualSecond; }

  struct Event {
    std::uint64_t at_ns = 0, number = 0;
    int kind = 0;
    std::uint64_t who = 0;
    bool operator>(const Event& other) const { return std::tie(at_ns, number) > std::tie(other.at_ns, other.number); }
  };
  void plan(std::uint64_t at_ns, int kind, std::uint64_t who) {
    events_.push({std::max(at_ns, now_), ++planned_, kind, who});
  }
  bool any() const { return !events_.empty(); }
  // Advances the clock to the next event. REQUIRES: any().
  Event next() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at_ns;
    return event;
  }

 private:
  static inline std::uint64_t now_ = kVirtualSecond;
  std::uint64_t planned_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// The outcome of a request.
struct VirtualReply {
  std::uint64_t first_ns = 0;                            // delay of the first line or, without lines, of the end
  std::vector<std::string> lines;                        // of the head, without line ends; the empty one closes it
  std::span<const std::byte> body;                       // the part of it that is sent
  std::uint32_t pieces = 1;                              // number of pieces the body is sent in
  std::uint64_t piece_ns = 0;                            // delay before each piece
  http::ExchangeEnd end = http::ExchangeEnd::kComplete;  // after the last piece
  bool stalls = false;                                   // never ends
};

class VirtualTransport final : public http::Transport {
 public:
  // Kinds below this belong to the transport.
  static constexpr int kFirstOther = 100;
  using Reply = std::function<VirtualReply(const http::Exchange& exchange)>;

  VirtualTransport(VirtualTime& time, const http::TransportOptions& options, Reply reply)
      : time_(time), options_(options), limit_(options.connections), reply_(std::move(reply)) {}

  Status start(std::span<http::Exchange* const> exchanges) override {
    for (http::Exchange* const exchange : exchanges) {
      seen_.insert(exchange);
      ++started;
      hedges += exchange->urgent ? 1 : 0;
      waiting_.insert(exchange->urgent ? waiting_.begin() : waiting_.end(), exchange);
    }
    time_.plan(VirtualTime::now(), kPump, 0);
    return {};
  }
  void look_for_cancelled() noexcept override { time_.plan(VirtualTime::now(), kLook, 0); }
  void use_connections(std::uint32_t count) noexcept override {
    limit_ = std::clamp(count, 1u, options_.connections);
    min_limit = std::min(min_limit, limit_);
  }
  void stop() noexcept override {}
  bool any_waits() const noexcept override { return !waiting_.empty(); }

  void happen(const VirtualTime::Event& event) {
    switch (event.kind) {
      case kPump:
        return pump();
      case kLook:
        return drop_cancelled();
      default:
        break;
    }
    const auto found = active_.find(event.who);
    if (found == active_.end()) return;  // it has ended in the meantime
    Under& under = found->second;
    switch (event.kind) {
      case kHead:
        return head(event.who, under);
      case kPiece:
        return piece(event.who, under);
      case kIdle:
        if (VirtualTime::now() < under.moved_ns + options_.idle_ns) return;
        return end(event.who, http::ExchangeEnd::kIdleTimeout);
      case kDeadline:
        return end(event.who, http::ExchangeEnd::kTotalTimeout);
      case kLate:
        if (under.exchange->late_ns == 0) return;
        under.exchange->late_ns = 0;
        return under.exchange->on_late();
      default:
        return;
    }
  }

  std::size_t under_way() const { return active_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t exchanges_seen() const { return seen_.size(); }
  std::uint64_t started = 0, ended = 0, hedges = 0;
  std::size_t max_under_way = 0;
  std::uint32_t min_limit = ~0u;

 private:
  enum Kind : int { kPump, kLook, kHead, kPiece, kIdle, kDeadline, kLate };
  struct Under {
    http::Exchange* exchange = nullptr;
    VirtualReply reply;
    std::uint64_t begun_ns = 0, moved_ns = 0;
    std::uint32_t piece = 0;
  };

  void pump() {
    std::uint64_t soonest = ~std::uint64_t{0};
    for (std::size_t i = 0; i < waiting_.size();) {
      http::Exchange* const exchange = waiting_[i];
      if (exchange->cancel_wanted) {
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
        finish(*exchange, http::ExchangeEnd::kCancelled);
        continue;
      }
      if (active_.size() >= limit_) return;
      if (exchange->not_before_ns > VirtualTime::now()) {
        soonest = std::min(soonest, exchange->not_before_ns);
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      begin(*exchange);
    }
    // One event serves all requests that wait for a time; a second one is not planned before it.
    if (soonest == ~std::uint64_t{0} || (next_look_ns_ > VirtualTime::now() && next_look_ns_ <= soonest)) return;
    next_look_ns_ = soonest;
    time_.plan(soonest, kPump, 0);
  }

  void begin(http::Exchange& exchange) {
    const std::uint64_t now = VirtualTime::now(), who = ++begun_;
    if (exchange.deadline_ns == 0)
      exchange.deadline_ns = exchange.total_ns == 0 ? ~std::uint64_t{0} : now + exchange.total_ns;
    exchange.on_begin();
    Under& under = active_[who];
    under = {&exchange, reply_(exchange), now, now, 0};
    max_under_way = std::max(max_under_way, active_.size());
    if (!under.reply.stalls || !under.reply.lines.empty()) time_.plan(now + under.reply.first_ns, kHead, who);
    time_.plan(now + options_.idle_ns, kIdle, who);
    if (exchange.deadline_ns != ~std::uint64_t{0}) time_.plan(exchange.deadline_ns, kDeadline, who);
    if (exchange.late_ns != 0) time_.plan(exchange.late_ns, kLate, who);
  }

  void moved(std::uint64_t who, Under& under) {
    under.moved_ns = VirtualTime::now();
    time_.plan(under.moved_ns + options_.idle_ns, kIdle, who);
  }

  void head(std::uint64_t who, Under& under) {
    if (under.reply.lines.empty()) return end(who, under.reply.end);
    moved(who, under);
    under.exchange->asked_ns = under.begun_ns + under.reply.first_ns / 8;
    for (const std::string& line : under.reply.lines) {
      if (!under.exchange->on_line(line + "\r\n")) return end(who, http::ExchangeEnd::kStopped);
    }
    time_.plan(VirtualTime::now() + under.reply.piece_ns, kPiece, who);
  }

  void piece(std::uint64_t who, Under& under) {
    const std::size_t size = under.reply.body.size(), from = size * under.piece / under.reply.pieces,
                      to = size * (under.piece + 1) / under.reply.pieces;
    moved(who, under);
    if (to > from && !under.exchange->on_body(under.reply.body.subspan(from, to - from))) {
      return end(who, http::ExchangeEnd::kStopped);
    }
    if (++under.piece < under.reply.pieces) {
      time_.plan(VirtualTime::now() + under.reply.piece_ns, kPiece, who);
    } else if (!under.reply.stalls) {
      end(who, under.reply.end);
    }
  }

  void drop_cancelled() {
    std::vector<std::uint64_t> gone;
    for (const auto& [who, under] : active_) {
      if (under.exchange->cancel_wanted) gone.push_back(who);
    }
    std::sort(gone.begin(), gone.end());  // the same order in every run
    for (const std::uint64_t who : gone) {
      if (active_.contains(who)) end(who, http::ExchangeEnd::kCancelled);
    }
    pump();
  }

  void end(std::uint64_t who, http::ExchangeEnd how) {
    http::Exchange* const exchange = active_.at(who).exchange;
    active_.erase(who);
    time_.plan(VirtualTime::now(), kPump, 0);
    finish(*exchange, how);
  }
  void finish(http::Exchange& exchange, http::ExchangeEnd how) {
    ++ended;
    exchange.on_end(how, "");
  }

  VirtualTime& time_;
  const http::TransportOptions options_;
  std::uint32_t limit_;
  const Reply reply_;
  std::vector<http::Exchange*> waiting_;
  std::unordered_map<std::uint64_t, Under> active_;
  std::unordered_set<const http::Exchange*> seen_;
  std::uint64_t begun_ = 0, next_look_ns_ = 0;
};

}  // namespace headrace::testing
