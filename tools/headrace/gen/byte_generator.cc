#include "gen/byte_generator.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "gen/parallel.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
constexpr Grid kGrid = {721, 1440};
constexpr FieldModel kModel = {"T", "temperature", "K", 250, 45, false, 12, 0.03F, -9};

Status failure(const char* what, int error) {
  return Status(error == EACCES || error == EPERM ? Code::kPermission : Code::kIo, Layer::kApi, what)
      .with_cause(std::generic_category().message(error))
      .with_errno(error);
}

Status write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failure("cannot write the output", done < 0 ? errno : EIO).with_range(offset, bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return {};
}

// Bytes [offset, offset + out.size()) of the content. REQUIRES: offset is a multiple of 8.
void fill_bytes(ByteContent content, const FieldSource& source, std::uint64_t offset, std::span<std::byte> out) {
  if (content == ByteContent::kRandom) {
    source.random_bytes(0, offset, out);
    return;
  }
  float row[kGrid.columns];
  for (std::uint64_t value = offset / sizeof(float); !out.empty();) {
    const std::uint64_t line = value / kGrid.columns, column = value % kGrid.columns;
    const std::span<float> values(row, kGrid.columns - column);
    source.field_row(kModel, {0, line / kGrid.rows, 0}, kGrid, line % kGrid.rows, column, values);
    const std::size_t bytes = std::min(out.size(), values.size_bytes());
    std::memcpy(out.data(), row, bytes);
    out = out.subspan(bytes);
    value += values.size();
  }
}

}  // namespace

std::string generated_file_name(std::uint64_t index) {
  char name[24];
  std::snprintf(name, sizeof name, "%08llu", static_cast<unsigned long long>(index));
  return name;
}

Status generate_file(int fd, std::uint64_t size_bytes, ByteContent content, const FieldSource& source, unsigned threads,
                     const ByteProgress& progress) {
  if (size_bytes > 0 && ::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS) {
    return failure("cannot claim the output's space", errno);
  }
  std::atomic<std::uint64_t> done{0};
  return run_parallel(threads, (size_bytes + kPieceBytes - 1) / kPieceBytes, [&]() -> Result<Work> {
    auto buffer = std::make_shared<std::vector<std::byte>>(std::min(kPieceBytes, size_bytes));
    return Work([&, buffer](std::uint64_t piece) -> Status {
      const std::uint64_t offset = piece * kPieceBytes;
      const std::span<std::byte> bytes(buffer->data(), std::min(kPieceBytes, size_bytes - offset));
      fill_bytes(content, source, offset, bytes);
      HEADRACE_TRY(write_all(fd, bytes, offset));
      progress(done.fetch_add(bytes.size()) + bytes.size(), size_bytes);
      return {};
    });
  });
}

Status generate_files(const std::string& directory, std::uint64_t count, std::uint64_t size_bytes, ByteContent content,
                      const FieldSource& source, unsigned threads, const ByteProgress& progress) {
  std::atomic<std::uint64_t> done{0};
  return run_parallel(threads, count, [&]() -> Result<Work> {
    auto buffer = std::make_shared<std::vector<std::byte>>(std::min(kPieceBytes, size_bytes));
    return Work([&, buffer](std::uint64_t file) -> Status {
      const std::string path = directory + "/" + generated_file_name(file);
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd < 0) return failure("cannot create a file", errno).with_key(path);
      const std::uint64_t start = file * ((size_bytes + 7) / 8 * 8);
      Status status;
      for (std::uint64_t offset = 0; status.ok() && offset < size_bytes; offset += kPieceBytes) {
        const std::span<std::byte> bytes(buffer->data(), std::min(kPieceBytes, size_bytes - offset));
        fill_bytes(content, source, start + offset, bytes);
        status = write_all(fd, bytes, offset);
      }
      // Network file systems report a full disk on close().
      if (::close(fd) != 0 && status.ok()) status = failure("cannot write the output", errno);
      if (!status.ok()) return std::move(status).with_key(path);
      progress(done.fetch_add(1) + 1, count);
      return {};
    });
  });
}

}  // namespace headrace::cli
