#include "report.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace demo {
namespace {

std::string three_digits(double value, const char* unit) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, unit);
  return text.data();
}

// The rate names the bytes it counts. It is omitted for a few bytes, where it would only reflect call overhead.
std::string stage(const char* name, double seconds, std::uint64_t bytes, const char* of_what) {
  std::string text = std::string(name) + " " + human_seconds(seconds);
  if (bytes >= 65536 && seconds > 0) {
    text += ", " + three_digits(static_cast<double>(bytes) / seconds / 1e9, "GB/s ") + of_what;
  }
  return text;
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB", "PB"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return three_digits(value, unit);
}

std::string human_seconds(double seconds) {
  if (seconds <= 0) return "0";
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6, "us");
  if (seconds < 0.9995) return three_digits(seconds * 1e3, "ms");
  return three_digits(seconds, "s");
}

std::string human_shape(std::span<const std::uint64_t> shape) {
  std::string text;
  for (std::uint64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

std::string describe(const headrace::ArrayInfo& info) {
  std::string text = info.dtype.name + ", " + human_shape(info.shape);
  if (!info.shape.empty()) text += ", chunks " + human_shape(info.chunk_shape);
  if (!info.shard_shape.empty()) text += " in shards " + human_shape(info.shard_shape);
  for (const std::string& codec : info.codecs) text += ", " + codec;
  return text;
}

std::string describe_bytes(const headrace::Stats& stats) {
  return "stored " + human_bytes(stats.stored_bytes) + ", read " + human_bytes(stats.read_bytes) + ", over the bus " +
         human_bytes(stats.bus_bytes) + ", decoded " + human_bytes(stats.decoded_bytes);
}

std::string describe_stages(const headrace::Stats& stats) {
  return stage("plan", stats.plan_seconds, 0, "") + " | " + stage("open", stats.open_seconds, 0, "") + " | " +
         stage("read", stats.read_seconds, stats.read_bytes, "read") + " | " +
         stage("decode", stats.decode_seconds, stats.decoded_bytes, "decoded") + " | " +
         stage("copy", stats.copy_seconds, stats.bus_bytes, "over the bus") + " | " +
         stage("assemble", stats.assemble_seconds, stats.decoded_bytes, "decoded");
}

}  // namespace demo
