// ElementCodec: a codec that decodes each element by itself, as an ElementFilter says.
#pragma once

#include <memory>
#include <string_view>

#include "codec/element_filter.h"
#include "codec/value_codec.h"

namespace headrace::codec {

class ElementCodec final : public ValueCodec {
 public:
  // `name` is that of the codec's row and lasts as long as the program.
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
