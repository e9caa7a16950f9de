#include "http/range_client.h"

#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <new>
#include <optional>

#include "base/clock.h"
#include "base/fork.h"

namespace headrace::http {
namespace {

constexpr std::size_t kMostErrorBytes = 16 << 10;
constexpr std::uint32_t kMostRedirects = 5;
constexpr std::uint64_t kMostOffset = std::uint64_t{1} << 62;

Status say(Code code, const char* what) { return Status(code, Layer::kStore, what); }

}  // namespace

struct RangeClient::Whole {
  const std::function<Url()>& place;
  std::uint64_t limit = 0;
  std::string text;
  Status status;
  std::mutex mutex;
  std::condition_variable came;
  bool done = false;  // guarded by mutex
};

// One range from its first request to its end. The transport's, but for what prepare() does.
class RangeClient::Job final : public Exchange {
 public:
  explicit Job(RangeClient& client) noexcept : client_(client) {}
  virtual ~Job() = default;

  void prepare(RangeRead* read, Whole* whole, const Url& place);

  bool on_line(std::string_view line) noexcept override;
  bool on_body(std::span<const std::byte> bytes) noexcept override;
  void on_end(ExchangeEnd end, std::string_view detail) noexcept override;

  void ask();
  void finish(Status status) noexcept;
  RangeRead* read() const noexcept { return read_; }
  void forget() noexcept { read_ = nullptr; }

 private:
  void begin_answer();
  bool plan();
  Status judge_end(ExchangeEnd end, std::string_view detail, bool& again);
  Status follow(const Verdict& verdict, bool& again);
  Status retry(Status status, bool& again);
  bool learn_size(const BodyPlan& plan);

