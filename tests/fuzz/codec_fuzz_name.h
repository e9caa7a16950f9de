// The codec that codec_fuzz.cc tests. Defined in another file, so that codec_fuzz.cc is compiled once for all.
#pragma once

#include <string>

std::string headrace_fuzzed_codec();
