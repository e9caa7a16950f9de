// Writing a whole file so that nobody ever sees half of it.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headrace::os {

// kPrivate: only this user may read and write it, whatever the umask says.
enum class FileAccess : std::uint8_t { kByUmask, kPrivate };

// A new file of `bytes` takes the name `path`, whatever had it before. Until it is complete it has another name in the
// same folder, and nothing that has that name is written to: the folder may be one that others can write to. Not
// synced: after a crash of the machine either file may be there, or an empty one. kPermission, kNotFound,
// kResourceExhausted (disk or quota full), kIo; nothing is left behind then.
Status replace_file(const std::string& path, std::span<const std::byte> bytes,
                    FileAccess access = FileAccess::kByUmask);

}  // namespace headrace::os
