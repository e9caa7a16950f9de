// Sequences of cuFile calls with valid and invalid arguments: none crashes, hangs, leaks, or reports more bytes than
// exist.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cufile/cufile_api.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

constexpr std::size_t kFileBytes = 48 << 10, kMemory = 512 << 10, kFds = 4, kMaxCalls = 48;
// Limits of the offset and length of writes, and so of file sizes.
constexpr off_t kMaxAt = 64 << 10;
constexpr std::size_t kMaxWritten = 64 << 10, kMaxFile = kMaxAt + kMaxWritten;
constexpr off_t kFar = off_t{1} << 62;

// Numbers from the input; zeros after its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint32_t word() { return static_cast<std::uint32_t>(byte()) << 8 | byte(); }
  // Sizes and offsets: small, page boundaries, negative, and the largest possible.
  long number() {
    const std::uint8_t kind = byte();
    const long value = static_cast<long>(word());
    switch (kind % 8) {
      case 0:
        return -1 - value;
      case 1:
        return static_cast<long>(~0ul >> 1) - value;
      case 2:
        return value & ~4095l;
      case 3:
        return value % 64;
      default:
        return value % 20000;
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

struct World {
  int fds[kFds];
  std::vector<std::byte> memory = std::vector<std::byte>(kMemory);
  std::vector<CUfileHandle_t> handles;
  std::vector<CUfileBatchHandle_t> batches;
  // Outputs of operations on a stream, which are complete when the call returns.
  size_t size = 0;
  off_t at = 0, skip = 0;
  ssize_t moved = 0;

  World() {
    ::setenv("CUFILE_ENV_PATH_JSON", "/nonexistent", 1);
    ::setenv("HEADRACE_CUFILE_THREADS", "2", 1);
    fds[0] = ::memfd_create("a", MFD_CLOEXEC);
    char name[] = "/tmp/cufile-fuzz-XXXXXX";
    fds[1] = ::mkstemp(name);
    fds[2] = ::open(name, O_RDONLY | O_CLOEXEC);
    fds[3] = ::open(name, O_WRONLY | O_CLOEXEC);
    ::unlink(name);
  }
  void begin() {
    for (const int fd : {fds[0], fds[1]}) FUZZ_CHECK(::ftruncate(fd, kFileBytes) == 0);
  }
  // A memfd accepts writes up to the largest possible offset.
  void bound_files() {
    for (const int fd : {fds[0], fds[1]}) {
      const off_t length = ::lseek(fd, 0, SEEK_END);
      if (length > static_cast<off_t>(kMaxFile)) FUZZ_CHECK(::ftruncate(fd, kMaxFile) == 0);
    }
  }
  void end() {
    for (const CUfileBatchHandle_t batch : batches) cuFileBatchIODestroy(batch);
    for (const CUfileHandle_t handle : handles) cuFileHandleDeregister(handle);
    for (std::size_t at_base = 0; at_base < kMemory; at_base += kMemory / 8)
      (void)cuFileBufDeregister(&memory[at_base]);
    batches.clear();
    handles.clear();
  }

  // Ends all of the driver's threads.
  ~World() {
    for (const int fd : fds) ::close(fd);
    while (cuFileUseCount() > 0) FUZZ_CHECK(cuFileDriverClose().err == CU_FILE_SUCCESS);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  CUfileHandle_t handle(Input& in) {
    const std::uint8_t which = in.byte();
    if (which < 8) return nullptr;
    if (which < 12) return &size;
    if (which < 20) return reinterpret_cast<CUfileHandle_t>(std::uintptr_t{6} << 43 | std::uintptr_t{which} << 4);
    return handles.empty() ? nullptr : handles[which % handles.size()];
  }
  CUfileBatchHandle_t batch(Input& in) {
    const std::uint8_t which = in.byte();
    if (which < 4) return nullptr;
    if (which < 8) return &size;
    return batches.empty() ? nullptr : batches[which % batches.size()];
  }
  void* base(Input& in) {
    const std::uint8_t which = in.byte();
    return which < 6 ? nullptr : &memory[which % 8 * (kMemory / 8)];
  }
  // Whether the transfer stays within `memory`, which cuFile cannot check. A read is bounded by the file's size, a
  // write by its own.
  static bool fits(void* base, const World& world, std::size_t bytes, off_t skip, bool write) {
    if (base == nullptr || skip < 0) return true;
    const auto from = static_cast<std::size_t>(static_cast<std::byte*>(base) - world.memory.data());
    const std::size_t most = write ? bytes : std::min(bytes, kMaxFile);
    const auto offset = static_cast<std::size_t>(skip);
    return offset <= kMemory && most <= (write ? kMaxWritten : kMemory) && from + offset + most <= kMemory;
  }
};

void check_result(ssize_t got, std::size_t asked) {
  if (got >= 0) {
    FUZZ_CHECK(static_cast<std::size_t>(got) <= asked);
  } else {
    FUZZ_CHECK(got == -1 || (got < -5000 && got >= -5050));
    FUZZ_CHECK(errno != 0);
  }
}

void move(World& world, Input& in, bool write, bool stream) {
  const CUfileHandle_t handle = world.handle(in);
  void* const base = world.base(in);
  world.size = static_cast<std::size_t>(in.number());
  world.at = in.number();
  world.skip = in.number();
  if (!World::fits(base, world, world.size, world.skip, write)) return;
  // Keeps files small.
  if (write && world.at > kMaxAt && world.at < kFar) world.at %= kMaxAt;
  const bool far = write && world.at >= kFar;
  errno = 0;
  if (!stream) {
    check_result(write ? cuFileWrite(handle, base, world.size, world.at, world.skip)
                       : cuFileRead(handle, base, world.size, world.at, world.skip),
                 world.size);
    if (far) world.bound_files();
    return;
  }
  const std::uint8_t nulls = in.byte();
  world.moved = -7;
  const auto queue = write ? &cuFileWriteAsync : &cuFileReadAsync;
  const CUfileError_t status = queue(handle, base, nulls < 8 ? nullptr : &world.size, nulls == 8 ? nullptr : &world.at,
                                     nulls == 9 ? nullptr : &world.skip, nulls == 10 ? nullptr : &world.moved, nullptr);
  FUZZ_CHECK((status.err == CU_FILE_SUCCESS) == (world.moved != -7));
  if (far) world.bound_files();
}

void submit(World& world, Input& in) {
  CUfileIOParams_t entries[8];
  std::memset(entries, 0, sizeof entries);
  const unsigned count = in.byte() % 9;
  for (unsigned i = 0; i < count; ++i) {
    CUfileIOParams_t& entry = entries[i];
    entry.mode = static_cast<CUfileBatchMode_t>(in.byte() < 4 ? 0 : 1);
    entry.opcode = static_cast<CUfileOpcode_t>(in.byte() % 3);
    entry.fh = world.handle(in);
    entry.cookie = &entries[i];
    entry.u.batch.devPtr_base = world.base(in);
    entry.u.batch.size = static_cast<std::size_t>(in.number());
    entry.u.batch.file_offset = in.number() % kMaxAt;
    entry.u.batch.devPtr_offset = in.number();
    if (!World::fits(entry.u.batch.devPtr_base, world, entry.u.batch.size, entry.u.batch.devPtr_offset, true)) return;
  }
  (void)cuFileBatchIOSubmit(world.batch(in), count, in.byte() < 4 ? nullptr : entries, in.byte());
}

void call(World& world, Input& in) {
  switch (in.byte() % 22) {
    case 0:
    case 1: {
      CUfileDescr_t descriptor{};
      descriptor.type = static_cast<CUfileFileHandleType>(in.byte() < 16 ? in.byte() : 1);
      descriptor.handle.fd = in.byte() < 16 ? static_cast<int>(in.number()) : world.fds[in.byte() % kFds];
      // Descriptors 0 to 2 belong to the fuzzer.
      if (descriptor.handle.fd >= 0 && descriptor.handle.fd < 3) return;
      CUfileHandle_t handle = nullptr;
      if (cuFileHandleRegister(&handle, &descriptor).err == CU_FILE_SUCCESS) world.handles.push_back(handle);
      return;
    }
    case 2:
      return cuFileHandleDeregister(world.handle(in));
    case 3:
      (void)cuFileBufRegister(world.base(in), static_cast<std::size_t>(in.number()), in.byte());
      return;
    case 4:
      (void)cuFileBufDeregister(world.base(in));
      return;
    case 5:
    case 6:
      return move(world, in, false, false);
    case 7:
    case 8:
      return move(world, in, true, false);
    case 9:
      return move(world, in, in.byte() % 2 != 0, true);
    case 10: {
      CUfileBatchHandle_t batch = nullptr;
      const unsigned capacity = in.byte() < 8 ? in.word() : in.byte() % 9;
      if (cuFileBatchIOSetUp(&batch, capacity).err == CU_FILE_SUCCESS) world.batches.push_back(batch);
      return;
    }
    case 11:
    case 12:
      return submit(world, in);
    case 13: {
      CUfileIOEvents_t events[16];
      unsigned room = in.byte() % 17;
      const unsigned had = room;
      struct timespec time = {in.number() % 2 == 0 ? 0 : -1, in.number() % 1000};
      const auto status =
          cuFileBatchIOGetStatus(world.batch(in), in.byte() % 18, &room, events, in.byte() < 128 ? &time : nullptr);
      FUZZ_CHECK(room <= had || status.err != CU_FILE_SUCCESS);
      return;
    }
    case 14:
      (void)cuFileBatchIOCancel(world.batch(in));
      return;
    case 15:
      return cuFileBatchIODestroy(world.batch(in));
    case 16:
      (void)(in.byte() % 2 == 0
                 ? cuFileSetParameterSizeT(static_cast<CUFileSizeTConfigParameter_t>(in.byte() % 14), in.word())
                 : cuFileSetParameterBool(static_cast<CUFileBoolConfigParameter_t>(in.byte() % 14), in.byte() % 2));
      return;
    case 17: {
      char text[8];
      (void)cuFileGetParameterString(static_cast<CUFileStringConfigParameter_t>(in.byte() % 5), text, in.byte() % 9);
      CUfileDrvProps_t properties;
      (void)cuFileDriverGetProperties(in.byte() < 8 ? nullptr : &properties);
      return;
    }
    case 18: {
      (void)cuFileSetStatsLevel(in.byte() % 6);
      CUfileStatsLevel2_t stats;
      (void)(in.byte() % 2 == 0 ? cuFileStatsStart() : in.byte() % 2 == 0 ? cuFileStatsStop() : cuFileStatsReset());
      (void)cuFileGetStatsL2(in.byte() < 8 ? nullptr : &stats);
      return;
    }
    case 19:
      (void)(in.byte() % 2 == 0 ? cuFileStreamRegister(nullptr, in.byte() % 20) : cuFileStreamDeregister(nullptr));
      return;
    case 20: {
      const CUfileIOVec_t list[] = {{world.base(in), in.word() % 5000u}, {world.base(in), in.word() % 5000u}};
      const off_t at = in.number() % kMaxAt;
      const unsigned flags = in.byte() < 8 ? 1 : 0;
      const std::size_t count = in.byte() % 3;
      errno = 0;
      check_result(in.byte() % 2 == 0 ? cuFileReadv(world.handle(in), list, count, at, flags)
                                      : cuFileWritev(world.handle(in), list, count, at, flags),
                   10000);
      return;
    }
    default:  // rare, because it starts threads
      if (in.byte() < 250) return;
      (void)(in.byte() % 2 == 0 ? cuFileDriverOpen() : cuFileDriverClose());
      FUZZ_CHECK(cuFileUseCount() >= 0);
  }
}

}  // namespace

// LeakSanitizer finds a thread's memory by its thread id, and AddressSanitizer never forgets the ids of ended threads.
// Once ids are reused, here after 32,768 threads, it skips the memory of a thread with a reused id and would report
// what only that thread references. So leaks are checked only while no thread is running: from time to time, and at
// exit. libFuzzer, which would check after any input, is told not to.
extern "C" __attribute__((weak)) int __lsan_do_recoverable_leak_check();
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static std::vector<char*> all(*arguments, *arguments + *count);
  static char no_leaks[] = "-detect_leaks=0";
  all.insert(all.begin() + 1, no_leaks);
  all.push_back(nullptr);
  *arguments = all.data();
  ++*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr unsigned kSequences = 500;  // between two leak checks
  static std::unique_ptr<World> world;
  static unsigned sequences = 0;
  if (world == nullptr) world = std::make_unique<World>();
  world->begin();
  Input in(data, size);
  for (std::size_t i = 0; i < kMaxCalls && !in.empty(); ++i) call(*world, in);
  world->end();
  if (++sequences % kSequences == 0) {
    world.reset();
    if (__lsan_do_recoverable_leak_check != nullptr) FUZZ_CHECK(__lsan_do_recoverable_leak_check() == 0);
  }
  return 0;
}
