// DecodeBatch: the chunks of a selection, held encoded in device memory and decoded there again and again. No I/O.
//
// For measuring decoders apart from storage and bus, and for seeing which of their steps takes the time.
//
// Threads: one call at a time.
// Owns:    device memory for the encoded chunks, the decoded ones, the decoders' scratch and the result.
#pragma once

#include <headrace/array.h>
#include <headrace/cancel.h>
#include <headrace/device.h>
#include <headrace/export.h>
#include <headrace/selection.h>
#include <headrace/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace headrace {

class HEADRACE_API DecodeBatch {
 public:
  // Reads what is stored of every chunk that `selection` touches. Where the device is the host, the context's workers
  // decode. Codecs that the device has no code for are undone here if they come first (outermost), else kUnsupported
  // names one. kResourceExhausted: the device has no room for all chunks at a time, or their sizes make the batch take
  // more beyond the size of its result than is left of the Context's stored_budget_bytes. kInvalidArgument: nothing is
  // encoded. kCancelled: `cancel` was asked. Any other failure is that of the chunk it names.
  static Result<DecodeBatch> load(const Array& array, const Selection& selection, const Device& device,
                                  const std::optional<Cancel>& cancel = {});

  std::uint64_t chunk_count() const noexcept;    // that are stored
  std::uint64_t encoded_bytes() const noexcept;  // of them, as the device decodes them
  std::uint64_t decoded_bytes() const noexcept;  // of them, whole chunks
  std::uint64_t scratch_bytes() const noexcept;  // what the decoders need besides
  const std::string& undone() const noexcept;    // names of the codecs that load() has undone, "" if none

  struct Step {
    std::string name;    // "lz4", "blosc unshuffle", "assemble"
    double seconds = 0;  // of the device; of workers the sum over them
  };
  struct Times {
    double seconds = 0;       // from the start to the last element in place
    double host_seconds = 0;  // of them, the calling thread's until all was queued
    std::vector<Step> steps;  // in the order of their first appearance

    // Adds another run's; steps by name.
    HEADRACE_API Times& operator+=(const Times& other);
  };
  // Decodes all chunks and places the selected elements in the result; chunks that are not stored become the fill
  // value. Blocks until that is done. kCorrupt names the first bad chunk; kUnsupported, a chunk that the device leaves
  // to the CPU.
  Result<Times> run();

  // The selected elements, in C order; valid after run().
  const Buffer& result() const noexcept;

  DecodeBatch(DecodeBatch&&) noexcept;
  DecodeBatch& operator=(DecodeBatch&&) noexcept;
  ~DecodeBatch();

 private:
  class Impl;
  explicit DecodeBatch(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
