#include "http/range_job.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace headrace::http {
namespace {

constexpr std::size_t kMaxErrorBytes = 16 << 10;
constexpr std::uint32_t kMaxRedirects = 5;
constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 62;
constexpr std::size_t kMaxHedgedBytes = 8 << 20;

Status say(Code code, const char* what) { return Status(code, Layer::kStore, what); }

}  // namespace

void RangeClient::Job::prepare(Whole& whole, const Url& place) {
  prepare_any(place);
  whole_ = &whole;
}

void RangeClient::Job::prepare(RangeRead& read, const Url& place) {
  prepare_any(place);
  read_ = &read;
  out_ = read.out;
  // Clamped: no object reaches this offset, and any offset past the end shows whether the object exists.
  requested_.first = std::min(read.offset, kMaxOffset);
  // An empty read requests one byte and drops it, to learn whether the object exists.
  requested_.count = std::clamp<std::uint64_t>(read.out.size(), 1, kMaxOffset);
  requested_.from_end = read.from_end;
  requested_.etag = read.version;
  measuring_ = read.from_end && !client_.service_.has_suffix_ranges();
  if (measuring_) {
    requested_.first = 0;
    requested_.count = 1;
    requested_.from_end = false;
  }
}

void RangeClient::Job::prepare_part(Split& split, const Url& place, std::uint64_t begin, std::span<std::byte> out) {
  prepare(*split.read, place);
  split_ = &split;
  out_ = out;
  requested_.first += begin;
  requested_.count = out.size();
  requested_.etag = split.etag;
}

void RangeClient::Job::prepare_any(const Url& place) {
  forget();
  whole_ = nullptr;
  out_ = {};
  outcome_ = {};
  place_ = at_ = place;
  requested_ = {};
  attempts_ = redirects_ = 0;
  region_learned_ = clock_corrected_ = renewed_ = measuring_ = unsplit_ = false;
  rival = nullptr;
  hedges = over = urgent = false;
  not_before_ns = deadline_ns = late_ns = 0;
  total_ns = client_.options_.total_ns;
  cancel_wanted.store(false, std::memory_order_relaxed);
}

void RangeClient::Job::prepare_hedge(Job& late) {
  own_ = std::make_unique_for_overwrite<std::byte[]>(late.out_.size());
  prepare_any(late.place_);
  read_ = late.read_;
  out_ = {own_.get(), late.out_.size()};
  requested_ = late.requested_;
  deadline_ns = late.deadline_ns;
  urgent = true;
  hedges = true;
}

// Only for a first attempt. A request that determines the version for the other parts is not sent twice, since the two
// could see different versions.
bool RangeClient::Job::can_be_hedged() const noexcept {
  return read_ != nullptr && !hedges && attempts_ == 0 && !measuring_ && !out_.empty() &&
         (split_ == nullptr || split_->begun) && out_.size() <= kMaxHedgedBytes;
}

void RangeClient::Job::on_begin() noexcept {
  if (client_.options_.hedge) {
    begun_ns_ = client_.options_.clock.now_ns();
    expected_ns_ = client_.server_.link().expected_ns(requested_.count);
    const auto late = can_be_hedged() ? client_.server_.late_after(expected_ns_) : std::nullopt;
    late_ns = late ? begun_ns_ + *late : 0;
  }
  // The time limit of a split range starts with its first part.
  if (split_ == nullptr) return;
  std::lock_guard lock(client_.mutex_);
  if (split_->deadline_ns == 0) split_->deadline_ns = deadline_ns;
  deadline_ns = split_->deadline_ns;
}

void RangeClient::Job::ask() {
  url = at_.to_string();
  headers.clear();
  if (read_ != nullptr) {
    std::string range = "Range: bytes=";
    if (!requested_.from_end) range += std::to_string(requested_.first);
    range += "-" + std::to_string(requested_.from_end ? requested_.count : requested_.first + requested_.count - 1);
    headers.push_back(std::move(range));
    // Other versions are not sent; no response will match them.
    if (!requested_.etag.empty() && strong_etag(requested_.etag) == requested_.etag) {
      headers.push_back("If-Match: " + std::string(requested_.etag));
    }
  }
  headers.push_back("Accept-Encoding: identity");
  if (at_.origin() == place_.origin()) {
    generation_ = client_.service_.authorize(at_, client_.server_now(), headers);
  }
  begin_answer();
}

void RangeClient::Job::begin_answer() {
  head_.clear();
  plan_.reset();
  failed_ = {};
  asked_ns = first_ns_ = 0;
  received_ = late_bytes_ = 0;
  excess_ = false;
  error_body_.clear();
  if (whole_ != nullptr) whole_->text.clear();
}

bool RangeClient::Job::on_line(std::string_view line) noexcept {
  if (first_ns_ == 0) first_ns_ = client_.options_.clock.now_ns();
  try {
    if (plan_ || !failed_.ok() || !head_.line(line)) return failed_.ok();
    return plan();
  } catch (const std::bad_alloc&) {
    failed_ = Status::out_of_memory();
    return false;
  }
}

