#include "codec/element_codec.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace headrace::codec {
namespace {

template <Number kNumber>
std::uint64_t load(const unsigned char* at, bool reversed) {
  if constexpr (width_bytes(kNumber) == 1) {
    return *at;
  } else if constexpr (width_bytes(kNumber) == 2) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return reversed ? __builtin_bswap16(bits) : bits;
  } else if constexpr (width_bytes(kNumber) == 4) {
    std::uint32_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return reversed ? __builtin_bswap32(bits) : bits;
  } else {
    std::uint64_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return reversed ? __builtin_bswap64(bits) : bits;
  }
}

// Both return the number of elements decoded: the index of the first bad one, or all.
std::size_t any_loop(const ElementFilter& op, const unsigned char* src, unsigned char* dst, std::size_t count) {
  const unsigned from = width_bytes(op.stored.number), to = width_bytes(op.decoded.number);
  for (std::size_t i = 0; i < count; ++i, src += from, dst += to) {
    std::uint64_t bits = 0;
    if (!apply(op, numbers::load_bits(src, op.stored), bits)) return i;
    numbers::store_bits(dst, op.decoded, bits);
  }
  return count;
}

// Common cases, with types known at compile time. REQUIRES: the decoded side is little-endian.
template <ElementFilter::Kind kKind, Number kStored, Number kDecoded>
std::size_t fast_loop(const ElementFilter& op, const unsigned char* src, unsigned char* dst, std::size_t count) {
  ElementFilter own = op;
  own.kind = kKind;
  own.stored.number = kStored;
  own.decoded.number = kDecoded;
  const bool reversed = op.stored.big_endian;
  constexpr unsigned kFrom = width_bytes(kStored), kTo = width_bytes(kDecoded);
  for (std::size_t i = 0; i < count; ++i, src += kFrom, dst += kTo) {
    std::uint64_t bits = 0;
    if (!apply(own, load<kStored>(src, reversed), bits)) return i;
    std::memcpy(dst, &bits, kTo);
  }
  return count;
}

using Loop = std::size_t (*)(const ElementFilter&, const unsigned char*, unsigned char*, std::size_t);

template <ElementFilter::Kind kKind, Number kDecoded>
Loop loop_from(Number stored) {
  switch (stored) {
    case Number::kInt8:
      return &fast_loop<kKind, Number::kInt8, kDecoded>;
    case Number::kUint8:
      return &fast_loop<kKind, Number::kUint8, kDecoded>;
    case Number::kInt16:
      return &fast_loop<kKind, Number::kInt16, kDecoded>;
    case Number::kUint16:
      return &fast_loop<kKind, Number::kUint16, kDecoded>;
    case Number::kInt32:
      return &fast_loop<kKind, Number::kInt32, kDecoded>;
    case Number::kFloat32:
      return &fast_loop<kKind, Number::kFloat32, kDecoded>;
    case Number::kFloat64:
      return &fast_loop<kKind, Number::kFloat64, kDecoded>;
    default:
      return nullptr;
  }
}

template <ElementFilter::Kind kKind>
Loop loop_to(Number stored, Number decoded) {
  if (decoded == Number::kFloat32) return loop_from<kKind, Number::kFloat32>(stored);
  if (decoded == Number::kFloat64) return loop_from<kKind, Number::kFloat64>(stored);
  return nullptr;
}

Loop choose(const ElementFilter& op) {
  Loop loop = nullptr;
  if (!op.decoded.big_endian) {
    if (op.kind == ElementFilter::Kind::kConvert) {
      loop = loop_to<ElementFilter::Kind::kConvert>(op.stored.number, op.decoded.number);
    } else if (op.kind == ElementFilter::Kind::kScale) {
      loop = loop_to<ElementFilter::Kind::kScale>(op.stored.number, op.decoded.number);
    } else if (op.kind == ElementFilter::Kind::kCast) {
      loop = loop_to<ElementFilter::Kind::kCast>(op.stored.number, op.decoded.number);
    } else if (op.decoded.number == Number::kFloat32) {
      loop = &fast_loop<ElementFilter::Kind::kScaleOffset, Number::kFloat32, Number::kFloat32>;
    } else if (op.decoded.number == Number::kFloat64) {
      loop = &fast_loop<ElementFilter::Kind::kScaleOffset, Number::kFloat64, Number::kFloat64>;
    }
  }
  return loop != nullptr ? loop : &any_loop;
}

}  // namespace

ElementCodec::ElementCodec(std::string_view name, const ElementFilter& op)
    : ValueCodec(op.stored, op.decoded), name_(name), op_(op), loop_(choose(op)) {}

std::unique_ptr<StreamCoder> ElementCodec::make_big_endian_coder() const {
  ElementFilter op = op_;
  op.stored.big_endian = true;
  return std::make_unique<ElementCodec>(name_, op);
}

bool ElementCodec::describe_for_device(device::DecodeStage& stage) const {
  stage.codec = name_;
  const auto words = op_.pack();
  std::copy(words.begin(), words.end(), stage.parameters.begin());
  return true;
}

Status ElementCodec::decode_stream(EncodedStream& stream, Scratch*) const {
  std::size_t count = 0;
  HEADRACE_TRY(count_elements(stream, count));
  const std::size_t done = loop_(op_, reinterpret_cast<const unsigned char*>(stream.src),
                                 reinterpret_cast<unsigned char*>(stream.dst), count);
  if (done != count) {
    return corrupt("%s: element %zu has a value that the array's type cannot represent", std::string(name_).c_str(),
                   done);
  }
  stream.dst_bytes = count * width_bytes(op_.decoded.number);
  return {};
}

}  // namespace headrace::codec
