// The report for `headrace cufile-run`: with HEADRACE_CUFILE_REPORT=FOLDER, a process records there that it has loaded
// this library and, when it exits, how it used it.
#pragma once

#include <string>

namespace headrace::cufile {

// own_library(): the file that this code was loaded from. other_library(): another libcufile in the process, whose
// functions the program may be calling instead; "" if there is none.
std::string own_library();
std::string other_library();

}  // namespace headrace::cufile
