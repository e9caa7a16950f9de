// ReferenceStore: see reference_store.h.
//
// References are untrusted input: a path is resolved beneath the root and never leaves it, whatever links lie on the
// way. A missing file is an error, not a missing chunk.
#include "reference_store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "base/fault.h"
#include "base/json.h"
#include "os/descriptors.h"
#include "os/file_handle.h"
#include "os/file_read.h"
#include "reference_file.h"
#include "remote_references.h"
#include "store/beneath.h"
#include "store/file_offers.h"
#include "store/open_file.h"

namespace headrace::store {
namespace {

constexpr int kMaxKept = 256;  // descriptors kept open: most reference files name a few files with many chunks

// A file named by references.
struct Target {
  std::string path;  // relative to the root; "": must not be opened, for the reason in `refused`
  Status refused;
  std::atomic<int> fd{-1};  // kept open
};

// `path` relative to `root`, or nothing if it is not below it.
std::optional<std::string_view> from(std::string_view root, std::string_view path) {
  while (root.size() > 1 && root.back() == '/') root.remove_suffix(1);
  if (root == "/") root = "";
  if (path.size() <= root.size() || path.substr(0, root.size()) != root || path[root.size()] != '/') return {};
  path.remove_prefix(root.size());
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  if (path.empty()) return {};
  return path;
}

Result<std::string> real_directory(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return system_failure(errno, path, "cannot resolve the directory");
  std::string out = resolved;
  ::free(resolved);  // NOLINT: allocated by realpath()
  return out;
}

class ReferenceStore final : public Store, public FileOffers {
 public:
  ReferenceStore(ReferenceStoreOptions options, int root_fd)
      : options_(std::move(options)), beneath_(root_fd, options_.kernel_resolves) {}
  ~ReferenceStore() override {
    for (std::size_t i = 0; i < file_.targets.size() && targets_ != nullptr; ++i) {
      if (targets_[i].fd < 0) continue;
      os::close_descriptor(targets_[i].fd);
      os::Descriptors::of_process().end_hold();
      os::Descriptors::of_process().closed();
    }
  }

  // `root` and `directory` are absolute and free of links.
  Status read(std::string_view text, const std::string& root, const std::string& directory) {
    file_.memory = base::Charge(options_.memory);
    HEADRACE_TRY(parse_reference_file(text, options_.folder, file_).with_key(options_.name));
    if (!file_.folder_exists) {
      const bool is_object = file_.folder_is_object;
      return Status(is_object ? Code::kInvalidArgument : Code::kNotFound, Layer::kStore,
                    is_object ? "a store must be a folder of the references, not one of their objects"
                              : "no such folder among the references of " + options_.name)
          .with_key(options_.folder);
    }
    targets_ = std::make_unique<Target[]>(file_.targets.size());
    root_ = root;
    for (std::size_t i = 0; i < file_.targets.size(); ++i) resolve(file_.targets[i], directory, targets_[i]);
    return {};
  }

  std::string url() const override { return options_.name; }

  FileOffers* files() noexcept override { return this; }
  bool local_path(std::string_view key, std::string& out) override {
    const std::uint32_t number = file_.names.find(key);
    if (number == NameIndex::kNone || file_.references[number].target == Reference::kInline) return false;
    out = root_;
    out += '/';
    out += targets_[file_.references[number].target].path;
    return true;
  }

  Status open(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    const std::uint32_t number = file_.names.find(key);
    if (number == NameIndex::kNone) return not_found_;
    const Reference& reference = file_.references[number];
    if (reference.target == Reference::kInline) {
      out.offer_memory(std::as_bytes(std::span(file_.text)).subspan(reference.offset, reference.length));
      return {};
    }
    Target& target = targets_[reference.target];
    if (!target.refused.ok()) return Status(target.refused).with_key(key);
    std::uint64_t file_bytes = 0;
    HEADRACE_TRY(open_target(target, reference, key, out, file_bytes));
    if (reference.offset > file_bytes || out.size_bytes() > file_bytes - reference.offset) {
      Status status(Code::kShort, Layer::kStore,
                    "a reference to " + std::to_string(out.size_bytes()) + " bytes at " +
                        std::to_string(reference.offset) + " of '" + target.path + "', which has " +
                        std::to_string(file_bytes));
      out.close();
      return std::move(status).with_key(key);
    }
    return {};
  }

