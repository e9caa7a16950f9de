// RangeClient: ranges of a service's objects over a Transport: requests, redirects, retries and the verdict on what
// comes. Stores of HTTP servers and of S3 are a RangeService and one of these. A long range is asked for in parts by
// several requests at a time, each straight into its place and all of one version; it ends once, with the last of them.
//
// Threads: every call from any thread. RangeListener::done() is called on one of the transport's threads, with no lock
//          held.
// Owns:    its transport. Goes when all reads have ended, and then waits for the transport's threads.
// Fails:   each read ends once, with its bytes or a Status; what a server sends beyond a range is not written.
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

// Where objects are and how one asks for them. Calls come from several threads.
class RangeService {
 public:
  virtual ~RangeService() = default;
  virtual ServiceKind kind() const noexcept = 0;
  virtual Url place(std::string_view key) const = 0;
  // False: ranges from the end are asked for in two steps.
  virtual bool has_suffix_ranges() const noexcept { return true; }
  // Whether it is known who asks. False: RangeClient::resume() is called when it is, or with why it is not. An error:
  // nothing is asked now.
  virtual Result<bool> prepared() { return true; }
  // Adds what tells who asks; `now`: seconds since 1970 by the server's clock. Called only for places of its own
  // origin: what leads elsewhere gets nothing. Gives a number for renew().
  virtual std::uint64_t authorize(const Url& url, std::int64_t now, std::vector<std::string>& headers) = 0;
  // The server says that what authorize() gave with that number has ended. False: there is nothing else.
  virtual bool renew(std::uint64_t) { return false; }
  // That is where the bucket is.
  virtual void learn_region(std::string_view region) = 0;
};

// What a client takes for time. Its transport keeps the same: times of an Exchange are by now_ns().
struct ClientClock {
  std::uint64_t (*now_ns)() noexcept = &base::now_ns;        // never goes back
  std::int64_t (*unix_s)() noexcept = &system_unix_seconds;  // seconds since 1970
  static std::int64_t system_unix_seconds() noexcept;
};

struct ClientOptions {
  TransportOptions transport;
  RetryLimits retry;
  LinkLimits link;
  std::uint64_t absent_ns = 10'000'000'000;  // for which an object that is not there is not asked for again
  bool hedge = false;                        // late answers are asked for a second time, as HedgePolicy has it
  std::uint64_t total_ns = 300'000'000'000;  // of a range, with all its attempts
  ClientClock clock;                         // another one for tests
};

class RangeClient {
 public:
  // `service` outlives it.
  RangeClient(RangeService& service, const ClientOptions& options, std::unique_ptr<Transport> transport);
  RangeClient(const RangeClient&) = delete;
  RangeClient& operator=(const RangeClient&) = delete;
  ~RangeClient();

  // As ByteStore has them.
  Status start(std::span<RangeRead* const> reads);
  void cancel(std::span<RangeRead* const> reads) noexcept;

  // The service knows who asks, or why it does not: what waits for that goes on, or ends so.
  void resume(const Status& status) noexcept;

  // As base::ReadShaper has it: from what the answers so far have cost.
  base::ReadShape read_shape(bool steady) const noexcept {
    return steady ? server_.link().first_shape(options_.transport.connections)
                  : server_.link().shape(server_.connections());
  }

  // A whole answer of at most `limit` bytes, such as a listing. Waits for it. `place` is asked again when the service
  // has learnt where it is.
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
  bool is_beaten(Job& job);
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
  const std::uint64_t generation_;  // of the process that it works in
  ServerModel server_;
  AbsentObjects absent_;
  std::atomic<bool> tells_etags_{false};      // as the last answers that could have shows
  std::atomic<std::int64_t> clock_ahead_{0};  // seconds that the server's clock is ahead
  std::mutex mutex_;
  std::vector<std::unique_ptr<Job>> jobs_;              // guarded by mutex_: all there are
  std::vector<Job*> free_;                              // guarded by mutex_
  std::unordered_map<const RangeRead*, Job*> running_;  // guarded by mutex_
  std::vector<Job*> parked_;                            // guarded by mutex_: until it is known who asks
  std::uint64_t hedged_bytes_ = 0;                      // guarded by mutex_: of second requests, their own memory
  const std::unique_ptr<Transport> transport_;
};

}  // namespace headrace::http
