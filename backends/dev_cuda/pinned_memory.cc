#include "pinned_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "os/numa.h"

namespace headrace::device::cuda {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

Status no_memory(std::size_t bytes, int error) {
  return Status(Code::kResourceExhausted, Layer::kDevice,
                "cannot allocate " + std::to_string(bytes) + " bytes of pinned host memory")
      .with_errno(error);
}

// Faults in the pages from several threads, since one clears only 4 GB/s. It touches them: MADV_POPULATE_WRITE would
// hold the address-space lock, and other threads that do the same would wait.
void make_pages(std::byte* start, std::size_t bytes, std::size_t page) {
  constexpr std::size_t kMin = std::size_t{4} << 20, kMaxThreads = 4;
  const auto make = [page](std::byte* part, std::size_t length) {
    for (std::size_t at = 0; at < length; at += page) *static_cast<volatile std::byte*>(part + at) = std::byte{0};
  };
  const std::size_t most = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads);
  const std::size_t parts = std::clamp<std::size_t>(bytes / kMin, 1, most);
  const std::size_t share = base::align_up(base::ceil_div(bytes, parts), kHugePage);
  std::vector<std::thread> threads;
  std::size_t at = 0;
  try {
    for (; at + share < bytes; at += share) threads.emplace_back(make, start + at, share);
  } catch (const std::exception&) {  // this thread does the rest
  }
  make(start + at, bytes - at);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int numa_node_of(const std::string& pci_bus_id) noexcept {
  try {
    if (access("/sys/devices/system/node/node1", F_OK) != 0) return -1;
    std::string path = "/sys/bus/pci/devices/" + pci_bus_id + "/numa_node";
    std::transform(path.begin(), path.end(), path.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    int node = -1;
    if (FILE* file = std::fopen(path.c_str(), "re"); file != nullptr) {
      if (std::fscanf(file, "%d", &node) != 1) node = -1;
      std::fclose(file);
    }
    return node;
  } catch (...) {
    return -1;
  }
}

Result<std::byte*> PinnedMemory::allocate(std::size_t bytes, int numa_node, bool may_register) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto physical = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  // With overcommit, mmap would succeed and the kernel would kill the process while its pages are faulted in.
  if (bytes > physical) return no_memory(bytes, ENOMEM);
  const std::size_t body = base::align_up(std::max<std::size_t>(bytes, 1), page);
  if (may_register) {
    const std::size_t slack = body >= kHugePage ? kHugePage : 0;
    void* base =
        mmap(nullptr, body + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return no_memory(bytes, errno);
    if (slack != 0) {
      const auto start = reinterpret_cast<std::uintptr_t>(base);
      const std::uintptr_t aligned = base::align_up<std::uintptr_t>(start, kHugePage);
      if (aligned > start) munmap(base, aligned - start);
      if (aligned < start + slack) munmap(reinterpret_cast<void*>(aligned + body), start + slack - aligned);
      base = reinterpret_cast<void*>(aligned);
      madvise(base, body, MADV_HUGEPAGE);
    }
    if (numa_node >= 0) os::prefer_numa_node(base, body, numa_node);
    make_pages(static_cast<std::byte*>(base), body, page);
    if (cudaHostRegister(base, body, cudaHostRegisterPortable | cudaHostRegisterMapped) == cudaSuccess) {
      auto* memory = static_cast<std::byte*>(base);
      try {
        std::lock_guard lock(mutex_);
        mapped_.emplace(memory, body);
      } catch (...) {
        (void)cudaHostUnregister(base);
        munmap(base, body);
        return Status::out_of_memory();
      }
      return memory;
    }
    (void)cudaGetLastError();
    munmap(base, body);
  }
  void* memory = nullptr;
  HEADRACE_TRY(health_.check(cudaHostAlloc(&memory, body, cudaHostAllocPortable | cudaHostAllocMapped),
                             "allocating " + std::to_string(bytes) + " bytes of pinned host memory"));
  return static_cast<std::byte*>(memory);
}

void PinnedMemory::deallocate(std::byte* memory) noexcept {
  std::size_t mapped = 0;
  {
    std::lock_guard lock(mutex_);
    if (auto found = mapped_.find(memory); found != mapped_.end()) {
      mapped = found->second;
      mapped_.erase(found);
    }
  }
  if (mapped == 0) {
    if (cudaFreeHost(memory) != cudaSuccess) (void)cudaGetLastError();
    return;
  }
  if (cudaHostUnregister(memory) != cudaSuccess) (void)cudaGetLastError();
  munmap(memory, mapped);
}

}  // namespace headrace::device::cuda
