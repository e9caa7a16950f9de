// Which GPUs this build has machine code for. For others the driver compiles PTX when the code is first used.
#pragma once

#include <string_view>

namespace headrace::device {

// `list`: compute capabilities with machine code, such as "75 80 90 120", from the build's CMAKE_CUDA_ARCHITECTURES;
// empty if the build does not know. Machine code runs on GPUs of the same major version and an equal or higher minor
// one.
constexpr bool has_machine_code(std::string_view list, int major, int minor) noexcept {
  if (list.empty()) return true;
  int number = 0;
  const auto fits = [&] { return number / 10 == major && number % 10 <= minor; };
  for (const char c : list) {
    if (c >= '0' && c <= '9') {
      number = 10 * number + (c - '0');
      continue;
    }
    if (fits()) return true;
    number = 0;
  }
  return fits();
}

}  // namespace headrace::device
