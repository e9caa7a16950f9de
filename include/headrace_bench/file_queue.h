// A FileQueue that can skip stages, to measure the others. For benchmarks in this tree; not installed.
#pragma once

#include <headrace/file.h>

namespace headrace {

struct QueueSkips {
  bool io = false;    // no file is read or written; the old content of the staging memory is transferred
  bool copy = false;  // nothing is copied over the bus, so nothing arrives
};

HEADRACE_API Result<FileQueue> make_file_queue(const Context& context, const Device& device,
                                               const FileQueueOptions& options, const QueueSkips& skips);

}  // namespace headrace
