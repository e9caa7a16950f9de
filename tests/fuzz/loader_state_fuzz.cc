// A loader's state: text gives a state or an error with a name; a state printed as text gives the same state again.
#include <headrace/loader_state.h>

#include <string_view>

#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  const auto state = LoaderState::from_json({reinterpret_cast<const char*>(data), size});
  if (!state.ok()) {
    const Code code = state.status().code();
    FUZZ_CHECK(code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kResourceExhausted);
    FUZZ_CHECK(!state.status().message().empty() && state.status().message().size() < 500);
    return 0;
  }
  FUZZ_CHECK(state->schema.digests().size() <= 64);
  const std::string text = state->to_json();
  const auto again = LoaderState::from_json(text);
  FUZZ_CHECK(again.ok() && *again == *state && again->to_json() == text);
  FUZZ_CHECK(state->check(state->schema, 100).ok() == (state->at.consumed < 100));
  // Whatever was consumed, the rest of the epoch is divided or refused.
  const auto split = Split::create({1, 3, 1, 4, Tail::kPad}, 100, state->at.consumed);
  FUZZ_CHECK(split.ok() == (state->at.consumed <= 100));
  if (split.ok()) FUZZ_CHECK(split->batches() == (100 - state->at.consumed + 11) / 12);
  return 0;
}
