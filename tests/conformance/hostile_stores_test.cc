// Property: whatever a small store claims, opening, listing and reading it ends with an error or with right data,
// memory stays within the Context's budgets, and the budgets are whole again afterwards. A seeded generator makes a
// thousand stores; all run in one child process with a limited address space.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <headrace/array.h>
#include <headrace/group.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/access.h"
#include "support/alloc_counter.h"
#include "support/temp_dir.h"
#include "support/zip_writer.h"
#include "transfer/context/context_impl.h"

namespace headrace {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kHostBudget = 64 * kMiB, kStoredBudget = 64 * kMiB, kBeside = 256 * kMiB;
constexpr std::uint64_t kAddressSpace = std::uint64_t{2} << 30;
constexpr std::uint8_t kFill = 7;

std::string text(std::uint64_t value) { return std::to_string(value); }

// A store, and what is known of the array in it.
struct Hostile {
  std::string url;  // "": the directory itself
  std::string array = {};
  bool is_right = false;  // every element is kFill, if the array can be read
};

class Generator {
 public:
  Generator(std::uint64_t seed, std::string directory) : random_(seed), directory_(std::move(directory)) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  // Any size up to 2^most, with logarithmic distribution.
  std::uint64_t size(unsigned most) {
    const std::uint64_t bits = below(most) + 1;
    return (std::uint64_t{1} << bits) - 1 - below(std::uint64_t{1} << (bits - 1));
  }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void put(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  // A sparse file: `before` zeros, then `text`, then `after` zeros.
  void put_sparse(const std::string& name, std::uint64_t before, std::string_view text, std::uint64_t after = 0) const {
    put(name, "");
    const int fd = ::open(path(name).c_str(), O_WRONLY);
    if (::ftruncate(fd, static_cast<off_t>(before + text.size() + after)) != 0 ||
        ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(before)) < 0) {
      std::perror("ftruncate");
    }
    ::close(fd);
  }

 private:
  std::mt19937_64 random_;
  const std::string directory_;
};

std::string v3_array(std::uint64_t shape, std::uint64_t chunk, const std::string& codecs,
                     const std::string& type = "uint8", const std::string& fill = "7", const std::string& more = "") {
  return R"({"zarr_format":3,"node_type":"array","shape":[)" + text(shape) + R"(],"data_type":")" + type +
         R"(","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[)" + text(chunk) +
         R"(]}},"chunk_key_encoding":{"name":"default"},"fill_value":)" + fill + R"(,"codecs":)" + codecs + more + "}";
}

std::string sharded(std::uint64_t inner, const std::string& codecs) {
  return R"([{"name":"sharding_indexed","configuration":{"chunk_shape":[)" + text(inner) + R"(],"codecs":)" + codecs +
         R"(,"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}],"index_location":"end"}}])";
}

const std::vector<std::string>& chains() {
  static const std::vector<std::string> all = {
      R"(["bytes"])",
      R"(["bytes",{"name":"zstd","configuration":{"level":3,"checksum":false}}])",
      R"(["bytes",{"name":"gzip","configuration":{"level":3}}])",
      R"(["bytes","crc32c"])",
      R"(["bytes",{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"noshuffle","blocksize":0}}])",
  };
  return all;
}

std::string words(std::initializer_list<std::uint64_t> values) {
  std::string out;
  for (const std::uint64_t value : values) out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return out;
}

// An inner chunk whose index entry claims a longer length than any chunk has.
Hostile long_inner_chunk(Generator& make) {
  const std::uint64_t bytes = make.size(40) + 4096;
  make.put("zarr.json", v3_array(8, 8, sharded(4, make.one_of(chains()))));
  make.put_sparse("c/0", bytes, words({0, bytes, ~0ull, ~0ull}));
  return {""};
}

