// Schemas and states of the C API equal those of C++ and survive conversion to text, and errors in them are named.
#include <gtest/gtest.h>
#include <headrace/loader_state.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "unit/c_loader_testing.h"

namespace headrace {
namespace {

using namespace testing;

class CSchema : public CLoaderTest {};
INSTANTIATE_TEST_SUITE_P(All, CSchema, ::testing::Values("host"), loader_device_name);

Made<hr_schema> new_schema() {
  return make<hr_schema>([](hr_schema** out, hr_error** error) { return hr_schema_create(out, error); });
}
Made<hr_schema> schema_of(const hr_windows* windows) {
  return make<hr_schema>([&](hr_schema** out, hr_error** error) { return hr_windows_schema(windows, out, error); });
}
Made<hr_schema> schema_of(const hr_order* order) {
  return make<hr_schema>([&](hr_schema** out, hr_error** error) { return hr_order_schema(order, out, error); });
}
Made<hr_schema> schema_of(const hr_loader* loader) {
  return make<hr_schema>([&](hr_schema** out, hr_error** error) { return hr_loader_schema(loader, out, error); });
}
Made<hr_order> full_shuffle(std::uint64_t samples) {
  return make<hr_order>([&](hr_order** out, hr_error** error) { return hr_order_full_shuffle(samples, out, error); });
}

// Compares each digest and the description.
void expect_same_schema(const Made<hr_schema>& c, const LoaderSchema& cpp) {
  ASSERT_EQ(c.code, HR_OK) << c.message;
  ASSERT_EQ(hr_schema_count(c.get()), cpp.digests().size());
  std::size_t index = 0;
  for (const auto& [name, digest] : cpp.digests()) {
    const char* c_name = nullptr;
    std::uint64_t c_digest = 0;
    ASSERT_EQ(hr_schema_digest(c.get(), index++, &c_name, &c_digest, nullptr), HR_OK);
    EXPECT_EQ(c_name, name);
    EXPECT_EQ(c_digest, digest) << name;
  }
}

std::vector<std::string> differences(const Made<hr_schema>& a, const Made<hr_schema>& b) {
  std::size_t needed = 99;
  EXPECT_EQ(hr_schema_differences(a.get(), b.get(), nullptr, 0, &needed, nullptr), HR_OK);
  std::vector<const char*> names(needed);
  EXPECT_EQ(hr_schema_differences(a.get(), b.get(), names.data(), names.size(), &needed, nullptr), HR_OK);
  EXPECT_EQ(needed, names.size());
  return {names.begin(), names.end()};
}

std::string written(const hr_schema* schema, std::uint64_t seed, std::uint64_t epoch, std::uint64_t consumed) {
  std::size_t bytes = 0;
  EXPECT_EQ(hr_state_write(schema, seed, epoch, consumed, nullptr, 0, &bytes, nullptr), HR_OK);
  std::string text(bytes, 'x');
  EXPECT_EQ(hr_state_write(schema, seed, epoch, consumed, text.data(), bytes, nullptr, nullptr), HR_OK);
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

Said read_said(const char* state) {
  return said_by([&](hr_error** error) { return hr_state_read(state, nullptr, nullptr, nullptr, nullptr, error); });
}

TEST_P(CSchema, IsThatOfCpp) {
  expect_same_schema(new_schema(), LoaderSchema());
  const Windows windows = cpp_windows(2);
  expect_same_schema(schema_of(windows_.get()), windows.schema());
  const hr_dim_value size[] = {{"lat", 5}};
  hr_crop_options crop = HR_CROP_OPTIONS_INIT;
  crop.dims = size;
  crop.dims_count = 1;
  const auto crops = make<hr_windows>(
      [&](hr_windows** out, hr_error** error) { return hr_windows_crop(windows_.get(), &crop, out, error); });
  expect_same_schema(schema_of(crops.get()), Crops::create(windows, {.size = {{"lat", 5}}}).value().schema());
  const std::uint64_t samples = windows.sample_count();
  const auto order = full_shuffle(samples);
  expect_same_schema(schema_of(order.get()), Order::full_shuffle(samples).value().schema());

  // One array and several, with an order and without.
  hr_loader_array other = c_one_;
  other.name = "y";
  for (const bool shuffled : {false, true}) {
    hr_loader_options how = HR_LOADER_OPTIONS_INIT;
    LoaderOptions cpp_how;
    if (shuffled) how.order = order.get(), cpp_how.order = Order::full_shuffle(samples).value();
    std::vector<LoaderArray> arrays = {plain(cpp_windows(2))};
    expect_same_schema(schema_of(loader_of({&c_one_}, how).get()),
                       Loader::create(*device_, arrays, cpp_how).value().schema());
    arrays.push_back(arrays[0]);
    arrays[1].name = "y";
    expect_same_schema(schema_of(loader_of({&c_one_, &other}, how).get()),
                       Loader::create(*device_, arrays, cpp_how).value().schema());
  }
}

TEST_P(CSchema, MayBeChangedAndOutlivesItsSource) {
  auto order = full_shuffle(50);
  const Made<hr_schema> schema = schema_of(order.get());
  order.handle.reset();
  LoaderSchema cpp = Order::full_shuffle(50).value().schema();
  ASSERT_EQ(hr_schema_set(schema.get(), "data", 5, nullptr), HR_OK);
  const char* data = nullptr;
  ASSERT_EQ(hr_schema_digest(schema.get(), 0, &data, nullptr, nullptr), HR_OK);
  EXPECT_STREQ(data, "data");
  ASSERT_EQ(hr_schema_set(schema.get(), "data", ~0ull, nullptr), HR_OK);  // replaces the earlier one
  cpp.set("data", ~0ull);
  expect_same_schema(schema, cpp);
  ASSERT_EQ(hr_schema_add(schema.get(), schema_of(windows_.get()).get(), nullptr), HR_OK);
  cpp.add(cpp_windows(2).schema());
  expect_same_schema(schema, cpp);
  ASSERT_EQ(hr_schema_add(schema.get(), schema.get(), nullptr), HR_OK);
  expect_same_schema(schema, cpp);
  EXPECT_STREQ(data, "data");  // still valid
}

TEST_P(CSchema, DifferencesAreNamed) {
  const Made<hr_schema> a = new_schema(), b = new_schema();
  EXPECT_EQ(differences(a, b), std::vector<std::string>());
  for (const char* const name : {"both", "here", "other"}) ASSERT_EQ(hr_schema_set(a.get(), name, 1, nullptr), HR_OK);
  for (const char* const name : {"both", "other", "there"}) ASSERT_EQ(hr_schema_set(b.get(), name, 1, nullptr), HR_OK);
  ASSERT_EQ(hr_schema_set(b.get(), "other", 2, nullptr), HR_OK);
  const std::vector<std::string> named = {"here", "other", "there"};
  EXPECT_EQ(differences(a, b), named);
  EXPECT_EQ(differences(b, a), named);
  EXPECT_EQ(differences(a, a), std::vector<std::string>());
  // Entries beyond the needed ones are left unchanged. Too little room is refused, and nothing is written.
  const char untouched = 0;
  const char* names[4] = {&untouched, &untouched, &untouched, &untouched};
  std::size_t needed = 0;
  const auto ask = [&](std::size_t count) {
    return said_by(
        [&](hr_error** error) { return hr_schema_differences(a.get(), b.get(), names, count, &needed, error); });
  };
  const Said said = ask(2);
  EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(said.message.find("'count' is 2, and 3 names differ"), std::string::npos) << said.message;
  EXPECT_EQ(needed, 3u);
  EXPECT_EQ(names[0], &untouched);
  EXPECT_EQ(ask(4).code, HR_OK);
  EXPECT_STREQ(names[2], "there");
  EXPECT_EQ(names[3], &untouched);
}

// A loader resumes the state of a program that computes samples itself, and the other way round.
TEST_P(CSchema, AStateIsExchangedBetweenALoaderAndAProgramWithoutOne) {
  const std::uint64_t samples = hr_windows_sample_count(windows_.get());
  const auto order = full_shuffle(samples);
  hr_loader_options how = HR_LOADER_OPTIONS_INIT;
  how.order = order.get();
  how.seed = 9;
  how.batch_size = 2;
  const Made<hr_schema> own = schema_of(order.get());
  ASSERT_EQ(hr_schema_add(own.get(), schema_of(windows_.get()).get(), nullptr), HR_OK);

  const std::string text = written(own.get(), 9, 3, 4);
  how.state = text.c_str();
  const auto loader = loader_of({&c_one_}, how);
  ASSERT_EQ(loader.code, HR_OK) << loader.message;
  EXPECT_EQ(state_of(loader.get()), text);
  std::vector<std::uint64_t> wanted(2);
  ASSERT_EQ(hr_order_epoch(order.get(), 9, 3, 4, 2, wanted.data(), nullptr), HR_OK);
  EXPECT_EQ(samples_of(next_of(loader).get()), wanted);

  const std::string behind = state_of(loader.get());
  std::uint64_t seed = 0, epoch = 0, consumed = 0;
  const auto read = make<hr_schema>([&](hr_schema** out, hr_error** error) {
    return hr_state_read(behind.c_str(), &seed, &epoch, &consumed, out, error);
  });
  ASSERT_EQ(read.code, HR_OK) << read.message;
  EXPECT_EQ(seed, 9u);
  EXPECT_EQ(epoch, 3u);
  EXPECT_EQ(consumed, 6u);
  EXPECT_EQ(differences(read, own), std::vector<std::string>());
  EXPECT_EQ(read_said(behind.c_str()).code, HR_OK);  // only checks that it is a state
  const auto check = [&](const hr_schema* schema, std::uint64_t positions) {
    return said_by([&](hr_error** error) { return hr_state_check(behind.c_str(), schema, positions, error); });
  };
  EXPECT_EQ(check(own.get(), hr_order_positions(order.get())).code, HR_OK);
  Said said = check(own.get(), 6);
  EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(said.message.find("has consumed 6 positions of an epoch that has 6"), std::string::npos) << said.message;
  ASSERT_EQ(hr_schema_set(own.get(), "data", 1, nullptr), HR_OK);
  ASSERT_EQ(hr_schema_set(own.get(), "samples", 1, nullptr), HR_OK);
  said = check(own.get(), samples);
  EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(said.message.find("different: 'data', 'samples'"), std::string::npos) << said.message;
}

TEST_P(CSchema, StatesAreThoseOfCpp) {
  LoaderState cpp;
  cpp.seed = ~0ull;
  cpp.at = {~0ull, ~0ull};
  cpp.schema.set("", 0);
  cpp.schema.set("a \"quoted\" \xC3\xA9", ~0ull);
  const Made<hr_schema> c = new_schema();
  for (const auto& [name, digest] : cpp.schema.digests()) {
    ASSERT_EQ(hr_schema_set(c.get(), name.c_str(), digest, nullptr), HR_OK);
  }
  const std::string text = written(c.get(), cpp.seed, cpp.at.epoch, cpp.at.consumed);
  EXPECT_EQ(text, cpp.to_json());
  const auto read = make<hr_schema>([&](hr_schema** out, hr_error** error) {
    return hr_state_read(text.c_str(), nullptr, nullptr, nullptr, out, error);
  });
  expect_same_schema(read, cpp.schema);
}

TEST_P(CSchema, TextThatIsNoStateIsRefused) {
  const auto with = [](const std::string& schema) {
    return R"({"version":1,"seed":1,"epoch":1,"consumed":0,"schema":)" + schema + "}";
  };
  struct Row {
    std::string text;
    hr_code code;
    const char* says;
  };
  const std::vector<Row> rows = {
      {"", HR_CORRUPT, "not valid JSON"},
      {"[]", HR_CORRUPT, "no JSON object"},
      {"{\"version\":1", HR_CORRUPT, "not valid JSON"},
      {R"({"version":2})", HR_UNSUPPORTED, "version 2"},
      {R"({"version":1})", HR_CORRUPT, "'seed' is missing"},
      {with("{\"a\":1}"), HR_CORRUPT, "'a': the digest is not a string"},
      {with(R"({"a\u0000b":"0000000000000000"})"), HR_CORRUPT, "a zero byte"},
      {std::string(60'000, '['), HR_CORRUPT, "nested deeper"},
      {std::string(70'000, ' '), HR_RESOURCE_EXHAUSTED, "at most 65536"},
  };
  const Made<hr_schema> schema = new_schema();
  for (const Row& row : rows) {
    std::uint64_t number = 7;
    const auto read = make<hr_schema>([&](hr_schema** out, hr_error** error) {
      return hr_state_read(row.text.c_str(), &number, &number, &number, out, error);
    });
    const Said check =
        said_by([&](hr_error** error) { return hr_state_check(row.text.c_str(), schema.get(), 1, error); });
    for (const Said& said : {Said{read.code, read.message}, check}) {
      EXPECT_EQ(said.code, row.code) << row.text.substr(0, 80) << ": " << said.message;
      EXPECT_NE(said.message.find("the argument 'state'"), std::string::npos) << said.message;
      EXPECT_NE(said.message.find(row.says), std::string::npos) << said.message;
    }
    EXPECT_EQ(number, 7u);
  }
}

TEST_P(CSchema, ImpossibleStatesAreNotWritten) {
  const auto refused = [](const hr_schema* schema, const char* says) {
    char text[1 << 10];
    std::size_t needed = 9;
    const Said said =
        said_by([&](hr_error** error) { return hr_state_write(schema, 0, 0, 0, text, sizeof(text), &needed, error); });
    EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
    EXPECT_NE(said.message.find("'schema'"), std::string::npos) << said.message;
    EXPECT_NE(said.message.find(says), std::string::npos) << said.message;
    EXPECT_EQ(needed, 0u);
  };
  const Made<hr_schema> longer = new_schema(), many = new_schema(), binary = new_schema();
  ASSERT_EQ(hr_schema_set(longer.get(), std::string(65, 'n').c_str(), 1, nullptr), HR_OK);
  refused(longer.get(), "a name above 64 bytes");
  for (int i = 0; i < 65; ++i) ASSERT_EQ(hr_schema_set(many.get(), std::to_string(i).c_str(), 1, nullptr), HR_OK);
  refused(many.get(), "more than 64 digests");
  ASSERT_EQ(hr_schema_set(binary.get(), "\xFF", 1, nullptr), HR_OK);
  refused(binary.get(), "is not UTF-8");

  const Made<hr_schema> schema = new_schema();
  const std::size_t bytes = written(schema.get(), 1, 2, 3).size() + 1;
  std::string text(bytes, 'x');
  const auto into = [&](std::size_t room) {
    return said_by(
        [&](hr_error** error) { return hr_state_write(schema.get(), 1, 2, 3, text.data(), room, nullptr, error); });
  };
  const Said said = into(bytes - 1);
  EXPECT_EQ(said.code, HR_INVALID_ARGUMENT);
  EXPECT_NE(said.message.find("'bytes' is " + std::to_string(bytes - 1)), std::string::npos) << said.message;
  EXPECT_EQ(text, std::string(bytes, 'x'));
  EXPECT_EQ(into(bytes).code, HR_OK);
}

TEST_P(CSchema, NullArgumentsAreNamed) {
  const Made<hr_schema> schema = new_schema();
  const std::string text = written(schema.get(), 0, 0, 0);
  hr_schema* made = nullptr;
  char room[8];
  const std::pair<const char*, Said> calls[] = {
      {"out", said_by([](hr_error** error) { return hr_schema_create(nullptr, error); })},
      {"out", said_by([&](hr_error** error) { return hr_windows_schema(windows_.get(), nullptr, error); })},
      {"windows", said_by([&](hr_error** error) { return hr_windows_schema(nullptr, &made, error); })},
      {"out", said_by([](hr_error** error) { return hr_order_schema(nullptr, nullptr, error); })},
      {"order", said_by([&](hr_error** error) { return hr_order_schema(nullptr, &made, error); })},
      {"out", said_by([](hr_error** error) { return hr_loader_schema(nullptr, nullptr, error); })},
      {"loader", said_by([&](hr_error** error) { return hr_loader_schema(nullptr, &made, error); })},
      {"schema", said_by([](hr_error** error) { return hr_schema_set(nullptr, "a", 1, error); })},
      {"name", said_by([&](hr_error** error) { return hr_schema_set(schema.get(), nullptr, 1, error); })},
      {"schema", said_by([&](hr_error** error) { return hr_schema_add(nullptr, schema.get(), error); })},
      {"other", said_by([&](hr_error** error) { return hr_schema_add(schema.get(), nullptr, error); })},
      {"schema", said_by([](hr_error** error) { return hr_schema_digest(nullptr, 0, nullptr, nullptr, error); })},
      {"index", said_by([&](hr_error** error) { return hr_schema_digest(schema.get(), 0, nullptr, nullptr, error); })},
      {"schema", said_by([&](hr_error** error) {
         return hr_schema_differences(nullptr, schema.get(), nullptr, 0, nullptr, error);
       })},
      {"other", said_by([&](hr_error** error) {
         return hr_schema_differences(schema.get(), nullptr, nullptr, 0, nullptr, error);
       })},
      {"state", read_said(nullptr)},
      {"state", said_by([&](hr_error** error) { return hr_state_check(nullptr, schema.get(), 1, error); })},
      {"schema", said_by([&](hr_error** error) { return hr_state_check(text.c_str(), nullptr, 1, error); })},
      {"schema",
       said_by([&](hr_error** error) { return hr_state_write(nullptr, 0, 0, 0, room, sizeof(room), nullptr, error); })},
  };
  for (const auto& [name, said] : calls) {
    EXPECT_EQ(said.code, HR_INVALID_ARGUMENT) << name;
    EXPECT_NE(said.message.find("the argument '" + std::string(name) + "' is "), std::string::npos) << said.message;
  }
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(hr_schema_count(nullptr), 0u);
  hr_schema_free(nullptr);
}

}  // namespace
}  // namespace headrace
