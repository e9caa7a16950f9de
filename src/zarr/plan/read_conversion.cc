#include "zarr/plan/read_conversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace headrace {
namespace zarr {
namespace {

using device::NumberType;

// kNone: elements of this type cannot be converted.
NumberType number_type(const DataType& dtype) {
  switch (dtype.kind) {
    case TypeKind::kBool:
      return NumberType::kBool;
    case TypeKind::kInt:
      switch (dtype.item_bytes) {
        case 1:
          return NumberType::kInt8;
        case 2:
          return NumberType::kInt16;
        case 4:
          return NumberType::kInt32;
        case 8:
          return NumberType::kInt64;
        default:
          return NumberType::kNone;
      }
    case TypeKind::kUint:
      switch (dtype.item_bytes) {
        case 1:
          return NumberType::kUint8;
        case 2:
          return NumberType::kUint16;
        case 4:
          return NumberType::kUint32;
        case 8:
          return NumberType::kUint64;
        default:
          return NumberType::kNone;
      }
    case TypeKind::kFloat:
      switch (dtype.item_bytes) {
        case 2:
          return NumberType::kFloat16;
        case 4:
          return NumberType::kFloat32;
        case 8:
          return NumberType::kFloat64;
        default:
          return NumberType::kNone;
      }
    case TypeKind::kBfloat16:
      return NumberType::kBfloat16;
    default:
      return NumberType::kNone;
  }
}

Status refuse(Code code, std::string message) { return Status(code, Layer::kApi, std::move(message)); }

struct Target {
  DataType dtype;
  NumberType from = NumberType::kNone, to = NumberType::kNone;  // kNone: elements stay as they are stored
};

Result<Target> choose_target(const DataType& stored, const ReadOptions& options) {
  Target target;
  target.dtype = stored;
  const bool scaled = options.scale != 1 || options.offset != 0;
  if (options.dtype.empty() && !scaled && !options.fill_as_nan) return target;
  if (!std::isfinite(options.scale) || !std::isfinite(options.offset)) {
    return refuse(Code::kInvalidArgument, "scale and offset must be finite");
  }
  if (!options.dtype.empty() && options.dtype != stored.name) {
    target.dtype = numeric_type(options.dtype);
    if (target.dtype.name.empty()) {
      return refuse(Code::kInvalidArgument,
                    "dtype \"" + options.dtype + "\" is not a type that elements can be converted to");
    }
  }
  const bool same_type = target.dtype.name == stored.name;
  if (same_type && !scaled && !options.fill_as_nan) return target;
  target.from = number_type(stored);
  target.to = number_type(target.dtype);
  if (target.from == NumberType::kNone) {
    return refuse(Code::kUnsupported, "elements of type " + stored.name +
                                          " cannot be converted, scaled or replaced by NaN: read them as stored");
  }
  if (target.to == NumberType::kNone || target.to == NumberType::kBool) {
    return refuse(Code::kUnsupported, "elements cannot be converted to " + target.dtype.name);
  }
  if (options.fill_as_nan && !device::is_float(target.to)) {
    return refuse(Code::kInvalidArgument,
                  target.dtype.name + " has no NaN: fill_as_nan needs dtype float16, bfloat16, float32 or float64");
  }
  if (scaled && options.dtype.empty() && !device::is_float(target.to)) {
    return refuse(Code::kInvalidArgument, "scale and offset of " + stored.name +
                                              " elements need dtype, the type of the result, such as float32");
  }
  return target;
}

// The element that replaces those of damaged chunks; empty if not requested.
Result<std::vector<std::byte>> damaged_element(const DataType& dtype, const ReadOptions& options) {
  std::vector<std::byte> out;
  if (!options.damage_as_nan) return out;
  device::Conversion conversion;
  conversion.from = NumberType::kFloat64;
  conversion.to = number_type(dtype);
  if (!device::is_float(conversion.to)) {
    return refuse(Code::kInvalidArgument,
                  dtype.name + " has no NaN: damage_as_nan needs dtype float16, bfloat16, float32 or float64");
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  out.resize(dtype.item_bytes);
  device::convert_element(conversion, reinterpret_cast<const std::byte*>(&nan), out.data());
  return out;
}

}  // namespace

Result<ReadConversion> make_conversion(const DataType& stored, const device::ElementOp& stored_op,
                                       std::span<const std::byte> fill, bool fill_defined, const ReadOptions& options) {
  HEADRACE_TRY_ASSIGN(Target target, choose_target(stored, options));
  if (!options.missing.empty() && (!options.fill_as_nan || options.missing.size() != stored.item_bytes)) {
    return refuse(Code::kInvalidArgument, options.fill_as_nan
                                              ? "missing has " + std::to_string(options.missing.size()) +
                                                    " bytes, an element " + std::to_string(stored.item_bytes)
                                              : "missing requires fill_as_nan");
  }
  ReadConversion out;
  out.dtype = std::move(target.dtype);
  out.op = stored_op;
  out.fill.assign(fill.begin(), fill.end());
  HEADRACE_TRY_ASSIGN(out.damaged, damaged_element(out.dtype, options));
  if (target.to == NumberType::kNone) return out;
  device::Conversion conversion;
  conversion.from = target.from;
  conversion.to = target.to;
  conversion.scaled = options.scale != 1 || options.offset != 0;
  conversion.scale = options.scale;
  conversion.offset = options.offset;
  conversion.fill_to_nan = options.fill_as_nan;
  const std::span<const std::byte> missing = options.missing.empty() ? fill : std::span(options.missing);
  std::memcpy(&conversion.fill_bits, missing.data(), std::min<std::size_t>(missing.size(), 8));
  out.fill.assign(out.dtype.item_bytes, std::byte{0});
  device::convert_element(conversion, fill.data(), out.fill.data());
  conversion.fill_to_nan = options.fill_as_nan && (fill_defined || !options.missing.empty());
  // If the fill value is NaN, its elements are NaN already and need no conversion.
  device::Conversion plain;
  plain.from = target.from;
  plain.to = NumberType::kFloat64;
  double fill_number = 0;
  device::convert_element(plain, missing.data(), reinterpret_cast<std::byte*>(&fill_number));
  if (!conversion.scaled && conversion.from == conversion.to && (std::isnan(fill_number) || !conversion.fill_to_nan)) {
    return out;
  }
  out.op.conversion = conversion;
  return out;
}

}  // namespace zarr

Result<DataType> result_dtype(const DataType& stored, const ReadOptions& options) {
  HEADRACE_TRY_ASSIGN(zarr::Target target, zarr::choose_target(stored, options));
  HEADRACE_TRY(zarr::damaged_element(target.dtype, options).status());
  return std::move(target.dtype);
}

}  // namespace headrace
