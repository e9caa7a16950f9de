// A job on objects of a URL: reads byte ranges into host memory with `iodepth` requests in flight, each on its own
// connection.
#include <headrace/byte_store.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "bench_job.h"
#include "bench_units.h"
#include "cli_common.h"
#include "io_sequence.h"
#include "remote_options.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxObjects = std::size_t{1} << 16;
constexpr std::size_t kMaxRemotePasses = 64;
constexpr std::uint32_t kMaxConnections = 1024;
constexpr int kMaxFolders = 12;  // nesting depth

Status unfit_url(std::string what, const std::string& url) {
  return Status(Code::kInvalidArgument, Layer::kApi, std::move(what)).with_key(cli::shown_path(url));
}

// Collects completed reads for a waiting thread.
class RemoteReads final : private RangeListener {
 public:
  void start(ByteStore& store, RangeRead& read, std::uint64_t tag) {
    read.listener = this;
    read.user = tag;
    RangeRead* const one[] = {&read};
    Status status = store.start(one);
    if (status.ok()) return;
    read.status = std::move(status);
    done(one);
  }
  void reserve(std::size_t count) { ended_.reserve(count); }
  struct Ended {
    std::uint64_t tag = 0, at_ns = 0;
  };
  // Waits for at least one read, at most for the time `most`.
  void wait(std::vector<Ended>& out, std::chrono::milliseconds most) {
    out.clear();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [&] { return !ended_.empty(); });
    std::swap(out, ended_);
  }

 private:
  void done(std::span<RangeRead* const> reads) noexcept override {
    const std::uint64_t now = now_ns();
    std::lock_guard lock(mutex_);
    for (const RangeRead* read : reads) ended_.push_back({read->user, now});  // capacity was reserved
    changed_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Ended> ended_;  // guarded by mutex_
};

struct JobObject {
  std::shared_ptr<ByteStore> store;
  std::string key, url;                 // the URL, safe to print
  std::uint64_t offset = 0, bytes = 0;  // the region
};

Status add_folder(ByteStore& store, const std::string& folder, int depth, std::vector<std::string>& keys) {
  HEADRACE_TRY_ASSIGN(auto names, store.list(folder));
  std::sort(names.begin(), names.end(), [](const ListedName& a, const ListedName& b) { return a.name < b.name; });
  for (const ListedName& name : names) {
    std::string key = (folder.empty() ? "" : folder + "/") + name.name;
    if (keys.size() >= kMaxObjects)
      return Status(Code::kInvalidArgument, Layer::kApi, "there are more than 65,536 objects");
    if (!name.is_directory) {
      keys.push_back(std::move(key));
    } else if (depth < kMaxFolders) {
      HEADRACE_TRY(add_folder(store, key, depth + 1, keys));
    }
  }
  return {};
}

// Requests the sizes of all objects, 64 at a time.
Status measure_objects(std::vector<JobObject>& objects) {
  constexpr std::size_t kAtOnce = 64;
  struct Question {
    RangeRead read;
    std::byte memory{};
  };
  std::vector<Question> questions(objects.size());
  RemoteReads reads;
  reads.reserve(objects.size());
  std::vector<RemoteReads::Ended> ended;
  ended.reserve(objects.size());
  std::size_t begun = 0, done = 0;
  Status failure;
  while (done < begun || (begun < objects.size() && failure.ok())) {
    while (begun < objects.size() && begun - done < kAtOnce && failure.ok() && interrupted() == 0) {
      questions[begun].read.key = objects[begun].key;
      questions[begun].read.out = {&questions[begun].memory, 1};
      reads.start(*objects[begun].store, questions[begun].read, begun);
      ++begun;
    }
    if (begun == done) break;
    reads.wait(ended, std::chrono::milliseconds(100));
    if (interrupted() != 0) {
      for (std::size_t i = 0; i < begun; ++i) {
        RangeRead* const one[] = {&questions[i].read};
        objects[i].store->cancel(one);
      }
    }
    for (const RemoteReads::Ended& end : ended) {
      const auto index = static_cast<std::size_t>(end.tag);
      const RangeRead& read = questions[index].read;
      ++done;
      Status status = read.status;
      if (status.ok() && read.object_bytes == RangeRead::kUnknown) {
        status = Status(Code::kUnsupported, Layer::kApi, "the server does not tell how long the object is");
      }
      if (!status.ok() && failure.ok()) failure = std::move(status).with_key(objects[index].url);
      if (read.status.ok()) objects[index].bytes = read.object_bytes;
    }
  }
  if (failure.ok() && interrupted() != 0) return Status(Code::kCancelled, Layer::kApi, "interrupted");
  return failure;
}

