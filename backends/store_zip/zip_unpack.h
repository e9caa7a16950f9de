// Unpacks entries of ZIP files.
//
// Threads: every call from any thread; each keeps one decompressor.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <span>

#include "zip_directory.h"

namespace headrace::store {

// Unpacks the bytes `packed` of a deflated or stored entry into `out`, of the entry's size, and checks them. kCorrupt
// if they are not what the directory says.
Status unpack_zip_entry(const ZipEntry& entry, std::span<const std::byte> packed, std::span<std::byte> out);

// kCorrupt if these are not the entry's bytes, by its CRC-32.
Status check_zip_sum(const ZipEntry& entry, std::span<const std::byte> bytes);

}  // namespace headrace::store
