// Common parts of stores on files: opening files inside a root, and errno as a Status.
#pragma once

#include <headrace/status.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "os/owned_descriptor.h"
#include "store/beneath.h"

namespace headrace::store {

// The Status of an errno for an object. kNotFound: the name does not exist, or runs through a file.
Status system_failure(int error, std::string_view key, std::string_view what);

// Describes a file that is not regular: "a directory", "a FIFO", ...
const char* kind_of(mode_t mode);

// Whether a server, or a program behind FUSE, holds the file. Such files are not read with O_DIRECT: how that works is
// not the kernel's decision alone, and the next reader would find nothing cached.
bool held_elsewhere(int fd) noexcept;

// Opens the regular file at `path` beneath the root for reading, without waiting for a FIFO's writer. `name` is the
// object that messages refer to.
Status open_regular(const Beneath& root, const char* path, std::string_view name, int& fd, std::uint64_t& size_bytes);

// Splits a location that runs through a file: into the file, and a valid key inside it ("" for all of it). `what`
// describes the expected file in messages. kNotFound; kInvalidArgument if it is not a regular file or the rest is not a
// key. Throws std::bad_alloc.
Status split_at_file(std::string_view location, const std::string& what, std::string& path, std::string& inside);

}  // namespace headrace::store
