// FileStore: see file_store.h; for its design see docs/design/store.md.
#include "file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"
#include "file_ranges.h"
#include "os/descriptors.h"
#include "os/file_handle.h"
#include "os/file_mapping.h"
#include "os/filesystem.h"
#include "os/page_cache.h"
#include "store/beneath.h"
#include "store/file_offers.h"
#include "store/kept_files.h"
#include "store/open_file.h"
#include "store/range_store.h"

namespace headrace::store {
namespace {

// Temporary files of put() that are not yet renamed into place; list() hides them.
constexpr std::string_view kTemporary = ".headrace-tmp-";
constexpr int kRetries = 32;

std::int64_t stat_fd(int fd, struct stat& st) {
  const std::int64_t rc = HEADRACE_FAULT("store_file.fstat", 0);
  return rc != 0 ? rc : ::fstat(fd, &st) == 0 ? 0 : -errno;
}

// A zero-terminated copy of a prefix of a key, on the stack: keys have at most 4,096 bytes.
struct KeyText {
  explicit KeyText(std::string_view key) {
    const std::size_t n = std::min(key.size(), sizeof text - 1);
    std::memcpy(text, key.data(), n);
    text[n] = '\0';
  }
  char text[4097];
};

class FileStore final : public Store, public FileOffers {
 public:
  FileStore(std::string location, os::OwnedDescriptor& root, const FileStoreOptions& options)
      : location_(std::move(location)),
        beneath_(root.release(), options.kernel_resolves),
        kept_(options.store.memory) {}

  FileOffers* files() noexcept override { return this; }
  bool local_path(std::string_view key, std::string& out) override {
    out = location_;
    out += '/';
    out += key;
    return true;
  }
  std::string url() const override { return "file://" + location_; }

  Status open(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    int fd = -1;
    struct stat st {};
    HEADRACE_TRY(open_file(key, fd, st));
    out.offer_file({.fd = fd}, static_cast<std::uint64_t>(st.st_size));
    return {};
  }

  // Looks up the name without opening it. Links in the middle of the name are followed, and one that leads outside the
  // root goes unnoticed; but only the very file that was found beneath the root is accepted.
  Status open_for_reuse(std::string_view key, ByteSource& out) override {
    out.close();
    if (!valid_key(key)) return check_key(key);
    const std::uint64_t tag = KeptFiles::tag_of(key);
    if (KeptFiles::File* const kept = kept_.find(tag); kept != nullptr) {
      if (leads_to(key, kept->identity())) {
        out.offer_kept(kept_, *kept);
        return {};
      }
      kept_.drop(*kept);
      kept_.give_back(*kept);
    }
    int fd = -1;
    struct stat st {};
    HEADRACE_TRY(open_file(key, fd, st));
    const os::FileIdentity identity = os::identity_of(st);
    KeptFiles::File* kept = nullptr;
    // A file that has just changed could change again without showing.
    if (identity.size_bytes <= kMaxKeptBytes && !os::recently_changed(identity) && may_be_kept(fd, identity.device)) {
      kept = kept_.keep(tag, fd, identity);
    }
    if (kept != nullptr) {
      out.offer_kept(kept_, *kept);
    } else {
      out.offer_file({.fd = fd}, identity.size_bytes);
      out.set_identity(identity);
    }
    return {};
  }

  bool at_hand(std::string_view key, std::uint64_t limit) override {
    if (!valid_key(key)) return false;
    os::OwnedDescriptor fd(beneath_.open_cached_path(key.data(), kOpenFlags));
    struct stat st {};
    if (!fd || stat_fd(fd.get(), st) < 0 || !S_ISREG(st.st_mode)) return false;
    const auto size = static_cast<std::uint64_t>(st.st_size);
    if (size > limit) return false;
    // Network file systems ask their server at each open whether a file has changed.
    const os::FilesystemKind kind = os::filesystem_kind(fd.get());
    if (!kind.known || kind.is_network || kind.is_fuse) return false;
    if (kind.is_memory || size == 0) return true;
    const os::PageCacheShare share = os::page_cache_share(fd.get(), 0, size);
    // All pages were checked, not just samples.
    return share.resident_pages == share.pages && share.pages == base::ceil_div<std::uint64_t>(size, os::page_bytes());
  }

