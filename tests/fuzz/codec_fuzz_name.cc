// The codec that an executable of codec_fuzz.cc tests: the one it was compiled for, else the one in the name it was
// started by, such as codec_zstd_fuzz.
#include "tests/fuzz/codec_fuzz_name.h"

#include <cerrno>
#include <string>

std::string headrace_fuzzed_codec() {
#ifdef HEADRACE_FUZZ_CODEC
  return HEADRACE_FUZZ_CODEC;
#else
  const std::string name = program_invocation_short_name;
  const std::size_t first = name.find('_') + 1;
  return name.substr(first, name.rfind('_') - first);
#endif
}
