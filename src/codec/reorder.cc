#include "codec/reorder.h"

#include <algorithm>

#include "codec/stream_codec.h"
#include "device/box.h"

namespace headrace::codec {
namespace {

class Reorderer final : public CheckedCoder {
 public:
  explicit Reorderer(Reorder reorder) : reorder_(std::move(reorder)) {}
  std::string_view name() const noexcept override { return "transpose"; }
  EncodedSize encoded_size(std::uint64_t decoded_bytes) const override { return {decoded_bytes, true}; }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch*) const override {
    device::Box box;
    box.src = stream.src;
    box.dst = stream.dst;
    box.rank = static_cast<int>(reorder_.shape.size());
    std::int64_t dst_stride = reorder_.item_bytes, src_stride = reorder_.item_bytes;
    for (std::size_t i = reorder_.shape.size(); i-- > 0;) {
      box.dim[i].extent = reorder_.shape[i];
      box.dim[i].dst_stride_bytes = dst_stride;
      dst_stride *= static_cast<std::int64_t>(reorder_.shape[i]);
      const std::size_t axis = reorder_.stored_order[i];
      box.dim[axis].src_stride_bytes = src_stride;
      src_stride *= static_cast<std::int64_t>(reorder_.shape[axis]);
    }
    const auto bytes = static_cast<std::size_t>(dst_stride);
    if (stream.src_bytes != bytes || stream.dst_capacity < bytes) return wrong_size(name(), bytes, stream);
    device::simplify(box);
    device::copy_box(box, {reorder_.item_bytes}, nullptr);
    stream.dst_bytes = bytes;
    return {};
  }

 private:
  Reorder reorder_;
};

}  // namespace

std::unique_ptr<StreamCoder> make_reorder(Reorder reorder) { return std::make_unique<Reorderer>(std::move(reorder)); }

}  // namespace headrace::codec
