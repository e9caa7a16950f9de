// Which codec an executable of codec_fuzz.cc is about.
extern const char headrace_fuzzed_codec[];
const char headrace_fuzzed_codec[] = HEADRACE_FUZZ_CODEC;