// Called when the head is complete.
bool RangeClient::Job::plan() {
  if (!head_.malformed.empty()) {
    failed_ = say(Code::kIo, "the server's answer is malformed").with_cause(head_.malformed);
    return false;
  }
  const bool good = head_.status == 200 || (head_.status == 206 && read_ != nullptr);
  if (!good || plan_) return true;
  auto plan = read_ != nullptr ? plan_body(head_, requested_) : plan_whole_body(head_, whole_->limit);
  if (!plan.ok()) {
    failed_ = std::move(plan).status();
    return false;
  }
  plan_ = *plan;
  return split_ == nullptr || split_->begun || plan_split();
}

// The first part of a range whose version was unknown: the other parts must have the version of this response. Without
// a strong ETag, a size or range support, the whole range is read by a single request.
bool RangeClient::Job::plan_split() {
  const std::string_view etag = strong_etag(head_.etag);
  client_.tells_etags_.store(!etag.empty(), std::memory_order_relaxed);
  unsplit_ = etag.empty() || plan_->object_bytes == BodyPlan::kUnknown || !plan_->exact;
  if (unsplit_) return false;
  split_->etag = etag;
  split_->begun = true;
  requested_.etag = split_->etag;  // for a retry of this part
  failed_ = client_.begin_rest(*this, plan_->object_bytes);
  return failed_.ok();
}

// Room for the rest of the response's bytes.
std::span<std::byte> RangeClient::Job::body_room() noexcept {
  if (!plan_ || !failed_.ok() || whole_ != nullptr || measuring_ || out_.empty()) return {};
  const std::uint64_t end = std::min<std::uint64_t>(plan_->bytes, out_.size());
  return out_.first(static_cast<std::size_t>(end)).subspan(static_cast<std::size_t>(std::min(received_, end)));
}

bool RangeClient::Job::on_body(std::span<const std::byte> bytes) noexcept {
  try {
    if (!head_.is_complete() || !failed_.ok()) return false;
    if (!plan_) {
      const std::size_t room = kMaxErrorBytes - std::min(error_body_.size(), kMaxErrorBytes);
      error_body_.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
      return room > bytes.size();
    }
    const std::uint64_t left = plan_->bytes - received_;
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
    if (whole_ != nullptr) {
      whole_->text.append(reinterpret_cast<const char*>(bytes.data()), some);
    } else if (!measuring_ && !out_.empty() && some > 0 && bytes.data() != out_.data() + received_) {
      std::memcpy(out_.data() + received_, bytes.data(), some);
    }
    if (client_.options_.clock.now_ns() - first_ns_ >= LinkModel::kEarlyNs) late_bytes_ += some;
    received_ += some;
    excess_ = excess_ || some < bytes.size();
    // A cut response is stopped as soon as it has all wanted bytes.
    return !excess_ && !(plan_->cut && received_ == plan_->bytes);
  } catch (const std::bad_alloc&) {
    failed_ = Status::out_of_memory();
    return false;
  }
}

