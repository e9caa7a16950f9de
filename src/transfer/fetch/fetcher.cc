#include "transfer/fetch/fetcher.h"

#include "base/fault.h"
#include "base/trace.h"
#include "os/file_read.h"
#include "store/range_read.h"
#include "transfer/plan/range_count.h"

namespace headrace::transfer {
namespace {

// An engine reports offsets in the file; for an object inside a file, errors name offsets in the object.
Status within_object(Status status, std::uint64_t begin, const ReadJob& job) {
  if (begin == 0) return status;
  return Status(status.code(), status.layer(), status.message())
      .with_range(job.offset - begin, job.length)
      .with_cause(status.cause())
      .with_errno(status.system_error());
}

}  // namespace

Status Fetcher::open(std::string_view key, store::ByteSource& out, Stats& stats) const {
  trace::Timer timer(trace::Stage::kOpen);
  HEADRACE_DELAY("transfer.open");
  Status status = store_->open_for_reuse(key, out);
  stats.open_seconds += timer.stop();
  if (status.ok()) ++stats.objects_opened;
  return status;
}

Result<std::span<const std::byte>> Fetcher::view(const StoredRange& range, Stats& stats) const {
  HEADRACE_TRY_ASSIGN(const auto data, range.source->view(range.offset, range.length));
  ++stats.requests;
  stats.memory_bytes += range.length;
  stats.read_bytes += range.length;
  return data;
}

Status Fetcher::read(const StoredRange& range, std::span<std::byte> out, os::PageBuffer& scratch, Stats& stats) const {
  const store::ByteSource& source = *range.source;
  HEADRACE_TRY(source.check_range(range.offset, range.length));
  ++stats.requests;
  const bool packed = source.offers(store::Offer::kWhole);
  const std::uint64_t bytes = packed ? source.packed_bytes() : range.length;
  trace::Timer timer(trace::Stage::kRead, bytes);
  const bool file = source.offers(store::Offer::kFile), ranges = source.offers(store::Offer::kRanges);
  RangeCache cache = RangeCache::kNone;
  Status status = ranges ? source.read(range.offset, out, &cache)
                         : store::read_checked(*store_, source, range.offset, out, scratch);
  stats.read_seconds += timer.stop();
  if (!status.ok()) return status;
  stats.read_bytes += bytes;
  if (ranges) {
    count_range(stats, bytes, cache);
  } else {
    (packed ? stats.packed_bytes : file ? stats.buffered_bytes : stats.memory_bytes) += bytes;
  }
  return {};
}

Fetcher::Cached Fetcher::read_cached(const StoredRange& range, std::span<std::byte> out, Status& failure,
                                     Stats& stats) const {
  const store::ByteSource::File& file = range.source->file();
  trace::Timer timer(trace::Stage::kRead, range.length);
  HEADRACE_DELAY("transfer.read");
  std::uint64_t moved = 0;
  int error = 0;
  const os::CachedRead outcome = os::read_cached(file.fd, file.begin + range.offset, out, moved, error);
  timer.set_bytes(moved);
  stats.read_seconds += timer.stop();
  switch (outcome) {
    case os::CachedRead::kNotCached:
      return Cached::kNotCached;
    case os::CachedRead::kEndOfFile:
      failure = Status(Code::kShort, Layer::kTransfer,
                       "the file ends after " + std::to_string(moved) +
                           " of the requested bytes; was it truncated while being read?")
                    .with_range(range.offset, range.length);
      return Cached::kFailed;
    case os::CachedRead::kFailed:
      failure =
          Status(Code::kIo, Layer::kTransfer, "cannot read").with_range(range.offset, range.length).with_errno(error);
      return Cached::kFailed;
    case os::CachedRead::kDone:
      break;
  }
  stats.buffered_bytes += range.length;
  stats.read_bytes += range.length;
  failure = range.source->check_read(range.offset, out);
  return failure.ok() ? Cached::kRead : Cached::kFailed;
}

Status Fetcher::finish(const store::ByteSource& source, ReadJob& job, Stats& stats) const {
  stats.read_seconds += job.seconds;
  if (job.read != nullptr) {
    const RangeRead& range = job.read->range;
    HEADRACE_TRY(store::check_answer(range));
    const std::uint64_t size = range.object_bytes;
    if (source.size_bytes() != store::ByteSource::kUnknown && size != RangeRead::kUnknown &&
        size != source.size_bytes()) {
      return Status(Code::kAgainExhausted, Layer::kTransfer, "the object was replaced while it was read: read it again")
          .with_range(job.offset, job.length);
    }
    if (!job.read->whole && range.bytes < job.length) {
      return Status(Code::kShort, Layer::kTransfer,
                    "the store returned only " + std::to_string(range.bytes) +
                        " bytes: is the object shorter than expected?")
          .with_range(job.offset, job.length);
    }
    job.read_bytes = range.bytes;
    job.data = job.memory().first(static_cast<std::size_t>(range.bytes));
    stats.read_bytes += job.read_bytes;
    count_range(stats, job.read_bytes, range.cache);
    return {};
  }
  stats.read_bytes += job.read_bytes;
  (job.direct ? stats.direct_bytes : stats.engine_bytes) += job.read_bytes;
  if (job.straight) {
    stats.straight_bytes += job.read_bytes;
    stats.bus_bytes += job.read_bytes;
  }
  const std::uint64_t begin = source.file().begin;
  if (!job.status.ok()) return within_object(std::move(job.status), begin, job);
  return source.check_read(job.offset - begin, job.data);
}

Status Fetcher::check_unchanged(std::span<const Source> sources) const {
  HEADRACE_TRY(store_->check_unchanged());
  if (store_->ranges() == nullptr) {
    for (const Source& source : sources) HEADRACE_TRY(source.check_version());
    return {};
  }
  std::vector<std::unique_ptr<const SourceVersion>> checks;
  checks.reserve(sources.size());
  for (const Source& source : sources)
    checks.push_back(source.version != nullptr ? source.version->begin_check() : nullptr);
  Status status;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (status.ok()) status = checks[i] != nullptr ? checks[i]->check() : sources[i].check_version();
  }
  return status;
}

}  // namespace headrace::transfer
