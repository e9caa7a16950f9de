// ZipWriter: ZIP files for tests. They are valid unless a test changes what is about to be written.
#pragma once

#include <libdeflate.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::testing {

struct ZipRecord {
  std::string name, local_name;
  std::uint16_t flags = 0, local_flags = 0, method = 0, local_method = 0;
  std::uint32_t crc32 = 0, local_crc32 = 0;
  std::uint64_t packed = 0, size = 0, local_packed = 0, local_size = 0, header_at = 0;
  std::string extra, local_extra, comment;
  std::uint16_t disk = 0;
  bool zip64 = false, local_zip64 = false;  // sizes and offset in a ZIP64 field, as if they did not fit 32 bits
};

struct ZipEnd {
  std::uint64_t entries = 0, directory_at = 0, directory_bytes = 0;
  std::uint16_t disk = 0;
  std::string comment;
  bool zip64 = false;
};

class ZipWriter {
 public:
  using Bytes = std::vector<std::byte>;
  struct Options {
    bool deflate = false;
    bool descriptor = false;  // written as if sizes were not known in advance
    bool zip64 = false;
    std::string comment = {};
    std::function<void(ZipRecord&)> change = {};  // may change the record before it is written
  };

  void add(std::string_view name, std::span<const std::byte> bytes, const Options& options) {
    ZipRecord record;
    Bytes packed(bytes.begin(), bytes.end());
    if (options.deflate) {
      libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
      packed.resize(libdeflate_deflate_compress_bound(compressor, bytes.size()));
      packed.resize(libdeflate_deflate_compress(compressor, bytes.data(), bytes.size(), packed.data(), packed.size()));
      libdeflate_free_compressor(compressor);
    }
    record.name = record.local_name = name;
    record.method = record.local_method = options.deflate ? 8 : 0;
    record.flags = record.local_flags = static_cast<std::uint16_t>((options.descriptor ? 8 : 0) | 0x800);
    record.crc32 = libdeflate_crc32(0, bytes.data(), bytes.size());
    record.size = bytes.size();
    record.packed = packed.size();
    record.comment = options.comment;
    record.header_at = out_.size();
    record.zip64 = record.local_zip64 = options.zip64;
    if (!options.descriptor) {
      record.local_crc32 = record.crc32;
      record.local_size = record.size;
      record.local_packed = record.packed;
    }
    if (options.change) options.change(record);
    write_local(record);
    out_.insert(out_.end(), packed.begin(), packed.end());
    if (options.descriptor) {
      number(0x08074b50, 4);
      number(record.crc32, 4);
      number(record.packed, options.zip64 ? 8 : 4);
      number(record.size, options.zip64 ? 8 : 4);
    }
    records_.push_back(std::move(record));
  }
  void add(std::string_view name, std::span<const std::byte> bytes) { add(name, bytes, {}); }
  void add_text(std::string_view name, std::string_view text) { add(name, std::as_bytes(std::span(text)), {}); }
  // Adds bytes between entries.
  void pad(std::size_t bytes) { out_.resize(out_.size() + bytes, std::byte{0xA5}); }
  std::vector<ZipRecord>& records() { return records_; }

  // Returns the archive; `change` may change `end`.
  Bytes finish(const std::function<void(ZipEnd&)>& change = {}) {
    ZipEnd end;
    end.directory_at = out_.size();
    for (const ZipRecord& record : records_) write_central(record);
    end.directory_bytes = out_.size() - end.directory_at;
    end.entries = records_.size();
    end.zip64 = end.entries > 0xffff;
    if (change) change(end);
    if (end.zip64) {
      const std::uint64_t at = out_.size();
      number(0x06064b50, 4);
      number(44, 8);
      number(45, 2);
      number(45, 2);
      number(0, 4);
      number(0, 4);
      number(end.entries, 8);
      number(end.entries, 8);
      number(end.directory_bytes, 8);
      number(end.directory_at, 8);
      number(0x07064b50, 4);
      number(0, 4);
      number(at, 8);
      number(1, 4);
    }
    number(0x06054b50, 4);
    number(end.disk, 2);
    number(end.disk, 2);
    number(end.zip64 ? 0xffff : end.entries, 2);
    number(end.zip64 ? 0xffff : end.entries, 2);
    number(end.zip64 ? 0xffffffff : end.directory_bytes, 4);
    number(end.zip64 ? 0xffffffff : end.directory_at, 4);
    number(end.comment.size(), 2);
    text(end.comment);
    return std::move(out_);
  }

 private:
  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void text(std::string_view bytes) {
    for (const char c : bytes) out_.push_back(static_cast<std::byte>(c));
  }
  static std::string numbers(std::initializer_list<std::uint64_t> values) {
    std::string field("\1\0", 2);
    field += static_cast<char>(8 * values.size());
    field += '\0';
    for (const std::uint64_t value : values) {
      for (int i = 0; i < 8; ++i) field += static_cast<char>(value >> (8 * i));
    }
    return field;
  }
  void write_local(const ZipRecord& record) {
    const std::string extra =
        (record.local_zip64 ? numbers({record.local_size, record.local_packed}) : "") + record.local_extra;
    number(0x04034b50, 4);
    number(20, 2);
    number(record.local_flags, 2);
    number(record.local_method, 2);
    number(0, 4);
    number(record.local_crc32, 4);
    number(record.local_zip64 ? 0xffffffff : record.local_packed, 4);
    number(record.local_zip64 ? 0xffffffff : record.local_size, 4);
    number(record.local_name.size(), 2);
    number(extra.size(), 2);
    text(record.local_name);
    text(extra);
  }
  void write_central(const ZipRecord& record) {
    const std::string extra =
        record.extra + (record.zip64 ? numbers({record.size, record.packed, record.header_at}) : "");
    number(0x02014b50, 4);
    number(20, 2);
    number(20, 2);
    number(record.flags, 2);
    number(record.method, 2);
    number(0, 4);
    number(record.crc32, 4);
    number(record.zip64 ? 0xffffffff : record.packed, 4);
    number(record.zip64 ? 0xffffffff : record.size, 4);
    number(record.name.size(), 2);
    number(extra.size(), 2);
    number(record.comment.size(), 2);
    number(record.disk, 2);
    number(0, 2);
    number(0, 4);
    number(record.zip64 ? 0xffffffff : record.header_at, 4);
    text(record.name);
    text(extra);
    text(record.comment);
  }

  Bytes out_;
  std::vector<ZipRecord> records_;
};

}  // namespace headrace::testing
