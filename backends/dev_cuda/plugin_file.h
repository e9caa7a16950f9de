// The CUDA plug-in's file: where to look for it, and whether it matches this library, determined without running any of
// its code.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <string>
#include <vector>

namespace headrace::device {

// The plug-in's ELF note with this owner and type contains the build id as a C string (cuda_plugin.cc writes it).
inline constexpr const char* kPluginNoteOwner = "headrace";
inline constexpr unsigned kPluginNoteType = 1;

struct PluginPlace {
  std::string directory;
  // HEADRACE_PLUGIN_DIR: only this place is tried, and a failure there is final. Otherwise the search continues.
  bool named_by_user = false;
};
// Absolute directories in search order: the one named by the environment; that of the file containing this code, and
// its subdirectory headrace; the configured library directory.
std::vector<PluginPlace> plugin_places();

// kCorrupt if the file is not a 64-bit ELF file; kUnsupported if it has no such note.
Result<std::string> read_build_note(const std::string& path);

// The plug-in's path without links, after checking who can write to it and its build id. kNotFound: no such file;
// kPermission, kUnsupported, kCorrupt, kIo: the file cannot be used.
Result<std::string> check_plugin_file(const std::string& file, const std::string& build_id);

}  // namespace headrace::device
