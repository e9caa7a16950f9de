// Whole arrays of strings with arbitrary stored bytes: byte 0 chooses the document, the rest is the first chunk.
//
// A read ends with a typed error, or with ascending offsets and UTF-8 strings, twice the same. check_only finds the
// same errors as a read.
#include <headrace/array.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/access.h"
#include "base/utf8.h"
#include "store/store.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace headrace;

std::string v3(const char* data_type, const char* codecs, const char* shape, const char* chunk) {
  return std::string(R"({"zarr_format":3,"node_type":"array","shape":)") + shape + R"(,"data_type":")" + data_type +
         R"(","chunk_grid":{"name":"regular","configuration":{"chunk_shape":)" + chunk +
         R"(}},"chunk_key_encoding":{"name":"v2"},"fill_value":"","codecs":[)" + codecs + "]}";
}

std::string v2(const char* filter, const char* order, const char* compressor) {
  return std::string(R"({"zarr_format":2,"shape":[5,3],"chunks":[2,3],"dtype":"|O","order":")") + order +
         R"(","compressor":)" + compressor + R"(,"filters":[{"id":")" + filter + R"("}],"fill_value":""})";
}

#define INDEX R"("index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}])"
const std::string kDocuments[] = {
    v3("string", R"({"name":"vlen-utf8"})", "[5]", "[3]"),
    v3("bytes", R"({"name":"vlen-bytes"})", "[2,2]", "[2,2]"),
    v3("string", R"({"name":"vlen-utf8"},{"name":"zstd","configuration":{"level":1,"checksum":false}})", "[4]", "[4]"),
    v3("string", R"({"name":"vlen-utf8"},{"name":"gzip","configuration":{"level":1}})", "[4]", "[4]"),
    v3("string",
       R"({"name":"vlen-utf8"},{"name":"blosc","configuration":{"cname":"lz4","clevel":1,"shuffle":"noshuffle"}})",
       "[4]", "[4]"),
    v3("string", R"({"name":"vlen-utf8"},{"name":"crc32c"})", "[]", "[]"),
    v3("string",
       R"({"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":[{"name":"vlen-utf8"}],)" INDEX "}}",
       "[8]", "[8]"),
    v3("string",
       R"({"name":"sharding_indexed","configuration":{"chunk_shape":[2],"codecs":[{"name":"vlen-utf8"},{"name":"crc32c"}],)" INDEX
       R"(}},{"name":"gzip","configuration":{"level":1}})",
       "[8]", "[8]"),
    v2("vlen-utf8", "F", "null"),
    v2("vlen-utf8", "C", R"({"id":"lz4"})"),
    v2("vlen-bytes", "C", R"({"id":"zlib"})"),
    v2("json2", "C", "null"),
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Kept {
  Store store;
  Array array;
};

const Kept& kept(std::size_t choice) {
  static const Context context = [] {
    ContextOptions options;
    options.threads = 1;
    options.host_budget_bytes = std::size_t{8} << 20;
    return Context::create(options).value();
  }();
  static std::vector<std::unique_ptr<Kept>> all(std::size(kDocuments));
  if (all[choice] == nullptr) {
    Store store = Store::open(context, "memory://variable-fuzz-" + std::to_string(choice)).value();
    const std::string& document = kDocuments[choice];
    const bool is_v3 = document.find("node_type") != std::string::npos;
    FUZZ_CHECK(Access::impl(store)->put(is_v3 ? "zarr.json" : ".zarray", bytes_of(document)).ok());
    auto array = Array::open(store);
    FUZZ_CHECK(array.ok());
    all[choice] = std::make_unique<Kept>(Kept{std::move(store), std::move(*array)});
  }
  return *all[choice];
}

void check(const VariableResult& result) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : result.shape()) count *= extent;
  FUZZ_CHECK(result.size() == count);
  FUZZ_CHECK(result.offsets().front() == 0);
  FUZZ_CHECK(std::is_sorted(result.offsets().begin(), result.offsets().end()));
  for (std::uint64_t i = 0; i < count && result.is_utf8(); ++i) {
    FUZZ_CHECK(base::find_invalid_utf8(bytes_of(result[i])) == base::kValidUtf8);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (1 << 16)) return 0;
  const std::size_t choice = data[0] % std::size(kDocuments);
  const Kept& own = kept(choice);
  const std::span<const std::byte> chunk(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::size_t rank = own.array.info().shape.size();
  // The in-memory store keeps replaced objects, so unlimited inputs would exhaust memory.
  static std::size_t put_bytes = 0;
  put_bytes += chunk.size();
  if (put_bytes > (std::size_t{1} << 30)) return 0;
  FUZZ_CHECK(Access::impl(own.store)->put(rank == 2 ? "0.0" : "0", chunk).ok());
  // Reopened for every input, because an Array caches a shard's index between reads.
  const auto opened = Array::open(own.store);
  FUZZ_CHECK(opened.ok());
  const auto result = opened->read_variable({});
  const auto again = opened->read_variable({});
  VariableReadOptions options;
  options.check_only = options.collect_errors = true;
  const auto checked = opened->read_variable({}, options);
  FUZZ_CHECK(checked.ok());
  FUZZ_CHECK(result.ok() == checked->errors.empty());
  FUZZ_CHECK(result.ok() == again.ok());
  if (!result.ok()) {
    const Code code = result.status().code();
    FUZZ_CHECK(code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kShort ||
               code == Code::kResourceExhausted);
    FUZZ_CHECK(!result.status().message().empty());
    return 0;
  }
  check(*result);
  FUZZ_CHECK(std::equal(result->offsets().begin(), result->offsets().end(), again->offsets().begin()));
  FUZZ_CHECK(std::equal(result->data().begin(), result->data().end(), again->data().begin()));
  return 0;
}
