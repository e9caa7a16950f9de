#include "xz_decoder.h"

#include <algorithm>
#include <new>

#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

void* take(void* memory, std::size_t count, std::size_t size) {
  return static_cast<LibraryMemory*>(memory)->take(count, size);
}
void give(void* memory, void* data) { static_cast<LibraryMemory*>(memory)->give(data); }

const std::uint8_t* u8(const std::byte* data) { return reinterpret_cast<const std::uint8_t*>(data); }

Status cut(const char* what, std::size_t at, const EncodedStream& stream) {
  return corrupt("lzma: %s at byte %zu is cut off after %zu bytes", what, at, stream.src_bytes);
}

// Decodes the block whose header starts at `at`. Stores its sizes in `block`.
Status decode_block(EncodedStream& stream, std::size_t& at, lzma_block& block, LzmaScratch& scratch) {
  const char* const what = "block of the .xz stream";
  const std::size_t begin = at;
  block.header_size = lzma_block_header_size_decode(std::to_integer<std::uint32_t>(stream.src[at]));
  if (block.header_size > stream.src_bytes - at) return cut(what, begin, stream);
  lzma_filter filters[LZMA_FILTERS_MAX + 1];
  block.filters = filters;
  lzma_ret result = lzma_block_header_decode(&block, &scratch.allocator, u8(stream.src + at));
  if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
  for (const lzma_filter& filter : filters) {
    if (filter.id == LZMA_VLI_UNKNOWN) break;
    if (filter.id != LZMA_FILTER_LZMA2 || filter.options == nullptr) continue;
    auto& options = *static_cast<lzma_options_lzma*>(filter.options);
    options.dict_size = enough_dictionary(options.dict_size, stream);
  }
  at += block.header_size;
  result = lzma_block_decoder(&scratch.coder, &block);
  lzma_filters_free(filters, &scratch.allocator);
  block.filters = nullptr;
  if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
  return run_lzma_coder(what, stream, at, scratch);
}

}  // namespace

LzmaScratch::LzmaScratch() {
  allocator = {&take, &give, &memory};
  coder.allocator = &allocator;
}

LzmaScratch::~LzmaScratch() {
  lzma_end(&coder);
  lzma_index_hash_end(index, &allocator);
}

std::uint32_t enough_dictionary(std::uint32_t asked, const EncodedStream& stream) noexcept {
  const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(stream.dst_capacity, UINT32_MAX));
  return std::max<std::uint32_t>(std::min(asked, most), LZMA_DICT_SIZE_MIN);
}

Status lzma_failure(lzma_ret result, const char* what, std::size_t at, const EncodedStream& stream) noexcept {
  switch (result) {
    case LZMA_MEM_ERROR:
      return Status::out_of_memory();
    case LZMA_OPTIONS_ERROR:
      return unsupported("lzma: %s at byte %zu has filters or flags that liblzma %s does not know", what, at,
                         lzma_version_string());
    case LZMA_BUF_ERROR:
      return cut(what, at, stream);
    case LZMA_FORMAT_ERROR:
      return corrupt("lzma: expected %s at byte %zu of %zu", what, at, stream.src_bytes);
    default:
      return corrupt("lzma: %s at byte %zu of %zu is damaged", what, at, stream.src_bytes);
  }
}

Status run_lzma_coder(const char* what, EncodedStream& stream, std::size_t& at, LzmaScratch& scratch) {
  const std::size_t begin = at;
  lzma_stream& coder = scratch.coder;
  for (;;) {
    const std::size_t from = stream.src_bytes - at, room = stream.dst_capacity - stream.dst_bytes;
    // With the output full, the stream may still end without another byte. Only an actual extra byte is an error.
    std::uint8_t one_too_many;
    coder.next_in = u8(stream.src + at);
    coder.avail_in = from;
    coder.next_out = room == 0 ? &one_too_many : reinterpret_cast<std::uint8_t*>(stream.dst + stream.dst_bytes);
    coder.avail_out = room == 0 ? 1 : room;
    const std::size_t to = coder.avail_out;
    const lzma_ret result = lzma_code(&coder, LZMA_FINISH);
    const std::size_t consumed = from - coder.avail_in, produced = to - coder.avail_out;
    at += consumed;
    if (room == 0 && produced != 0) {
      needs_more_room(stream);
      return corrupt("lzma: stream decodes to more than the %zu bytes expected", stream.dst_capacity);
    }
    stream.dst_bytes += produced;
    if (result == LZMA_STREAM_END) return {};
    if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
    if (produced < to && at == stream.src_bytes) return cut(what, begin, stream);
  }
}

Status decode_xz(EncodedStream& stream, std::size_t& at, LzmaScratch& scratch) {
  const char* const what = ".xz stream";
  const std::size_t begin = at;
  lzma_stream_flags flags, footer;
  if (stream.src_bytes - at < LZMA_STREAM_HEADER_SIZE) return cut(what, begin, stream);
  lzma_ret result = lzma_stream_header_decode(&flags, u8(stream.src + at));
  if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
  if (!lzma_check_is_supported(flags.check)) {
    return unsupported("lzma: .xz stream at byte %zu has a check, number %d, that liblzma cannot verify", begin,
                       static_cast<int>(flags.check));
  }
  at += LZMA_STREAM_HEADER_SIZE;
  scratch.index = lzma_index_hash_init(scratch.index, &scratch.allocator);
  if (scratch.index == nullptr) return Status::out_of_memory();
  for (;;) {
    if (at == stream.src_bytes) return cut(what, begin, stream);
    if (stream.src[at] == std::byte{0}) break;  // an index begins with a zero, where a block has its header size
    lzma_block block{};
    block.version = 1;
    block.check = flags.check;
    HEADRACE_TRY(decode_block(stream, at, block, scratch));
    result = lzma_index_hash_append(scratch.index, lzma_block_unpadded_size(&block), block.uncompressed_size);
    if (result != LZMA_OK) return lzma_failure(result, what, begin, stream);
  }
  result = lzma_index_hash_decode(scratch.index, u8(stream.src), &at, stream.src_bytes);
  if (result != LZMA_STREAM_END) {
    return lzma_failure(result == LZMA_OK ? LZMA_BUF_ERROR : result, "index of the .xz stream", begin, stream);
  }
  if (stream.src_bytes - at < LZMA_STREAM_HEADER_SIZE) return cut(what, begin, stream);
  result = lzma_stream_footer_decode(&footer, u8(stream.src + at));
  if (result == LZMA_OK && lzma_index_hash_size(scratch.index) != footer.backward_size) result = LZMA_DATA_ERROR;
  if (result == LZMA_OK) result = lzma_stream_flags_compare(&flags, &footer);
  if (result != LZMA_OK) {
    return lzma_failure(result == LZMA_FORMAT_ERROR ? LZMA_DATA_ERROR : result, "footer of the .xz stream", begin,
                        stream);
  }
  at += LZMA_STREAM_HEADER_SIZE;
  // "Stream Padding MUST contain only null bytes", four at a time. [2.2]
  const auto is_padding = [&] {
    return stream.src_bytes - at >= 4 &&
           std::all_of(stream.src + at, stream.src + at + 4, [](std::byte byte) { return byte == std::byte{0}; });
  };
  while (is_padding()) at += 4;
  return {};
}

}  // namespace headrace::codec
