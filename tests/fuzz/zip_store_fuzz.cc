// ZIP files: any bytes are either refused as an archive, or every object lies inside the file, matches its checksum
// when read whole, and is the same by every way of reading it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "store/store.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace headrace;
using namespace headrace::store;

constexpr std::uint64_t kLimit = std::uint64_t{1} << 20;

bool is_refusal(const Status& status) {
  return status.code() == Code::kCorrupt || status.code() == Code::kUnsupported || status.code() == Code::kShort;
}

void check_object(Store& store, const std::string& key, std::size_t file_bytes, int fd) {
  ByteSource object;
  const Status status = store.open(key, object);
  const auto got = store.get(key, kLimit);
  if (!status.ok()) {
    FUZZ_CHECK(is_refusal(status));
    FUZZ_CHECK(!got.ok() && got.status().code() == status.code());
    return;
  }
  FUZZ_CHECK((object.file().fd >= 0) != object.offers(store::Offer::kWhole));
  if (object.size_bytes() > kLimit) {
    FUZZ_CHECK(got.status().code() == Code::kResourceExhausted);
    return;
  }
  Bytes bytes(static_cast<std::size_t>(object.size_bytes()));
  if (object.offers(store::Offer::kWhole)) {
    os::PageBuffer scratch;
    const Status unpacked = store.unpack(object, bytes, scratch);
    FUZZ_CHECK(unpacked.ok() == got.ok());
    FUZZ_CHECK(unpacked.ok() || is_refusal(unpacked));
  } else {
    FUZZ_CHECK(object.file().begin <= file_bytes && object.size_bytes() <= file_bytes - object.file().begin);
    Bytes raw(bytes.size());
    FUZZ_CHECK(::pread(fd, raw.data(), raw.size(), static_cast<off_t>(object.file().begin)) ==
               static_cast<ssize_t>(raw.size()));
    FUZZ_CHECK(object.read(0, bytes).ok() && bytes == raw);
    FUZZ_CHECK(object.check_whole(bytes).ok() == got.ok());
  }
  if (got.ok()) {
    FUZZ_CHECK(*got == bytes);
  }
}

std::size_t walk(Store& store, const std::string& prefix, std::size_t file_bytes, int fd, int depth) {
  const auto entries = store.list(prefix);
  FUZZ_CHECK(entries.ok());
  std::size_t count = 0;
  for (const Entry& entry : *entries) {
    const std::string key = prefix.empty() ? entry.name : prefix + "/" + entry.name;
    FUZZ_CHECK(valid_key(key));
    if (++count > 200) break;
    if (entry.is_directory && depth < 8) {
      count += walk(store, key, file_bytes, fd, depth + 1);
    } else if (!entry.is_directory) {
      check_object(store, key, file_bytes, fd);
    }
  }
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("zip", MFD_CLOEXEC);
  FUZZ_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(size)) == 0);
  FUZZ_CHECK(::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  const std::string url = "zip:///proc/self/fd/" + std::to_string(fd);
  const auto store = open_store(url);
  if (!store.ok()) {
    FUZZ_CHECK(is_refusal(store.status()));
    return 0;
  }
  walk(**store, "", size, fd, 0);
  // A folder of the archive contains what the whole archive has below that name.
  const auto inside = open_store(url + "/g");
  const auto listed = (*store)->list("g");
  if (inside.ok()) {
    FUZZ_CHECK(listed.ok());
    const auto again = (*inside)->list("");
    FUZZ_CHECK(again.ok() && again->size() == listed->size());
    walk(**inside, "", size, fd, 0);
  } else {
    FUZZ_CHECK(!listed.ok());
  }
  return 0;
}
