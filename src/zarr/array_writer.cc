#include <headrace/array_writer.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>

#include "base/access.h"
#include "base/callback.h"
#include "base/checked.h"
#include "codec/chain_encoder.h"
#include "device/box.h"
#include "transfer/context/context_impl.h"
#include "zarr/array/array_impl.h"
#include "zarr/metadata/metadata.h"

namespace headrace {

class ArrayWriter::Impl {
 public:
  Impl(const Store& store, std::string_view path, std::string_view text)
      : array(store, std::string(path)), document(text) {}

  Array::Impl array;  // resolved from the document
  const std::string document;
  std::string document_key;
  std::uint64_t objects = 1;
};

class ArrayWriter::Worker::Impl {
 public:
  Impl(std::shared_ptr<const ArrayWriter::Impl> owner, codec::ChainEncoder encoder)
      : owner_(std::move(owner)), encoder_(std::move(encoder)) {
    const Array::Impl& array = owner_->array;
    const std::size_t rank = array.metadata.shape.size();
    const codec::Chain& chain = array.unit_chain();
    elements_.resize(static_cast<std::size_t>(chain.decoded_bytes()));
    bool c_order = true;
    for (std::size_t i = 0; i < rank; ++i) c_order = c_order && chain.layout().axis_order[i] == i;
    if (!c_order || array.element_op.swap_width > 1) arranged_.resize(elements_.size());
    object_.resize(rank);
    chunk_.resize(rank);
  }

  Result<std::uint64_t> write(std::uint64_t object, const FillChunk& fill) {
    const Array::Impl& array = owner_->array;
    for (std::size_t i = object_.size(); i-- > 0; object /= array.grid[i]) object_[i] = object % array.grid[i];
    key_.clear();
    array.append_prefix(key_);
    zarr::append_chunk_key(array.metadata.keys, object_.data(), object_.size(), key_);
    std::span<const std::byte> stored;
    if (array.sharding) {
      HEADRACE_TRY(gather_shard(fill));
      stored = shard_;
    } else {
      HEADRACE_TRY_ASSIGN(stored, encode_chunk(object_, fill));
    }
    HEADRACE_TRY(Access::impl(array.store)->put(key_, stored));
    return stored.size();
  }

 private:
  Result<std::span<const std::byte>> encode_chunk(std::span<const std::uint64_t> chunk, const FillChunk& fill) {
    Status filled;
    HEADRACE_TRY(
        base::run_callback("the FillChunk function threw an exception", [&] { filled = fill(chunk, elements_); }));
    HEADRACE_TRY(std::move(filled));
    if (arranged_.empty()) return encoder_.encode(elements_);
    const Array::Impl& array = owner_->array;
    device::Box box;
    box.rank = static_cast<int>(chunk.size());
    box.src = elements_.data();
    box.dst = arranged_.data();
    std::int64_t stride = array.element_op.element_bytes;
    for (std::size_t axis = chunk.size(); axis-- > 0;) {
      box.dim[axis] = {array.unit_shape()[axis], stride, array.unit_chain().strides_bytes()[axis]};
      stride *= static_cast<std::int64_t>(array.unit_shape()[axis]);
    }
    device::normalize(box);
    device::copy_box(box, array.element_op, array.fill.data());
    return encoder_.encode(arranged_);
  }

  // Gathers the shard's chunks in C order, without those beyond the array, and the index before or after them.
  Status gather_shard(const FillChunk& fill) {
    const Array::Impl& array = owner_->array;
    const zarr::LevelGrid& grid = array.sharding->grids.front();
    const zarr::ShardIndexFormat& format = array.sharding->indexes.front();
    const std::size_t rank = object_.size();
    entries_.assign(static_cast<std::size_t>(format.entry_count()), {});
    shard_.resize(format.at_end() ? 0 : static_cast<std::size_t>(format.encoded_bytes()));
    for (std::size_t number = 0; number < entries_.size(); ++number) {
      bool inside = true;
      std::uint64_t rest = number;
      for (std::size_t i = rank; i-- > 0; rest /= grid.grid[i]) {
        chunk_[i] = object_[i] * grid.grid[i] + rest % grid.grid[i];
        inside = inside && chunk_[i] * grid.shape[i] < array.metadata.shape[i];
      }
      if (!inside) continue;
      HEADRACE_TRY_ASSIGN(const std::span<const std::byte> stored, encode_chunk(chunk_, fill));
      entries_[number] = {shard_.size(), stored.size()};
      shard_.insert(shard_.end(), stored.begin(), stored.end());
    }
    HEADRACE_TRY_ASSIGN(const std::vector<std::byte> index, format.encode(entries_));
    if (format.at_end()) {
      shard_.insert(shard_.end(), index.begin(), index.end());
    } else {
      std::copy(index.begin(), index.end(), shard_.begin());
    }
    return {};
  }

