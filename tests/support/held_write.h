// A write that is suspended within one call, as when a writer waits for a processor, its source or a slow disk: the
// file has its new time stamps but none of the new bytes.
//
// Threads: one.
#pragma once

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace headrace::support {

class HeldWrite {
 public:
  // Starts to write `bytes`, at most a page, at the start of the file. ok() is false where the kernel does not let this
  // process suspend page faults (vm.unprivileged_userfaultfd).
  HeldWrite(const std::string& path, std::string_view bytes) : bytes_(bytes) {
    faults_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
    if (faults_ < 0) return;
    source_ = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register page{};
    page.range = {reinterpret_cast<std::uint64_t>(source_), kPage};
    page.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (::ioctl(faults_, UFFDIO_API, &api) != 0 || ::ioctl(faults_, UFFDIO_REGISTER, &page) != 0) return;
    writer_ = std::thread([this, path] {
      const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      wrote_ = ::pwrite(fd, source_, bytes_.size(), 0);
      ::close(fd);
    });
  }
  HeldWrite(const HeldWrite&) = delete;
  ~HeldWrite() {
    finish();
    if (source_ != nullptr) ::munmap(source_, kPage);
    if (faults_ >= 0) ::close(faults_);
  }

  bool ok() const { return writer_.joinable(); }

  // Resumes the write and returns its result.
  ssize_t finish() {
    if (!writer_.joinable()) return wrote_;
    alignas(kPage) static char page[kPage];
    std::memcpy(page, bytes_.data(), bytes_.size());
    uffdio_copy copy{};
    copy.dst = reinterpret_cast<std::uint64_t>(source_);
    copy.src = reinterpret_cast<std::uint64_t>(page);
    copy.len = kPage;
    ::ioctl(faults_, UFFDIO_COPY, &copy);
    writer_.join();
    return wrote_;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  std::string bytes_;
  int faults_ = -1;
  void* source_ = nullptr;
  std::thread writer_;
  ssize_t wrote_ = -1;
};

}  // namespace headrace::support
