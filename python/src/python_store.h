// PythonStore: an object of Python's with get_ranges() as a ByteStore. Python runs on a few threads of the store's own,
// so that what blocks there keeps none of the library's waiting, and no listener is told with the GIL held.
//
// Threads: as ByteStore has it; made with the GIL held.
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
  const RangeAdvice advice_;  // as the object had it when it was opened
  const int process_;         // whose threads they are
  std::unique_ptr<Threads> threads_;
};

}  // namespace headrace::python
