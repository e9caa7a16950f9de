// ElementCodec: a codec that decodes each element independently, as an ElementFilter describes.
#pragma once

#include <memory>
#include <string_view>

#include "codec/element_filter.h"
#include "codec/value_codec.h"

namespace headrace::codec {

class ElementCodec final : public ValueCodec {
 public:
  // `name` is the codec's row name, with static lifetime.
  ElementCodec(std::string_view name, const ElementFilter& op);
  std::string_view name() const noexcept override { return name_; }
  std::unique_ptr<StreamCoder> make_big_endian_coder() const override;
  Prefix prefix(std::uint64_t) const noexcept override { return Prefix::kSameShare; }
  bool describe_for_device(device::DecodeStage& stage) const override;

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override;

 private:
  using Loop = std::size_t (*)(const ElementFilter& op, const unsigned char* src, unsigned char* dst,
                               std::size_t count);

  std::string_view name_;
  ElementFilter op_;
  Loop loop_ = nullptr;
};

}  // namespace headrace::codec
