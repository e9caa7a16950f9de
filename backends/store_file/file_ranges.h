// FileRanges: the files of a store as a ByteStore, for a disk cache in front of a slow file system. A few threads open,
// read and close the files, which suits network file systems.
//
// A file's version is its identity: size, times, inode. It is reported only if the identity was the same before and
// after the read, and old enough that a change would have shown.
//
// Threads: as in ByteStore.
// Owns:    its threads, started as reads wait for one.
#pragma once

#include <headrace/byte_store.h>

#include <memory>

#include "store/store.h"

namespace headrace::store {

// REQUIRES: files->files() is not null.
std::shared_ptr<ByteStore> make_file_ranges(std::shared_ptr<Store> files);

}  // namespace headrace::store
