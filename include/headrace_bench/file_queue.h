// A FileQueue that leaves out a stage, to measure the others. For benchmarks in this tree; not installed.
#pragma once

#include <headrace/file.h>

namespace headrace {

struct QueueSkips {
  bool io = false;    // no file is read or written: what the staging memory held before travels
  bool copy = false;  // nothing crosses the bus, and nothing arrives
};

HEADRACE_API Result<FileQueue> make_file_queue(const Context& context, const Device& device,
                                               const FileQueueOptions& options, const QueueSkips& skips);

}  // namespace headrace