  RangeClient& client_;
  RangeRead* read_ = nullptr;
  Whole* whole_ = nullptr;
  Url place_, at_;  // where the object is, and where this request goes
  RangeAsked asked_;
  std::uint32_t attempts_ = 0, redirects_ = 0;
  bool region_told_ = false, clock_told_ = false, renewed_ = false;
  std::uint64_t generation_ = 0;  // of what said who asks
  // Of a range from the end, of services that have none: the first byte tells the size, then the range is asked for.
  bool measuring_ = false;
  std::string measured_etag_;
  // Of the answer that comes.
  AnswerHead head_;
  std::optional<BodyPlan> plan_;
  Status failed_;               // by a callback
  std::uint64_t first_ns_ = 0;  // when its first line came
  std::uint64_t received_ = 0;
  bool surplus_ = false;
  std::string error_body_;
};

void RangeClient::Job::prepare(RangeRead* read, Whole* whole, const Url& place) {
  read_ = read;
  whole_ = whole;
  place_ = at_ = place;
  asked_ = {};
  attempts_ = redirects_ = 0;
  region_told_ = clock_told_ = renewed_ = measuring_ = false;
  not_before_ns = deadline_ns = 0;
  total_ns = client_.options_.total_ns;
  cancel_wanted.store(false, std::memory_order_relaxed);
  if (read != nullptr) {
    // No answer has a byte at such an offset: whether there is such an object, any beyond the end tells.
    asked_.first = std::min(read->offset, kMostOffset);
    // Of a read without room one byte is asked for, and dropped: it tells whether there is such an object.
    asked_.count = std::clamp<std::uint64_t>(read->out.size(), 1, kMostOffset);
    asked_.from_end = read->from_end;
    asked_.etag = read->version;
    measuring_ = read->from_end && !client_.service_.has_suffix_ranges();
    if (measuring_) {
      asked_.first = 0;
      asked_.count = 1;
      asked_.from_end = false;
    }
  }
}

void RangeClient::Job::ask() {
  url = at_.to_string();
  headers.clear();
  if (read_ != nullptr) {
    std::string range = "Range: bytes=";
    if (!asked_.from_end) range += std::to_string(asked_.first);
    range += "-" + std::to_string(asked_.from_end ? asked_.count : asked_.first + asked_.count - 1);
    headers.push_back(std::move(range));
    // What is no ETag of ours no answer matches.
    if (!asked_.etag.empty() && strong_etag(asked_.etag) == asked_.etag) {
      headers.push_back("If-Match: " + std::string(asked_.etag));
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
  received_ = 0;
  surplus_ = false;
  error_body_.clear();
  if (whole_ != nullptr) whole_->text.clear();
}

bool RangeClient::Job::on_line(std::string_view line) noexcept {
  if (first_ns_ == 0) first_ns_ = base::now_ns();
  try {
    if (plan_ || !failed_.ok() || !head_.line(line)) return failed_.ok();
    return plan();
  } catch (const std::bad_alloc&) {
    failed_ = Status::out_of_memory();
    return false;
  }
}

// The head is complete.
bool RangeClient::Job::plan() {
  if (!head_.malformed.empty()) {
    failed_ = say(Code::kIo, "the server's answer is malformed").with_cause(head_.malformed);
    return false;
  }
  const bool good = head_.status == 200 || (head_.status == 206 && read_ != nullptr);
  if (!good || plan_) return true;
  auto plan = read_ != nullptr ? plan_body(head_, asked_) : plan_whole_body(head_, whole_->limit);
  if (!plan.ok()) {
    failed_ = std::move(plan).status();
    return false;
  }
  plan_ = *plan;
  return true;
}

bool RangeClient::Job::on_body(std::span<const std::byte> bytes) noexcept {
  try {
    if (!head_.is_complete() || !failed_.ok()) return false;
    if (!plan_) {
      const std::size_t room = kMostErrorBytes - std::min(error_body_.size(), kMostErrorBytes);
      error_body_.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
      return room > bytes.size();
    }
    const std::uint64_t left = plan_->bytes - received_;
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
    if (whole_ != nullptr) {
      whole_->text.append(reinterpret_cast<const char*>(bytes.data()), some);
    } else if (!measuring_ && !read_->out.empty() && some > 0) {
      std::memcpy(read_->out.data() + received_, bytes.data(), some);
    }
    received_ += some;
    surplus_ = surplus_ || some < bytes.size();
    // A cut answer is stopped as soon as it is complete.
    return !surplus_ && !(plan_->cut && received_ == plan_->bytes);
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
  if (end == ExchangeEnd::kCancelled) return status_of(end, {});
  if (!failed_.ok()) return std::move(failed_);
  // A server that closes is done with an error's text.
  const bool stopped = end == ExchangeEnd::kStopped;
  if (end != ExchangeEnd::kComplete && !stopped && (plan_ || !head_.is_complete())) {
    Status status = status_of(end, detail);
    const bool worth = end == ExchangeEnd::kNoConnection || end == ExchangeEnd::kBroken ||
                       end == ExchangeEnd::kConnectTimeout || end == ExchangeEnd::kIdleTimeout;
    return worth ? retry(std::move(status), again) : status;
  }
  if (!head_.is_complete()) return status_of(ExchangeEnd::kProtocol, detail);
  if (!plan_) return follow(judge(head_, asked_, client_.service_.kind(), error_body_), again);
  BodyPlan& plan = *plan_;
  if (plan.exact && surplus_) return say(Code::kIo, "the server sends more bytes than it says");
  if (plan.exact && received_ < plan.bytes) {
    return retry(say(Code::kShort, "the server's answer ends before its end"), again);
  }
  if (plan.cut && received_ < plan.bytes) {
    return retry(say(Code::kShort, "the server's answer ends before its end"), again);
  }
  if (whole_ != nullptr) {
    if (surplus_) return say(Code::kResourceExhausted, "the server's answer is too long");
    client_.policy_.answered();
    return {};
  }
  if (!plan.exact && !plan.cut && !surplus_) plan.object_bytes = received_;
  client_.policy_.answered();
  client_.link_.note({asked_ns, first_ns_, base::now_ns(), received_});
  if (measuring_) {
    again = learn_size(plan);
    return again ? Status() : say(Code::kUnsupported, "the server does not tell how long the object is");
  }
  read_->bytes = read_->out.empty() ? 0 : received_;
  read_->object_bytes = plan.object_bytes;
  read_->found_version = strong_etag(head_.etag);
  return {};
}

// Of the answer to the first byte: the range from the end is one from the start now.
bool RangeClient::Job::learn_size(const BodyPlan& plan) {
  if (plan.object_bytes == BodyPlan::kUnknown || plan.object_bytes == 0) return false;
  measuring_ = false;
  asked_.count = std::clamp<std::uint64_t>(read_->out.size(), 1, plan.object_bytes);
  asked_.first = plan.object_bytes - asked_.count;
  if (asked_.etag.empty()) {
    measured_etag_ = strong_etag(head_.etag);
    asked_.etag = measured_etag_;
  }
  return true;
}

Status RangeClient::Job::follow(const Verdict& verdict, bool& again) {
  switch (verdict.next) {
    case Verdict::Next::kDone:
      if (!verdict.status.ok() || whole_ != nullptr) {
        return verdict.status.ok() ? say(Code::kIo, "the server answers something else") : verdict.status;
      }
      read_->bytes = 0;
      read_->object_bytes = verdict.object_bytes;
      read_->found_version = strong_etag(head_.etag);
      return {};
    case Verdict::Next::kRetry:
      return retry(verdict.status, again);
    case Verdict::Next::kRedirect: {
      if (++redirects_ > kMostRedirects) return say(Code::kIo, "the server redirects too often");
      HEADRACE_TRY_ASSIGN(at_, resolve_redirect(at_, head_.location));
      again = true;
      return {};
    }
    case Verdict::Next::kRegion:
      if (region_told_) return Status(verdict.status);
      client_.service_.learn_region(verdict.region);
      region_told_ = again = true;
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
      if (clock_told_ || !date) return Status(verdict.status);
      client_.clock_ahead_ = *date - static_cast<std::int64_t>(::time(nullptr));
      clock_told_ = again = true;
      return {};
    }
  }
  return say(Code::kInternal, "an answer without a verdict");
}

Status RangeClient::Job::retry(Status status, bool& again) {
  const std::uint64_t now = base::now_ns();
  std::uint64_t& random = client_.random_;
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  std::uint64_t patience_ns = 0;
  if (const auto seconds = parse_retry_after(head_.retry_after, client_.server_now())) {
    patience_ns = *seconds * std::uint64_t{1'000'000'000};
  }
  const std::uint64_t left = deadline_ns == 0 ? ~std::uint64_t{0} : deadline_ns - std::min(deadline_ns, now);
  const auto wait = client_.policy_.wait_ns(++attempts_, patience_ns, left, random);
  if (!wait) return status;
  not_before_ns = now + *wait;
  at_ = place_;  // a redirect is asked for anew: what it led to may be what failed
  redirects_ = 0;
  again = true;
  return status;
}

void RangeClient::Job::finish(Status status) noexcept {
  RangeRead* const read = read_;
  Whole* const whole = whole_;
  if (read != nullptr) {
    read->status = std::move(status);
  } else {
    whole->status = std::move(status);
  }
  client_.recycle(this);
  if (read != nullptr) {
    read->listener->done({&read, 1});
  } else {
    std::lock_guard lock(whole->mutex);
    whole->done = true;
    whole->came.notify_one();  // with the lock: whoever waits frees this
  }
}

RangeClient::RangeClient(RangeService& service, const ClientOptions& options, std::unique_ptr<Transport> transport)
    : service_(service),
      options_(options),
      generation_(base::fork_generation()),
      policy_(options.retry),
      random_(base::now_ns() | 1),
      link_(options.link),
      transport_(std::move(transport)) {}

RangeClient::~RangeClient() { transport_.reset(); }

std::int64_t RangeClient::server_now() const noexcept {
  return static_cast<std::int64_t>(::time(nullptr)) + clock_ahead_.load(std::memory_order_relaxed);
}

RangeClient::Job* RangeClient::take_job() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    // So that none is ever lost for want of room.
    if (free_.capacity() <= jobs_.size()) free_.reserve(2 * jobs_.size() + 16);
    jobs_.push_back(std::make_unique<Job>(*this));
    return jobs_.back().get();
  }
  Job* const job = free_.back();
  free_.pop_back();
  return job;
}

void RangeClient::recycle(Job* job) noexcept {
  std::lock_guard lock(mutex_);
  if (job->read() != nullptr) running_.erase(job->read());
  job->forget();
  free_.push_back(job);
}

// Before the first lock: one of the parent's may be held for ever.
Status RangeClient::check_own() const {
  if (generation_ == base::fork_generation()) return {};
  return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
}

Status RangeClient::start(std::span<RangeRead* const> reads) {
  HEADRACE_TRY(check_own());
  std::vector<Job*> jobs;
  Status status;
  try {
    jobs.reserve(reads.size());
    for (RangeRead* const read : reads) {
      Job* const job = take_job();
      jobs.push_back(job);
      job->prepare(read, nullptr, service_.place(read->key));
      std::lock_guard lock(mutex_);
      running_[read] = job;
    }
    status = go(jobs);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (!status.ok()) {
    for (Job* const job : jobs) recycle(job);
  }
  return status;
}

// All of them, or none. Where it is not known who asks they wait for resume().
Status RangeClient::go(std::span<Job* const> jobs) {
  {
    // With the lock: resume() does not come between the answer and the parking.
    std::lock_guard lock(mutex_);
    HEADRACE_TRY_ASSIGN(const bool prepared, service_.prepared());
    if (!prepared) {
      parked_.insert(parked_.end(), jobs.begin(), jobs.end());
      return {};
    }
  }
  std::vector<Exchange*> exchanges;
  exchanges.reserve(jobs.size());
  for (Job* const job : jobs) {
    job->ask();
    exchanges.push_back(job);
  }
  return transport_->start(exchanges);
}

void RangeClient::resume(const Status& status) noexcept {
  std::vector<Job*> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs.swap(parked_);
  }
  for (Job* const job : jobs) {
    Status how;
    try {
      if (job->cancel_wanted.load(std::memory_order_relaxed)) {
        how = status_of(ExchangeEnd::kCancelled, {});
      } else if (!status.ok()) {
        how = Status(status);
      } else {
        job->ask();
        Exchange* const one[] = {job};
        how = transport_->start(one);
        if (how.ok()) continue;
      }
    } catch (const std::bad_alloc&) {
      how = Status::out_of_memory();
    }
    job->finish(std::move(how));
  }
}

void RangeClient::cancel(std::span<RangeRead* const> reads) noexcept {
  if (generation_ != base::fork_generation()) return;
  bool any = false;
  std::vector<Job*> ended;
  {
    std::lock_guard lock(mutex_);
    for (RangeRead* const read : reads) {
      const auto found = running_.find(read);
      if (found == running_.end()) continue;
      found->second->cancel_wanted.store(true, std::memory_order_relaxed);
      any = true;
    }
    // Those that wait for resume() end now: it may take seconds. Without memory for that they end then.
    try {
      std::erase_if(parked_, [&](Job* job) {
        if (!job->cancel_wanted.load(std::memory_order_relaxed)) return false;
        ended.push_back(job);
        return true;
      });
    } catch (const std::bad_alloc&) {
    }
  }
  for (Job* const job : ended) job->finish(status_of(ExchangeEnd::kCancelled, {}));
  if (any) transport_->look_for_cancelled();
}

Result<std::string> RangeClient::get_whole(const std::function<Url()>& place, std::uint64_t limit) {
  HEADRACE_TRY(check_own());
  Whole whole{place, limit, {}, {}, {}, {}};
  Job* const job = take_job();
  Job* const one[] = {job};
  Status status;
  try {
    job->prepare(nullptr, &whole, place());
    status = go(one);
  } catch (const std::bad_alloc&) {
    status = Status::out_of_memory();
  }
  if (!status.ok()) {
    recycle(job);
    return status;
  }
  std::unique_lock lock(whole.mutex);
  whole.came.wait(lock, [&] { return whole.done; });
  HEADRACE_TRY(whole.status);
  return std::move(whole.text);
}

}  // namespace headrace::http
