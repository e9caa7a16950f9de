// The file of the CUDA plug-in: where it may lie, and whether it is the one for this library, found out without running
// any of its code.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <string>
#include <vector>

namespace headrace::device {

// Its ELF note, of this owner and type, holds the build id as a C string (cuda_plugin.cc writes it).
inline constexpr const char* kPluginNoteOwner = "headrace";
inline constexpr unsigned kPluginNoteType = 1;

struct PluginPlace {
  std::string directory;
  // HEADRACE_PLUGIN_DIR: what lies there is taken or is the failure; from the others the search goes on.
  bool named_by_user = false;
};
// Absolute folders, in this order: what the environment names; the folder of the file that holds this code, and its
// subfolder headrace; the configured library folder.
std::vector<PluginPlace> plugin_places();

// kCorrupt for what is no 64-bit ELF file; kUnsupported where it has no such note.
Result<std::string> read_build_note(const std::string& path);

// The plug-in's path without links, after a look at who may write to it and at its build id. kNotFound: no such file;
// kPermission, kUnsupported, kCorrupt, kIo: what is wrong with it.
Result<std::string> check_plugin_file(const std::string& file, const std::string& build_id);

}  // namespace headrace::device