Result<std::vector<JobObject>> open_objects(const JobOptions& options, const Context& context) {
  // One connection per request in flight and no disk cache, to measure the server itself.
  const StorageOption storage[] = {{"max_pool_connections", std::to_string(std::min(options.depth, kMaxConnections))},
                                   {"cache_dir", "off"}};
  std::map<std::string, std::shared_ptr<ByteStore>> stores;
  std::vector<JobObject> objects;
  const auto open = [&](const std::string& url) -> Result<std::shared_ptr<ByteStore>> {
    if (const auto found = stores.find(url); found != stores.end()) return found->second;
    auto store = Store::open(context, url, storage);
    if (!store.ok()) return std::move(store).status().with_key(cli::shown_path(url));
    std::shared_ptr<ByteStore> ranges = store->ranges();
    if (ranges == nullptr) return unfit_url("the store does not support range requests", url);
    return stores[url] = std::move(ranges);
  };
  for (const std::string& url : cli::split_urls(options.filename)) {
    if (cli::shown_path(url).ends_with('/')) {
      HEADRACE_TRY_ASSIGN(const auto store, open(url));
      std::vector<std::string> keys;
      if (Status status = add_folder(*store, "", 0, keys); !status.ok()) {
        return std::move(status).with_key(cli::shown_path(url));
      }
      for (std::string& key : keys) {
        std::string shown = cli::shown_path(url) + key;
        objects.push_back({store, std::move(key), std::move(shown)});
      }
      continue;
    }
    auto place = split_object_url(url);
    if (!place.ok()) return unfit_url("filename names no object: scheme://place/name, or scheme://place/folder/", url);
    HEADRACE_TRY_ASSIGN(auto store, open(place->store_url));
    objects.push_back({std::move(store), std::move(place->key), cli::shown_path(url)});
  }
  if (objects.empty()) return unfit_url("there is no object below the URL", options.filename);
  HEADRACE_TRY(measure_objects(objects));
  return objects;
}

// Sets the region of an object whose size is known.
Status set_region(const JobOptions& options, unsigned thread, JobObject& object) {
  const std::uint64_t all = object.bytes;
  object.offset = options.offset.of(all) + thread * options.offset_increment.of(all);
  if (options.offset.percent != 0) object.offset = object.offset / options.smallest_block() * options.smallest_block();
  if (object.offset >= all) {
    return unfit_url("the object of " + size_text(all) + " ends before offset " + std::to_string(object.offset),
                     object.url);
  }
  object.bytes = all - object.offset;
  const std::uint64_t wanted = options.size_percent != 0 ? all / 100 * options.size_percent : options.size_bytes;
  if (wanted > object.bytes) {
    return unfit_url("size=" + size_text(wanted) + " is larger than the object, which has " + size_text(object.bytes) +
                         " from offset " + std::to_string(object.offset),
                     object.url);
  }
  if (wanted != 0) object.bytes = wanted;
  return {};
}

class RemoteJob final : public BenchJob {
 public:
  RemoteJob(const JobOptions& options, unsigned thread, std::vector<JobObject> objects)
      : options_(options),
        objects_(std::move(objects)),
        sequence_(options, regions(objects_),
                  mix64(options.repeatable ? options.seed : options.seed ^ now_ns()) + thread),
        clock_(options) {}

  Status set_up() override {
    HEADRACE_TRY_ASSIGN(const Device host, Device::open("host"));
    slot_bytes_ = static_cast<std::size_t>(options_.largest_block());
    HEADRACE_TRY_ASSIGN(const std::size_t bytes, check_memory(host, slot_bytes_, options_.depth));
    memory_ = std::make_unique<std::byte[]>(bytes);
    slots_ = std::vector<Slot>(options_.depth);
    for (std::size_t i = options_.depth; i-- > 0;) free_.push_back(i);
    reads_.reserve(options_.depth);
    ended_.reserve(options_.depth);
    return {};
  }
  void run(JobResult& result, JobMonitor& monitor) override;
  // None of its data is in this machine's page cache.
  std::vector<CacheRange> cache_ranges() const override { return {}; }
  std::uint64_t expected_bytes() const override {
    std::uint64_t bytes = options_.io_size.given() ? io_bytes() : 0;
    for (const JobObject& object : objects_) bytes += options_.io_size.given() ? 0 : object.bytes;
    return __builtin_mul_overflow(bytes, options_.loops, &bytes) ? 0 : bytes;
  }

 private:
  struct Slot {
    RangeRead read;
    std::size_t object = 0;
    std::uint64_t begun = 0, submitted = 0, pass = 0;
    bool in_flight = false;
  };

