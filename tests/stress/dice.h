// Dice: the random numbers of a case. The same seed and number give the same case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "support/mutation.h"

namespace headrace::stress {

using Shape = std::vector<std::uint64_t>;
using Bytes = std::vector<std::byte>;

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t number) : draw_{test::mix(seed) ^ test::mix(number + 0x632BE59BD9B4E019ull)} {}

  std::uint64_t next() { return draw_.next(); }
  // Returns 0 for a bound of 0.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T pick(std::initializer_list<T> things) {
    return things.begin()[below(things.size())];
  }
  template <class T>
  const T& of(const std::vector<T>& things) {
    return things[static_cast<std::size_t>(below(things.size()))];
  }
  template <class T>
  void shuffle(std::vector<T>& things) {
    for (std::size_t i = things.size(); i > 1; --i) std::swap(things[i - 1], things[below(i)]);
  }

 private:
  test::Draw draw_;
};

inline std::uint64_t product(const Shape& shape) {
  std::uint64_t out = 1;
  for (const std::uint64_t extent : shape) out *= extent;
  return out;
}

// Moves `at` to the next position in C order; false after the last.
inline bool advance(Shape& at, const Shape& end) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < end[i]) return true;
    at[i] = 0;
  }
  return false;
}

inline std::uint64_t linear(const Shape& at, const Shape& shape) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) out = out * shape[i] + at[i];
  return out;
}

}  // namespace headrace::stress
