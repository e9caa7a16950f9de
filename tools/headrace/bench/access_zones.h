// AccessZones: parts of a file that are drawn more often than others (random_distribution=zoned and zoned_abs), and
// ZoneMap: the same over the blocks of one region.
//
// Zones lie one behind the other from the region's beginning; blocks within a zone are drawn alike. What lies behind
// the last zone is never drawn.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace headrace::bench {

struct AccessZone {
  unsigned share = 0;      // of the draws, in percent
  std::uint64_t size = 0;  // in percent of the region, or bytes
  bool operator==(const AccessZone&) const = default;
};

class AccessZones {
 public:
  AccessZones() = default;
  // "60/10:30/20:10/": shares of draws and sizes, in percent of the region or, `absolute`, in bytes. A size in percent
  // that is left out is what the others leave. At most 256 zones, shares add up to 100.
  static Result<AccessZones> parse(std::string_view text, bool absolute);

  const std::vector<AccessZone>& zones() const noexcept { return zones_; }
  bool absolute() const noexcept { return absolute_; }
  // Bytes that absolute zones cover; 0 where they are shares of the region.
  std::uint64_t bytes() const noexcept;
  bool operator==(const AccessZones&) const = default;

 private:
  std::vector<AccessZone> zones_;
  bool absolute_ = false;
};

class ZoneMap {
 public:
  ZoneMap() = default;
  // Over `positions` places for a block, `unit_bytes` apart. REQUIRES: positions > 0, at least one zone. A zone smaller
  // than a place has one place all the same, and none lies behind the last.
  ZoneMap(const AccessZones& zones, std::uint64_t region_bytes, std::uint64_t unit_bytes, std::uint64_t positions);

  // A place below `positions`; a function of the two words alone.
  std::uint64_t pick(std::uint64_t zone_draw, std::uint64_t place_draw) const noexcept;

 private:
  struct Part {
    unsigned up_to = 0;  // sum of the shares to here, in percent
    std::uint64_t first = 0, count = 1;
  };
  std::vector<Part> parts_;
};

}  // namespace headrace::bench
