#include "transfer/files/request_list.h"

#include <utility>

#include "base/grow.h"

namespace headrace::transfer {

RequestList::Index RequestList::next() {
  if (free_.empty()) {
    const auto index = static_cast<Index>(requests_.size());
    // Reserve in every list that a request can be in, so that none of them allocates later.
    base::grow_to(free_, requests_.size() + 1);
    base::grow_to(ended_, 2 * (requests_.size() + 1));  // taken entries stay until they are half of the list
    requests_.emplace_back();
    free_.push_back(index);
  }
  if (waiting_head_ == waiting_.size()) {
    waiting_.clear();
    waiting_head_ = 0;
  }
  base::make_room(waiting_, 1);
  const Index index = free_.back();
  FileRequest& request = requests_[index];
  request.ranges.clear();
  request.list = {};
  request.paths.clear();
  request.stopped = request.stream_passed = false;
  request.file = FileRequest::kNoFile;
  request.next = 0;
  request.next_byte = request.outstanding = request.bytes = 0;
  request.status = {};
  return index;
}

void RequestList::begin(Index index) noexcept {
  requests_[index].under_way = requests_[index].listed = true;
  free_.pop_back();
  waiting_.push_back(index);
  ++pending_;
}

void RequestList::first_is_issued() noexcept {
  const Index index = waiting_[waiting_head_++];
  ++turn_;
  requests_[index].listed = false;
  end_if_done(index);
  if (waiting_head_ > 64 && 2 * waiting_head_ > waiting_.size()) {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(waiting_head_));
    waiting_head_ = 0;
  }
}

void RequestList::step(Index index, std::uint64_t count) noexcept {
  requests_[index].outstanding -= count;
  end_if_done(index);
}

void RequestList::fail(Index index, Status status) noexcept {
  FileRequest& request = requests_[index];
  if (request.status.ok()) request.status = std::move(status);
  request.stopped = true;  // nothing more of it is started
}

void RequestList::end_if_done(Index index) noexcept {
  const FileRequest& request = requests_[index];
  if (!request.listed && request.outstanding == 0) end(index);
}

void RequestList::end(Index index) noexcept {
  requests_[index].under_way = false;
  ended_.push_back(index);
  ++turn_;
}

void RequestList::fail_all(const Status& status) noexcept {
  for (Index index = 0; index < requests_.size(); ++index) {
    if (requests_[index].under_way) fail(index, status);
  }
}

void RequestList::end_all(const Status& status) noexcept {
  for (Index index = 0; index < requests_.size(); ++index) {
    if (!requests_[index].under_way) continue;
    fail(index, status);
    end(index);
  }
}

void RequestList::take_ended(std::size_t count) noexcept {
  for (const Index index : ended().first(count)) free_.push_back(index);
  ended_head_ += count;
  if (2 * ended_head_ >= ended_.size()) {  // also clears a drained list; amortised
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(ended_head_));
    ended_head_ = 0;
  }
  pending_ -= count;
}

}  // namespace headrace::transfer