Hostile long_chunk(Generator& make) {
  make.put("zarr.json", v3_array(8, 8, make.one_of(chains())));
  make.put_sparse("c/0", make.size(40) + 100'000, "x");
  return {""};
}

// A shard index of gigabytes.
Hostile large_index(Generator& make) {
  const std::uint64_t chunks = make.size(34) + 1;
  make.put("zarr.json", v3_array(chunks, chunks, sharded(1, make.one_of(chains()))));
  const bool stored = make.below(4) != 0;
  if (stored) make.put_sparse("c/0", 16 * chunks, "");
  return {"", "", !stored};
}

// The same in nested shards, with as many chunks per inner shard.
Hostile large_inner_index(Generator& make) {
  const std::uint64_t inner = make.size(24) + 1, outer = inner * (make.size(4) + 1);
  std::string codecs = sharded(inner, sharded(1, R"(["bytes"])"));
  if (make.below(2) == 0) codecs.insert(codecs.size() - 1, R"(,"crc32c")");  // decoded whole
  make.put("zarr.json", v3_array(outer, outer, codecs));
  const std::uint64_t count = outer / inner;
  std::string index;
  for (std::uint64_t i = 0; i < count; ++i) index += words({0, inner * 17});
  make.put_sparse("c/0", inner * 17, index);
  return {""};
}

// Chunks whose decoded size the metadata choose.
Hostile large_chunk(Generator& make) {
  const std::uint64_t chunk = make.size(61);
  make.put("zarr.json", v3_array(chunk, chunk, make.one_of(chains())));
  if (make.below(2) == 0) make.put("c/0", std::string(make.below(500), static_cast<char>(kFill)));
  return {"", "", true};
}

Hostile large_elements(Generator& make) {
  const std::uint64_t bytes = make.size(31) + 1;
  make.put(".zarray", R"({"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"|S)" + text(bytes) +
                          R"(","order":"C","compressor":null,"filters":null,"fill_value":"")" + "}");
  return {""};
}

Hostile strings(Generator& make) {
  const std::uint64_t count = make.size(40);
  make.put("zarr.json",
           v3_array(count, count, R"(["vlen-utf8",{"name":"zstd","configuration":{"level":1}}])", "string", "\"\""));
  make.put_sparse("c/0", make.size(34), "x");
  return {""};
}

Hostile generated_references(Generator& make) {
  std::string dimensions;
  const std::uint64_t count = make.below(100) + 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t stop = make.below(5) == 0 ? 0 : make.size(i == 0 ? 23 : 40);
    dimensions += (i == 0 ? "\"" : ",\"") + ("d" + text(i)) + R"(":{"stop":)" + text(stop) + "}";
  }
  make.put("r.json", R"({"version":1,"gen":[{"key":"a/{{d0}}","url":")" + std::string(make.below(300) + 1, 'u') +
                         R"({{d0}}","dimensions":{)" + dimensions + "}}]}");
  return {"reference"};
}

Hostile template_references(Generator& make) {
  std::string uses;
  for (std::uint64_t i = make.below(5000); i-- > 0;) uses += "{{u}}";
  std::string refs;
  const std::uint64_t count = make.below(20) + 1;
  for (std::uint64_t i = 0; i < count; ++i) refs += (i == 0 ? "\"" : ",\"") + text(i) + "\":[\"" + uses + "\"]";
  make.put("r.json",
           R"({"version":1,"templates":{"u":")" + std::string(make.size(20), 'x') + R"("},"refs":{)" + refs + "}}");
  return {"reference"};
}

Hostile inline_references(Generator& make) {
  std::string refs = R"("zarr.json":)" + v3_array(4, 4, R"(["bytes"])") + R"(,"c/0":"base64:BwcHBw==")";
  for (std::uint64_t i = make.size(14); i-- > 0;)
    refs += ",\"k" + text(i) + "\":\"" + std::string(make.below(40), 'x') + "\"";
  make.put("r.json", R"({"version":1,"refs":{)" + refs + "}}");
  return {"reference", "", true};
}

Hostile large_document(Generator& make) {
  const std::string name = make.one_of<std::string>({"zarr.json", ".zarray", ".zmetadata", ".zgroup", "r.json"});
  make.put_sparse(name, make.size(38), "{");
  return {name == "r.json" ? "reference" : ""};
}

