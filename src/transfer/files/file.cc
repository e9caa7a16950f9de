// headrace::File and headrace::FileQueue over the transfer layer.
#include <headrace/file.h>

#include <new>

#include "base/access.h"
#include "transfer/context/context_impl.h"
#include "transfer/files/file_impl.h"

namespace headrace {
namespace {

constexpr std::string_view kPathNames[] = {"auto", "direct", "buffered", "mapped"};

Status run_one(const Context& context, const Device& device, const File& file, std::span<const FileRange> ranges,
               bool write, FileStats* stats, const std::optional<Cancel>& cancel) {
  FileQueueOptions options;
  options.cancel = cancel;
  HEADRACE_TRY_ASSIGN(FileQueue queue, FileQueue::create(context, device, options));
  HEADRACE_TRY(write ? queue.write(file, ranges, 0) : queue.read(file, ranges, 0));
  FileCompletion done;
  queue.wait({&done, 1});
  if (stats != nullptr) *stats = queue.stats();
  return std::move(done.status);
}

}  // namespace

std::string_view path_name(Path path) noexcept { return kPathNames[static_cast<std::size_t>(path)]; }

Result<Path> parse_path_name(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kPathNames); ++i) {
    if (kPathNames[i] == name) return static_cast<Path>(i);
  }
  return Status(Code::kInvalidArgument, Layer::kTransfer,
                "no path named '" + std::string(name) + "'; choose auto, direct, buffered or mapped");
}

Result<File> File::open(std::string_view path, const FileOptions& options) {
  try {
    auto handle = std::make_shared<os::FileHandle>();
    HEADRACE_TRY(os::FileHandle::open(path, {options.write, options.create, options.truncate}, *handle));
    return File(std::make_shared<Impl>(std::move(handle)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

const std::string& File::path() const noexcept { return impl_->handle->path(); }

Result<std::uint64_t> File::size_bytes() const {
  std::uint64_t bytes = 0;
  HEADRACE_TRY(impl_->handle->size(bytes));
  return bytes;
}

Status File::sync() const { return impl_->handle->sync(); }

FileQueue::FileQueue(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FileQueue::FileQueue(FileQueue&&) noexcept = default;
FileQueue& FileQueue::operator=(FileQueue&&) noexcept = default;
FileQueue::~FileQueue() = default;

Result<FileQueue> FileQueue::create(const Context& context, const Device& device, const FileQueueOptions& options) {
  return make_file_queue(context, device, options, {});
}

Result<FileQueue> make_file_queue(const Context& context, const Device& device, const FileQueueOptions& options,
                                  const QueueSkips& skips) {
  try {
    auto impl =
        std::make_unique<FileQueue::Impl>(Access::impl(context)->resources, Access::impl(device), options, skips);
    HEADRACE_TRY(impl->prepare());
    return Access::make<FileQueue>(std::move(impl));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status FileQueue::read(const File& file, std::span<const FileRange> ranges, std::uint64_t tag) {
  try {
    return impl_->add(Access::impl(file)->handle, ranges, false, tag);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status FileQueue::write(const File& file, std::span<const FileRange> ranges, std::uint64_t tag) {
  try {
    return impl_->add(Access::impl(file)->handle, ranges, true, tag);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status FileQueue::read_paths(std::span<const PathRange> ranges, std::uint64_t tag) {
  try {
    return impl_->add_paths(ranges, tag);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

void FileQueue::flush() { impl_->flush(); }

std::size_t FileQueue::wait(std::span<FileCompletion> out, std::size_t at_least, std::chrono::nanoseconds timeout) {
  return impl_->wait(out, at_least, timeout);
}

std::size_t FileQueue::pending() const noexcept { return impl_->pending(); }
FileStats FileQueue::stats() const { return impl_->stats(); }

Status read_file(const Context& context, const Device& device, const File& file, std::span<const FileRange> ranges,
                 FileStats* stats, const std::optional<Cancel>& cancel) {
  return run_one(context, device, file, ranges, false, stats, cancel);
}

Status write_file(const Context& context, const Device& device, const File& file, std::span<const FileRange> ranges,
                  FileStats* stats, const std::optional<Cancel>& cancel) {
  return run_one(context, device, file, ranges, true, stats, cancel);
}

}  // namespace headrace