  static std::vector<std::uint64_t> regions(const std::vector<JobObject>& objects) {
    std::vector<std::uint64_t> bytes;
    for (const JobObject& object : objects) bytes.push_back(object.bytes);
    return bytes;
  }
  std::uint64_t io_bytes() const {
    std::uint64_t all = 0;
    for (const JobObject& object : objects_) all += object.bytes;
    return options_.io_size.of(all);
  }
  const Io* next_io();
  void submit(const Io& io);
  void finish(const RemoteReads::Ended& end, JobResult& result, JobMonitor& monitor);
  void cancel_all() noexcept;

  const JobOptions options_;
  std::vector<JobObject> objects_;
  IoSequence sequence_;
  JobClock clock_;
  std::size_t slot_bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
  RemoteReads reads_;
  std::vector<RemoteReads::Ended> ended_;
  Status failure_;
  bool cancelled_ = false;
  std::uint64_t pass_ = 0, issued_bytes_ = 0, issued_ios_ = 0, done_bytes_ = 0, done_ios_ = 0;
  std::uint64_t pass_bytes_ = 0, pass_end_ = 0;
};

const Io* RemoteJob::next_io() {
  if (options_.number_ios > 0 && issued_ios_ >= options_.number_ios) return nullptr;
  if (options_.io_size.given() && !options_.time_based && issued_bytes_ >= io_bytes() * options_.loops) return nullptr;
  if (const Io* io = sequence_.peek()) return io;
  if (!options_.time_based && !options_.io_size.given() && pass_ + 1 >= options_.loops) return nullptr;
  if (!options_.time_based && free_.size() < slots_.size()) return nullptr;  // counted passes must not overlap
  sequence_.begin_pass(++pass_);
  return sequence_.peek();
}

void RemoteJob::submit(const Io& io) {
  const std::size_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  const JobObject& object = objects_[io.file];
  slot.object = io.file;
  slot.pass = pass_;
  slot.in_flight = true;
  slot.read = RangeRead();
  slot.read.key = object.key;
  slot.read.offset = object.offset + io.offset;
  slot.read.out = {memory_.get() + index * slot_bytes_, static_cast<std::size_t>(io.bytes)};
  sequence_.pop();
  ++issued_ios_;
  issued_bytes_ += slot.read.out.size();
  slot.begun = now_ns();
  slot.submitted = 0;
  reads_.start(*object.store, slot.read, index);
  slot.submitted = now_ns();
}

void RemoteJob::finish(const RemoteReads::Ended& end, JobResult& result, JobMonitor& monitor) {
  const auto index = static_cast<std::size_t>(end.tag);
  Slot& slot = slots_[index];
  slot.in_flight = false;
  free_.push_back(index);
  Status status = std::move(slot.read.status);
  // Requests cancelled by an interrupt do not count.
  if (cancelled_ && status.code() == Code::kCancelled) return;
  if (status.ok() && slot.read.bytes != slot.read.out.size()) {
    status = Status(Code::kShort, Layer::kApi, "a request completed with fewer bytes than it asked for");
  }
  if (!status.ok()) {
    if (failure_.ok()) {
      failure_ =
          std::move(status).with_key(objects_[slot.object].url).with_range(slot.read.offset, slot.read.out.size());
    }
    return;
  }
  const std::uint64_t bytes = slot.read.bytes, at = std::max(end.at_ns, slot.submitted);
  done_bytes_ += bytes;
  ++done_ios_;
  monitor.bytes.store(done_bytes_, std::memory_order_relaxed);
  monitor.ios.store(done_ios_, std::memory_order_relaxed);
  pass_bytes_ += bytes;
  if (!clock_.counting()) return;
  ++result.read.requests;
  ++result.read.ios;
  result.read.bytes += bytes;
  result.read.submit.add(slot.submitted - slot.begun);
  result.read.complete.add(at - slot.submitted);
  result.read.total.add(at - slot.begun);
}

void RemoteJob::cancel_all() noexcept {
  cancelled_ = true;
  for (Slot& slot : slots_) {
    RangeRead* const one[] = {&slot.read};
    if (slot.in_flight) objects_[slot.object].store->cancel(one);
  }
}

