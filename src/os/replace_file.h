// Atomic replacement of whole files: readers never see a partial one.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headrace::os {

// kPrivate: only this user may read and write it, regardless of the umask.
enum class FileAccess : std::uint8_t { kByUmask, kPrivate };

// Writes `bytes` to a new file and renames it to `path`, replacing any file there. Until complete, it has a temporary
// name in the same folder, created exclusively, since others may be able to write to the folder. Not synced: after a
// machine crash, the old file, the new file or an empty one may be there. kPermission, kNotFound, kResourceExhausted
// (disk or quota full), kIo; on failure nothing is left behind.
Status replace_file(const std::string& path, std::span<const std::byte> bytes,
                    FileAccess access = FileAccess::kByUmask);

}  // namespace headrace::os
