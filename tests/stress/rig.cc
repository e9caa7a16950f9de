#include "rig.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "io/engine.h"
#include "transfer/read/chunk_part.h"
#include "transfer/read/cold_part.h"

namespace headrace::stress {
namespace {

constexpr std::size_t kPad = 4 << 10;  // canaries on either side, where there is no guard page

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "store_fuzz: %s\n", what.c_str());
  std::_Exit(3);
}

std::vector<ContextOptions> context_table() {
  ContextOptions base;
  base.host_budget_bytes = std::size_t{64} << 20;
  base.device_budget_bytes = std::size_t{64} << 20;
  base.mapped_budget_bytes = std::size_t{16} << 20;
  base.threads = 2;
  base.bind_threads = false;
  // "auto" reads cached files itself and maps them for devices; a named engine gets every read.
  std::vector<ContextOptions> out(7, base);
  out[0].threads = 1, out[0].wave_bytes = 4096;
  out[1].engine = "io_uring";
  out[2].engine = "aio", out[2].wave_bytes = 16 << 10;
  out[3].wave_bytes = 4096, out[3].index_budget_bytes = 1 << 20;
  out[4].engine = "threads", out[4].allow_direct = false;
  out[5].allow_mapped = false, out[5].allow_direct = false;
  out[6].engine = "io_uring", out[6].wave_bytes = 4096, out[6].cache_reread = false;
  for (const io::EngineRow& row : io::engines()) {
    if (row.reaches_device_memory) continue;  // not available everywhere, nor in forked children
    if (std::any_of(out.begin(), out.end(), [&](const auto& options) { return options.engine == row.name; })) continue;
    out.push_back(base);
    out.back().engine = row.name;
  }
  return out;
}

// Codes that no store, whatever its content, may cause.
bool is_strange(Code code) {
  return code == Code::kOk || code == Code::kInternal || code == Code::kInvalidArgument || code == Code::kCancelled ||
         code == Code::kDeviceLost || code == Code::kForked || code == Code::kTimeout;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string hex(const std::byte* bytes, std::size_t count) {
  std::string out;
  char digits[4];
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 16); ++i) {
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(bytes[i]));
    out += digits;
  }
  return out;
}

// Whether these bytes are the element in one meaning.
bool matches(const Meaning& meaning, std::uint64_t element, const std::byte* got, bool whole) {
  const Unit& unit = meaning.units[meaning.unit[static_cast<std::size_t>(element)]];
  if (unit.verdict == Verdict::kAny) return true;
  if (unit.verdict == Verdict::kRefused) return !whole;
  const std::size_t item = meaning.item_bytes;
  return std::memcmp(&meaning.elements[static_cast<std::size_t>(element) * item], got, item) == 0;
}

bool is_listed(const std::set<std::string>& listed, const std::string& key) {
  return std::any_of(listed.begin(), listed.end(), [&](const std::string& one) { return ends_with(one, key); });
}

}  // namespace

void Counts::add(const Counts& other) {
  for (const auto member :
       {&Counts::reads, &Counts::cancelled, &Counts::elements, &Counts::failed, &Counts::refused_chunks,
        &Counts::unsupported, &Counts::opens_refused, &Counts::device_chunks, &Counts::mapped_bytes,
        &Counts::direct_bytes, &Counts::buffered_bytes, &Counts::skipped_bytes, &Counts::not_judged}) {
    this->*member += other.*member;
  }
}

std::vector<Context> make_contexts() {
  std::vector<Context> out;
  for (const ContextOptions& wanted : context_table()) {
    auto made = Context::create(wanted);
    if (made.ok()) out.push_back(std::move(*made));
  }
  if (out.empty()) die("no engine works here");
  return out;
}

Rig::Rig(const RigOptions& options, std::vector<Context> contexts)
    : options_(options), contexts_(std::move(contexts)), arena_(options.max_bytes) {
  for (const std::string& name : options_.devices) {
    auto device = Device::open(name);
    if (!device.ok()) die(device.status().to_string());
    Buffer buffer;
    if (name != "host") {
      auto made = Buffer::allocate(*device, options_.max_bytes + 2 * kPad + 64);
      if (!made.ok()) die(made.status().to_string());
      buffer = std::move(*made);
    }
    devices_.push_back(std::move(*device));
    buffers_.push_back(std::move(buffer));
  }
}

ReadPlan Rig::plan(Dice& dice) const {
  ReadPlan plan;
  plan.device = static_cast<std::size_t>(dice.below(devices_.size()));
  plan.placement = dice.pick({Placement::kAuto, Placement::kCpu, Placement::kGpu});
  if (options_.devices[plan.device] == "host") plan.placement = Placement::kAuto;
  plan.whole = dice.one_in(2);
  // Lowers the library's limits, because the chunks of these stores are small.
  transfer::min_part_chunk_bytes = dice.one_in(4) ? std::uint64_t{32} << 10 : 0;
  transfer::min_saved_file_bytes = dice.one_in(4) ? std::uint64_t{128} << 10 : 0;
  plan.collect = dice.one_in(2);
  plan.blocking = dice.one_in(2);
  plan.padding = dice.one_in(3) ? dice.between(1, 5) : 0;
  plan.shift = dice.one_in(2) ? static_cast<std::size_t>(dice.below(64)) : 0;
  plan.flush_right = dice.one_in(2);
  return plan;
}