  Result<int> open_direct(std::string_view key, const ByteSource& object) override {
    if (!object.offers(Offer::kFile) || held_elsewhere(object.file().fd)) return no_direct_;
    // The descriptor's link in /proc leads to the file even if its path now names another.
    char link[48];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", object.file().fd);
    std::int64_t fd = HEADRACE_FAULT("store_reference.open_direct", 0);
    if (fd == 0) {
      fd = ::open(link, O_RDONLY | O_DIRECT | O_CLOEXEC);
      if (fd < 0) fd = -errno;
    }
    if (fd >= 0) return static_cast<int>(fd);
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM) {
      return system_failure(static_cast<int>(-fd), key, "cannot open object for direct I/O");
    }
    return no_direct_;
  }

  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    return file_.names.list(prefix, charge);
  }

  Status put(std::string_view key, std::span<const std::byte>) override {
    HEADRACE_TRY(check_key(key));
    return Status(Code::kUnsupported, Layer::kStore, "reference stores are read-only").with_key(key);
  }

 private:
  static Status refuse(Code code, std::string what, std::string_view url) {
    return Status(code, Layer::kStore, "reference to '" + std::string(url.substr(0, 200)) + "': " + std::move(what));
  }

  // Interprets a file name of the reference file. Opens nothing and decodes no escapes.
  void resolve(std::string_view url, const std::string& directory, Target& target) const {
    std::string_view path = url;
    if (const std::size_t mark = url.find("://"); mark != std::string_view::npos) {
      const std::string_view scheme = url.substr(0, mark);
      if (scheme != "file" && scheme != "local") {
        target.refused =
            refuse(Code::kUnsupported,
                   "files at '" + std::string(scheme.substr(0, 40)) + "' URLs are not supported, local ones are", url);
        return;
      }
      path = url.substr(mark + 3);
      if (path.empty() || path.front() != '/') {
        target.refused = refuse(Code::kUnsupported, "only file:///path is supported of file URLs", url);
        return;
      }
    }
    if (path.front() == '/') {
      auto rest = from(root_, path);
      if (!rest) rest = from(options_.root.empty() ? options_.directory : options_.root, path);
      if (rest) target.path = *rest;
    } else if (directory == root_) {
      target.path = path;
    } else if (const auto rest = from(root_, directory)) {
      target.path = std::string(*rest) + "/" + std::string(path);
    }
    if (target.path.empty()) {
      target.refused = refuse(Code::kPermission,
                              "the file lies outside " + root_ +
                                  "; if you trust it, open reference://PATH?root=DIRECTORY "
                                  "with a directory that holds it",
                              url);
    }
  }

  Status open_target(Target& target, const Reference& reference, std::string_view key, ByteSource& out,
                     std::uint64_t& file_bytes) {
    const auto length = [&] { return reference.length == Reference::kToTheEnd ? file_bytes : reference.length; };
    const int kept = target.fd.load(std::memory_order_acquire);
    if (kept >= 0) {
      struct stat st {};
      std::int64_t rc = HEADRACE_FAULT("store_reference.fstat", 0);
      if (rc == 0 && ::fstat(kept, &st) != 0) rc = -errno;
      if (rc < 0) return system_failure(static_cast<int>(-rc), key, "cannot stat object");
      file_bytes = static_cast<std::uint64_t>(st.st_size);
      out.offer_file({.fd = kept, .lent = true, .begin = reference.offset}, length());
      return {};
    }
    int fd = -1;
    Status status = open_regular(beneath_, target.path.c_str(), key, fd, file_bytes);
    if (status.code() == Code::kNotFound) {
      return Status(Code::kIo, Layer::kStore,
                    "the file '" + target.path + "', which the object is a part of, is missing")
          .with_key(key)
          .with_errno(status.system_error());
    }
    if (!status.ok()) return status;
    out.offer_file({.fd = fd, .begin = reference.offset}, length());
    os::Descriptors& descriptors = os::Descriptors::of_process();
    if (kept_.load(std::memory_order_relaxed) >= kMaxKept || !descriptors.hold()) return {};
    int none = -1;
    if (target.fd.compare_exchange_strong(none, fd, std::memory_order_acq_rel)) {
      kept_.fetch_add(1, std::memory_order_relaxed);
      out.lend();
    } else {
      descriptors.end_hold();
    }
    return {};
  }

