// Which sanitizer a test is built with. ThreadSanitizer makes single-threaded code up to forty times slower without
// checking anything there, so sweeps of one thread are thinner under it; the other presets run them whole.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

// A function that only fills or compares a test's own memory: ThreadSanitizer has nothing to find in it and would spend
// most of a test's time there.
#if defined(__SANITIZE_THREAD__)
#define HEADRACE_TEST_OWN_BYTES __attribute__((no_sanitize_thread))
#else
#define HEADRACE_TEST_OWN_BYTES
#endif

namespace headrace::support {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

// What a test sweeps over. Of ways that differ in the bytes and not in the threads a sanitizer's build takes one of
// every n that follow each other, now an earlier and now a later one, so that it is not always the same where ways
// alternate; the dev build takes all.
template <typename Way>
std::vector<Way> all_or_every(std::size_t nth, std::vector<Way> all) {
  if (!kThreadSanitizer && !kAddressSanitizer) return all;
  std::vector<Way> some;
  for (std::size_t first = 0; first < all.size(); first += nth) {
    const std::size_t i = first + ((first + 1) * 0x9E3779B97F4A7C15 >> 32) % nth;
    if (i < all.size()) some.push_back(std::move(all[i]));
  }
  return some;
}

// At the beginning of a long case in which the calling thread does all the work: ThreadSanitizer's build skips it,
// every other one runs it.
#define HEADRACE_ONE_THREAD_DOES_ALL() \
  if (::headrace::support::kThreadSanitizer) GTEST_SKIP() << "one thread does all of it"

}  // namespace headrace::support