Hostile dense_document(Generator& make) {
  const std::string unit = make.one_of<std::string>({"[],", "{},", "1,", "\"\","});
  std::string list = "[";
  for (std::uint64_t i = make.size(20); i-- > 0;) list += unit;
  make.put("zarr.json", v3_array(4, 4, R"(["bytes"])", "uint8", "7", R"(,"attributes":{"a":)" + list + "0]}"));
  return {"", "", true};
}

Hostile deep_members(Generator& make) {
  std::string entries;
  const std::uint64_t count = make.below(400) + 1, depth = make.below(1900) + 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string path = text(i);
    for (std::uint64_t k = 0; k < depth; ++k) path += "/a";
    entries += (i == 0 ? "\"" : ",\"") + path + "/.zgroup\":{\"zarr_format\":2}";
  }
  make.put(".zmetadata", R"({"zarr_consolidated_format":1,"metadata":{)" + entries + "}}");
  return {""};
}

Hostile many_members(Generator& make) {
  std::string nodes;
  const std::uint64_t count = make.size(16);
  for (std::uint64_t i = 0; i < count; ++i) nodes += (i == 0 ? "\"" : ",\"") + ("n" + text(i)) + "\":{}";
  make.put("zarr.json",
           R"({"zarr_format":3,"node_type":"group","consolidated_metadata":{"kind":"inline","must_understand":false,)"
           R"("metadata":{)" +
               nodes + "}}}");
  return {""};
}

Hostile zip_directory(Generator& make) {
  testing::ZipWriter zip;
  zip.add_text("zarr.json", v3_array(4, 4, R"(["bytes"])"));
  for (std::uint64_t i = make.below(3000); i-- > 0;)
    zip.add_text("c/" + std::string(make.below(60), 'n') + text(i), "");
  const bool lies = make.below(2) == 0;
  const std::uint64_t directory = make.size(36) + 46, entries = directory / (46 + make.below(100));
  const auto bytes = zip.finish([&](testing::ZipEnd& end) {
    if (!lies) return;
    end.zip64 = true;
    end.entries = entries;
    end.directory_bytes = directory;
    end.directory_at = 0;
  });
  std::string archive(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!lies) {
    make.put("a.zip", archive);
    return {"zip", "", true};
  }
  // Keeps only the end records, behind a huge empty directory; the locator holds the offset of the first record.
  constexpr std::size_t kEnds = 56 + 20 + 22, kLocatorWord = 56 + 8;
  archive.erase(0, archive.size() - kEnds);
  archive.replace(kLocatorWord, sizeof(directory), words({directory}));
  make.put_sparse("a.zip", directory, archive);
  return {"zip"};
}

Hostile index_file(Generator& make) {
  make.put("zarr.json", v3_array(4, 4, chains()[1]));
  make.put_sparse("decode.hrindex", 0, "hrindex", make.size(40));
  return {"", "", true};
}

