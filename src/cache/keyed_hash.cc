#include "cache/keyed_hash.h"

#include "base/sip_hash.h"

namespace headrace::cache {
namespace {

base::SipHash begin(const CacheSecret& secret) noexcept {
  base::SipHash hash(secret[0], secret[1], 2, 4);
  hash.lengthen();
  return hash;
}

CacheKey finish(base::SipHash& hash, std::string_view rest) noexcept {
  CacheKey key;
  hash.take_rest(rest);
  hash.result(key.low, key.high);
  return key;
}

}  // namespace

CacheKey KeyedHash::of(std::string_view text) const noexcept {
  base::SipHash hash = begin(secret_);
  return finish(hash, text);
}

CacheKey KeyedHash::of(const CacheKey& parent, std::uint64_t first, std::uint64_t second) const noexcept {
  base::SipHash hash = begin(secret_);
  for (const std::uint64_t value : {parent.low, parent.high, first, second}) hash.take(value);
  return finish(hash, {});
}

CacheKey KeyedHash::of(const CacheKey& parent, std::string_view name) const noexcept {
  base::SipHash hash = begin(secret_);
  hash.take(parent.low);
  hash.take(parent.high);
  return finish(hash, name);
}

}  // namespace headrace::cache
