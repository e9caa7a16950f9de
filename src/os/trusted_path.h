// Trusted places: paths that others cannot write to. The library loads code and configuration from nowhere else.
//
// "Others" are all users but root, the user this process runs as, and the owner of the file that contains this code
// (who can change what runs here anyway). They can write to their own files and folders, and to those writable by group
// or world. The user's private group, whose number equals the user's, does not count as others.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>
#include <sys/stat.h>

#include <string>

namespace headrace::os {

// The library or program that contains this code. Empty if the system reports no absolute path, as for a library loaded
// by a relative one.
std::string own_code_path();

// Why others can write to the file or folder that `about` describes, or replace entries in the folder; empty if
// they cannot. `sticky_allowed`: a sticky folder like /tmp counts as safe, since only owners can remove and
// rename entries there.
std::string why_others_can_write(const struct stat& about, bool sticky_allowed);

// Resolves the links of `path` and checks every folder, link and file on the way. kInvalidArgument: not absolute;
// kNotFound; kPermission: others can write to the folder or file that the message names; kIo.
Result<std::string> resolve_trusted(const std::string& path);

}  // namespace headrace::os
