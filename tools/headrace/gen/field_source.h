// FieldSource: synthetic fields with the entropy of a reanalysis, and incompressible noise.
//
// A field is the sum of a zonal mean, a smooth part whose power spectrum falls as k^-3 and, beyond wavenumber 60, as
// k^-5/3, and a little noise. It is packed to 16 bits and unpacked, as in GRIB, so that the lowest mantissa bits repeat
// and the middle ones look random, as in fields converted from GRIB. Every value depends only on (seed, variable, time,
// level, place): any thread can generate any part at any time, with identical bits on every machine.
//
// Threads: immutable after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace::cli {

// Distribution of one physical variable, in its own unit; the packing step is 2^quantum_exponent.
struct FieldModel {
  const char* name;
  const char* long_name;
  const char* units;
  float base;       // zonal mean where the pattern is 0
  float amplitude;  // of the pattern
  bool wind;        // pattern: sin^2(2 latitude) if true, else cos^2(latitude)
  float sigma;      // standard deviation of the smooth part
  float noise;      // standard deviation of the noise
  int quantum_exponent;
};

// Identifies a field: each combination has different weather.
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
  // Largest grid that field_row() supports.
  static constexpr Grid kMaxGrid = {1024, 2048};

  // Takes a fraction of a second and 20 MB; almost nothing if no smooth fields are needed.
  explicit FieldSource(std::uint64_t seed, bool smooth = true);

  // Values of columns [column, column + out.size()) of one row. REQUIRES: constructed with `smooth`; the row and
  // columns lie within the grid, and the grid within kMaxGrid.
  void field_row(const FieldModel& model, const FieldId& id, const Grid& grid, std::uint64_t row, std::uint64_t column,
                 std::span<float> out) const;
  // The same for uniform random numbers in [0, 1) with 24 random bits each, on any grid.
  void uniform_row(const FieldId& id, std::uint64_t row, std::uint64_t column, std::span<float> out) const;
  // Bytes [offset, offset + out.size()) of the infinite random sequence `stream`.
  void random_bytes(std::uint64_t stream, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::uint64_t seed_;
  std::vector<float> real_, imaginary_;  // two independent fields of mean 0 and variance 1
  std::vector<float> white_;             // noise of variance 1
};

}  // namespace headrace::cli
