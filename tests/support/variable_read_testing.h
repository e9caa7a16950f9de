// Helpers shared by the tests of reading strings and byte strings.
#pragma once

#include <gtest/gtest.h>
#include <headrace/array.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "base/access.h"
#include "base/json.h"
#include "support/variable_model.h"

namespace headrace::testing {

using base::Json;

class VariableRead : public ::testing::Test {
 protected:
  static Context make_context(std::size_t host_budget = std::size_t{64} << 20) {
    ContextOptions options;
    options.threads = 3;
    options.host_budget_bytes = host_budget;
    return Context::create(options).value();
  }
  // Makes a new store that contains the document.
  static Store make_store(const Json& document, const Context& context) {
    static std::atomic<int> number{0};
    Store store = Store::open(context, "memory://variable-read-" + std::to_string(number++)).value();
    const bool v3 = document.at("zarr_format") == 3;
    EXPECT_TRUE(Access::impl(store)->put(v3 ? "zarr.json" : ".zarray", to_bytes(document.dump())).ok());
    return store;
  }
  static void put(const Store& store, const char* key, std::string_view bytes) {
    ASSERT_TRUE(Access::impl(store)->put(key, to_bytes(bytes)).ok());
  }
  static Array open(const Store& store) {
    auto array = Array::open(store);
    EXPECT_TRUE(array.ok()) << array.status().to_string();
    return std::move(array).value();
  }
  static Status open_status(const Json& document) {
    const Context context = make_context();
    auto array = Array::open(make_store(document, context));
    return array.ok() ? Status() : array.status();
  }

  // Reads `selection` and compares it with the model's elements.
  static void expect_elements(const Array& array, const Strings& elements, const Shape& shape,
                              const std::string& selection = "") {
    const auto parsed = parse_selection(selection);
    ASSERT_TRUE(parsed.ok());
    const auto resolved = resolve_selection(*parsed, shape);
    ASSERT_TRUE(resolved.ok()) << resolved.status().to_string();
    const auto result = array.read_variable(*parsed);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(result->shape(), resolved->shape);
    ASSERT_EQ(result->offsets().size(), product(resolved->shape) + 1);
    EXPECT_EQ(result->offsets().front(), 0);
    EXPECT_EQ(elements_of(*result), testing::select(elements, shape, *resolved)) << "selection " << selection;
    EXPECT_EQ(static_cast<std::size_t>(result->offsets().back()), result->data().size());
  }

  static Status read_status(const Array& array, const VariableReadOptions& options = {}) {
    auto result = array.read_variable({}, options);
    return result.ok() ? Status() : result.status();
  }
  static void expect_status(const Status& status, Code code, std::string_view word) {
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.to_string().find(word), std::string::npos) << status.to_string();
  }

  static Strings words(std::size_t count) {
    Strings out;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(i % 7 == 3 ? ""
                               : std::string(i % 13, static_cast<char>('a' + i % 26)) + std::to_string(i) + "\xc3\xa9");
    }
    return out;
  }
  static Array write(const Context& context, const Json& document, const Strings& elements) {
    const Store store = make_store(document, context);
    testing::store_chunks(*Access::impl(store), document, elements, "");
    return open(store);
  }
  // [vlen-utf8, codec...]
  static Json chain(std::initializer_list<Json> behind) {
    Json out = Json::array({{{"name", "vlen-utf8"}}});
    for (const Json& codec : behind) out.push_back(codec);
    return out;
  }
  static Json shard(const Shape& chunk, const Json& codecs, const char* location = "end") {
    return {{"name", "sharding_indexed"},
            {"configuration",
             {{"chunk_shape", chunk},
              {"codecs", codecs},
              {"index_codecs",
               Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}, {{"name", "crc32c"}}})},
              {"index_location", location}}}};
  }
  static inline const Json kZstd = {{"name", "zstd"}, {"configuration", {{"level", 1}, {"checksum", true}}}};
  static inline const Json kGzip = {{"name", "gzip"}, {"configuration", {{"level", 5}}}};
  static inline const Json kBlosc = {
      {"name", "blosc"},
      {"configuration",
       {{"cname", "lz4"}, {"clevel", 5}, {"shuffle", "noshuffle"}, {"typesize", 1}, {"blocksize", 0}}}};
  static inline const Json kCrc = {{"name", "crc32c"}};
};

}  // namespace headrace::testing
