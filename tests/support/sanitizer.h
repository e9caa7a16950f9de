// Which sanitizer a test is built with. ThreadSanitizer slows single-threaded code by up to forty times and finds
// nothing there, so single-threaded sweeps are thinned under it; the other presets run them in full.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

// Marks a function that only fills or compares a test's own memory. ThreadSanitizer can find nothing in it and would
// spend most of a test's time there.
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

// The variants that a test sweeps over. Where variants differ in the bytes and not in the threads, sanitizer builds
// take one of every n consecutive ones, at a changing offset so that alternating variants are all covered. The dev
// build takes all.
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

// Put this at the start of a long case in which the calling thread does all the work: ThreadSanitizer builds skip it,
// all others run it.
#define HEADRACE_ONE_THREAD_DOES_ALL() \
  if (::headrace::support::kThreadSanitizer) GTEST_SKIP() << "one thread does all of it"

}  // namespace headrace::support