  std::shared_ptr<const ArrayWriter::Impl> owner_;
  codec::ChainEncoder encoder_;
  std::vector<std::byte> elements_;  // one chunk in C order
  std::vector<std::byte> arranged_;  // the same in the chain's layout; empty if that is C order
  std::vector<std::byte> shard_;
  std::vector<zarr::ShardEntry> entries_;
  std::vector<std::uint64_t> object_, chunk_;  // positions in their grids
  std::string key_;
};

Result<ArrayWriter> ArrayWriter::create(const Store& store, std::string_view path, int zarr_format,
                                        std::string_view document) {
  try {
    HEADRACE_TRY(Access::impl(store.context())->resources->check_usable());
    if (!path.empty()) HEADRACE_TRY(store::check_key(path));
    auto impl = std::make_shared<Impl>(store, path, document);
    Array::Impl& array = impl->array;
    const bool v2 = zarr_format == 2;
    array.append_prefix(impl->document_key);
    impl->document_key += v2 ? ".zarray" : "zarr.json";
    auto metadata = v2 ? zarr::parse_v2_array(document) : zarr::parse_v3_array(document);
    if (!metadata.ok()) return std::move(metadata).status().with_key(impl->document_key);
    array.metadata = std::move(*metadata);
    if (array.metadata.rectilinear != nullptr) {
      return Status(Code::kUnsupported, Layer::kZarr, "writing arrays with the chunk grid 'rectilinear'");
    }
    if (Status status = array.resolve(); !status.ok()) return std::move(status).with_key(impl->document_key);
    for (const std::uint64_t extent : array.grid) {
      const auto product = base::checked_mul(impl->objects, extent);
      if (!product) {
        return Status(Code::kUnsupported, Layer::kZarr, "an array of more than 2^64 objects")
            .with_key(impl->document_key);
      }
      impl->objects = *product;
    }
    return ArrayWriter(std::shared_ptr<const Impl>(std::move(impl)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

const ArrayInfo& ArrayWriter::info() const noexcept { return impl_->array.info; }
std::uint64_t ArrayWriter::object_count() const noexcept { return impl_->objects; }

Result<ArrayWriter::Worker> ArrayWriter::make_worker() const {
  try {
    if (impl_->array.sharding != nullptr) {
      const std::vector<zarr::LevelGrid>& grids = impl_->array.sharding->grids;
      const std::vector<std::uint8_t>& order = grids.front().axis_order;
      if (grids.size() > 1 || !std::is_sorted(order.begin(), order.end())) {
        return Status(Code::kUnsupported, Layer::kZarr,
                      "writing shards inside shards, or after a transpose, is not implemented")
            .with_key(impl_->document_key);
      }
    }
    HEADRACE_TRY_ASSIGN(codec::ChainEncoder encoder, codec::ChainEncoder::make(impl_->array.unit_chain()));
    return Worker(std::make_unique<Worker::Impl>(impl_, std::move(encoder)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status ArrayWriter::finish() const {
  const std::string& text = impl_->document;
  return Access::impl(impl_->array.store)->put(impl_->document_key, std::as_bytes(std::span(text.data(), text.size())));
}

ArrayWriter::Worker::Worker(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ArrayWriter::Worker::Worker(Worker&&) noexcept = default;
ArrayWriter::Worker& ArrayWriter::Worker::operator=(Worker&&) noexcept = default;
ArrayWriter::Worker::~Worker() = default;

Result<std::uint64_t> ArrayWriter::Worker::write(std::uint64_t object, const FillChunk& fill) {
  try {
    return impl_->write(object, fill);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace
