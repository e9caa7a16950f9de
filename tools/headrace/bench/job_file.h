// Job files in fio's form: [global] and [job] sections of key=value lines, ';' and '#' begin a comment.
//
// Fails: kInvalidArgument; Status::key() is "NAME line N".
#pragma once

#include <headrace/status.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job_options.h"

namespace headrace::bench {

// The jobs of a file, in order; `name` is for messages. At most 1 MiB of text.
Result<std::vector<JobOptions>> parse_job_file(std::string_view text, const std::string& name);

// Keys and values of the command line in their order. Without jobs from files, each `name` begins a job and what comes
// before the first one holds for all; with them, every option replaces that of each job. Status::key() is "command
// line".
Result<std::vector<JobOptions>> jobs_from_arguments(std::span<const std::pair<std::string, std::string>> arguments,
                                                    std::vector<JobOptions> from_files);

}  // namespace headrace::bench
