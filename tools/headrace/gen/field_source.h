// FieldSource: synthetic fields with the entropy of a reanalysis, and noise that does not compress.
//
// A field is a zonal mean, a smooth part whose power spectrum falls as k^-3 and beyond wavenumber 60 as k^-5/3, and a
// little noise; then it is packed to 16 bits and unpacked, as GRIB does. So the lowest mantissa bits repeat and the
// middle ones look random, like those of fields that came from GRIB. Every value is a function of (seed, variable,
// time, level, place) alone: any part can be made at any time by any thread, and gives the same bits on every machine.
//
// Threads: immutable once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace::cli {

// How one physical variable is distributed. Everything in its own unit; 2^quantum_exponent is the packing step.
struct FieldModel {
  const char* name;
  const char* long_name;
  const char* units;
  float base;       // zonal mean where the pattern below is 0
  float amplitude;  // of the pattern
  bool wind;        // pattern sin^2(2 latitude), else cos^2(latitude)
  float sigma;      // standard deviation of the smooth part
  float noise;      // and of the noise
  int quantum_exponent;
};

// Which field of all: each combination has its own weather.
struct FieldId {
  std::uint64_t variable = 0;
  std::uint64_t time = 0;
  std::uint64_t level = 0;
};

struct Grid {
  std::uint64_t rows = 0;  // latitudes, north to south
  std::uint64_t columns = 0;
};

class FieldSource {
 public:
  // Largest grid that field_row serves.
  static constexpr Grid kMaxGrid = {1024, 2048};

  // Takes a fraction of a second and 20 MB; nothing where no smooth fields are needed.
  explicit FieldSource(std::uint64_t seed, bool smooth = true);

  // Values of columns [column, column + out.size()) of one row. REQUIRES: made smooth; inside the grid, the grid within
  // kMaxGrid.
  void field_row(const FieldModel& model, const FieldId& id, const Grid& grid, std::uint64_t row, std::uint64_t column,
                 std::span<float> out) const;
  // The same of uniform random numbers in [0, 1) with 24 bits each, for any grid.
  void uniform_row(const FieldId& id, std::uint64_t row, std::uint64_t column, std::span<float> out) const;
  // Bytes [offset, offset + out.size()) of the endless random sequence `stream`.
  void random_bytes(std::uint64_t stream, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::uint64_t seed_;
  std::vector<float> real_, imaginary_;  // two independent fields of mean 0 and variance 1
  std::vector<float> white_;             // noise of variance 1
};

}  // namespace headrace::cli
