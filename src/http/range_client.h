// RangeClient: reads ranges of a service's objects over a Transport. It builds requests, follows redirects, retries,
// and validates responses. A store is a RangeService plus a RangeClient. A long range is split into parts that several
// requests fetch concurrently, each directly into its place and all of one version; the read completes once, with the
// last part.
//
// Threads: every call from any thread. RangeListener::done() is called on one of the transport's threads, with no lock
//          held.
// Owns:    its transport. Must be destroyed after all reads have completed; the destructor waits for the transport's
//          threads.
// Fails:   each read completes once, with its bytes or a Status. Bytes that a server sends beyond the range are not
//          written.
#pragma once

#include <headrace/byte_store.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "http/absent_objects.h"
#include "http/server_model.h"
#include "http/transport.h"
#include "http/url.h"
#include "http/verdict.h"

namespace headrace::http {

// Where objects are and how requests for them are authorised. Called from several threads.
class RangeService {
 public:
  virtual ~RangeService() = default;
  virtual ServiceKind kind() const noexcept = 0;
  virtual Url place(std::string_view key) const = 0;
  // False: ranges from the end need two requests.
  virtual bool has_suffix_ranges() const noexcept { return true; }
  // Whether credentials are available. False: RangeClient::resume() is called once they are, or with the reason why
  // not. An error: requests fail now.
  virtual Result<bool> prepared() { return true; }
  // Adds the headers that authenticate a request; `now`: seconds since 1970 by the server's clock. Called only for URLs
  // of the service's own origin, so redirects elsewhere carry no credentials. Returns a generation for renew().
  virtual std::uint64_t authorize(const Url& url, std::int64_t now, std::vector<std::string>& headers) = 0;
  // The server says that the credentials of this generation have expired. False: there are no others.
  virtual bool renew(std::uint64_t) { return false; }
  // The server says which region the bucket is in.
  virtual void learn_region(std::string_view region) = 0;
};

// The client's source of time. Its transport must use the same: times of an Exchange are by now_ns().
struct ClientClock {
  std::uint64_t (*now_ns)() noexcept = &base::now_ns;        // monotonic
  std::int64_t (*unix_s)() noexcept = &system_unix_seconds;  // seconds since 1970
  static std::int64_t system_unix_seconds() noexcept;
};

struct ClientOptions {
  TransportOptions transport;
  RetryLimits retry;
  LinkLimits link;
  std::uint64_t absent_ns = 10'000'000'000;  // how long a missing object is not requested again
  bool hedge = false;                        // send a second request for late responses, as HedgePolicy decides
  std::uint64_t total_ns = 300'000'000'000;  // time limit for a range, including all its attempts
  ClientClock clock;                         // replaced in tests
};

class RangeClient {
 public:
  // `service` must outlive the client.
  RangeClient(RangeService& service, const ClientOptions& options, std::unique_ptr<Transport> transport);
  RangeClient(const RangeClient&) = delete;
  RangeClient& operator=(const RangeClient&) = delete;
  ~RangeClient();

  // As in ByteStore.
  Status start(std::span<RangeRead* const> reads);
  void cancel(std::span<RangeRead* const> reads) noexcept;

  // The service has obtained credentials, or failed to: requests that wait for them continue, or fail with `status`.
  void resume(const Status& status) noexcept;

  // As in base::ReadShaper, derived from the cost of past responses.
  base::ReadShape read_shape(bool steady) const noexcept {
    return steady ? server_.link().first_shape(options_.transport.connections)
                  : server_.link().shape(server_.connections());
  }

  // Returns a whole response body of at most `limit` bytes, such as a listing. Blocks. `place` is called again after
  // the service has learnt the bucket's region.
  Result<std::string> get_whole(const std::function<Url()>& place, std::uint64_t limit);

 private:
  class Job;
  struct Split;
  struct Whole;
  Job* take_job();
  void recycle(Job* job) noexcept;
  void recycle_locked(Job* job) noexcept;
  std::uint32_t parts_of(const RangeRead& read, std::size_t busy) const;
  void begin_split(RangeRead& read, Job& lead, std::uint32_t parts, std::vector<Job*>& jobs);
  void add_parts(Split& split, std::uint64_t begin, std::uint64_t end, const Url& place, std::vector<Job*>& jobs);
  Status begin_rest(Job& lead, std::uint64_t object_bytes);
  void keep_whole(Job& lead) noexcept;
  void ended(Job& one) noexcept;
  void hedge(Job& job) noexcept;
  Job* settle(Job& job) noexcept;
  bool lost_hedge(Job& job);
  void note_answer(const LinkAnswer& answer) noexcept;
  void note_refusal(bool throttles) noexcept;
  static void give_up_locked(Job& job) noexcept;
  bool part_ended(Job& job) noexcept;
  static void join(Split& split) noexcept;
  std::int64_t server_now() const noexcept;
  Status check_own() const;
  Status go(std::span<Job* const> jobs);

  RangeService& service_;
  const ClientOptions options_;
  const std::uint64_t generation_;  // the fork generation of the owning process
  ServerModel server_;
  AbsentObjects absent_;
  std::atomic<bool> tells_etags_{false};      // whether the latest response that could have carried a strong ETag did
  std::atomic<std::int64_t> clock_ahead_{0};  // seconds by which the server's clock is ahead
  std::mutex mutex_;
  std::vector<std::unique_ptr<Job>> jobs_;              // guarded by mutex_: all jobs
  std::vector<Job*> free_;                              // guarded by mutex_
  std::unordered_map<const RangeRead*, Job*> running_;  // guarded by mutex_
  std::vector<Job*> parked_;                            // guarded by mutex_: jobs that wait for credentials
  std::uint64_t hedged_bytes_ = 0;                      // guarded by mutex_: memory of hedged (second) requests
  const std::unique_ptr<Transport> transport_;
};

}  // namespace headrace::http