  Result<int> open_direct(std::string_view key, const ByteSource& object) override {
    HEADRACE_TRY(check_key(key));
    if (object.file().fd < 0)
      return Status(Code::kInvalidArgument, Layer::kStore, "the object is not open").with_key(key);
    if (held_elsewhere(object.file().fd)) return no_direct_elsewhere_;
    const KeyText text(key);
    const std::int64_t fault = HEADRACE_FAULT("store_file.open_direct", 0);
    os::OwnedDescriptor fd(fault < 0 ? static_cast<int>(fault) : beneath_.open(text.text, kOpenFlags | O_DIRECT));
    if (!fd) {
      if (fd.error() == EINVAL || fd.error() == EOPNOTSUPP) {
        return no_direct_;  // a ready-made Status: this is called for each chunk and must not allocate
      }
      return system_failure(fd.error(), key, "cannot open object for direct I/O");
    }
    struct stat opened {
    }, direct{};
    auto rc = stat_fd(fd.get(), direct);
    if (rc == 0) rc = stat_fd(object.file().fd, opened);
    if (rc == 0) rc = set_blocking(fd.get(), O_DIRECT);
    if (rc < 0) return system_failure(static_cast<int>(-rc), key, "cannot stat object");
    if (opened.st_dev != direct.st_dev || opened.st_ino != direct.st_ino) {
      return Status(Code::kUnsupported, Layer::kStore, "the object was replaced after it was opened").with_key(key);
    }
    return fd.release();
  }

