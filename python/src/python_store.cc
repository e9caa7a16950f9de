#include "python_store.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "bytes_view.h"
#include "exit_gate.h"

namespace nb = nanobind;

namespace headrace::python {
namespace {

constexpr std::size_t kMaxThreads = 16;
constexpr std::size_t kMaxRanges = 64;                     // per call
constexpr std::size_t kLongCopy = std::size_t{256} << 10;  // from this size on, copied without the GIL

// Keys are bytes; invalid UTF-8 is decoded as by os.fsdecode().
nb::object text(std::string_view bytes) {
  nb::object out =
      nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
  if (!out.is_valid()) throw nb::python_error();
  return out;
}

Status status_of(nb::python_error& error) {
  Code code = Code::kIo;
  if (error.matches(PyExc_KeyError) || error.matches(PyExc_FileNotFoundError)) {
    code = Code::kNotFound;
  } else if (error.matches(PyExc_PermissionError)) {
    code = Code::kPermission;
  } else if (error.matches(PyExc_TimeoutError)) {
    code = Code::kTimeout;
  } else if (error.matches(PyExc_MemoryError)) {
    code = Code::kResourceExhausted;
  } else if (error.matches(PyExc_NotImplementedError)) {
    code = Code::kUnsupported;
  }
  std::string cause = "an exception without text";
  try {
    const nb::str name(error.type().attr("__name__")), said(error.value());
    cause = std::string(name.c_str()) + ": " + said.c_str();
  } catch (nb::python_error&) {  // its text is unavailable
  }
  return Status(code, Layer::kStore, "the store raised an exception").with_cause(cause);
}

RangeAdvice advice_of(nb::handle object) {
  RangeAdvice advice;
  for (const auto& [name, bytes] : {std::pair{"gap_bytes", &advice.gap_bytes},
                                    {"group_bytes", &advice.group_bytes},
                                    {"window_bytes", &advice.window_bytes}}) {
    const nb::object value = nb::getattr(object, name, nb::none());
    if (value.is_none()) continue;
    if (!nb::try_cast(value, *bytes)) {
      throw nb::type_error((std::string(name) + " of a store is a number of bytes, from 0 to 2^64 - 1").c_str());
    }
  }
  return advice;
}

// Runs `call`, which uses Python; returns its status, or that of the exception it raised.
template <class Call>
Status in_python(Call&& call) {
  const EnteredPython python;
  if (!python) return Status(Code::kCancelled, Layer::kStore, "the interpreter is ending");
  try {
    return call();
  } catch (nb::python_error& error) {
    return status_of(error);
  } catch (const std::exception& error) {
    return Status(Code::kIo, Layer::kStore, "the store's answer is not understood").with_cause(error.what());
  }
}

}  // namespace

struct PythonStore::Threads {
  std::mutex mutex;
  std::condition_variable wanted;
  std::deque<RangeRead*> waiting;  // guarded by mutex
  std::size_t idle = 0;            // guarded by mutex
  bool stopping = false;           // guarded by mutex
  std::vector<std::thread> all;    // guarded by mutex
};

PythonStore::PythonStore(nb::object object, std::string url)
    : object_(std::move(object)),
      url_(std::move(url)),
      advice_(advice_of(object_)),
      process_(::getpid()),
      threads_(std::make_unique<Threads>()) {}

// No read is left, so no thread wants the GIL, which the caller may hold.
PythonStore::~PythonStore() {
  if (process_ != ::getpid()) {
    (void)threads_.release();  // they exist in the parent only
  } else {
    {
      std::lock_guard lock(threads_->mutex);
      threads_->stopping = true;
    }
    threads_->wanted.notify_all();
    for (std::thread& thread : threads_->all) thread.join();
  }
  const EnteredPython python;
  if (!python) {
    (void)object_.release();  // the interpreter is ending
    return;
  }
  object_.reset();
}

Status PythonStore::start(std::span<RangeRead* const> reads) {
  Threads& threads = *threads_;
  {
    std::lock_guard lock(threads.mutex);
    try {
      while (threads.all.size() < kMaxThreads && threads.idle < threads.waiting.size() + reads.size()) {
        threads.all.emplace_back([this] { run(); });
        ++threads.idle;  // the new thread will be
      }
    } catch (const std::system_error& error) {
      if (threads.all.empty()) {
        return Status(Code::kResourceExhausted, Layer::kStore, "no thread could be started").with_cause(error.what());
      }
    }
    threads.waiting.insert(threads.waiting.end(), reads.begin(), reads.end());
  }
  threads.wanted.notify_all();
  return {};
}

void PythonStore::cancel(std::span<RangeRead* const> reads) noexcept {
  for (RangeRead* read : reads) {
    {
      std::lock_guard lock(threads_->mutex);
      const auto found = std::find(threads_->waiting.begin(), threads_->waiting.end(), read);
      if (found == threads_->waiting.end()) continue;
      threads_->waiting.erase(found);
    }
    try {
      read->status = Status(Code::kCancelled, Layer::kStore, "the read was cancelled");
    } catch (...) {
      read->status = Status::out_of_memory();
    }
    read->listener->done({&read, 1});
  }
}

void PythonStore::run() {
  Threads& threads = *threads_;
  std::vector<RangeRead*> reads;
  reads.reserve(kMaxRanges);
  std::unique_lock lock(threads.mutex);
  for (;;) {
    threads.wanted.wait(lock, [&] { return threads.stopping || !threads.waiting.empty(); });
    if (threads.waiting.empty()) return;
    // Requests for ranges of the same object go into one call.
    reads.clear();
    const std::string_view key = threads.waiting.front()->key;
    while (!threads.waiting.empty() && threads.waiting.front()->key == key && reads.size() < kMaxRanges) {
      reads.push_back(threads.waiting.front());
      threads.waiting.pop_front();
    }
    --threads.idle;
    lock.unlock();
    answer(reads);
    for (RangeRead* read : reads) read->listener->done({&read, 1});
    lock.lock();
    ++threads.idle;
  }
}

void PythonStore::answer(std::span<RangeRead* const> reads) const {
  const RangeRead& first = *reads.front();
  const Status status = in_python([&]() -> Status {
    nb::list ranges;
    for (const RangeRead* read : reads) {
      const auto length = static_cast<std::int64_t>(read->out.size());
      ranges.append(nb::make_tuple(read->from_end ? -length : static_cast<std::int64_t>(read->offset), length));
    }
    const nb::list parts(object_.attr("get_ranges")(text(first.key), ranges));
    if (parts.size() != reads.size()) {
      return Status(
          Code::kIo, Layer::kStore,
          "get_ranges() returned " + std::to_string(parts.size()) + " parts of " + std::to_string(reads.size()));
    }
    for (std::size_t i = 0; i < reads.size(); ++i) {
      RangeRead& read = *reads[i];
      const BytesView view(parts[i]);
      read.bytes = view.bytes().size();
      if (read.bytes > read.out.size() || read.bytes == 0) continue;  // more bytes than requested are rejected
      if (read.bytes < kLongCopy) {
        std::memcpy(read.out.data(), view.bytes().data(), static_cast<std::size_t>(read.bytes));
      } else {
        const nb::gil_scoped_release others;
        std::memcpy(read.out.data(), view.bytes().data(), static_cast<std::size_t>(read.bytes));
      }
      // The size of a shard is needed together with its last bytes; for other objects it is never requested.
      if (read.from_end && nb::hasattr(object_, "get_size")) {
        read.object_bytes = nb::cast<std::uint64_t>(object_.attr("get_size")(text(read.key)));
      }
    }
    return {};
  });
  if (status.ok()) return;
  for (RangeRead* read : reads) read->status = status;
}

Result<std::vector<ListedName>> PythonStore::list(std::string_view prefix) {
  std::vector<ListedName> names;
  bool lists = true;
  Status status = in_python([&]() -> Status {
    lists = nb::hasattr(object_, "list");
    if (!lists) return {};
    for (const nb::handle each : object_.attr("list")(text(prefix))) {
      const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(each.ptr(), "utf-8", "surrogateescape"));
      if (!encoded.is_valid()) throw nb::python_error();
      const BytesView view(encoded);
      std::string name(reinterpret_cast<const char*>(view.bytes().data()), view.bytes().size());
      const bool directory = name.ends_with('/');
      if (directory) name.pop_back();
      names.push_back({std::move(name), directory});
    }
    return {};
  });
  if (!status.ok()) return status;
  if (!lists) return ByteStore::list(prefix);
  return names;
}

Status PythonStore::put(std::string_view key, std::span<const std::byte> bytes) {
  bool puts = true;
  Status status = in_python([&]() -> Status {
    puts = nb::hasattr(object_, "put");
    if (puts) object_.attr("put")(text(key), nb::bytes(bytes.data(), bytes.size()));
    return {};
  });
  return puts ? status : ByteStore::put(key, bytes);
}

}  // namespace headrace::python
