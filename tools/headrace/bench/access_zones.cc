#include "access_zones.h"

#include <algorithm>
#include <string>

#include "bench_units.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxZones = 256;
constexpr std::uint64_t kLeftOut = UINT64_MAX;

Status wrong(std::string_view text, const std::string& what) {
  return {Code::kInvalidArgument, Layer::kApi, "'" + std::string(text.substr(0, 80)) + "' " + what};
}

Result<AccessZone> parse_zone(std::string_view text, bool absolute) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view size = text.substr(std::min(slash + 1, text.size()));
  AccessZone zone;
  HEADRACE_TRY_ASSIGN(const std::uint64_t share, parse_number(text.substr(0, slash)));
  if (share > 100) return wrong(text, "is more than 100 % of the draws");
  zone.share = static_cast<unsigned>(share);
  if (absolute) {
    HEADRACE_TRY_ASSIGN(zone.size, parse_size(size));
    if (zone.size == 0) return wrong(text, "is a zone of 0 bytes");
  } else if (size.empty()) {
    zone.size = kLeftOut;
  } else {
    HEADRACE_TRY_ASSIGN(zone.size, parse_number(size));
    if (zone.size > 100) return wrong(text, "is more than 100 % of the file");
  }
  return zone;
}

// Zones without a size divide what the others leave.
Status complete_sizes(std::string_view text, std::vector<AccessZone>& zones) {
  std::uint64_t given = 0, open = 0;
  for (const AccessZone& zone : zones) (zone.size == kLeftOut ? open : given) += zone.size == kLeftOut ? 1 : zone.size;
  if (given > 100) return wrong(text, "has zones of more than 100 % of the file");
  std::uint64_t left = 100 - given;
  for (AccessZone& zone : zones) {
    if (zone.size != kLeftOut) continue;
    zone.size = left / open;
    left -= zone.size;
    --open;
  }
  return {};
}

}  // namespace

Result<AccessZones> AccessZones::parse(std::string_view text, bool absolute) {
  AccessZones out;
  out.absolute_ = absolute;
  unsigned shares = 0;
  std::uint64_t bytes = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(':', at), text.size());
    HEADRACE_TRY_ASSIGN(const AccessZone zone, parse_zone(text.substr(at, end - at), absolute));
    if (out.zones_.size() == kMaxZones) return wrong(text, "has more than 256 zones");
    shares += zone.share;
    if (absolute && (__builtin_add_overflow(bytes, zone.size, &bytes) || bytes > std::uint64_t{1} << 62)) {
      return wrong(text, "has zones of more than 2^62 bytes");
    }
    out.zones_.push_back(zone);
    at = end + 1;
  }
  if (shares != 100) {
    return wrong(text, "has shares that add up to " + std::to_string(shares) + " %, not to 100");
  }
  if (!absolute) {
    HEADRACE_TRY(complete_sizes(text, out.zones_));
  }
  return out;
}

std::uint64_t AccessZones::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const AccessZone& zone : zones_) sum += absolute_ ? zone.size : 0;
  return sum;
}

ZoneMap::ZoneMap(const AccessZones& zones, std::uint64_t region_bytes, std::uint64_t unit_bytes,
                 std::uint64_t positions) {
  unsigned shares = 0;
  std::uint64_t up_to = 0;  // in percent or bytes
  const auto place = [&](std::uint64_t amount) {
    const auto bytes = static_cast<unsigned __int128>(amount) * (zones.absolute() ? 1 : region_bytes);
    return static_cast<std::uint64_t>(bytes / (zones.absolute() ? 1 : 100) / unit_bytes);
  };
  parts_.reserve(zones.zones().size());
  for (const AccessZone& zone : zones.zones()) {
    const std::uint64_t first = std::min(place(up_to), positions - 1);
    up_to += zone.size;
    const std::uint64_t end = std::clamp(place(up_to), first + 1, positions);
    parts_.push_back({shares += zone.share, first, end - first});
  }
}

std::uint64_t ZoneMap::pick(std::uint64_t zone_draw, std::uint64_t place_draw) const noexcept {
  const auto percent = static_cast<unsigned>(static_cast<unsigned __int128>(zone_draw) * 100 >> 64);
  const auto part = std::upper_bound(parts_.begin(), parts_.end(), percent,
                                     [](unsigned value, const Part& each) { return value < each.up_to; });
  return part->first + static_cast<std::uint64_t>(static_cast<unsigned __int128>(place_draw) * part->count >> 64);
}

}  // namespace headrace::bench
