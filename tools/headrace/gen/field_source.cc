// Compiled without contraction of multiplications and additions, for identical bits on every machine
// (docs/design/gen.md).
#include "gen/field_source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>

namespace headrace::cli {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kRows = FieldSource::kMaxGrid.rows, kColumns = FieldSource::kMaxGrid.columns;
constexpr std::uint64_t kWhite = std::uint64_t{1} << 20;
// For a grid of 1440 columns, the 0.25 degree globe.
constexpr double kBreakWavenumber = 60, kGlobeColumns = 1440;
constexpr std::uint64_t kPeriodSteps = 40;  // the smooth part repeats after ten days of 6-hour steps
constexpr std::uint64_t kDriftColumns = 2;  // eastward, per step
constexpr float kRangeSigmas = 3.4F;        // the packed range below the mean; values outside are clipped

// Finaliser of a 64-bit counter: each output bit depends on every input bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
std::uint64_t combine(std::uint64_t key, std::uint64_t value) { return mix(key + kGolden * (value + 1)); }
std::uint64_t field_key(std::uint64_t seed, const FieldId& id) {
  return combine(combine(combine(mix(seed + kGolden), id.variable), id.time), id.level);
}

// Rounds to a multiple of 2^-bits, to hide that math libraries differ in the last bit of sines and logarithms. Both
// products are exact.
float rounded(double value, int bits) {
  return static_cast<float>(std::nearbyint(value * std::ldexp(1.0, bits)) * std::ldexp(1.0, -bits));
}

// Two independent standard normal numbers.
std::complex<double> normal_pair(std::uint64_t key) {
  const double u = (static_cast<double>(mix(key) >> 11) + 0.5) * 0x1p-53;
  const double v = static_cast<double>(mix(key ^ kGolden) >> 11) * 0x1p-53;
  return std::polar(std::sqrt(-2 * std::log(u)), 2 * std::numbers::pi * v);
}

// In-place radix-2 FFT without scaling, since only the shape of the spectrum matters.
void transform(std::span<std::complex<double>> data, std::span<const std::complex<double>> roots) {
  const std::size_t n = data.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  auto* const numbers = reinterpret_cast<double*>(data.data());
  for (std::size_t half = 1; half < n; half *= 2) {
    const std::size_t step = roots.size() / half;
    for (std::size_t start = 0; start < n; start += 2 * half) {
      for (std::size_t i = 0; i < half; ++i) {
        // On plain doubles: g++ moves std::complex through memory, which is several times slower.
        const double c = roots[i * step].real(), d = roots[i * step].imag();
        double *const low = numbers + 2 * (start + i), *const high = low + 2 * half;
        const double real = high[0] * c - high[1] * d, imaginary = high[0] * d + high[1] * c;
        high[0] = low[0] - real;
        high[1] = low[1] - imaginary;
        low[0] += real;
        low[1] += imaginary;
      }
    }
  }
}

// Square root of the power per mode at these wavenumbers of the grid: k^-3, then k^-5/3, spread over a circle of modes.
double amplitude(std::uint64_t row, std::uint64_t column) {
  const auto wavenumber = [](std::uint64_t i) {
    return static_cast<double>(i) * kGlobeColumns / static_cast<double>(kColumns);
  };
  const double y = wavenumber(row), x = wavenumber(column), square = x * x + y * y;
  if (square == 0) return 0;
  constexpr double kBreakSquare = kBreakWavenumber * kBreakWavenumber;
  if (square < kBreakSquare) return 1 / square;
  const double root = std::cbrt(square / kBreakSquare);
  return 1 / (kBreakSquare * root * root);
}

}  // namespace

