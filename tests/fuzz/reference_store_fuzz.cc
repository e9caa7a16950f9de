// Reference files: any text is either refused, or every object lies inside a file below the root.
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "backends/store_reference/reference_store.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace headrace;
using namespace headrace::store;

constexpr std::uint64_t kLimit = std::uint64_t{1} << 20;

struct Tree {
  Tree() {
    std::filesystem::create_directories(dir / "root/sub");
    FUZZ_CHECK(support::write_file(dir / "root/a.bin", support::pattern(1000, 1)));
    FUZZ_CHECK(support::write_file(dir / "root/sub/b.bin", support::pattern(100, 2)));
    FUZZ_CHECK(support::write_file(dir / "secret", support::pattern(100, 3)));
    FUZZ_CHECK(::symlink("../secret", (dir / "root/out").c_str()) == 0);
    FUZZ_CHECK(::symlink("sub/b.bin", (dir / "root/in").c_str()) == 0);
    root = std::filesystem::canonical(dir / "root").string();
  }
  support::TempDir dir;
  std::string root;
};

std::size_t walk(Store& store, const std::string& prefix, const std::string& root, int depth) {
  const auto entries = store.list(prefix);
  FUZZ_CHECK(entries.ok());
  std::size_t count = 0;
  for (const Entry& entry : *entries) {
    const std::string key = prefix.empty() ? entry.name : prefix + "/" + entry.name;
    FUZZ_CHECK(valid_key(key));
    if (++count > 100) break;
    if (entry.is_directory) {
      if (depth < 8) count += walk(store, key, root, depth + 1);
      continue;
    }
    ByteSource object;
    const Status status = store.open(key, object);
    const auto got = store.get(key, kLimit);
    if (!status.ok()) {
      FUZZ_CHECK(!got.ok() && status.code() != Code::kNotFound);
      continue;
    }
    if (object.file().fd >= 0) {
      char target[PATH_MAX] = {};
      const std::string link = "/proc/self/fd/" + std::to_string(object.file().fd);
      FUZZ_CHECK(::readlink(link.c_str(), target, sizeof target - 1) > 0);
      FUZZ_CHECK(std::string(target).substr(0, root.size() + 1) == root + "/");
    }
    if (object.size_bytes() > kLimit) {
      FUZZ_CHECK(got.status().code() == Code::kResourceExhausted);
      continue;
    }
    Bytes bytes(static_cast<std::size_t>(object.size_bytes()));
    FUZZ_CHECK(object.read(0, bytes).ok());
    FUZZ_CHECK(got.ok() && *got == bytes);
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tree tree;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool kernel : {true, false}) {
    const auto store = open_references(text, {"reference://fuzz", tree.root, "", "", kernel});
    if (!store.ok()) {
      const Code code = store.status().code();
      FUZZ_CHECK(code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kResourceExhausted);
      continue;
    }
    walk(**store, "", tree.root, 0);
  }
  return 0;
}
