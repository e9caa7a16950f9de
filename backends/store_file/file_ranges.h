// FileRanges: the files of a store as ranges, for a cache on disk in front of a slow file system. A few threads open,
// read and close: what a network file system is good at.
//
// A file's version is its identity: size, times, inode. It is told where the file was that before and after it was
// read, and long enough that a change would have shown.
//
// Threads: as a ByteStore has them. Owns: its threads, begun as reads wait for one.
#pragma once

#include <headrace/byte_store.h>

#include <memory>

#include "store/store.h"

namespace headrace::store {

// REQUIRES: files->files() is not null.
std::shared_ptr<ByteStore> make_file_ranges(std::shared_ptr<Store> files);

}  // namespace headrace::store
