#include "transfer/read/wave_form.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "codec/device_stages.h"

namespace headrace::transfer {
namespace {

constexpr unsigned kWaves = 4;
constexpr std::uint64_t kTasksOfOwnBuffers = 256;  // tasks of a wave whose sink has its own memory, whatever their size

// Smaller chunks do not gain from an index: a device decodes many of them in parallel anyway.
constexpr std::uint64_t kMinIndexedBytes = 64 << 10;

std::uint64_t decoded_bytes(const codec::Chain& chain) { return std::max<std::uint64_t>(chain.decoded_bytes(), 1); }

void add_lane_bytes(SizeRequest& to, std::uint64_t bytes) {  // saturates: metadata may name any size
  to.lane_bytes = base::checked_add(to.lane_bytes, bytes).value_or(UINT64_MAX);
}

}  // namespace

Result<ChunkDecoding> WaveForms::choose_decoder(const codec::Chain& chain) const {
  ChunkDecoding out;
  const bool wanted = placement_ == Placement::kGpu, staged = !device_.info().host_addressable;
  if (placement_ == Placement::kCpu || chain.raw() || (!staged && !wanted)) return out;
  out.first_stage = codec::device_stage_begin(chain, device_);
  Result<std::unique_ptr<device::ChunkDecoder>> made(
      Status(Code::kUnsupported, Layer::kTransfer, "device " + device_.info().name + " is the CPU"));
  if (staged) made = codec::make_decoder(chain, device_);
  if (made.ok()) {
    out.decoder = std::move(*made);
    return out;
  }
  if (made.status().code() != Code::kUnsupported) return std::move(made).status();
  if (wanted) {
    return Status(Code::kUnsupported, Layer::kTransfer,
                  "the device cannot decode, as placement requires: " + made.status().message());
  }
  out.note = made.status().message();
  return out;
}

// Encoded bytes are nearly always fewer than decoded ones; buffers grow if a stream needs more.
std::uint64_t WaveForms::encoded_bytes(const codec::Chain& chain) const noexcept {
  const std::uint64_t decoded = decoded_bytes(chain);
  return std::max(std::min(chain.max_encoded_bytes(), decoded + decoded / 32 + 65536), plan_.max_group_bytes());
}

SizeRequest WaveForms::request_of(const codec::Chain& chain) const {
  const ContextOptions& options = resources_.options();
  const std::uint64_t decoded = decoded_bytes(chain), encoded = encoded_bytes(chain);
  SizeRequest request;
  request.chunks = plan_.chunk_count();
  request.one_form = plan_.one_form();
  request.host_budget_bytes = options.host_budget_bytes;
  request.device_budget_bytes = options.device_budget_bytes;
  request.wave_bytes = options.wave_bytes;
  request.waves = options.waves != 0 ? options.waves : kWaves;
  if (plan_.store().ranges() != nullptr) add_window(request, chain);
  request.threads = resources_.threads();
  if (!plans_rooms_) {
    request.decoded_bytes = std::max<std::uint64_t>(request.wave_bytes / kTasksOfOwnBuffers, 1);
    request.lane_bytes = more_lane_bytes_;
    return request;
  }
  request.decoded_bytes = decoded;
  request.lane_bytes = encoded;
  request.staged = !device_.info().host_addressable;
  if (!request.staged) add_lane_bytes(request, decoded);
  for (int i = 0; i < 2; ++i) add_lane_bytes(request, chain.temporary_bytes());
  add_lane_bytes(request, more_lane_bytes_);
  if (plan_.store().packs()) add_lane_bytes(request, store::Store::max_packed_bytes(encoded));
  return request;
}

// For a remote store: enough waves to keep in flight what its connections carry during one round trip, and
// for each connection the answer that is arriving and the next one.
void WaveForms::add_window(SizeRequest& request, const codec::Chain& chain) const {
  // Encoded chunks are stored in about half of their decoded size.
  const std::uint64_t shrinks = chain.raw() ? 1 : 2;
  constexpr std::uint64_t kMaxWaves = 16;
  const std::uint64_t room = resources_.store_slab_bytes();
  request.io_bytes = room;
  request.arrives = plan_.max_group_bytes() == 0;
  const base::ReadShape shape = plan_.store().read_shape();
  if (resources_.options().waves != 0 || shape.window_bytes == 0) return;
  const std::uint64_t chunk = std::min(decoded_bytes(chain), request.wave_bytes);
  const std::uint64_t window =
      std::max(base::saturating_mul(shape.window_bytes, shrinks), base::saturating_mul(2 * shape.requests, chunk));
  request.window_bytes = std::min(window, shrinks * room);
  request.waves =
      static_cast<unsigned>(std::clamp<std::uint64_t>(request.window_bytes / request.wave_bytes, kWaves, kMaxWaves));
  request.arriving_window_bytes = window;
}

SizeRequest WaveForms::with_decoder(SizeRequest request, const codec::Chain& chain, ChunkDecoding& decoding) const {
  request.decoder = decoding.decoder.get();
  request.arrives = request.arrives && decoding.first_stage == 0 && request.decoded_bytes >= kMinArrivingBytes;
  if (request.arrives && request.window_bytes != 0) {
    request.window_bytes = request.arriving_window_bytes;  // the service holds none of it
    request.io_bytes = 0;
  }
  request.source_bytes = chain.capacity_before(decoding.first_stage);
  request.parts = plan_.wants_parts();
  if (decoding.first_stage > 0) add_lane_bytes(request, request.source_bytes);
  if (resources_.indices().enabled() && plan_.keeps_indices() && request.decoded_bytes >= kMinIndexedBytes) {
    request.index_stride = decoding.index_stride = decoding.decoder->index_stride();
  }
  return request;
}

bool WaveForms::leave_to_cpu(ChunkDecoding& decoding) const {
  if (placement_ != Placement::kAuto) return false;
  decoding.decoder.reset();
  decoding.note = "the budgets are too small for the device's decoder";
  return true;
}

// Sizes waves and workers so that the budgets hold whatever the array's size. The CPU decodes where the device's
// decoder does not fit the budgets.
Result<ReadSizes> WaveForms::begin(std::uint64_t more_lane_bytes, bool plans_rooms) {
  more_lane_bytes_ = more_lane_bytes;
  plans_rooms_ = plans_rooms;
  const std::shared_ptr<const ChunkForm>& form = plan_.largest_form();
  const codec::Chain& chain = *form->chain;
  HEADRACE_TRY_ASSIGN(ChunkDecoding decoding, choose_decoder(chain));
  planned_bytes_ = encoded_bytes(chain);
  if (!plans_rooms) planned_bytes_ = std::min(planned_bytes_, resources_.max_parked_bytes());
  const SizeRequest request = request_of(chain);
  const auto size = [&] {
    if (decoding.decoder == nullptr) return size_read(request);
    const SizeRequest decoded = with_decoder(request, chain, decoding);
    return resources_.options().waves != 0 ? size_read(decoded) : size_decoded_read(decoded);
  };
  Result<ReadSizes> sizes = size();
  if (!sizes.ok() && decoding.decoder != nullptr && leave_to_cpu(decoding)) sizes = size();
  if (!sizes.ok()) return sizes;
  sizes_ = *sizes;
  decodes_ = decoding.decoder != nullptr;
  current_ = std::make_shared<const WaveForm>(WaveForm{form, sizes_, std::move(decoding)});
  return sizes;
}

Status WaveForms::take(const std::shared_ptr<const ChunkForm>& form) {
  if (form == current_->chunks) return {};
  const codec::Chain& chain = *form->chain;
  ChunkDecoding decoding;
  if (decodes_) {
    HEADRACE_TRY_ASSIGN(decoding, choose_decoder(chain));
  }
  const SizeRequest request = request_of(chain);
  const auto size = [&] {
    return size_wave(decoding.decoder != nullptr ? with_decoder(request, chain, decoding) : request, sizes_);
  };
  std::optional<WaveSizes> sizes = size();
  if (!sizes && decoding.decoder != nullptr && leave_to_cpu(decoding)) sizes = size();
  if (!sizes) {
    return Status(Code::kResourceExhausted, Layer::kTransfer,
                  "chunks that decode to " + std::to_string(request.decoded_bytes) +
                      " bytes do not fit the device slabs, which were sized for the largest chunks of this read (" +
                      std::to_string(sizes_.stride) + " bytes)");
  }
  current_ = std::make_shared<const WaveForm>(WaveForm{form, *sizes, std::move(decoding)});
  return {};
}

}  // namespace headrace::transfer
