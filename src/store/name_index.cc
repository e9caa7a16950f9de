#include "store/name_index.h"

#include <sys/random.h>

#include <algorithm>

#include "base/clock.h"
#include "base/sip_hash.h"

namespace headrace::store {
NameIndex::NameIndex() {
  if (::getrandom(key_, sizeof key_, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof key_)) {
    key_[0] = base::now_ns();
    key_[1] = reinterpret_cast<std::uintptr_t>(this);
  }
}

std::uint64_t NameIndex::hash(std::string_view name) const noexcept {
  base::SipHash hash(key_[0], key_[1], 1, 3);
  hash.take_rest(name);
  return hash.result();
}

std::string_view NameIndex::name(std::uint32_t number) const noexcept {
  return {text_.data() + names_[number].begin, names_[number].length};
}

std::uint32_t NameIndex::find(std::string_view name) const noexcept {
  if (slots_.empty()) return kNone;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash(name) & mask;; slot = (slot + 1) & mask) {
    const std::uint32_t number = slots_[slot];
    if (number == kNone || this->name(number) == name) return number;
  }
}

void NameIndex::reserve(std::uint64_t names, std::uint64_t bytes) {
  text_.reserve(static_cast<std::size_t>(bytes));
  names_.reserve(static_cast<std::size_t>(names));
}

void NameIndex::grow() {
  std::vector<std::uint32_t> wider(std::max<std::size_t>(64, 2 * slots_.size()), kNone);
  const std::size_t mask = wider.size() - 1;
  for (std::uint32_t number = 0; number < names_.size(); ++number) {
    std::size_t slot = hash(name(number)) & mask;
    while (wider[slot] != kNone) slot = (slot + 1) & mask;
    wider[slot] = number;
  }
  slots_.swap(wider);
}

std::uint32_t NameIndex::add(std::string_view name, bool& is_new) {
  is_new = false;
  if (const std::uint32_t found = find(name); found != kNone) return found;
  if (names_.size() >= kMaxNames) return kNone;
  if (2 * (names_.size() + 1) > slots_.size()) grow();
  const std::size_t begin = text_.size();
  text_.insert(text_.end(), name.begin(), name.end());
  names_.push_back({begin, name.size()});
  const auto number = static_cast<std::uint32_t>(names_.size() - 1);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash(name) & mask;
  while (slots_[slot] != kNone) slot = (slot + 1) & mask;
  slots_[slot] = number;
  is_new = true;
  return number;
}

Result<std::vector<Entry>> NameIndex::list(std::string_view prefix, base::Charge* charge) const {
  std::call_once(sorting_, [this] {
    std::vector<std::uint32_t> order(names_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
    sorted_.swap(order);
  });
  std::string start(prefix);
  if (!start.empty()) start += '/';
  const auto from = [&](std::vector<std::uint32_t>::const_iterator begin, std::string_view least) {
    return std::lower_bound(begin, sorted_.cend(), least,
                            [this](std::uint32_t number, std::string_view text) { return name(number) < text; });
  };
  std::vector<Entry> entries;
  bool found = prefix.empty();
  for (auto it = from(sorted_.cbegin(), start); it != sorted_.cend();) {
    const std::string_view text = name(*it);
    if (text.substr(0, start.size()) != start) break;
    found = true;
    const std::string_view rest = text.substr(start.size());
    const std::size_t slash = rest.find('/');
    if (!rest.empty() && charge != nullptr) {
      HEADRACE_TRY(charge->take(listed_bytes(rest.substr(0, slash)), "a listing").with_key(prefix));
    }
    if (!rest.empty()) entries.push_back({std::string(rest.substr(0, slash)), slash != std::string_view::npos});
    if (slash == std::string_view::npos) {
      ++it;
    } else {
      // Skips everything below that folder: '0' is the character after '/'.
      it = from(it, std::string(text.substr(0, start.size() + slash)) + '0');
    }
  }
  if (!found) return Status(Code::kNotFound, Layer::kStore, "no such directory").with_key(prefix);
  sort_listed(entries);
  return entries;
}

}  // namespace headrace::store
