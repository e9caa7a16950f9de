// SoakServer: an object server that misbehaves at random, in phases of "weather", in virtual time. Bytes that it sends
// with an ETag always belong to that version: it never does anything undetectable.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/virtual_transport.h"

namespace headrace::testing {

using http::Exchange;
using http::ExchangeEnd;

inline constexpr std::size_t kMaxObject = 256 << 10, kObjects = 200;
inline constexpr const char* kSoakSecret = "geheim";  // occurs in the messages it sends

class SoakDice {
 public:
  explicit SoakDice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool percent(std::uint64_t chance) { return below(100) < chance; }

 private:
  std::mt19937_64 engine_;
};

// Objects whose content is derived from their number and version.
class SoakObjects {
 public:
  SoakObjects() : pattern_(2 * kMaxObject) {
    SoakDice dice(7);
    for (std::byte& byte : pattern_) byte = static_cast<std::byte>(dice.below(256));
  }
  static std::uint64_t mixed(std::size_t object, std::uint64_t version) {
    std::uint64_t x = (object + 1) * 0x9e3779b97f4a7c15u + version * 0xd1b54a32d192ed03u;
    x ^= x >> 29;
    return x * 0xbf58476d1ce4e5b9u >> 16;
  }
  static std::size_t size(std::size_t object, std::uint64_t version) {
    return object % 50 == 0 ? 0 : mixed(object, version) % kMaxObject + 1;
  }
  std::span<const std::byte> content(std::size_t object, std::uint64_t version) const {
    return std::span(pattern_).subspan(mixed(object, version + 1000) % kMaxObject, size(object, version));
  }
  static std::string etag(std::size_t object, std::uint64_t version) {
    return "\"" + std::to_string(object) + "-" + std::to_string(version) + "\"";
  }
  // A tenth are never replaced and have no ETag; a tenth do not exist.
  static bool has_etag(std::size_t object) { return object % 10 != 3; }
  static bool exists(std::size_t object) { return object % 10 != 5; }

  std::array<std::uint64_t, kObjects> now{};  // current version of each object

 private:
  std::vector<std::byte> pattern_;
};

// Decides the reply to a request, from what it asks for and the weather.
class SoakServer {
 public:
  SoakServer(SoakObjects& objects, SoakDice& dice) : objects_(objects), dice_(dice) {}

  enum class Weather : std::uint8_t { kFair, kRough, kStorm, kOutage, kSlow };
  Weather weather = Weather::kFair;
  std::map<std::string, std::uint64_t> did;

  VirtualReply answer(const Exchange& exchange) {
    VirtualReply reply;
    reply.first_ns = dice_.between(5, 60) * 1'000'000;
    reply.pieces = static_cast<std::uint32_t>(dice_.between(1, 4));
    reply.piece_ns = dice_.between(1, 20) * 1'000'000;
    switch (weather) {
      case Weather::kOutage:
        return broken(reply, dice_.percent(50) ? ExchangeEnd::kNoConnection : ExchangeEnd::kConnectTimeout, "outage");
      case Weather::kStorm:
        if (dice_.percent(80)) return busy(reply);
        break;
      case Weather::kSlow:
        reply.first_ns = dice_.between(1, 40) * kVirtualSecond;  // the longest exceed every timeout
        reply.piece_ns = dice_.between(1, 35) * kVirtualSecond;
        break;
      case Weather::kFair:
      case Weather::kRough:
        break;
    }
    if (dice_.percent(weather == Weather::kRough ? 50 : 8)) return trick(exchange, reply);
    return good(exchange, reply, false);
  }

 private:
  struct Wanted {
    std::size_t object = 0;
    std::uint64_t first = 0, last = 0, from_end = 0;  // from_end: the last n bytes, unless 0
    std::string match;
  };
  static Wanted wanted(const Exchange& exchange) {
    Wanted out;
    out.object = std::stoul(exchange.url.substr(exchange.url.rfind('/') + 1));
    for (const std::string& line : exchange.headers) {
      if (line.starts_with("Range: bytes=-"))
        out.from_end = std::stoull(line.substr(14));
      else if (line.starts_with("Range: bytes=")) {
        out.first = std::stoull(line.substr(13));
        out.last = std::stoull(line.substr(line.find('-', 13) + 1));
      } else if (line.starts_with("If-Match: "))
        out.match = line.substr(10);
    }
    return out;
  }
  VirtualReply broken(VirtualReply& reply, ExchangeEnd how, const char* what) {
    ++did[what];
    reply.lines.clear();
    reply.end = how;
    return std::move(reply);
  }
  // A reply with an error's text as its body.
  VirtualReply error(VirtualReply& reply, const std::string& status, const std::string& code,
                     const std::string& more = "") {
    static const std::string kTail = std::string("<Message>") + kSoakSecret + "</Message></Error>";
    text_ = "<Error><Code>" + code + "</Code>" + kTail;
    // The text stays in place until the next error: errors arrive whole, as their heads do.
    reply.pieces = 1;
    errors_[next_error_ % errors_.size()] = text_;
    const std::string& kept = errors_[next_error_++ % errors_.size()];
    reply.lines = {"HTTP/1.1 " + status, "Content-Length: " + std::to_string(kept.size())};
    if (!more.empty()) reply.lines.push_back(more);
    reply.lines.emplace_back();
    reply.body = std::as_bytes(std::span(kept));
    ++did[status + " " + code];
    return std::move(reply);
  }
  VirtualReply busy(VirtualReply& reply) {
    static constexpr const char* kPatience[] = {"",
                                                "Retry-After: 0",
                                                "Retry-After: 1",
                                                "Retry-After: 20",
                                                "Retry-After: 1000000000",
                                                "Retry-After: soon",
                                                "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT"};
    const bool many = dice_.percent(50);
    return error(reply, many ? "429 Too Many" : "503 Slow Down", many ? "TooManyRequests" : "SlowDown",
                 kPatience[dice_.below(std::size(kPatience))]);
  }

