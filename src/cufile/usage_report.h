// What `headrace cufile-run` asks for: with HEADRACE_CUFILE_REPORT=FOLDER a process notes there that it has loaded this
// library, and when it exits, what it did with it.
#pragma once

#include <string>

namespace headrace::cufile {

// The file this code was loaded from; and another libcufile in the process, whose functions a program may have got
// instead; "" if there is none.
std::string own_library();
std::string other_library();

}  // namespace headrace::cufile
