#include "file_ranges.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "os/file_handle.h"
#include "os/file_read.h"
#include "os/signals_blocked.h"

namespace headrace::store {
namespace {

constexpr std::size_t kMaxThreads = 16;

Status replaced() { return Status(Code::kAgainExhausted, Layer::kStore, "the file was replaced: read it again"); }

std::string version_of(const os::FileIdentity& identity) {
  char text[128];
  std::snprintf(text, sizeof text, "%llx-%llx-%llx-%llx-%llx", static_cast<unsigned long long>(identity.device),
                static_cast<unsigned long long>(identity.inode), static_cast<unsigned long long>(identity.size_bytes),
                static_cast<unsigned long long>(identity.modified_ns),
                static_cast<unsigned long long>(identity.changed_ns));
  return text;
}

Status read_file(Store& files, RangeRead& read) {
  ByteSource file;
  HEADRACE_TRY(files.open(read.key, file));
  os::FileIdentity before, after;
  int error = 0;
  if (!os::identify(file.file().fd, before, error)) {
    return Status(Code::kIo, Layer::kStore, "cannot stat object").with_errno(error);
  }
  const std::string version = os::recently_changed(before) ? std::string() : version_of(before);
  if (!read.version.empty() && read.version != version) return replaced();
  const std::uint64_t size = before.size_bytes, room = read.out.size();
  const std::uint64_t offset = read.from_end ? size - std::min(size, room) : read.offset;
  if (offset > size) {
    return Status(Code::kShort, Layer::kStore, "the object ends at byte " + std::to_string(size))
        .with_range(offset, room);
  }
  const std::uint64_t bytes = std::min(room, size - offset);
  HEADRACE_TRY(os::read_exactly(file.file().fd, offset, read.out.first(static_cast<std::size_t>(bytes))));
  const bool same = os::identify(file.file().fd, after, error) && after == before;
  if (!same && !read.version.empty()) return replaced();
  read.bytes = bytes;
  read.object_bytes = size;
  if (same) read.found_version = version;
  return {};
}

class RangeThreads {
 public:
  explicit RangeThreads(std::shared_ptr<Store> files) : files_(std::move(files)) { threads_.reserve(kMaxThreads); }
  RangeThreads(const RangeThreads&) = delete;
  RangeThreads& operator=(const RangeThreads&) = delete;
  ~RangeThreads() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Status start(std::span<RangeRead* const> reads) {
    try {
      std::lock_guard lock(mutex_);
      const std::size_t wanted = std::min(kMaxThreads, waiting_.size() + busy_ + reads.size());
      while (threads_.size() < wanted && add_thread()) {
      }
      if (threads_.empty()) {
        return Status(Code::kResourceExhausted, Layer::kStore, "no thread to read files with");
      }
      const std::size_t before = waiting_.size();
      try {
        waiting_.insert(waiting_.end(), reads.begin(), reads.end());
      } catch (...) {
        waiting_.resize(before);
        throw;
      }
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
    changed_.notify_all();
    return {};
  }

  // Ends reads that are still queued; a file already being read is read to its end.
  void cancel(std::span<RangeRead* const> reads) noexcept {
    for (RangeRead* const read : reads) {
      {
        std::lock_guard lock(mutex_);
        const auto found = std::find(waiting_.begin(), waiting_.end(), read);
        if (found == waiting_.end()) continue;
        waiting_.erase(found);
      }
      try {
        read->status = Status(Code::kCancelled, Layer::kStore, "the read was cancelled");
      } catch (const std::bad_alloc&) {
        read->status = Status::out_of_memory();
      }
      read->listener->done({&read, 1});
    }
  }

 private:
  // Throws std::bad_alloc.
  bool add_thread() {
    const os::SignalsBlocked blocked;
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  void serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      RangeRead* const read = waiting_.front();
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      try {
        read->status = read_file(*files_, *read);
      } catch (const std::bad_alloc&) {
        read->status = Status::out_of_memory();
      }
      read->listener->done({&read, 1});
      lock.lock();
      --busy_;
    }
  }

  const std::shared_ptr<Store> files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RangeRead*> waiting_;    // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::size_t busy_ = 0;              // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
};

class FileRanges final : public ByteStore {
 public:
  explicit FileRanges(std::shared_ptr<Store> files) : files_(files), threads_(std::move(files)) {}

  std::string url() const override { return files_->url(); }
  Status start(std::span<RangeRead* const> reads) override {
    if (!threads_.inherited()) return threads_->start(reads);
    return Status(Code::kForked, Layer::kStore, "the store was opened before fork(): open it again in the child");
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    if (!threads_.inherited()) threads_->cancel(reads);
  }
  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    HEADRACE_TRY_ASSIGN(std::vector<Entry> entries, files_->list(prefix));
    std::vector<ListedName> names;
    names.reserve(entries.size());
    for (Entry& entry : entries) names.push_back({std::move(entry.name), entry.is_directory});
    return names;
  }
  Status put(std::string_view key, std::span<const std::byte> bytes) override { return files_->put(key, bytes); }
  // Opening a file on a network file system takes as long as reading some hundred KB.
  RangeAdvice advice() const noexcept override {
    return {.gap_bytes = std::uint64_t{256} << 10, .group_bytes = std::uint64_t{4} << 20};
  }

 private:
  const std::shared_ptr<Store> files_;
  base::ProcessOwn<RangeThreads> threads_;
};

}  // namespace

std::shared_ptr<ByteStore> make_file_ranges(std::shared_ptr<Store> files) {
  return std::make_shared<FileRanges>(std::move(files));
}

}  // namespace headrace::store
