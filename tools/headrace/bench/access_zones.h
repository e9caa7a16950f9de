// AccessZones: parts of a file that are accessed more often than others (random_distribution=zoned and zoned_abs), and
// ZoneMap: the same for the blocks of one region.
//
// Zones are contiguous from the beginning of the region. Within a zone all blocks are equally likely; blocks after the
// last zone are never accessed.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace headrace::bench {

struct AccessZone {
  unsigned share = 0;      // of all accesses, in percent
  std::uint64_t size = 0;  // in percent of the region, or in bytes
  bool operator==(const AccessZone&) const = default;
};

class AccessZones {
 public:
  AccessZones() = default;
  // "60/10:30/20:10/": share of accesses / size of each zone. Sizes are in percent of the region, or bytes if
  // `absolute`. Zones without a size divide the rest of the region. At most 256 zones; shares must add up to 100.
  static Result<AccessZones> parse(std::string_view text, bool absolute);

  const std::vector<AccessZone>& zones() const noexcept { return zones_; }
  bool absolute() const noexcept { return absolute_; }
  // Total size of absolute zones; 0 for zones in percent.
  std::uint64_t bytes() const noexcept;
  bool operator==(const AccessZones&) const = default;

 private:
  std::vector<AccessZone> zones_;
  bool absolute_ = false;
};

class ZoneMap {
 public:
  ZoneMap() = default;
  // Maps the zones to `positions` block positions, `unit_bytes` apart. REQUIRES: positions > 0, at least one zone. Each
  // zone has at least one position, and no zone extends past the last position.
  ZoneMap(const AccessZones& zones, std::uint64_t region_bytes, std::uint64_t unit_bytes, std::uint64_t positions);

  // Returns a position; depends on the two random words only.
  std::uint64_t pick(std::uint64_t zone_draw, std::uint64_t place_draw) const noexcept;

 private:
  struct Part {
    unsigned up_to = 0;  // cumulative share, in percent
    std::uint64_t first = 0, count = 1;
  };
  std::vector<Part> parts_;
};

}  // namespace headrace::bench
