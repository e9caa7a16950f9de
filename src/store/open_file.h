// What stores on files share: opening what is inside a root, and errno as a Status.
#pragma once

#include <headrace/status.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "os/owned_descriptor.h"
#include "store/beneath.h"

namespace headrace::store {

// What errno means for an object. kNotFound: the name is not there, or runs through a file.
Status system_failure(int error, std::string_view key, std::string_view what);

// "a directory", "a FIFO", ...: what a file that is not regular is.
const char* kind_of(mode_t mode);

// Whether a server, or a program behind FUSE, holds the file. Such files are not read past the page cache: what becomes
// of such reads is not the kernel's alone, and the next reader finds nothing cached.
bool held_elsewhere(int fd) noexcept;

// Opens the regular file at `path` beneath the root for reading. Nothing waits for a FIFO's writer. `name` is the
// object that messages are about.
Status open_regular(const Beneath& root, const char* path, std::string_view name, int& fd, std::uint64_t& size_bytes);

// Where a location runs through a file: the file, and the valid key of what is meant inside, "" for all of it. `what`
// the file should be is for messages. kNotFound, kInvalidArgument where the file is none or the rest no key. Throws
// std::bad_alloc.
Status split_at_file(std::string_view location, const std::string& what, std::string& path, std::string& inside);

}  // namespace headrace::store
