// PythonStore: adapts a Python object with get_ranges() to ByteStore. Python code runs on a few threads of the store,
// so that blocking calls do not delay the library's threads, and listeners are never notified with the GIL held.
//
// Threads: as ByteStore; construct it with the GIL held.
// Owns:    a reference to the object, and threads, which start with the first reads.
#pragma once

#include <headrace/byte_store.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <string>

namespace headrace::python {

class PythonStore final : public ByteStore {
 public:
  PythonStore(nanobind::object object, std::string url);
  ~PythonStore() override;

  std::string url() const override { return url_; }
  Status start(std::span<RangeRead* const> reads) override;
  void cancel(std::span<RangeRead* const> reads) noexcept override;
  Result<std::vector<ListedName>> list(std::string_view prefix) override;
  Status put(std::string_view key, std::span<const std::byte> bytes) override;
  RangeAdvice advice() const noexcept override { return advice_; }

 private:
  struct Threads;
  void run();
  void answer(std::span<RangeRead* const> reads) const;

  nanobind::object object_;
  const std::string url_;
  const RangeAdvice advice_;  // read from the object when it was opened
  const int process_;         // the process that owns the threads
  std::unique_ptr<Threads> threads_;
};

}  // namespace headrace::python
