// Parses job files in fio's format: [global] and [job] sections of key=value lines; ';' and '#' start a comment.
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

// Returns the jobs of a file, in order. `name` is for messages. At most 1 MiB of text.
Result<std::vector<JobOptions>> parse_job_file(std::string_view text, const std::string& name);

// Takes the options of the command line in order. Without jobs from files, each `name` starts a job, and options before
// the first one apply to all; with them, every option overrides that of each job. Status::key() is "command line".
Result<std::vector<JobOptions>> jobs_from_arguments(std::span<const std::pair<std::string, std::string>> arguments,
                                                    std::vector<JobOptions> from_files);

}  // namespace headrace::bench