  const ReferenceStoreOptions options_;
  const Beneath beneath_;
  std::string root_;
  ReferenceFile file_;
  std::unique_ptr<Target[]> targets_;
  std::atomic<int> kept_{0};
  Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
  Status no_direct_{Code::kUnsupported, Layer::kStore,
                    "not read directly: the file system refuses O_DIRECT, or is a network or FUSE one"};
};

}  // namespace

Result<std::shared_ptr<Store>> open_references(std::string_view text, const ReferenceStoreOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(const std::string directory, real_directory(options.directory));
    std::string root = directory;
    if (!options.root.empty()) {
      HEADRACE_TRY_ASSIGN(root, real_directory(options.root));
    }
    const int fd = os::open_patiently([&] {
      const std::int64_t fault = HEADRACE_FAULT("store_reference.open_root", 0);
      if (fault != 0) return static_cast<int>(fault);
      const int opened = ::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
      return opened < 0 ? -errno : opened;
    });
    if (fd < 0) return system_failure(-fd, root, "cannot open the references' root");
    auto store = std::make_shared<ReferenceStore>(options, fd);
    HEADRACE_TRY(store->read(text, root, directory));
    return std::shared_ptr<Store>(std::move(store));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

// `location`: the reference file, optionally followed by a folder inside it, then "?root=" and a directory; or the URL
// of a remote one.
Result<std::shared_ptr<Store>> open_reference_store(std::string_view location, const StoreOptions& given) {
  try {
    if (is_url(location)) return open_remote_references(location, given);
    HEADRACE_TRY(refuse_storage_options("reference", given));
    constexpr std::string_view kRoot = "?root=";
    ReferenceStoreOptions options;
    options.memory = given.memory;
    options.name = "reference://" + std::string(location);
    std::string path;
    if (const std::size_t mark = location.rfind(kRoot); mark != std::string::npos) {
      options.root = location.substr(mark + kRoot.size());
      if (options.root.empty() || options.root.find('\0') != std::string::npos) {
        return Status(Code::kInvalidArgument, Layer::kStore, "?root= names no directory").with_key(location);
      }
      location = location.substr(0, mark);
    }
    HEADRACE_TRY(split_at_file(location, "reference file", path, options.folder));
    os::FileHandle file;
    HEADRACE_TRY(os::FileHandle::open(path, {}, file));
    std::uint64_t bytes = 0;
    HEADRACE_TRY(file.size(bytes));
    if (bytes > base::kLargeDocumentBytes) {
      return Status(Code::kResourceExhausted, Layer::kStore,
                    "a reference file of " + std::to_string(bytes) + " bytes is above the limit of " +
                        std::to_string(base::kLargeDocumentBytes))
          .with_key(path);
    }
    base::Charge document(given.memory);
    HEADRACE_TRY(document.take(bytes, "a reference file").with_key(path));
    std::string text(static_cast<std::size_t>(bytes), '\0');
    HEADRACE_TRY(os::read_exactly(file.fd(), 0, std::as_writable_bytes(std::span(text))).with_key(path));
    const std::size_t slash = path.rfind('/');
    options.directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    return open_references(text, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