  VirtualReply good(const Exchange& exchange, VirtualReply& reply, bool any_version) {
    const Wanted want = wanted(exchange);
    if (!SoakObjects::exists(want.object)) return error(reply, "404 None", "NoSuchKey");
    const std::uint64_t version = objects_.now[want.object];
    const std::string etag = SoakObjects::etag(want.object, version);
    if (!want.match.empty() && want.match != etag && !any_version)
      return error(reply, "412 Other", "PreconditionFailed");
    const auto content = objects_.content(want.object, version);
    const std::uint64_t size = content.size();
    const std::uint64_t first = want.from_end != 0 ? size - std::min(size, want.from_end) : want.first;
    const std::uint64_t end = want.from_end != 0 ? size : std::min(size, want.last + 1);
    if (first >= end) {
      return error(reply, "416 Beyond", "InvalidRange", "Content-Range: bytes */" + std::to_string(size));
    }
    reply.lines = {
        "HTTP/1.1 206 Partial Content", "Content-Length: " + std::to_string(end - first),
        "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(end - 1) + "/" + std::to_string(size)};
    if (SoakObjects::has_etag(want.object)) reply.lines.push_back("ETag: " + etag);
    reply.lines.emplace_back();
    reply.body = content.subspan(first, end - first);
    ++did["206"];
    return std::move(reply);
  }

  VirtualReply trick(const Exchange& exchange, VirtualReply& reply) {
    const std::uint64_t which = dice_.below(24);
    const char* const names[] = {"refused",
                                 "no connection in time",
                                 "broken before the head",
                                 "no HTTP",
                                 "busy",
                                 "busy",
                                 "500",
                                 "expired",
                                 "skewed clock",
                                 "403",
                                 "no bucket",
                                 "redirect",
                                 "stall",
                                 "broken in the head",
                                 "broken in the body",
                                 "short",
                                 "long",
                                 "shifted",
                                 "no range",
                                 "whole",
                                 "packed",
                                 "another version",
                                 "no ETag",
                                 "stall in the body"};
    ++did[names[which]];
    switch (which) {
      case 0:
        return broken(reply, ExchangeEnd::kNoConnection, "refused");
      case 1:
        return broken(reply, ExchangeEnd::kConnectTimeout, "refused");
      case 2:
        return broken(reply, ExchangeEnd::kBroken, "refused");
      case 3:
        return broken(reply, ExchangeEnd::kProtocol, "refused");
      case 4:
      case 5:
        return busy(reply);
      case 6:
        return error(reply, "500 Broken", "InternalError");
      case 7:
        return error(reply, "400 Bad", "ExpiredToken");
      case 8:
        return error(reply, "403 No", "RequestTimeTooSkewed", "Date: Tue, 14 Nov 2023 23:00:00 GMT");
      case 9:
        return error(reply, "403 No", "AccessDenied");
      case 10:
        return error(reply, "404 None", "NoSuchBucket");
      case 11:
        return error(reply, "307 Elsewhere", "TemporaryRedirect",
                     "Location: http://elsewhere.example/" + exchange.url.substr(exchange.url.rfind('/') + 1));
      case 12:
        reply.stalls = true;
        return std::move(reply);
      default:
        break;
    }
    VirtualReply right = good(exchange, reply, which == 21);
    if (right.lines.size() < 4 || right.body.empty() || !right.lines[0].starts_with("HTTP/1.1 206")) return right;
    switch (which) {
      case 13:
        right.lines.resize(2);
        right.body = {};
        right.end = ExchangeEnd::kBroken;
        break;
      case 14:
        right.body = right.body.first(dice_.below(right.body.size()));
        right.end = ExchangeEnd::kBroken;
        break;
      case 15:
        right.body = right.body.first(dice_.below(right.body.size()));
        break;
      case 16:
        right.body = {right.body.data(), std::min(right.body.size() + 100, 2 * kMaxObject)};
        break;
      case 17:
        right.lines[2] = "Content-Range: bytes 7-" + std::to_string(6 + right.body.size()) + "/9999999";
        break;
      case 18:
        right.lines.erase(right.lines.begin() + 2);
        break;
      case 19: {
        const std::size_t object = wanted(exchange).object;
        right.body = objects_.content(object, objects_.now[object]);
        right.lines[0] = "HTTP/1.1 200 OK";
        right.lines[1] = "Content-Length: " + std::to_string(right.body.size());
        right.lines.erase(right.lines.begin() + 2);
        break;
      }
      case 20:
        right.lines.insert(right.lines.begin() + 1, "Content-Encoding: gzip");
        break;
      case 22:
        std::erase_if(right.lines, [](const std::string& line) { return line.starts_with("ETag"); });
        break;
      case 23:
        right.stalls = true;
        break;
      default:
        break;
    }
    return right;
  }

  SoakObjects& objects_;
  SoakDice& dice_;
  std::string text_;
  std::array<std::string, 4096> errors_;  // more than can be in flight
  std::size_t next_error_ = 0;
};

}  // namespace headrace::testing
