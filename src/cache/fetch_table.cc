#include "cache/fetch_table.h"

#include <new>
#include <utility>

namespace headrace::cache {
namespace {

constexpr std::size_t kSpares = 1024;

}  // namespace

FetchTable::Turn FetchTable::turn_of(const Fetch& fetch, const Reader& reader, bool trusts,
                                     std::uint64_t since_ns) noexcept {
  if (fetch.closed) return Turn::kAlone;
  if (fetch.range != nullptr) return Turn::kFetched;
  if (fetch.began_ns < since_ns) return Turn::kAlone;
  if (!fetch.version.empty() && !reader.version.empty() && fetch.version != reader.version) return Turn::kAlone;
  return trusts || fetch.owner == reader.owner ? Turn::kBusy : Turn::kUnknown;
}

void FetchTable::lead(Fetch& fetch, const Reader& reader, std::uint64_t now_ns) noexcept {
  fetch.store = reader.store;
  fetch.object = reader.object;
  fetch.owner = reader.owner;
  fetch.version = reader.version;
  fetch.began_ns = now_ns;
  fetch.closed = false;
}

FetchTable::Turn FetchTable::begin(const CacheKey& id, const Reader& reader, bool trusts, std::uint64_t now_ns,
                                   std::uint64_t since_ns, std::shared_ptr<const FetchedRange>& range) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  if (found != fetches_.end()) {
    const Turn turn = turn_of(found->second, reader, trusts, since_ns);
    if (turn == Turn::kFetched) {
      found->second.handed_out = true;
      range = found->second.range;
    }
    return turn;
  }
  try {
    if (spare_.empty()) {
      lead(fetches_.try_emplace(id).first->second, reader, now_ns);
    } else {
      Fetches::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = id;
      lead(node.mapped(), reader, now_ns);
      fetches_.insert(std::move(node));
    }
  } catch (const std::bad_alloc&) {
    return Turn::kAlone;
  }
  return Turn::kLeads;
}

bool FetchTable::wait(const CacheKey& id, Reader& reader, bool trusts, std::uint64_t since_ns) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  if (found == fetches_.end() || turn_of(found->second, reader, trusts, since_ns) != Turn::kBusy) return false;
  Fetch& fetch = found->second;
  reader.waits_for = id;
  reader.waits = true;
  reader.next_reader = nullptr;
  reader.previous_reader = fetch.last;
  (fetch.last != nullptr ? fetch.last->next_reader : fetch.first) = &reader;
  fetch.last = &reader;
  return true;
}

bool FetchTable::leave(Reader& reader) noexcept {
  std::lock_guard lock(mutex_);
  if (!reader.waits) return false;
  Fetch& fetch = fetches_.find(reader.waits_for)->second;
  Reader* const before = reader.previous_reader;
  Reader* const after = reader.next_reader;
  (before != nullptr ? before->next_reader : fetch.first) = after;
  (after != nullptr ? after->previous_reader : fetch.last) = before;
  reader.next_reader = nullptr;
  reader.waits = false;
  return true;
}

FetchTable::Reader* FetchTable::take_all(Fetch& fetch) noexcept {
  Reader* const all = fetch.first;
  fetch.first = fetch.last = nullptr;
  for (Reader* at = all; at != nullptr; at = at->next_reader) at->waits = false;
  return all;
}

void FetchTable::erase(Fetches::iterator at) noexcept {
  Fetches::node_type node = fetches_.extract(at);
  node.mapped() = Fetch();
  if (spare_.size() == kSpares) return;
  try {
    spare_.push_back(std::move(node));
  } catch (const std::bad_alloc&) {  // only the spare is lost
  }
}

FetchTable::Reader* FetchTable::end(const CacheKey& id) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  if (found == fetches_.end()) return nullptr;
  Reader* const all = take_all(found->second);
  erase(found);
  return all;
}

FetchTable::Reader* FetchTable::pass_on(const CacheKey& id, std::uint64_t now_ns) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  if (found == fetches_.end()) return nullptr;
  Fetch& fetch = found->second;
  Reader* const next = fetch.first;
  if (next == nullptr) {
    erase(found);
    return nullptr;
  }
  fetch.first = next->next_reader;
  (fetch.first != nullptr ? fetch.first->previous_reader : fetch.last) = nullptr;
  next->next_reader = nullptr;
  next->waits = false;
  lead(fetch, *next, now_ns);
  return next;
}

FetchTable::Reader* FetchTable::fetched(const CacheKey& id, std::shared_ptr<const FetchedRange> range) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  if (found == fetches_.end()) return nullptr;
  Fetch& fetch = found->second;
  fetch.version = {};
  fetch.range = std::move(range);
  if (fetch.first != nullptr) fetch.handed_out = true;
  return take_all(fetch);
}

bool FetchTable::landed(const CacheKey& id) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  if (found == fetches_.end()) return false;
  const bool handed_out = found->second.handed_out;
  erase(found);
  return handed_out;
}

void FetchTable::close_object(const CacheKey& object) noexcept {
  std::lock_guard lock(mutex_);
  for (auto& [id, fetch] : fetches_) fetch.closed = fetch.closed || fetch.object == object;
}

void FetchTable::close_store(const CacheKey& store) noexcept {
  std::lock_guard lock(mutex_);
  for (auto& [id, fetch] : fetches_) fetch.closed = fetch.closed || fetch.store == store;
}

}  // namespace headrace::cache
