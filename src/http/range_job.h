// RangeClient::Job: one range, or a part of one, from its first request to its completion.
//
// Threads: the transport thread that carries it, except prepare(), ask() and what the client does under its lock. Parts
//          of one range may be carried by several threads at once.
// Owns:    nothing of a read. The client owns the job and reuses it for one range after the other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/range_client.h"

namespace headrace::http {

// The waiting caller of get_whole().
struct RangeClient::Whole {
  const std::function<Url()>& place;
  std::uint64_t limit = 0;
  std::string text;
  Status status;
  std::mutex mutex;
  std::condition_variable done_signal;
  bool done = false;  // guarded by mutex
};

// A range split over several requests, each of which writes directly into its place. It completes with the last of
// them.
struct RangeClient::Split {
  RangeRead* read = nullptr;
  std::uint64_t part_bytes = 0;
  // The version that all parts must have: the reader's, or that of the first response.
  std::string etag;
  bool begun = false;  // the parts after the first have been requested
  // Guarded by the client's mutex:
  std::uint64_t deadline_ns = 0;  // of all parts; set when the first one starts
  std::vector<Job*> parts;        // in the order of their bytes
  std::size_t left = 0;           // parts that have not ended
  bool failed = false;
  Status failure;  // the first failure
};

class RangeClient::Job final : public Exchange {
 public:
  // The job's result.
  struct Outcome {
    Status status;
    std::uint64_t bytes = 0, object_bytes = RangeRead::kUnknown;
    std::string version;
  };

  explicit Job(RangeClient& client) noexcept : client_(client) {}
  virtual ~Job() = default;

  void prepare(Whole& whole, const Url& place);
  void prepare(RangeRead& read, const Url& place);
  // The same for bytes [begin, begin + out.size()) of the split range.
  void prepare_part(Split& split, const Url& place, std::uint64_t begin, std::span<std::byte> out);
  Split& own_split() noexcept { return own_split_; }  // for the range whose first part this is
  // Prepares a second request for the bytes of `late`, into memory of its own, since both requests may still write.
  // Throws std::bad_alloc.
  void prepare_hedge(Job& late);
  void drop_own() noexcept { own_.reset(); }  // frees that memory
  // Whether a second request for it makes sense.
  bool can_be_hedged() const noexcept;

  void on_begin() noexcept override;
  void on_late() noexcept override { client_.hedge(*this); }
  bool on_line(std::string_view line) noexcept override;
  std::span<std::byte> body_room() noexcept override;
  bool on_body(std::span<const std::byte> bytes) noexcept override;
  void on_end(ExchangeEnd end, std::string_view detail) noexcept override;

  void ask();
  void finish(Status status) noexcept;

  RangeRead* read() const noexcept { return read_; }
  Split* split() const noexcept { return split_; }
  const Url& place() const noexcept { return place_; }
  std::span<std::byte> out() const noexcept { return out_; }
  Outcome& outcome() noexcept { return outcome_; }
  void forget() noexcept {
    read_ = nullptr;
    split_ = nullptr;
  }
  void leave_split() noexcept { split_ = nullptr; }

  // A pair of requests for the same bytes. Guarded by the client's mutex:
  Job* rival = nullptr;  // the other request, until both have ended
  bool hedges = false;   // this is the second request
  bool over = false;     // this request has ended, with outcome()

 private:
  void prepare_any(const Url& place);
  void begin_answer();
  bool plan();
  bool plan_split();
  Status judge_end(ExchangeEnd end, std::string_view detail, bool& again);
  Status follow(const Verdict& verdict, bool& again);
  Status retry(Status status, bool& again);
  bool learn_size(const BodyPlan& plan);

  RangeClient& client_;
  RangeRead* read_ = nullptr;
  Whole* whole_ = nullptr;
  Split* split_ = nullptr;
  Split own_split_;
  std::span<std::byte> out_;
  std::unique_ptr<std::byte[]> own_;  // memory of a second request
  Outcome outcome_;
  Url place_, at_;  // the object's URL; this request's URL, which differs after a redirect
  RequestedRange requested_;
  std::uint32_t attempts_ = 0, redirects_ = 0;
  bool region_learned_ = false, clock_corrected_ = false, renewed_ = false;
  std::uint64_t generation_ = 0;  // generation of the credentials in use
  // For a range from the end where the service lacks suffix ranges: the first byte is requested to learn the size, then
  // the range.
  bool measuring_ = false;
  std::string measured_etag_;
  bool unsplit_ = false;  // the response shows that the range must be read by a single request
  // State of the current response.
  AnswerHead head_;
  std::optional<BodyPlan> plan_;
  Status failed_;                                 // set by a callback
  std::uint64_t begun_ns_ = 0, expected_ns_ = 0;  // when this request started, and how long it should take
  std::uint64_t first_ns_ = 0;                    // when its first line arrived
  std::uint64_t received_ = 0, late_bytes_ = 0;   // late: see LinkAnswer
  bool excess_ = false;
  std::string error_body_;
};

}  // namespace headrace::http