void RemoteJob::run(JobResult& result, JobMonitor& monitor) {
  clock_.start();
  pass_end_ = now_ns();
  for (;;) {
    clock_.counting_begins(now_ns());
    while (failure_.ok() && !free_.empty() && !monitor.stopped() && !(clock_.expired(now_ns()) && issued_ios_ > 0)) {
      const std::uint64_t pass = pass_;
      const Io* const io = next_io();
      // A new pass starts only after the previous one has completed.
      if (pass_ != pass && !options_.time_based && result.passes.size() < kMaxRemotePasses) {
        const std::uint64_t now = now_ns();
        result.passes.push_back({pass_bytes_, static_cast<double>(now - pass_end_) * 1e-9});
        pass_end_ = now;
        pass_bytes_ = 0;
      }
      if (io == nullptr) break;
      submit(*io);
    }
    if (free_.size() == slots_.size()) break;
    // After an interrupt or a failure, unresponsive servers are not waited for.
    if ((monitor.stopped() || !failure_.ok()) && !cancelled_) cancel_all();
    reads_.wait(ended_, std::chrono::milliseconds(100));
    for (const RemoteReads::Ended& end : ended_) finish(end, result, monitor);
  }
  if (!options_.time_based && pass_bytes_ > 0 && failure_.ok() && !cancelled_ &&
      result.passes.size() < kMaxRemotePasses) {
    result.passes.push_back({pass_bytes_, static_cast<double>(now_ns() - pass_end_) * 1e-9});
  }
  clock_.finish(result);
  result.remote = true;
  if (options_.depth > kMaxConnections) {
    result.notes.push_back("iodepth: at most " + std::to_string(kMaxConnections) + " requests are under way at a time");
  }
  result.status = std::move(failure_);
}

}  // namespace

Result<std::unique_ptr<BenchJob>> make_remote_job(const JobOptions& options, unsigned thread, const Context& context) {
  HEADRACE_TRY_ASSIGN(auto objects, open_objects(options, context));
  // Folders also contain metadata documents: skips objects smaller than a block.
  const std::uint64_t least = options.largest_block();
  const std::uint64_t largest =
      std::max_element(objects.begin(), objects.end(), [](const JobObject& a, const JobObject& b) {
        return a.bytes < b.bytes;
      })->bytes;
  if (largest >= least) std::erase_if(objects, [&](const JobObject& object) { return object.bytes < least; });
  for (JobObject& object : objects) {
    HEADRACE_TRY(set_region(options, thread, object));
    if (object.bytes < least) {
      return unfit_url("bs=" + size_text(least) + " is larger than the region of " + size_text(object.bytes),
                       object.url);
    }
  }
  return std::unique_ptr<BenchJob>(new RemoteJob(options, thread, std::move(objects)));
}

// Rejects options that a job on a URL does not support, before any request is sent.
Status check_remote_options(const JobOptions& job) {
  const auto refuse = [](const char* what) {
    return Status(Code::kInvalidArgument, Layer::kApi, std::string("filename is a URL: ") + what);
  };
  if (job.write) return refuse("it is only read: rw=read or randread");
  if (job.device != "auto" && job.device != "host") return refuse("bytes go to host memory: device=host");
  struct Row {
    const char* key;
    const char* why;
  };
  constexpr const char* kFiles = "is of files";
  constexpr Row kRows[] = {
      {"path", "applies only to files: leave it out"},
      {"direct", "applies only to files: leave it out"},
      {"ioengine", "applies only to files: leave it out"},
      {"list", "is of files: a request is one range"},
      {"no_io", kFiles},
      {"no_copy", kFiles},
      {"cache", "is the page cache of files; no cache is between a URL and its job"},
      {"invalidate", "is the page cache of files; no cache is between a URL and its job"},
      {"verify", "checks files"},
      {"verify_only", "checks files"},
      {"directory", "applies only to files: write whole URLs"},
      {"opendir", "is of files: end the URL with '/' for all objects below it"},
      {"create_only", "makes files"},
      {"filesize", "is of files: size is a part of each object"},
      {"unlink", "removes files"},
      {"rate", "is not supported for URLs"},
      {"rate_iops", "is not supported for URLs"},
      {"rate_min", "is not supported for URLs"},
      {"rate_iops_min", "is not supported for URLs"},
      {"thinktime", "is not supported for URLs"},
      {"max_latency", "is not supported for URLs: HEADRACE_HTTP_TOTAL_SECONDS limits each request"},
      {"write_bw_log", "is not supported for URLs: json+ has the histogram of latencies"},
      {"write_lat_log", "is not supported for URLs: json+ has the histogram of latencies"},
      {"write_iops_log", "is not supported for URLs: json+ has the histogram of latencies"},
      {"iodepth_batch_submit", "is not supported for URLs"},
      {"iodepth_batch_complete_min", "is not supported for URLs"},
      {"iodepth_batch_complete_max", "is not supported for URLs"},
      {"iodepth_low", "is not supported for URLs"},
      {"startdelay", "is not supported for URLs"}};
  for (const GivenOption& option : job.given) {
    for (const Row& row : kRows) {
      if (option.key == row.key && option.value != "0" && option.value != "none") {
        return refuse((option.key + " " + row.why).c_str());
      }
    }
  }
  return {};
}

}  // namespace headrace::bench