  Result<Bytes> get(std::string_view key, std::uint64_t limit, base::Charge* charge) override {
    HEADRACE_TRY(check_key(key));
    const KeyText text(key);
    ByteSource object;
    HEADRACE_TRY(std::move(open({text.text, key.size()}, object)).with_key(key));
    if (object.size_bytes() > limit) {
      return Status(Code::kResourceExhausted, Layer::kStore,
                    "object of " + std::to_string(object.size_bytes()) + " bytes is above the limit of " +
                        std::to_string(limit))
          .with_key(key);
    }
    if (charge != nullptr) HEADRACE_TRY(charge->take(object.size_bytes(), "an object").with_key(key));
    try {
      Bytes bytes(object.size_bytes());
      HEADRACE_TRY(read_all(object.file().fd, bytes, key));
      return bytes;
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }

  Result<std::vector<Entry>> list(std::string_view prefix, base::Charge* charge) override {
    if (!prefix.empty()) HEADRACE_TRY(check_key(prefix));
    const KeyText text(prefix.empty() ? "." : prefix);
    os::OwnedDescriptor fd(beneath_.open(text.text, O_RDONLY | O_DIRECTORY));
    if (!fd) {
      if (fd.error() == ENOENT) return absent(prefix).with_key(prefix);
      return system_failure(fd.error(), prefix, "cannot open directory");
    }
    DIR* dir = ::fdopendir(fd.get());
    if (dir == nullptr) return system_failure(errno, prefix, "cannot read directory");
    fd.release();
    std::vector<Entry> entries;
    Status status;
    while (status.ok()) {
      errno = 0;
      const dirent* item = ::readdir(dir);
      const auto rc = HEADRACE_FAULT("store_file.readdir", errno != 0 ? -errno : 0);
      if (rc < 0) status = system_failure(static_cast<int>(-rc), prefix, "cannot read directory");
      if (item == nullptr || rc < 0) break;
      const std::string_view name = item->d_name;
      if (name == "." || name == ".." || name.substr(0, kTemporary.size()) == kTemporary) continue;
      if (charge != nullptr) status = charge->take(listed_bytes(name), "a listing").with_key(prefix);
      if (!status.ok()) break;
      bool is_directory = item->d_type == DT_DIR;
      if (item->d_type == DT_LNK || item->d_type == DT_UNKNOWN) is_directory = leads_to_directory(prefix, name);
      entries.push_back({std::string(name), is_directory, item->d_type == DT_LNK});
    }
    ::closedir(dir);
    HEADRACE_TRY(std::move(status));
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  std::optional<DirectoryId> identify_directory(std::string_view prefix) override {
    if (!prefix.empty() && !valid_key(prefix)) return std::nullopt;
    const KeyText text(prefix.empty() ? "." : prefix);
    os::OwnedDescriptor fd(beneath_.open(text.text, O_PATH | O_DIRECTORY));
    struct stat st {};
    if (!fd || stat_fd(fd.get(), st) < 0) return std::nullopt;
    return DirectoryId{static_cast<std::uint64_t>(st.st_dev), static_cast<std::uint64_t>(st.st_ino)};
  }

  Status put(std::string_view key, std::span<const std::byte> bytes) override {
    HEADRACE_TRY(check_key(key));
    const std::size_t slash = key.rfind('/');
    const std::string parent(slash == std::string_view::npos ? "." : key.substr(0, slash));
    const std::string name(slash == std::string_view::npos ? key : key.substr(slash + 1));
    if (std::string_view(name).substr(0, kTemporary.size()) == kTemporary) {
      return Status(Code::kInvalidArgument, Layer::kStore, "names that start with .headrace-tmp- are reserved")
          .with_key(key);
    }
    os::OwnedDescriptor dir(open_or_make_directory(parent));
    if (!dir) return put_failure(dir.error(), key, "cannot make the object's directory");

    static std::atomic<unsigned> counter{0};
    char temporary[80];
    std::snprintf(temporary, sizeof temporary, "%s%d-%u-%llx", kTemporary.data(), static_cast<int>(::getpid()),
                  counter.fetch_add(1), static_cast<unsigned long long>(base::now_ns()));
    const auto fault = HEADRACE_FAULT("store_file.create", 0);
    os::OwnedDescriptor fd(
        fault < 0 ? static_cast<int>(fault)
                  : ::openat(dir.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!fd) return put_failure(fault < 0 ? fd.error() : errno, key, "cannot create object");
    Status status = write_all(fd.get(), bytes, key);
    if (status.ok()) {
      // Network file systems report a full disk here at the latest.
      auto rc = HEADRACE_FAULT("store_file.close", 0);
      const int closed = ::close(fd.release());
      if (rc == 0 && closed != 0 && errno != EINTR) rc = -errno;
      if (rc < 0 && rc != -EINTR) status = put_failure(static_cast<int>(-rc), key, "cannot write object");
    }
    if (status.ok()) {
      auto rc = HEADRACE_FAULT("store_file.rename", 0);
      if (rc == 0 && ::renameat(dir.get(), temporary, dir.get(), name.c_str()) != 0) rc = -errno;
      if (rc < 0) status = put_failure(static_cast<int>(-rc), key, "cannot put object in place");
    }
    if (!status.ok()) ::unlinkat(dir.get(), temporary, 0);
    return status;
  }

 private:
  // Reading more than this takes so long that opening the file adds little.
  static constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kNoDevice = ~std::uint64_t{0};
  static constexpr int kOpenFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;

  // Opens the regular file of that name for reading.
  Status open_file(std::string_view key, int& out, struct stat& st) const {
    os::OwnedDescriptor fd(beneath_.open(key.data(), kOpenFlags));
    if (!fd) return open_failure(key, fd.error());
    if (const auto rc = stat_fd(fd.get(), st); rc < 0)
      return system_failure(static_cast<int>(-rc), key, "cannot stat object");
    if (!S_ISREG(st.st_mode)) {
      return Status(Code::kIo, Layer::kStore, std::string("the object is ") + kind_of(st.st_mode) + ", not a file")
          .with_key(key);
    }
    // O_NONBLOCK kept the open from waiting for a FIFO's writer. Left on, io_uring would return EAGAIN for a regular
    // file on a file system that cannot read without blocking (network file systems, FUSE).
    if (const auto rc = set_blocking(fd.get()); rc < 0) {
      return system_failure(static_cast<int>(-rc), key, "cannot set the descriptor's flags");
    }
    out = fd.release();
    return {};
  }

  // Whether the name leads to the file of that identity, and its last component is not a link.
  bool leads_to(std::string_view key, const os::FileIdentity& identity) const noexcept {
    struct stat st {};
    std::int64_t rc = HEADRACE_FAULT("store_file.fstatat", 0);
    if (rc == 0) rc = ::fstatat(beneath_.root(), key.data(), &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
    return rc == 0 && os::identity_of(st) == identity;
  }

  // Network file systems and FUSE revalidate a file when it is opened, but may answer a stat of its name from a cache.
  // A device's kind is determined once, from its first file.
  bool may_be_kept(int fd, std::uint64_t device) noexcept {
    if (device == local_device_.load(std::memory_order_relaxed)) return true;
    if (device == other_device_.load(std::memory_order_relaxed)) return false;
    const os::FilesystemKind kind = os::filesystem_kind(fd);
    if (!kind.known) return false;
    const bool elsewhere = kind.is_network || kind.is_fuse;
    (elsewhere ? other_device_ : local_device_).store(device, std::memory_order_relaxed);
    return !elsewhere;
  }

  static std::int64_t set_blocking(int fd, int flags = 0) {
    const std::int64_t rc = HEADRACE_FAULT("store_file.fcntl", 0);
    return rc != 0 ? rc : ::fcntl(fd, F_SETFL, flags) == 0 ? 0 : -errno;
  }

  // A put that finds a file in place of a directory has failed; nothing is "not found".
  static Status put_failure(int error, std::string_view key, std::string_view what) {
    if (error == ENOTDIR || error == ENOENT) {
      return Status(Code::kIo, Layer::kStore, std::string(what)).with_key(key).with_errno(error);
    }
    return system_failure(error, key, what);
  }

  Status open_failure(std::string_view key, int error) const {
    if (error == ENOENT) return absent(key);
    if (error == ENOTDIR) return not_found_;
    if (error == ENXIO) return Status(Code::kIo, Layer::kStore, "the object is a socket, not a file").with_key(key);
    return system_failure(error, key, "cannot open object");
  }

  // Whether ENOENT means that there is no such object, or that a symbolic link is dangling: an object stored elsewhere
  // that is missing (git-annex, an unmounted disk) must not be read as fill value.
  Status absent(std::string_view key) const {
    const KeyText text(key.empty() ? "." : key);
    os::OwnedDescriptor plain(beneath_.open(text.text, O_PATH | O_NOFOLLOW, Beneath::Links::kRefuse));
    if (plain || plain.error() == ENOENT || plain.error() == ENOTDIR) {
      // If it is found now, it was created meanwhile; it did not exist when it was requested.
      return plain && is_link(plain.get()) ? dangling(key) : not_found_;
    }
    if (plain.error() != ELOOP) return system_failure(plain.error(), key, "cannot open object");
    for (std::size_t end = 0; end != key.size();) {
      end = std::min(key.find('/', end + 1), key.size());
      const KeyText part(key.substr(0, end));
      os::OwnedDescriptor entry(beneath_.open(part.text, O_PATH | O_NOFOLLOW));
      if (entry.error() == ENOENT || entry.error() == ENOTDIR) return not_found_;
      os::OwnedDescriptor target(beneath_.open(part.text, O_PATH));
      if (target) continue;
      if (target.error() == ENOENT || target.error() == ENOTDIR) return dangling(key);
      return system_failure(target.error(), key, "cannot open object");
    }
    return not_found_;
  }

  static bool is_link(int fd) {
    struct stat st {};
    return ::fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
  }

  static Status dangling(std::string_view key) {
    return Status(Code::kIo, Layer::kStore, "a symbolic link on the way to the object leads nowhere").with_key(key);
  }

  bool leads_to_directory(std::string_view prefix, std::string_view name) const {
    std::string path(prefix);
    if (!path.empty()) path += '/';
    path += name;
    os::OwnedDescriptor fd(beneath_.open(path.c_str(), O_PATH));
    struct stat st {};
    return fd && ::fstat(fd.get(), &st) == 0 && S_ISDIR(st.st_mode);
  }

  static Status read_all(int fd, std::span<std::byte> bytes, std::string_view key) {
    std::size_t done = 0;
    int retries = 0;
    while (done < bytes.size()) {
      const std::size_t want = std::min(bytes.size() - done, std::size_t{1} << 30);
      ssize_t n = ::pread(fd, bytes.data() + done, want, static_cast<off_t>(done));
      const auto rc = HEADRACE_FAULT("store_file.pread", n < 0 ? -errno : n);
      if ((rc == -EINTR || rc == -EAGAIN) && ++retries < kRetries) continue;
      if (rc < 0) {
        return system_failure(static_cast<int>(-rc), key, "cannot read object").with_range(done, bytes.size() - done);
      }
      if (rc == 0) {
        return Status(Code::kShort, Layer::kStore, "the object became shorter while it was read")
            .with_key(key)
            .with_range(done, bytes.size() - done);
      }
      done += static_cast<std::size_t>(rc);
    }
    return {};
  }

  static Status write_all(int fd, std::span<const std::byte> bytes, std::string_view key) {
    std::size_t done = 0;
    int retries = 0;
    while (done < bytes.size()) {
      const std::size_t want = std::min(bytes.size() - done, std::size_t{1} << 30);
      ssize_t n = ::pwrite(fd, bytes.data() + done, want, static_cast<off_t>(done));
      const auto rc = HEADRACE_FAULT("store_file.pwrite", n < 0 ? -errno : n);
      if ((rc == -EINTR || rc == -EAGAIN || rc == 0) && ++retries < kRetries) continue;
      if (rc <= 0) {
        return put_failure(rc == 0 ? EAGAIN : static_cast<int>(-rc), key, "cannot write object")
            .with_range(done, bytes.size() - done);
      }
      done += static_cast<std::size_t>(rc);
    }
    return {};
  }

  // Every level is opened from the root, so that a link in the middle cannot lead outside.
  int open_or_make_directory(const std::string& path) const {
    int found = beneath_.open(path.c_str(), O_PATH | O_DIRECTORY);
    if (found != -ENOENT) return found;
    os::OwnedDescriptor parent(beneath_.open(".", O_PATH | O_DIRECTORY));
    if (!parent) return parent.get();
    int above = parent.release();
    std::size_t start = 0;
    while (true) {
      const std::size_t end = std::min(path.find('/', start), path.size());
      const std::string part = path.substr(0, end);
      int fd = beneath_.open(part.c_str(), O_PATH | O_DIRECTORY);
      if (fd == -ENOENT) {
        auto rc = HEADRACE_FAULT("store_file.mkdir", 0);
        if (rc == 0 && ::mkdirat(above, part.c_str() + start, 0777) != 0 && errno != EEXIST) rc = -errno;
        fd = rc < 0 ? static_cast<int>(rc) : beneath_.open(part.c_str(), O_PATH | O_DIRECTORY);
      }
      ::close(above);
      if (fd < 0 || end == path.size()) return fd;
      above = fd;
      start = end + 1;
    }
  }

  std::string location_;
  Beneath beneath_;
  KeptFiles kept_;
  std::atomic<std::uint64_t> local_device_{kNoDevice}, other_device_{kNoDevice};  // the devices determined last
  // Returned for every absent chunk: made once, so that an array of fill values allocates nothing.
  Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
  Status no_direct_elsewhere_{Code::kUnsupported, Layer::kStore, "network and FUSE file systems are not read directly"};
  Status no_direct_{Code::kUnsupported, Layer::kStore, "the file system refuses O_DIRECT"};
};

// Whether the file at `path` begins like a ZIP archive.
bool begins_like_zip(const std::string& path) {
  char magic[4] = {};
  os::OwnedDescriptor fd(os::open_patiently([&] {
    const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return opened < 0 ? -errno : opened;
  }));
  struct stat st {};
  return fd && ::fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode) && ::pread(fd.get(), magic, 4, 0) == 4 &&
         (std::memcmp(magic, "PK\3\4", 4) == 0 || std::memcmp(magic, "PK\5\6", 4) == 0);
}

// `file`, which is `path` or a part of it, is not a directory.
Result<std::shared_ptr<Store>> open_inside_file(const std::string& path, const std::string& file,
                                                const StoreOptions& options) {
  if (begins_like_zip(file)) return open_store("zip://" + path, options);
  return Status(Code::kInvalidArgument, Layer::kStore,
                "a store must be a directory or a ZIP file; a reference file is opened as reference://PATH")
      .with_key(file);
}

}  // namespace

Result<std::shared_ptr<Store>> open_file_store_with(std::string_view location, const FileStoreOptions& options) {
  try {
    std::string path(location);
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (path.empty() || path.find('\0') != std::string::npos) {
      return Status(Code::kInvalidArgument, Layer::kStore, "not a path").with_key(path);
    }
    const int fd = os::open_patiently([&] {
      const std::int64_t fault = HEADRACE_FAULT("store_file.open_root", 0);
      if (fault != 0) return static_cast<int>(fault);
      const int opened = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
      return opened < 0 ? -errno : opened;
    });
    if (fd == -ENOENT) return Status(Code::kNotFound, Layer::kStore, "no such directory").with_key(path);
    if (fd == -ENOTDIR) {
      // The path itself is a file, or leads through one: the user may mean a ZIP store.
      struct stat st {};
      for (std::string part = path; !part.empty(); part.erase(std::min(part.rfind('/'), part.size()))) {
        if (::stat(part.c_str(), &st) == 0 && !S_ISDIR(st.st_mode)) return open_inside_file(path, part, options.store);
        if (part.find('/') == std::string::npos) break;
      }
    }
    if (fd < 0) return system_failure(-fd, path, "cannot open the store's directory");
    os::OwnedDescriptor root(fd);
    return std::shared_ptr<Store>(std::make_shared<FileStore>(std::move(path), root, options));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

// Storage options configure the disk cache; with them, files are read through it, for file systems slower than the
// disk. The cache's environment variables apply to remote stores only.
Result<std::shared_ptr<Store>> open_file_store(std::string_view location, const StoreOptions& options) {
  FileStoreOptions own;
  own.store = options;
  std::string_view cache_directory;
  for (const StorageOption& option : options.storage) {
    if (option.name == "cache_dir") cache_directory = option.value;
    if (!option.name.starts_with("cache_")) {
      return Status(Code::kInvalidArgument, Layer::kStore,
                    "a store of files takes no storage options but those of the cache on disk: cache_dir and others");
    }
  }
  HEADRACE_TRY_ASSIGN(auto files, open_file_store_with(location, own));
  if (cache_directory.empty() || cache_directory == "off") return files;
  if (files->files() == nullptr) {
    return Status(Code::kInvalidArgument, Layer::kStore, "only files of a directory are kept in a cache on disk");
  }
  try {
    std::error_code error;
    const std::string root = std::filesystem::canonical(location, error).string();
    if (error) return system_failure(error.value(), location, "cannot determine the store's full path");
    return make_remote_store(make_file_ranges(std::move(files)), "file://" + root, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
