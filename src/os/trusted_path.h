// Places that others cannot write to: nothing is loaded or configured from any other.
//
// Others are all but root, the user this process runs as, and the owner of the file that holds this code (who can
// change what runs here anyway). What they can write to: files and folders of theirs, and those that group or world
// may write to. The user's private group, whose number is the user's own, is not others.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>
#include <sys/stat.h>

#include <string>

namespace headrace::os {

// The library or program that holds this code; empty where the system tells no absolute path (a library that was
// loaded by a relative one).
std::string own_code_path();

// Why others can write to what `about` describes, or replace it if it is a folder's name; empty if they cannot.
// `sticky_allowed`: a folder like /tmp counts as safe for what is in it, since there only owners remove and rename.
std::string why_others_can_write(const struct stat& about, bool sticky_allowed);

// `path` without links, after a look at every folder, link and file on the way. kInvalidArgument: not absolute;
// kNotFound: not there; kPermission: others can write to the folder or file that the message names; kIo.
Result<std::string> resolve_trusted(const std::string& path);

}  // namespace headrace::os
