// A resumed loader delivers each remaining sample once, on any number of ranks. Hostile text and another loader's state
// are rejected with a message that says what is wrong.
#include <gtest/gtest.h>
#include <headrace/loader_state.h>
#include <headrace/order.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace headrace {
namespace {

Windows windows(std::uint64_t times = 100) {
  WindowOptions options;
  options.input_dims = {{"time", 2}};
  return Windows::create({{"time", times}, {"lat", 9}}, options).value();
}

LoaderState state() {
  LoaderState state;
  state.seed = ~0ull;
  state.at = {3, 640};
  state.schema = windows().schema();
  state.schema.add(Order::full_shuffle(50).value().schema());
  return state;
}

// Interrupts an epoch repeatedly and resumes it with other ranks and batches, each time through the state's text.
TEST(LoaderState, ResumesOnAnyNumberOfRanksWithEachSampleOnce) {
  std::mt19937_64 random(17);
  int resumed = 0;
  for (int round = 0; round < 400; ++round) {
    const std::uint64_t samples = 40 + random() % 400;
    const Order order = random() % 2 == 0
                            ? Order::full_shuffle(samples).value()
                            : Order::block_shuffle({{samples}, {1 + random() % 9}, 1 + random() % 9}).value();
    const Tail tail = random() % 2 == 0 ? Tail::kDrop : Tail::kPad;
    LoaderState state;
    state.seed = random();
    state.at.epoch = random() % 5;
    state.schema = order.schema();
    const std::uint64_t epoch = state.at.epoch;
    std::map<std::uint64_t, int> seen;
    std::uint64_t left_out = 0;
    while (state.at.epoch == epoch) {
      state = LoaderState::from_json(state.to_json()).value();
      ASSERT_TRUE(state.check(order.schema(), order.positions()).ok());
      SplitOptions options;
      options.world = 1 + static_cast<std::uint32_t>(random() % 6);
      options.batch_size = 1 + random() % 6;
      options.tail = tail;
      const Split any = Split::create(options, samples, state.at.consumed).value();
      const std::uint64_t batches = random() % (any.batches() + 1);
      left_out = (samples - state.at.consumed) % any.global_batch_size();
      const EpochOrder of_epoch = order.epoch(state.seed, epoch);
      for (options.rank = 0; options.rank < options.world; ++options.rank) {
        const Split split = Split::create(options, samples, state.at.consumed).value();
        for (std::uint64_t index = 0; index < batches; ++index) {
          const RankBatch batch = split.batch(index);
          for (std::uint64_t place = 0; place < batch.valid; ++place) ++seen[of_epoch.sample(batch.position(place))];
        }
      }
      state.at = any.after(batches, epoch);
      ++resumed;
    }
    EXPECT_EQ(state.at, (LoaderPosition{epoch + 1, 0}));
    for (const auto& [sample, count] : seen) ASSERT_EQ(count, 1) << sample;
    ASSERT_EQ(seen.size(), samples - (tail == Tail::kDrop ? left_out : 0));
  }
  EXPECT_GT(resumed, 1000);
}

TEST(LoaderState, IsOneLineOfJson) {
  LoaderState small;
  small.seed = 42;
  small.at = {3, 640};
  small.schema.set("dims", 0xabcdef);
  EXPECT_EQ(small.to_json(),
            R"({"consumed":640,"epoch":3,"schema":{"dims":"0000000000abcdef"},"seed":42,"version":1})");
  EXPECT_EQ(LoaderState::from_json(small.to_json()).value(), small);
  EXPECT_EQ(LoaderState::from_json(state().to_json()).value(), state());
}

TEST(LoaderState, HostileTextIsRefusedByName) {
  const auto says = [](std::string_view text) {
    const auto state = LoaderState::from_json(text);
    return state.ok() ? "accepted" : std::string(code_name(state.status().code())) + ": " + state.status().message();
  };
  const auto with = [](std::string_view fields) { return R"({"version":1,"seed":1,)" + std::string(fields) + "}"; };
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":{})")), "accepted");
  EXPECT_EQ(says("[]"), "corrupt: loader state: no JSON object");
  EXPECT_EQ(says("{}"), "corrupt: loader state: the field 'version' is missing");
  EXPECT_EQ(says(with(R"("consumed":0,"schema":{})")), "corrupt: loader state: the field 'epoch' is missing");
  EXPECT_EQ(says(with(R"("epoch":1,"schema":{})")), "corrupt: loader state: the field 'consumed' is missing");
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0)")), "corrupt: loader state: the field 'schema' is missing");
  for (const std::string epoch : {"-1", "1.0", "1e3", "\"1\"", "null", "true", "[]", "18446744073709551616"}) {
    EXPECT_EQ(says(with("\"epoch\":" + epoch + R"(,"consumed":0,"schema":{})")),
              "corrupt: loader state: the field 'epoch' must be an integer from 0 to 2^64 - 1");
  }
  EXPECT_EQ(says(R"({"version":2,"more":1})"), "unsupported: loader state: version 2; this headrace reads version 1");
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":{},"rank":0)")),
            "corrupt: loader state: there is no field 'rank'");
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":[])")),
            "corrupt: loader state: the field 'schema' is not an object");
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":{"a":1})")),
            "corrupt: loader state: schema: 'a': the digest is not a string");
  for (const std::string digest :
       {"", "1", "0000000000ABCDEF", "00000000000000000", "000000000000000g", "-000000000000001"}) {
    EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":{"a":")" + digest + "\"}")),
              "corrupt: loader state: schema: 'a': the digest is not 16 digits 0-9a-f");
  }
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":{")" + std::string(65, 'n') + R"(":"0000000000000000"})")),
            "corrupt: loader state: schema: '" + std::string(64, 'n') + "...': a name above 64 bytes");
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":"0000000000000000")";
  EXPECT_EQ(says(with(R"("epoch":1,"consumed":0,"schema":{)" + many + "}")),
            "corrupt: loader state: the field 'schema' has more than 64 digests");
  EXPECT_EQ(says(std::string(65537, ' ')), "resource exhausted: loader state: 65537 bytes of text, at most 65536");
  EXPECT_EQ(says(with(R"("epoch":1,"epoch":1,"consumed":0,"schema":{})")).substr(0, 8), "corrupt:");
  EXPECT_EQ(says("{\"version\":1").substr(0, 8), "corrupt:");
  EXPECT_EQ(says(std::string(60'000, '[')).substr(0, 8), "corrupt:");
}

TEST(LoaderState, OfAnotherLoaderSaysWhatDiffers) {
  const LoaderState saved = state();
  EXPECT_TRUE(saved.check(saved.schema, 641).ok());
  LoaderSchema other = windows(102).schema();
  other.add(Order::full_shuffle(51).value().schema());
  const Status status = saved.check(other, 1000);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the loader state does not match this loader's samples or order; different: 'dims', "
            "'positions', 'range', 'samples'");
  other = saved.schema;
  other.set("crops", 1);
  EXPECT_NE(saved.check(other, 1000).message().find("different: 'crops'"), std::string::npos);
  EXPECT_EQ(saved.check(saved.schema, 640).message(),
            "the loader state has consumed 640 positions of an epoch that has 640");
}

}  // namespace
}  // namespace headrace
