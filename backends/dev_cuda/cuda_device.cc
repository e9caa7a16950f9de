#include "cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "base/checked.h"
#include "base/fork.h"
#include "base/patience.h"
#include "chunk_decoder.h"
#include "copy_kernels.h"
#include "cubin_list.h"
#include "cuda_error.h"
#include "cuda_stream.h"
#include "decode_graphs.h"
#include "pinned_memory.h"
#include "upload_ring.h"

namespace headrace::device::cuda {
namespace {

// Below this, one gathering launch beats the driver's batch copy: 51 against 33 GB/s at 16 KiB; from 64 KiB up it is 51
// against 55 (PCIe 5).
constexpr std::size_t kBatchFromBytes = std::size_t{64} << 10;
// Up to this many small pieces, single copies (2.5 us each) cost less than a descriptor list and a launch.
constexpr std::size_t kFewPieces = 3;

std::string driver_version() {
  char text[64] = "";
  if (FILE* file = std::fopen("/sys/module/nvidia/version", "re"); file != nullptr) {
    if (std::fscanf(file, "%63s", text) != 1) text[0] = '\0';
    std::fclose(file);
  }
  if (text[0] == '\0') {
    if (FILE* file = std::fopen("/proc/driver/nvidia/version", "re"); file != nullptr) {
      char word[64];
      while (text[0] == '\0' && std::fscanf(file, "%63s", word) == 1) {
        unsigned a = 0, b = 0;
        if (std::sscanf(word, "%u.%u", &a, &b) == 2 && a > 100) std::memcpy(text, word, sizeof text);
      }
      std::fclose(file);
    }
  }
  if (text[0] != '\0') return text;
  int version = 0;
  (void)cudaDriverGetVersion(&version);
  return "for CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal), graphs_(health_, ordinal) {}

  Status start() {
    Current current(ordinal_);
    HEADRACE_TRY(health_.check(current.error(), "selecting the GPU"));
    HEADRACE_TRY(health_.check(cudaFree(nullptr), "starting the GPU's context"));
    cudaDeviceProp properties;
    HEADRACE_TRY(health_.check(cudaGetDeviceProperties(&properties, ordinal_), "reading the GPU's properties"));
    if (cudaError_t error = probe_kernels(); error != cudaSuccess) {
      (void)cudaGetLastError();
      return Status(Code::kUnsupported, Layer::kDevice,
                    std::string("this build has no code for ") + properties.name + ", compute capability " +
                        std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                        ": build with CMAKE_CUDA_ARCHITECTURES=" + std::to_string(properties.major) +
                        std::to_string(properties.minor))
          .with_cause(cudaGetErrorString(error));
    }
    multiprocessors_ = properties.multiProcessorCount;
    int same_pointer = 0, can_register = 0;
    (void)cudaDeviceGetAttribute(&same_pointer, cudaDevAttrCanUseHostPointerForRegisteredMem, ordinal_);
    (void)cudaDeviceGetAttribute(&can_register, cudaDevAttrHostRegisterSupported, ordinal_);
    int read_only = 0;
    (void)cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, ordinal_);
    may_register_read_only_ = read_only != 0;
    kernels_reach_host_ = same_pointer != 0;
    may_register_ = can_register != 0 && same_pointer != 0;
    info_.name = "cuda:" + std::to_string(ordinal_);
    info_.description = std::string(properties.name) + ", driver " + driver_version();
    if (!has_machine_code(HEADRACE_CUBINS, properties.major, properties.minor)) {
      set_note("this build has no machine code for compute capability " + std::to_string(properties.major) + "." +
               std::to_string(properties.minor) +
               ": the driver compiles it at first use, for about half a minute, and keeps it in ~/.nv/ComputeCache");
    }
    info_.host_addressable = false;
    info_.memory_bytes = properties.totalGlobalMem;
    static_assert(sizeof properties.uuid.bytes == sizeof info_.uuid);
    std::memcpy(info_.uuid.data(), properties.uuid.bytes, sizeof info_.uuid);
    char bus[32] = "";
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal_) == cudaSuccess) {
      info_.numa_node = numa_node_of(bus);
      info_.pci_address = bus;
    }
    probe_batch();
    return {};
  }

  const DeviceInfo& info() const noexcept override { return info_; }

  std::optional<std::uint64_t> free_bytes() noexcept override {
    if (generation_ != base::fork_generation()) return std::nullopt;
    Current current(ordinal_);
    std::size_t free = 0, all = 0;
    if (cudaMemGetInfo(&free, &all) == cudaSuccess) return free;
    (void)cudaGetLastError();
    return std::nullopt;
  }
  Result<std::byte*> allocate(std::size_t bytes) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    void* memory = nullptr;
    HEADRACE_TRY(health_.check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)),
                               "allocating " + std::to_string(bytes) + " bytes of GPU memory"));
    return static_cast<std::byte*>(memory);
  }
  void deallocate(std::byte* memory, std::size_t bytes) noexcept override {
    if (memory == nullptr || generation_ != base::fork_generation()) return;
    Current current(ordinal_);
    graphs_.forget(memory, bytes);
    (void)health_.check(cudaFree(memory), "freeing GPU memory");
  }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    return pinned_.allocate(bytes, info_.numa_node, may_register_);
  }
  void deallocate_pinned(std::byte* memory, std::size_t) noexcept override {
    if (memory == nullptr || generation_ != base::fork_generation()) return;
    Current current(ordinal_);
    pinned_.deallocate(memory);
  }

  Status register_mapping(const std::byte* mapping, std::size_t bytes) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    if (!may_register_ || !may_register_read_only_) {
      return Status(Code::kUnsupported, Layer::kDevice, "the driver cannot register read-only mappings");
    }
    auto* host = const_cast<std::byte*>(mapping);
    const cudaError_t error =
        cudaHostRegister(host, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly);
    if (error == cudaSuccess) {
      void* seen = nullptr;
      if (cudaHostGetDevicePointer(&seen, host, 0) == cudaSuccess && seen == host) return {};
      (void)cudaGetLastError();
      (void)cudaHostUnregister(host);
      return Status(Code::kUnsupported, Layer::kDevice, "registered mappings have another address on the GPU");
    }
    (void)cudaGetLastError();
    return Status(error == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kIo, Layer::kDevice,
                  "the driver refused to register " + std::to_string(bytes) + " bytes of a file mapping")
        .with_cause(cudaGetErrorString(error));
  }
  void unregister_mapping(const std::byte* mapping, std::size_t) noexcept override {
    if (generation_ != base::fork_generation()) return;
    Current current(ordinal_);
    if (cudaHostUnregister(const_cast<std::byte*>(mapping)) != cudaSuccess) (void)cudaGetLastError();
  }

  Result<std::unique_ptr<Stream>> create_stream() override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    HEADRACE_TRY(health_.check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
    Status status = health_.check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    if (status.ok()) {
      try {
        return std::unique_ptr<Stream>(std::make_unique<CudaStream>(health_, ordinal_, stream, event));
      } catch (...) {
        status = Status::out_of_memory();
      }
      (void)cudaEventDestroy(event);
    }
    (void)cudaStreamDestroy(stream);
    return status;
  }
  Result<std::unique_ptr<Event>> create_event() override { return create_event(cudaEventDisableTiming); }
  Result<std::unique_ptr<Event>> create_timed_event() override { return create_event(cudaEventDefault); }
  Result<std::unique_ptr<Event>> create_event(unsigned flags) {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    cudaEvent_t event = nullptr;
    HEADRACE_TRY(health_.check(cudaEventCreateWithFlags(&event, flags), "creating an event"));
    try {
      return std::unique_ptr<Event>(std::make_unique<CudaEvent>(ordinal_, event));
    } catch (...) {
      (void)cudaEventDestroy(event);
      return Status::out_of_memory();
    }
  }

  Status wait_native(Stream& stream, void* native_stream) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    auto& ours = static_cast<CudaStream&>(stream);
    const auto theirs = static_cast<cudaStream_t>(native_stream);
    const ForeignEvent elsewhere(ordinal_, theirs);
    const bool here = elsewhere.error() == cudaSuccess && elsewhere.get() == nullptr;
    HEADRACE_TRY(health_.check(here ? cudaEventRecord(ours.foreign, theirs) : elsewhere.error(),
                               "recording an event on the caller's stream"));
    return health_.check(cudaStreamWaitEvent(ours.stream, here ? ours.foreign : elsewhere.get(), 0),
                         "waiting for the caller's stream");
  }
  Status make_native_wait(Event& event, void* native_stream) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    return health_.check(
        cudaStreamWaitEvent(static_cast<cudaStream_t>(native_stream), static_cast<CudaEvent&>(event).event, 0),
        "making the caller's stream wait");
  }

  void enter_thread() noexcept override {
    if (cudaSetDevice(ordinal_) != cudaSuccess) (void)cudaGetLastError();
  }

  // The following calls run in the current context, to which the caller's stream belongs.
  Status call_host(void* native_stream, void (*function)(void*), void* data) override {
    HEADRACE_TRY(usable());
    return health_.check(cudaLaunchHostFunc(static_cast<cudaStream_t>(native_stream), function, data),
                         "queueing a call on the caller's stream");
  }
  Status move_late(std::span<const Piece> list, void* native_stream) override {
    static_assert(sizeof(Piece) == sizeof(PieceItem) && kLatePieceBytes == kPieceSegmentBytes);
    HEADRACE_TRY(usable());
    if (!kernels_reach_host_) {
      return Status(Code::kUnsupported, Layer::kDevice, "kernels do not reach pinned memory on this system");
    }
    return health_.check(
        launch_move_pieces(reinterpret_cast<const PieceItem*>(list.data()), static_cast<std::uint32_t>(list.size()),
                           multiprocessors_, static_cast<cudaStream_t>(native_stream)),
        "queueing copies on the caller's stream");
  }
  Result<bool> is_capturing(void* native_stream) override {
    if (native_stream == nullptr) return false;  // the default stream is never captured
    HEADRACE_TRY(usable());
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    HEADRACE_TRY(health_.check(cudaStreamIsCapturing(static_cast<cudaStream_t>(native_stream), &status),
                               "asking whether the caller's stream is captured"));
    return status != cudaStreamCaptureStatusNone;
  }
  void* native_handle(Stream& stream) override { return static_cast<CudaStream&>(stream).stream; }

  Status copy_to_device(std::span<const Piece> pieces, Stream& stream) override {
    return copy(pieces, static_cast<CudaStream&>(stream), cudaMemcpyHostToDevice);
  }
  Status copy_to_host(std::span<const Piece> pieces, Stream& stream) override {
    return copy(pieces, static_cast<CudaStream&>(stream), cudaMemcpyDeviceToHost);
  }

  Status assemble(std::span<const Box> boxes, const ElementOp& op, const std::byte* fill, Stream& stream) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    auto& ours = static_cast<CudaStream&>(stream);
    const bool converts = op.conversion.active();
    // The fill element is in its final form, so the plain kernel fills, whatever conversion other elements get.
    const ElementOp as_is{op.result_bytes(), 1};
    try {
      ours.boxes.clear();
      ours.converting.clear();
      ours.boxes.set_pattern(fill, op.result_bytes());
      for (const Box& box : boxes) {
        if (!converts) {
          ours.boxes.add(box, op);
        } else if (box.src == nullptr) {
          ours.boxes.add(box, as_is);
        } else {
          ours.converting.add_converting(box, op);
        }
      }
    } catch (...) {
      return Status::out_of_memory();
    }
    if (!ours.boxes.items.empty()) HEADRACE_TRY(launch(ours, ours.boxes, nullptr));
    if (!ours.converting.items.empty()) HEADRACE_TRY(launch(ours, ours.converting, &op.conversion));
    return {};
  }

  Result<std::unique_ptr<ChunkDecoder>> make_decoder(std::span<const DecodeStage> stages) override {
    return make_cuda_decoder(stages, health_, graphs_, ordinal_, multiprocessors_);
  }

  Status record(Event& event, Stream& stream) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    return health_.check(cudaEventRecord(static_cast<CudaEvent&>(event).event, static_cast<CudaStream&>(stream).stream),
                         "recording an event");
  }
  Result<double> seconds_between(Event& first, Event& second) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    float milliseconds = 0;
    HEADRACE_TRY(health_.check(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(first).event,
                                                    static_cast<CudaEvent&>(second).event),
                               "asking for the time between events"));
    return static_cast<double>(milliseconds) * 1e-3;
  }
  Result<bool> query(Event& event) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    const cudaError_t error = cudaEventQuery(static_cast<CudaEvent&>(event).event);
    if (error == cudaErrorNotReady) return false;
    HEADRACE_TRY(health_.check(error, "asking an event"));
    return true;
  }
  Status synchronize(Event& event) override {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    const cudaEvent_t waited_for = static_cast<CudaEvent&>(event).event;
    cudaError_t error = cudaEventQuery(waited_for);
    for (base::Patience patience; error == cudaErrorNotReady; error = cudaEventQuery(waited_for)) patience.pause();
    return health_.check(error, "waiting for an event");
  }

 private:
  Status usable(const Current& current) const {
    HEADRACE_TRY(usable());
    return health_.check(current.error(), "selecting the GPU");
  }
  Status usable() const {
    if (generation_ != base::fork_generation()) {
      return Status(Code::kForked, Layer::kDevice,
                    "a GPU opened before fork() was used in the child; start the child with exec or spawn");
    }
    return health_.is_lost() ? health_.lost() : Status();
  }

  // `conversion` null: a list of words and patterns.
  Status launch(CudaStream& stream, const BoxList& list, const Conversion* conversion) {
    // The pattern is read in words of up to 16 bytes, so each part begins at a multiple of 16.
    const std::size_t items_bytes = base::align_up(list.items.size() * sizeof(BoxItem), std::size_t{16});
    const std::size_t units_bytes = base::align_up(list.first_unit.size() * sizeof(std::uint32_t), std::size_t{16});
    const std::size_t bytes = items_bytes + units_bytes + list.pattern.size();
    HEADRACE_TRY_ASSIGN(const UploadRing::Slot slot, stream.ring->acquire(bytes));
    std::memcpy(slot.host, list.items.data(), list.items.size() * sizeof(BoxItem));
    std::memcpy(slot.host + items_bytes, list.first_unit.data(), list.first_unit.size() * sizeof(std::uint32_t));
    if (!list.pattern.empty()) {
      std::memcpy(slot.host + items_bytes + units_bytes, list.pattern.data(), list.pattern.size());
    }
    HEADRACE_TRY(stream.ring->send(bytes));
    const auto* items = reinterpret_cast<const BoxItem*>(slot.device);
    const auto* units = reinterpret_cast<const std::uint32_t*>(slot.device + items_bytes);
    const auto count = static_cast<std::uint32_t>(list.items.size());
    if (conversion != nullptr) {
      return health_.check(
          launch_assemble_converting(items, units, count, list.units(), *conversion, multiprocessors_, stream.stream),
          "launching the conversion");
    }
    return health_.check(launch_assemble(items, units, count, list.units(), slot.device + items_bytes + units_bytes,
                                         multiprocessors_, stream.stream),
                         "launching the assembly");
  }

  // Some drivers export the batch copy but refuse it.
  void probe_batch() noexcept {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    cudaStream_t stream = nullptr;
    bool works = cudaHostAlloc(reinterpret_cast<void**>(&host), 64, cudaHostAllocPortable) == cudaSuccess &&
                 cudaMalloc(reinterpret_cast<void**>(&device), 64) == cudaSuccess &&
                 cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
    if (works) {
      std::memset(host, 0, 64);
      void* dst[] = {device, device + 32};
      const void* src[] = {host, host + 32};
      const std::size_t bytes[] = {32, 32};
      works = batch(dst, src, bytes, 2, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess;
    }
    if (!works) (void)cudaGetLastError();
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
    if (device != nullptr) (void)cudaFree(device);
    if (host != nullptr) (void)cudaFreeHost(host);
    batch_works_ = works;
  }

  static cudaError_t batch(void* const* dst, const void* const* src, const std::size_t* bytes, std::size_t count,
                           cudaStream_t stream) noexcept {
#if CUDART_VERSION >= 13000
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;
    return cudaMemcpyBatchAsync(dst, src, bytes, count, &attributes, &first, 1, stream);
#else
    (void)dst, (void)src, (void)bytes, (void)count, (void)stream;
    return cudaErrorNotSupported;
#endif
  }

  Status copy(std::span<const Piece> pieces, CudaStream& stream, cudaMemcpyKind kind) {
    Current current(ordinal_);
    HEADRACE_TRY(usable(current));
    bool joined = false;
    Status status = copy(pieces, stream, kind, true, joined);
    // A copy must not span two allocations, and neighbouring pieces may belong to two. Retry without joining pieces;
    // those already queued are copied twice.
    if (joined && status.code() == Code::kInvalidArgument) status = copy(pieces, stream, kind, false, joined);
    return status;
  }

  Status copy(std::span<const Piece> pieces, CudaStream& stream, cudaMemcpyKind kind, bool join, bool& joined) {
    stream.small.clear();
    stream.batch_src.clear();
    stream.batch_dst.clear();
    stream.batch_bytes.clear();
    std::size_t small_pieces = 0;
    try {
      Piece whole;
      auto flush = [&] {
        if (whole.bytes == 0) return;
        if (whole.bytes >= kBatchFromBytes || !kernels_reach_host_) {
          stream.batch_src.push_back(whole.src);
          stream.batch_dst.push_back(whole.dst);
          stream.batch_bytes.push_back(whole.bytes);
          return;
        }
        ++small_pieces;
        for (std::size_t at = 0; at < whole.bytes; at += kPieceSegmentBytes) {
          stream.small.push_back({reinterpret_cast<const unsigned char*>(whole.src + at),
                                  reinterpret_cast<unsigned char*>(whole.dst + at),
                                  std::min<std::size_t>(kPieceSegmentBytes, whole.bytes - at)});
        }
      };
      for (const Piece& piece : pieces) {
        if (piece.bytes == 0) continue;
        // Join pieces that are neighbours on both sides, so that a slab read in parts is still copied whole.
        if (join && whole.bytes != 0 && whole.src + whole.bytes == piece.src && whole.dst + whole.bytes == piece.dst) {
          whole.bytes += piece.bytes;
          joined = true;
          continue;
        }
        flush();
        whole = piece;
      }
      flush();
      if (join && small_pieces <= kFewPieces && small_pieces != 0) {
        // Rejoin the segments of one piece.
        for (std::size_t i = 0; i < stream.small.size();) {
          const PieceItem& first = stream.small[i];
          std::size_t bytes = first.bytes, j = i + 1;
          for (; j < stream.small.size() && stream.small[j].src == first.src + bytes &&
                 stream.small[j].dst == first.dst + bytes;
               ++j) {
            bytes += stream.small[j].bytes;
          }
          stream.batch_src.push_back(first.src);
          stream.batch_dst.push_back(first.dst);
          stream.batch_bytes.push_back(bytes);
          i = j;
        }
        stream.small.clear();
      }
    } catch (...) {
      return Status::out_of_memory();
    }
    HEADRACE_TRY(copy_large(stream, kind));
    return copy_small(stream);
  }

  Status copy_large(CudaStream& stream, cudaMemcpyKind kind) {
    const std::size_t count = stream.batch_bytes.size();
    if (count > kFewPieces && batch_works_) {
      return health_.check(
          batch(stream.batch_dst.data(), stream.batch_src.data(), stream.batch_bytes.data(), count, stream.stream),
          "queueing a batch of copies");
    }
    for (std::size_t i = 0; i < count; ++i) {
      HEADRACE_TRY(health_.check(
          cudaMemcpyAsync(stream.batch_dst[i], stream.batch_src[i], stream.batch_bytes[i], kind, stream.stream),
          "queueing a copy"));
    }
    return {};
  }

  // The kernel reads the descriptors over the bus. Copying them first would make it wait for a copy engine.
  Status copy_small(CudaStream& stream) {
    if (stream.small.empty()) return {};
    const std::size_t bytes = stream.small.size() * sizeof(PieceItem);
    HEADRACE_TRY_ASSIGN(const UploadRing::Slot slot, stream.ring->acquire(bytes));
    std::memcpy(slot.host, stream.small.data(), bytes);
    HEADRACE_TRY(health_.check(
        launch_move_pieces(reinterpret_cast<const PieceItem*>(slot.host),
                           static_cast<std::uint32_t>(stream.small.size()), multiprocessors_, stream.stream),
        "launching the gathering of pieces"));
    return stream.ring->keep_until_done();
  }

  const int ordinal_;
  const std::uint64_t generation_ = base::fork_generation();
  Health health_;
  PinnedMemory pinned_{health_};
  DecodeGraphs graphs_;
  DeviceInfo info_;
  int multiprocessors_ = 1;
  bool kernels_reach_host_ = false;  // pinned memory has the same address on the host and the device
  bool may_register_ = false;
  bool may_register_read_only_ = false;
  bool batch_works_ = false;
};

}  // namespace