FieldSource::FieldSource(std::uint64_t seed, bool smooth) : seed_(seed) {
  if (!smooth) return;
  const std::uint64_t key = combine(mix(seed + kGolden), ~std::uint64_t{0});
  constexpr std::uint64_t kTogether = 8;
  // One complex field without symmetry contains two real ones.
  std::vector<std::complex<double>> modes(kRows * kColumns), columns(kTogether * kRows), roots(kColumns / 2);
  for (std::size_t i = 0; i < roots.size(); ++i) {
    roots[i] = std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(kColumns));
  }
  // Four modes, for both signs of both wavenumbers, have the same amplitude.
  for (std::uint64_t row = 0; row <= kRows / 2; ++row) {
    for (std::uint64_t column = 0; column <= kColumns / 2; ++column) {
      const double power = amplitude(row, column);
      for (const std::uint64_t y : {row, (kRows - row) % kRows}) {
        for (const std::uint64_t x : {column, (kColumns - column) % kColumns}) {
          const std::uint64_t i = y * kColumns + x;
          modes[i] = power * normal_pair(key + kGolden * (i + 1));
        }
      }
    }
  }
  for (std::uint64_t row = 0; row < kRows; ++row) transform({&modes[row * kColumns], kColumns}, roots);
  // Transforms the columns in groups of one cache line.
  for (std::uint64_t x = 0; x < kColumns; x += kTogether) {
    for (std::uint64_t y = 0; y < kRows; ++y) {
      for (std::uint64_t i = 0; i < kTogether; ++i) columns[i * kRows + y] = modes[y * kColumns + x + i];
    }
    for (std::uint64_t i = 0; i < kTogether; ++i) transform({&columns[i * kRows], kRows}, roots);
    for (std::uint64_t y = 0; y < kRows; ++y) {
      for (std::uint64_t i = 0; i < kTogether; ++i) modes[y * kColumns + x + i] = columns[i * kRows + y];
    }
  }
  double squares[2] = {0, 0};
  for (const auto& value : modes) {
    squares[0] += value.real() * value.real();
    squares[1] += value.imag() * value.imag();
  }
  const double count = static_cast<double>(modes.size());
  const double scale[2] = {std::sqrt(count / squares[0]), std::sqrt(count / squares[1])};
  real_.reserve(modes.size());
  imaginary_.reserve(modes.size());
  for (const auto& value : modes) {
    real_.push_back(rounded(value.real() * scale[0], 14));
    imaginary_.push_back(rounded(value.imag() * scale[1], 14));
  }
  white_.resize(kWhite + kColumns);  // a row may start anywhere in the first kWhite numbers
  for (std::uint64_t i = 0; i < kWhite; ++i) white_[i] = rounded(normal_pair(combine(key, i)).real(), 10);
  std::copy_n(white_.begin(), kColumns, white_.begin() + kWhite);
}

void FieldSource::field_row(const FieldModel& model, const FieldId& id, const Grid& grid, std::uint64_t row,
                            std::uint64_t column, std::span<float> out) const {
  // Fixed over time for a variable and level: its position on the torus, and its phase.
  const std::uint64_t place = field_key(seed_, {id.variable, ~std::uint64_t{0}, id.level});
  const std::uint64_t moment = field_key(seed_, id);
  const double angle = 2 * std::numbers::pi *
                       (static_cast<double>(id.time % kPeriodSteps) / static_cast<double>(kPeriodSteps) +
                        static_cast<double>(place >> 48) * 0x1p-16);
  // A rotating mixture of two independent fields with the same spectrum, so that neighbouring times are similar.
  const float cosine = rounded(std::cos(angle), 14) * model.sigma, sine = rounded(std::sin(angle), 14) * model.sigma;
  // Drifts back and forth between the edges, which need not match.
  const std::uint64_t span = kColumns - grid.columns;
  const std::uint64_t drift = span == 0 ? 0 : ((place >> 16) + kDriftColumns * id.time) % (2 * span);
  const std::uint64_t first_column = std::min(drift, 2 * span - drift) + column;
  const std::uint64_t torus_row = ((place & 0xFFFF) + row) % kRows;

  const float step = std::ldexp(1.0F, model.quantum_exponent), steps_a_unit = std::ldexp(1.0F, -model.quantum_exponent);
  const double latitude = std::numbers::pi * (0.5 - static_cast<double>(row) /
                                                        static_cast<double>(std::max<std::uint64_t>(grid.rows, 2) - 1));
  const double wave = model.wind ? std::sin(2 * latitude) : std::cos(latitude);
  const float mean = rounded(model.base + model.amplitude * wave * wave, -model.quantum_exponent);
  // GRIB's reference value is the field's minimum: a float32 with an arbitrary mantissa.
  const float reference =
      model.base - (kRangeSigmas - 0.1F * static_cast<float>(moment >> 40) * 0x1p-24F) * model.sigma;

  const float* const a = &real_[torus_row * kColumns + first_column];
  const float* const b = &imaginary_[torus_row * kColumns + first_column];
  const float* const noise = &white_[combine(moment, row) % kWhite + column];
  const float offset = mean - reference;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float above = (cosine * a[i] + sine * b[i] + model.noise * noise[i] + offset) * steps_a_unit + 0.5F;
    const float inside = above < 0 ? 0 : above > 65535 ? 65535 : above;
    out[i] = reference + static_cast<float>(static_cast<std::int32_t>(inside)) * step;
  }
}

void FieldSource::uniform_row(const FieldId& id, std::uint64_t row, std::uint64_t column, std::span<float> out) const {
  const std::uint64_t key = combine(field_key(seed_, id), row);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<std::int32_t>(mix(key + kGolden * (column + i)) >> 40)) * 0x1p-24F;
  }
}

void FieldSource::random_bytes(std::uint64_t stream, std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t key = combine(mix(seed_ + kGolden), stream);
  while (!out.empty()) {
    const std::uint64_t word = mix(key + kGolden * (offset / 8)) >> (8 * (offset % 8));
    const std::size_t count = std::min<std::size_t>(out.size(), 8 - offset % 8);
    if (count == 8) {
      std::memcpy(out.data(), &word, 8);
    } else {
      std::memcpy(out.data(), &word, count);
    }
    out = out.subspan(count);
    offset += count;
  }
}

}  // namespace headrace::cli
