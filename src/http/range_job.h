// RangeClient::Job: one range, or a part of one, from its first request to its end.
//
// Threads: that of the transport which carries it, but for prepare(), ask() and what its client does under its lock.
// Parts
//          of one range are carried by several at the same time.
// Owns:    nothing of a read; its client owns it, and uses it for one range after the other.
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

// Who waits for a whole answer, such as a listing.
struct RangeClient::Whole {
  const std::function<Url()>& place;
  std::uint64_t limit = 0;
  std::string text;
  Status status;
  std::mutex mutex;
  std::condition_variable came;
  bool done = false;  // guarded by mutex
};

// A range that several requests take, each straight into its place. It ends when the last of them has.
struct RangeClient::Split {
  RangeRead* read = nullptr;
  std::uint64_t part_bytes = 0;
  // Which version it is: the reader's, or that of the first answer. All parts are asked for with it.
  std::string etag;
  bool begun = false;  // the parts behind the first have been asked for
  // Guarded by the client's mutex:
  std::uint64_t deadline_ns = 0;  // of all parts, once one has begun
  std::vector<Job*> parts;        // in their order
  std::size_t left = 0;           // that have not ended
  bool failed = false;
  Status failure;  // of the first that failed
};

class RangeClient::Job final : public Exchange {
 public:
  // What came of it.
  struct Outcome {
    Status status;
    std::uint64_t bytes = 0, object_bytes = RangeRead::kUnknown;
    std::string version;
  };

  explicit Job(RangeClient& client) noexcept : client_(client) {}
  virtual ~Job() = default;

  void prepare(Whole& whole, const Url& place);
  void prepare(RangeRead& read, const Url& place);
  // The same, of bytes [begin, begin + out.size()) of the split range alone.
  void prepare_part(Split& split, const Url& place, std::uint64_t begin, std::span<std::byte> out);
  Split& own_split() noexcept { return own_split_; }  // of the range whose first part this is
  // Asks for what `late` asks for once more, into memory of its own: until the other has ended nobody may write where
  // both would. Throws std::bad_alloc.
  void prepare_hedge(Job& late);
  void drop_own() noexcept { own_.reset(); }  // that memory
  // Whether a second request for it would be worth something.
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

  // Of two requests for the same bytes. Guarded by the client's mutex:
  Job* rival = nullptr;  // the other one, until both have ended
  bool hedges = false;   // this is the second
  bool over = false;     // it has ended; outcome() says how

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
  std::unique_ptr<std::byte[]> own_;  // of a second request
  Outcome outcome_;
  Url place_, at_;  // where the object is, and where this request goes
  RangeAsked asked_;
  std::uint32_t attempts_ = 0, redirects_ = 0;
  bool region_told_ = false, clock_told_ = false, renewed_ = false;
  std::uint64_t generation_ = 0;  // of what said who asks
  // Of a range from the end, of services that have none: the first byte tells the size, then the range is asked for.
  bool measuring_ = false;
  std::string measured_etag_;
  bool unsplit_ = false;  // the answer shows that the range is to be asked for as a whole
  // Of the answer that comes.
  AnswerHead head_;
  std::optional<BodyPlan> plan_;
  Status failed_;                                 // by a callback
  std::uint64_t begun_ns_ = 0, expected_ns_ = 0;  // of the request: when it began, and how long it may take
  std::uint64_t first_ns_ = 0;                    // when its first line came
  std::uint64_t received_ = 0, late_bytes_ = 0;   // late: LinkAnswer
  bool surplus_ = false;
  std::string error_body_;
};

}  // namespace headrace::http
