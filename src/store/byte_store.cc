#include <headrace/byte_store.h>

namespace headrace {

ByteStore::~ByteStore() = default;

void ByteStore::cancel(std::span<RangeRead* const>) noexcept {}

Result<std::vector<ListedName>> ByteStore::list(std::string_view) {
  return Status(Code::kUnsupported, Layer::kStore, "this store cannot list its objects");
}

Status ByteStore::put(std::string_view, std::span<const std::byte>) {
  return Status(Code::kUnsupported, Layer::kStore, "this store cannot be written");
}

RangeAdvice ByteStore::advice() const noexcept { return {}; }

}  // namespace headrace