// The memory that a read may write to, and its content afterwards.
struct Rig::Destination {
  TensorView tensor;
  std::vector<std::uint64_t> strides;  // in elements
  std::size_t item = 1, span = 0;      // size of an element; bytes from the first element to the end of the last
  std::byte* at = nullptr;             // the tensor, or its copy on the host
  unsigned char pattern = 0;           // the previous content
};

struct Rig::Outcome {
  Status status;
  std::set<std::string> listed;  // keys of the refused chunks
  std::string wrong;
  bool device_cannot = false;  // device decoding was requested, and the device has no code for this
};

std::string Rig::prepare(const Picked& picked, const ReadPlan& plan, std::size_t item_bytes, Destination& to) {
  to.item = item_bytes;
  to.tensor.shape = picked.result_shape();
  const std::size_t rank = to.tensor.shape.size();
  to.strides.resize(rank);
  std::uint64_t stride = 1, reach = product(to.tensor.shape) == 0 ? 0 : 1;
  for (std::size_t d = rank; d-- > 0;) {
    to.strides[d] = stride;
    if (reach > 0) reach += (to.tensor.shape[d] - 1) * stride;
    stride = std::max<std::uint64_t>(1, stride * to.tensor.shape[d]) + plan.padding;
  }
  to.span = static_cast<std::size_t>(reach) * item_bytes;
  if (to.span > options_.max_bytes) die("a selection is larger than the destination");
  if (plan.padding > 0) {
    for (const std::uint64_t one : to.strides) {
      to.tensor.strides_bytes.push_back(static_cast<std::int64_t>(one * item_bytes));
    }
  }
  to.pattern = static_cast<unsigned char>(0x51 + plan.shift % 7);
  Buffer& buffer = buffers_[plan.device];
  if (buffer.data() == nullptr) {
    to.at = arena_.take(to.span, plan.flush_right ? test::Flush::kRight : test::Flush::kLeft, to.pattern);
    to.tensor.memory = {to.at, to.span};
    return "";
  }
  got_.assign(to.span + 2 * kPad, std::byte{to.pattern});
  to.at = got_.data() + kPad;
  to.tensor.memory = {buffer.data() + plan.shift + kPad, to.span};
  const Status status = buffer.copy_from_host(plan.shift, got_.data(), got_.size());
  return status.ok() ? "" : "destination: " + status.to_string();
}

Rig::Outcome Rig::start_and_wait(const Array& array, const Picked& picked, const ReadPlan& plan,
                                 const Destination& to) {
  ReadOptions options;
  options.placement = plan.placement;
  options.verify = plan.whole ? Verify::kWhole : Verify::kAsRead;
  options.collect_errors = plan.collect;
  Outcome out;
  Stats stats;
  if (plan.blocking && !plan.collect && !plan.cancelled) {
    out.status = array.read(picked.selection, to.tensor, devices_[plan.device], options, &stats);
  } else {
    auto reading = array.read_async(picked.selection, to.tensor, devices_[plan.device], options);
    if (reading.ok() && plan.cancelled) reading->cancel();
    out.status = reading.ok() ? reading->wait() : reading.status();
    if (reading.ok()) {
      stats = reading->stats();
      for (const ChunkError& error : reading->errors()) {
        if (is_strange(error.status.code()) || error.key.empty()) {
          out.wrong = "a chunk's error is " + error.status.to_string();
        }
        out.listed.insert(error.key);
      }
    }
  }
  ++counts.reads;
  counts.cancelled += plan.cancelled;
  counts.elements += product(to.tensor.shape);
  counts.failed += !out.status.ok();
  counts.refused_chunks += out.listed.size();
  counts.device_chunks += stats.gpu_chunks;
  counts.mapped_bytes += stats.mapped_bytes;
  counts.direct_bytes += stats.direct_bytes;
  counts.buffered_bytes += stats.buffered_bytes;
  counts.skipped_bytes += stats.skipped_bytes;
  out.device_cannot = plan.placement == Placement::kGpu && out.status.code() == Code::kUnsupported;
  counts.unsupported += out.device_cannot;
  return out;
}

// Checks each element and overwrites it with the pattern.
std::string Rig::check_elements(const Picked& picked, const std::vector<const Meaning*>& meanings, const ReadPlan& plan,
                                const Destination& to, const Outcome& outcome) {
  const Status& status = outcome.status;
  bool may_be_refused = plan.may_fail, must_be_refused = false, key_is_named = false;
  std::string wrong;
  const std::size_t rank = to.tensor.shape.size();
  Shape place_at(rank, 0);
  picked.each(meanings.front()->shape, [&](std::uint64_t, std::uint64_t element) {
    std::uint64_t place = 0;
    for (std::size_t d = 0; d < rank; ++d) place += place_at[d] * to.strides[d];
    advance(place_at, to.tensor.shape);
    std::byte* const got = to.at + place * to.item;
    bool fine = false, refused_by_all = true;
    for (const Meaning* meaning : meanings) {
      const Unit& unit = meaning->units[meaning->unit[static_cast<std::size_t>(element)]];
      const bool allowed = unit.verdict != Verdict::kExact || plan.may_fail;
      refused_by_all = refused_by_all && plan.whole && unit.verdict == Verdict::kRefused;
      may_be_refused = may_be_refused || allowed;
      if (allowed && !key_is_named && !status.ok()) key_is_named = ends_with(status.key(), unit.key);
      fine = fine || matches(*meaning, element, got, plan.whole) ||
             (allowed && !outcome.listed.empty() && is_listed(outcome.listed, unit.key));
    }
    must_be_refused = must_be_refused || refused_by_all;
    if (status.ok() && !fine && wrong.empty()) {
      const Unit& unit = meanings[0]->units[meanings[0]->unit[static_cast<std::size_t>(element)]];
      wrong = "element " + std::to_string(element) + " is " + hex(got, to.item) + ", of chunk " + unit.key +
              ", verdict " + std::to_string(static_cast<int>(unit.verdict)) + ", expected " +
              hex(&meanings[0]->elements[static_cast<std::size_t>(element) * to.item], to.item) +
              (outcome.listed.empty() ? "" : ", listed: " + *outcome.listed.begin());
    }
    std::memset(got, to.pattern, to.item);
  });
  if (!wrong.empty()) return wrong;
  if (status.ok() && must_be_refused && outcome.listed.empty()) return "what cannot be read was read";
  if (!outcome.listed.empty() && !may_be_refused) return "good chunks were listed as bad: " + *outcome.listed.begin();
  if (status.ok() || outcome.device_cannot) return "";
  if (is_strange(status.code())) return "the error is " + status.to_string();
  if (!may_be_refused) return "a good store was refused: " + status.to_string();
  if (!key_is_named && !plan.may_fail) return "the error names no chunk that is bad: " + status.to_string();
  return "";
}

std::string Rig::read(const Array& array, const Picked& picked, const std::vector<const Meaning*>& meanings,
                      const ReadPlan& plan) {
  return run(array, picked, meanings, plan, meanings.front()->item_bytes);
}

std::string Rig::read_any(const Array& array, const Picked& picked, const ReadPlan& plan) {
  return run(array, picked, {}, plan, array.info().dtype.item_bytes);
}

std::string Rig::run(const Array& array, const Picked& picked, const std::vector<const Meaning*>& meanings,
                     const ReadPlan& plan, std::size_t item_bytes) {
  Destination to;
  std::string wrong = prepare(picked, plan, item_bytes, to);
  if (!wrong.empty()) return wrong;
  to.tensor.dtype = array.info().dtype;
  const Outcome outcome = start_and_wait(array, picked, plan, to);
  if (!outcome.wrong.empty()) return outcome.wrong;
  const Buffer& buffer = buffers_[plan.device];
  const bool on_host = buffer.data() == nullptr;
  if (on_host && !arena_.intact()) return "bytes outside the destination were written";
  if (!on_host) {
    const Status copied = buffer.copy_to_host(plan.shift, got_.data(), got_.size());
    if (!copied.ok()) return "destination: " + copied.to_string();
  }
  if (!meanings.empty() && !(plan.cancelled && !outcome.status.ok())) {
    wrong = check_elements(picked, meanings, plan, to, outcome);
    if (!wrong.empty()) return wrong;
  } else {
    if (!outcome.status.ok() && plan.cancelled && outcome.status.code() != Code::kCancelled && !plan.may_fail) {
      return "a read that was cancelled says " + outcome.status.to_string();
    }
    Shape at(to.tensor.shape.size(), 0);
    for (std::uint64_t i = 0, count = product(to.tensor.shape); i < count; ++i) {
      std::uint64_t place = 0;
      for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * to.strides[d];
      std::memset(to.at + place * to.item, to.pattern, to.item);
      advance(at, to.tensor.shape);
    }
  }
  // Checks the bytes around and between the elements.
  const std::byte* const from = on_host ? to.at : got_.data();
  const std::size_t length = on_host ? to.span : got_.size();
  if (length > 0 && (from[0] != std::byte{to.pattern} || std::memcmp(from, from + 1, length - 1) != 0)) {
    const std::byte* const bad =
        std::find_if(from, from + length, [&](std::byte b) { return b != std::byte{to.pattern}; });
    return "byte " + std::to_string(bad - to.at) + " of a destination of " + std::to_string(to.span) +
           ", no element's, was written";
  }
  return "";
}

}  // namespace headrace::stress
