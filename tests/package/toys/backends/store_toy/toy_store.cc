// A minimal read-only store, "toy:///data/x.toy": one file, read into memory when it is opened. It is a sequence of
// objects, each stored as "KEY_BYTES OBJECT_BYTES\n", the key, the object.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <new>
#include <string>

#include "base/fault.h"
#include "os/file_read.h"
#include "store/store.h"

namespace headrace::store {
namespace {

// Returns a system call's result or -errno, so that one fault point covers both.
template <class Call>
std::int64_t result_of(std::int64_t injected, const Call& call) {
  if (injected != 0) return injected;
  const std::int64_t result = call();
  return result < 0 ? -errno : result;
}

class ToyStore final : public Store {
 public:
  explicit ToyStore(std::string path) : path_(std::move(path)) {}
  ~ToyStore() override {
    if (fd_ >= 0) ::close(fd_);
  }

  Status read(const StoreOptions& options) {
    fd_ = static_cast<int>(
        result_of(HEADRACE_FAULT("store_toy.open", 0), [&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC); }));
    if (fd_ < 0) return failed("cannot open the file", -fd_);
    const std::int64_t bytes =
        result_of(HEADRACE_FAULT("store_toy.seek", 0), [&] { return ::lseek(fd_, 0, SEEK_END); });
    if (bytes < 0) return failed("cannot tell the file's size", static_cast<int>(-bytes));
    // Memory whose size stored bytes decide is charged to the budget before it is allocated.
    charge_ = base::Charge(options.memory);
    HEADRACE_TRY(charge_.take(static_cast<std::uint64_t>(bytes), "a toy file").with_key(path_));
    file_.resize(static_cast<std::size_t>(bytes));
    HEADRACE_TRY(os::read_exactly(fd_, 0, file_).with_key(path_));
    return parse();
  }

  std::string url() const override { return "toy://" + path_; }

  // Here, and nowhere else, an object states what it offers. This one is in memory for as long as the store exists.
  Status open(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return not_found_;
    out.offer_memory(found->second);
    return {};
  }

  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    const std::string start = prefix.empty() ? std::string() : std::string(prefix) + '/';
    std::vector<Entry> entries;
    for (auto it = objects_.lower_bound(start); it != objects_.end() && it->first.starts_with(start); ++it) {
      const std::string_view rest = it->first.substr(start.size());
      const std::size_t slash = rest.find('/');
      const std::string_view name = rest.substr(0, slash);
      if (!entries.empty() && entries.back().name == name) continue;
      if (charge != nullptr) HEADRACE_TRY(charge->take(listed_bytes(name), "a listing").with_key(prefix));
      entries.push_back({std::string(name), slash != std::string_view::npos});
    }
    if (entries.empty() && !prefix.empty()) {
      return Status(Code::kNotFound, Layer::kStore, "no such directory").with_key(prefix);
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  Status put(std::string_view key, std::span<const std::byte>) override {
    HEADRACE_TRY(check_key(key));
    return Status(Code::kUnsupported, Layer::kStore, "toy files are only read").with_key(key);
  }

 private:
  Status failed(const char* what, int error) const {
    const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
    return Status(code, Layer::kStore, what).with_errno(error).with_key(path_);
  }

  // Stored bytes are untrusted: each length is compared with what is left before it is used.
  Status parse() {
    const std::string_view text(reinterpret_cast<const char*>(file_.data()), file_.size());
    for (std::size_t at = 0; at < text.size();) {
      std::size_t key_bytes = 0, bytes = 0;
      if (!take_number(text, at, ' ', key_bytes) || !take_number(text, at, '\n', bytes) ||
          key_bytes > text.size() - at || bytes > text.size() - at - key_bytes) {
        return Status(Code::kCorrupt, Layer::kStore, "this is no toy file, or it is cut").with_key(path_);
      }
      const std::string_view key = text.substr(at, key_bytes);
      // An object whose name is not a valid key is unreachable.
      if (valid_key(key)) objects_[key] = std::span<const std::byte>(file_).subspan(at + key_bytes, bytes);
      at += key_bytes + bytes;
    }
    return {};
  }
  static bool take_number(std::string_view text, std::size_t& at, char end, std::size_t& out) {
    const char* const last = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + at, last, out);
    if (error != std::errc() || stop == last || *stop != end) return false;
    at = static_cast<std::size_t>(stop - text.data()) + 1;
    return true;
  }

  const std::string path_;
  int fd_ = -1;
  base::Charge charge_;
  Bytes file_;
  std::map<std::string_view, std::span<const std::byte>, std::less<>> objects_;
  const Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};  // open() must not allocate
};

}  // namespace

Result<std::shared_ptr<Store>> open_toy_store(std::string_view location, const StoreOptions& options) {
  try {
    auto store = std::make_shared<ToyStore>(std::string(location));
    HEADRACE_TRY(store->read(options));
    return std::shared_ptr<Store>(std::move(store));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