void RangeClient::Job::on_end(ExchangeEnd end, std::string_view detail) noexcept {
  Status status;
  bool again = false;
  try {
    status = judge_end(end, detail, again);
    if (again) {
      Job* const one[] = {this};
      status = client_.go(one);
      if (status.ok()) return;
    }
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  finish(std::move(status));
}

Status RangeClient::Job::judge_end(ExchangeEnd end, std::string_view detail, bool& again) {
  if (end == ExchangeEnd::kCancelled) {
    // This request would have taken longer still; record its time so far.
    if (client_.lost_hedge(*this)) client_.server_.took(client_.options_.clock.now_ns() - begun_ns_, expected_ns_);
    return status_of(end, {});
  }
  if (!failed_.ok()) return std::move(failed_);
  if (unsplit_) {
    client_.keep_whole(*this);
    unsplit_ = false;
    out_ = read_->out;
    requested_.count = out_.size();
    requested_.etag = read_->version;
    again = true;
    return {};
  }
  // An error response whose connection broke is still judged by its head and partial text.
  const bool stopped = end == ExchangeEnd::kStopped;
  if (end != ExchangeEnd::kComplete && !stopped && (plan_ || !head_.is_complete())) {
    Status status = status_of(end, detail);
    const bool worth = end == ExchangeEnd::kNoConnection || end == ExchangeEnd::kBroken ||
                       end == ExchangeEnd::kConnectTimeout || end == ExchangeEnd::kIdleTimeout;
    if (worth && end != ExchangeEnd::kBroken) client_.note_refusal(false);
    return worth ? retry(std::move(status), again) : status;
  }
  if (!head_.is_complete()) return status_of(ExchangeEnd::kProtocol, detail);
  if (!plan_) return follow(judge(head_, requested_, client_.service_.kind(), error_body_), again);
  BodyPlan& plan = *plan_;
  if (plan.exact && excess_) return say(Code::kIo, "the server sent more bytes than it announced");
  if (plan.exact && received_ < plan.bytes) {
    return retry(say(Code::kShort, "the server's response is truncated"), again);
  }
  if (plan.cut && received_ < plan.bytes) {
    return retry(say(Code::kShort, "the server's response is truncated"), again);
  }
  if (whole_ != nullptr) {
    if (excess_) return say(Code::kResourceExhausted, "the server's answer is too long");
    client_.server_.answered();
    return {};
  }
  if (!plan.exact && !plan.cut && !excess_) plan.object_bytes = received_;
  const std::uint64_t now = client_.options_.clock.now_ns();
  client_.note_answer({asked_ns, first_ns_, now, received_, late_bytes_});
  if (client_.options_.hedge) client_.server_.took(now - begun_ns_, expected_ns_);
  if (measuring_) {
    again = learn_size(plan);
    return again ? Status() : say(Code::kUnsupported, "the server does not report the object's size");
  }
  outcome_.bytes = out_.empty() ? 0 : received_;
  outcome_.object_bytes = plan.object_bytes;
  outcome_.version = strong_etag(head_.etag);
  if (!outcome_.version.empty()) client_.tells_etags_.store(true, std::memory_order_relaxed);
  return {};
}

// Takes the size from the response to the first byte: the range from the end becomes one from the start.
bool RangeClient::Job::learn_size(const BodyPlan& plan) {
  if (plan.object_bytes == BodyPlan::kUnknown || plan.object_bytes == 0) return false;
  measuring_ = false;
  requested_.count = std::clamp<std::uint64_t>(out_.size(), 1, plan.object_bytes);
  requested_.first = plan.object_bytes - requested_.count;
  if (requested_.etag.empty()) {
    measured_etag_ = strong_etag(head_.etag);
    requested_.etag = measured_etag_;
  }
  return true;
}

Status RangeClient::Job::follow(const Verdict& verdict, bool& again) {
  switch (verdict.next) {
    case Verdict::Next::kDone:
      if (!verdict.status.ok() || whole_ != nullptr) {
        return verdict.status.ok() ? say(Code::kIo, "the server sent an unexpected response") : verdict.status;
      }
      outcome_.bytes = 0;
      outcome_.object_bytes = verdict.object_bytes;
      outcome_.version = strong_etag(head_.etag);
      return {};
    case Verdict::Next::kRetry:
      return retry(verdict.status, again);
    case Verdict::Next::kRedirect: {
      if (++redirects_ > kMaxRedirects) return say(Code::kIo, "the server redirects too often");
      HEADRACE_TRY_ASSIGN(at_, resolve_redirect(at_, head_.location));
      again = true;
      return {};
    }
    case Verdict::Next::kRegion:
      if (region_learned_) return Status(verdict.status);
      client_.service_.learn_region(verdict.region);
      region_learned_ = again = true;
      place_ = at_ = read_ != nullptr ? client_.service_.place(read_->key) : whole_->place();
      return {};
    case Verdict::Next::kCredentials:
      if (renewed_ || at_.origin() != place_.origin() || !client_.service_.renew(generation_)) {
        return Status(verdict.status);
      }
      renewed_ = again = true;
      return {};
    case Verdict::Next::kClock: {
      const auto date = parse_http_date(head_.date);
      if (clock_corrected_ || !date) return Status(verdict.status);
      client_.clock_ahead_ = *date - client_.options_.clock.unix_s();
      clock_corrected_ = again = true;
      return {};
    }
  }
  return say(Code::kInternal, "an answer without a verdict");
}

Status RangeClient::Job::retry(Status status, bool& again) {
  const std::uint64_t now = client_.options_.clock.now_ns();
  if (head_.status == 429 || head_.status == 503) client_.note_refusal(true);
  if (hedges) return status;  // the first request retries for itself
  std::uint64_t patience_ns = 0;
  if (const auto seconds = parse_retry_after(head_.retry_after, client_.server_now())) {
    patience_ns = *seconds * std::uint64_t{1'000'000'000};
  }
  const std::uint64_t left = deadline_ns == 0 ? ~std::uint64_t{0} : deadline_ns - std::min(deadline_ns, now);
  const auto wait = client_.server_.wait_ns(++attempts_, patience_ns, left);
  if (!wait) return status;
  not_before_ns = now + *wait;
  at_ = place_;  // redirects are resolved again, since the target may be what failed
  redirects_ = 0;
  again = true;
  return status;
}

void RangeClient::Job::finish(Status status) noexcept {
  if (whole_ == nullptr) {
    outcome_.status = std::move(status);
    return client_.ended(*this);
  }
  Whole* const whole = whole_;
  whole->status = std::move(status);
  client_.recycle(this);
  std::lock_guard lock(whole->mutex);
  whole->done = true;
  whole->done_signal.notify_one();  // under the lock: the waiting thread then destroys `whole`
}

}  // namespace headrace::http
