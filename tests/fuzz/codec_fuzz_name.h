// The codec that codec_fuzz.cc is about. Not compiled into it, so that it is compiled once for all.
#pragma once

#include <string>

std::string headrace_fuzzed_codec();