Status count_devices(int& devices) {
  devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return {};
  (void)cudaGetLastError();
  auto refuse = [&](std::string message) {
    return Status(Code::kUnsupported, Layer::kDevice, std::move(message)).with_cause(cudaGetErrorString(error));
  };
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  auto text = [](int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); };
  switch (error) {
    case cudaSuccess:
    case cudaErrorNoDevice:
      return refuse("there is an NVIDIA driver but no GPU that this process may use (CUDA_VISIBLE_DEVICES, container)");
    case cudaErrorInsufficientDriver:
      if (driver == 0) return refuse("there is no NVIDIA driver on this machine (libcuda.so.1)");
      return refuse("the NVIDIA driver is too old: it supports CUDA " + text(driver) + ", this build needs " +
                    text(runtime));
    case cudaErrorInitializationError:
      return refuse("CUDA cannot start in this process; in a child of fork() start it with exec or spawn");
    default:
      return refuse("the NVIDIA driver does not answer");
  }
}

Status open_device_number(int index, std::shared_ptr<Device>& device) {
  int devices = 0;
  HEADRACE_TRY(count_devices(devices));
  if (index < 0 || index >= devices) {
    return Status(Code::kInvalidArgument, Layer::kDevice,
                  "there is no GPU number " + std::to_string(index) + "; there are " + std::to_string(devices));
  }
  try {
    auto opened = std::make_shared<CudaDevice>(index);
    HEADRACE_TRY(opened->start());
    device = std::move(opened);
    return {};
  } catch (...) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::device::cuda