Hostile links(Generator& make) {
  make.put("zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  std::string at;
  for (std::uint64_t depth = make.below(4); depth-- > 0;) {
    at += "g/";
    make.put(at + "zarr.json", R"({"zarr_format":3,"node_type":"group"})");
  }
  for (std::uint64_t i = make.below(4) + 1; i-- > 0;) {
    std::filesystem::create_symlink(make.below(2) == 0 || at.empty() ? "." : "..", make.path(at + "l" + text(i)));
  }
  return {""};
}

using Kind = Hostile (*)(Generator&);
constexpr Kind kKinds[] = {
    long_inner_chunk, long_chunk,           large_index,         large_inner_index, large_chunk,    large_elements,
    strings,          generated_references, template_references, inline_references, large_document, dense_document,
    deep_members,     many_members,         zip_directory,       index_file,        links};

// Returns "" if all is as it should be.
std::string try_array(const Array& array, const Hostile& hostile) {
  (void)array.stored_chunks();
  const ArrayInfo& info = array.info();
  Selection selection;
  for (const std::uint64_t extent : info.shape) {
    SelectionItem item;
    item.start = 0;
    item.stop = static_cast<std::int64_t>(std::min<std::uint64_t>(extent, 4));
    selection.push_back(item);
  }
  if (info.dtype.is_variable_length()) {
    VariableReadOptions options;
    options.max_bytes = kMiB;
    (void)array.read_variable(selection, options);
    return {};
  }
  if (info.dtype.item_bytes != 1) return {};
  const Device host = Device::open("host").value();
  std::vector<std::byte> data(4);
  const auto resolved = array.resolve(selection);
  if (!resolved.ok()) return "cannot be selected from: " + resolved.status().to_string();
  const TensorView tensor(data, info.dtype, resolved->shape);
  if (!array.read(selection, tensor, host).ok()) return {};
  if (!hostile.is_right) return "was read, and no right data are stored";
  const std::uint64_t count = tensor.shape.empty() ? 1 : tensor.shape[0];
  for (std::uint64_t i = 0; i < count; ++i) {
    if (data[i] != std::byte{kFill}) return "gave a wrong element";
  }
  return {};
}

std::string try_store(const Context& context, const std::string& directory, const Hostile& hostile) {
  const std::string url = hostile.url == "reference" ? "reference://" + directory + "/r.json"
                          : hostile.url == "zip"     ? "zip://" + directory + "/a.zip"
                                                     : directory;
  const auto store = Store::open(context, url);
  if (!store.ok()) return {};
  (void)list_nodes(*store);
  if (const auto group = Group::open(*store); group.ok()) (void)group->members();
  OpenOptions options;
  options.index_directory = directory;
  const auto array = Array::open(*store, hostile.array, options);
  return array.ok() ? try_array(*array, hostile) : std::string();
}

// Runs in the child; returns its exit status.
int run_all(std::uint64_t seed, unsigned count, const std::string& scratch) {
  ContextOptions options;
  options.threads = 2;
  options.host_budget_bytes = kHostBudget;
  options.stored_budget_bytes = kStoredBudget;
  options.index_budget_bytes = 4 * kMiB;
  const auto context = Context::create(options);
  if (!context.ok()) return 2;
  const auto& budget = Access::impl(*context)->resources->stored_memory();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const std::uint64_t before = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  int failed = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::string directory = scratch + "/" + std::to_string(i);
    std::filesystem::create_directory(directory);
    Generator make(seed + i, directory);
    const std::size_t kind = i % std::size(kKinds);
    std::string wrong = try_store(*context, directory, kKinds[kind](make));
    std::filesystem::remove_all(directory);
    if (wrong.empty() && budget->used_bytes() != 0) {
      wrong = "left " + std::to_string(budget->used_bytes()) + " bytes taken";
    }
    ::getrusage(RUSAGE_SELF, &usage);
    const std::uint64_t peak = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
    if (support::kAllocCounterWorks && peak > before + kHostBudget + kStoredBudget + kBeside) {
      wrong += " took " + std::to_string((peak - before) / kMiB) + " MiB";
    }
    if (wrong.empty()) continue;
    std::fprintf(stderr, "store %u (kind %zu, seed %llu): %s\n", i, kind, static_cast<unsigned long long>(seed + i),
                 wrong.c_str());
    if (++failed == 10) return 1;
  }
  return failed == 0 ? 0 : 1;
}

TEST(HostileStores, StayWithinTheBudgets) {
  constexpr std::uint64_t kSeed = 20'261'123;
  const unsigned count = support::kAllocCounterWorks ? 1000 : 200;  // sanitizers are slow
  support::TempDir scratch;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // A sanitizer's shadow memory exceeds any limit.
    const rlimit limit{kAddressSpace, kAddressSpace};
    if (support::kAllocCounterWorks && ::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
    ::_exit(run_all(kSeed, count, scratch.path()));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace
}  // namespace headrace
