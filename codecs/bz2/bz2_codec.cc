// bz2: one or more concatenated bzip2 streams. Nothing may follow the last one.
#include <bzlib.h>

#include <algorithm>
#include <climits>

#include "codec/config_reader.h"
#include "codec/library_memory.h"
#include "codec/stream_codec.h"

namespace headrace::codec {
namespace {

void* bz_take(void* memory, int count, int size) {
  return static_cast<LibraryMemory*>(memory)->take(static_cast<std::size_t>(count), static_cast<std::size_t>(size));
}
void bz_give(void* memory, void* data) { static_cast<LibraryMemory*>(memory)->give(data); }

// A stream declares its block size, at most 900 kB, for which the library allocates about 3.7 MB.
struct Bz2Scratch final : Scratch {
  LibraryMemory memory;
};

// Clamps to the library's counter type.
unsigned some_of(std::size_t bytes) { return static_cast<unsigned>(std::min<std::size_t>(bytes, UINT_MAX)); }

char* chars(const std::byte* data) { return const_cast<char*>(reinterpret_cast<const char*>(data)); }

class Bz2Encoder final : public Encoder {
 public:
  explicit Bz2Encoder(int level) : level_(level) {}

  // Documented by the library: "1 % larger than the uncompressed data, plus six hundred extra bytes".
  std::size_t bound_bytes(std::size_t plain_bytes) const override { return plain_bytes + plain_bytes / 100 + 601; }
  Result<std::size_t> encode(std::span<const std::byte> plain, std::span<std::byte> out) override {
    bz_stream bz{};
    if (BZ2_bzCompressInit(&bz, level_, 0, 0) != BZ_OK) return Status::out_of_memory();
    std::size_t in = 0, bytes = 0;
    int result = BZ_RUN_OK;
    while (result == BZ_RUN_OK || result == BZ_FINISH_OK) {
      const unsigned from = some_of(plain.size() - in), to = some_of(out.size() - bytes);
      bz.next_in = chars(plain.data() + in);
      bz.avail_in = from;
      bz.next_out = chars(out.data() + bytes);
      bz.avail_out = to;
      result = BZ2_bzCompress(&bz, from == plain.size() - in ? BZ_FINISH : BZ_RUN);
      in += from - bz.avail_in;
      bytes += to - bz.avail_out;
      if (bz.avail_out == 0 && result != BZ_STREAM_END) break;
    }
    BZ2_bzCompressEnd(&bz);
    if (result != BZ_STREAM_END) {
      return Status(Code::kInternal, Layer::kCodec, "bz2: the encoder's own bound is too small");
    }
    return bytes;
  }

 private:
  int level_;
};

class Bz2Codec final : public StreamCodec {
 public:
  explicit Bz2Codec(int level) : level_(level) {}
  std::string_view name() const noexcept override { return "bz2"; }
  std::unique_ptr<Scratch> make_scratch() const override { return std::make_unique<Bz2Scratch>(); }
  Result<std::unique_ptr<Encoder>> make_encoder() const override {
    return std::unique_ptr<Encoder>(new Bz2Encoder(level_));
  }

 protected:
  Status decode_stream(EncodedStream& stream, Scratch* scratch) const override {
    for (std::size_t at = 0; at < stream.src_bytes;) {
      bz_stream bz{};
      bz.bzalloc = &bz_take;
      bz.bzfree = &bz_give;
      bz.opaque = &static_cast<Bz2Scratch*>(scratch)->memory;
      if (BZ2_bzDecompressInit(&bz, 0, 0) != BZ_OK) return Status::out_of_memory();
      Status status = decode_one(stream, bz, at);
      BZ2_bzDecompressEnd(&bz);
      if (!status.ok()) return status;
    }
    return {};
  }

 private:
  // Decodes the stream at `at` and moves `at` to its end.
  static Status decode_one(EncodedStream& stream, bz_stream& bz, std::size_t& at) {
    const std::size_t begin = at;
    for (;;) {
      const unsigned from = some_of(stream.src_bytes - at);
      const std::size_t room = stream.dst_capacity - stream.dst_bytes;
      // With the output full, the stream may still end without another byte. Only an actual extra byte is an error.
      char one_too_many;
      const unsigned to = room == 0 ? 1 : some_of(room);
      bz.next_in = chars(stream.src + at);
      bz.avail_in = from;
      bz.next_out = room == 0 ? &one_too_many : chars(stream.dst + stream.dst_bytes);
      bz.avail_out = to;
      const int result = BZ2_bzDecompress(&bz);
      const unsigned consumed = from - bz.avail_in, produced = to - bz.avail_out;
      at += consumed;
      if (room == 0 && produced != 0) {
        needs_more_room(stream);
        return corrupt("bz2: stream decodes to more than the %zu bytes expected", stream.dst_capacity);
      }
      stream.dst_bytes += produced;
      if (result == BZ_STREAM_END) return {};
      if (result == BZ_MEM_ERROR) return Status::out_of_memory();
      if (result == BZ_DATA_ERROR_MAGIC) {
        return corrupt("bz2: bytes from %zu of %zu are not a bzip2 stream", begin, stream.src_bytes);
      }
      if (result != BZ_OK) return corrupt("bz2: stream at byte %zu of %zu is damaged", begin, stream.src_bytes);
      if (at == stream.src_bytes && produced < to) {
        return corrupt("bz2: stream at byte %zu ends too early, after %zu bytes", begin, stream.src_bytes);
      }
      if (consumed == 0 && produced == 0) {
        return corrupt("bz2: stream at byte %zu of %zu is damaged", begin, stream.src_bytes);
      }
    }
  }

  int level_;
};

}  // namespace

Result<Codec> make_bz2(const base::Json& config, const CodecArgs& context) {
  ConfigReader reader(config, context);
  const std::int64_t level = reader.integer("level", Need::kOptional, 1, 9, 1);
  HEADRACE_TRY(reader.finish());
  return Codec(std::make_unique<Bz2Codec>(static_cast<int>(level)));
}

}  // namespace headrace::codec
