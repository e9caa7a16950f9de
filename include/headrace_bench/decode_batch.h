// DecodeBatch: the chunks of a selection, held encoded in device memory and decoded repeatedly without I/O.
//
// For measuring decoders without storage and bus, and for timing each of their steps.
//
// Threads: one call at a time.
// Owns:    device memory for encoded chunks, decoded chunks, the decoders' scratch and the result.
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
  // Reads the stored bytes of every chunk that `selection` touches. On the host device, the context's workers decode.
  // Codecs without device code are undone here if they are outermost; otherwise kUnsupported names one.
  // kResourceExhausted: the device cannot hold all chunks at once, or because of their sizes the batch needs more
  // beyond its result than the Context's stored_budget_bytes has left. kInvalidArgument: no chunk is encoded.
  // kCancelled: `cancel` was asked. Any other failure is that of the chunk it names.
  static Result<DecodeBatch> load(const Array& array, const Selection& selection, const Device& device,
                                  const std::optional<Cancel>& cancel = {});

  std::uint64_t chunk_count() const noexcept;    // stored chunks
  std::uint64_t encoded_bytes() const noexcept;  // of these chunks, as the device decodes them
  std::uint64_t decoded_bytes() const noexcept;  // of these chunks, decoded whole
  std::uint64_t scratch_bytes() const noexcept;  // working memory of the decoders
  const std::string& undone() const noexcept;    // names of the codecs that load() has undone; "" if none

  struct Step {
    std::string name;    // "lz4", "blosc unshuffle", "assemble"
    double seconds = 0;  // device time; for workers, summed over them
  };
  struct Times {
    double seconds = 0;       // from the start to the last element in place
    double host_seconds = 0;  // of which the calling thread spent this until all work was queued
    std::vector<Step> steps;  // in order of first appearance

    // Adds the times of another run; steps are matched by name.
    HEADRACE_API Times& operator+=(const Times& other);
  };
  // Decodes all chunks and places the selected elements in the result; absent chunks become the fill value. Blocks
  // until done. kCorrupt names the first bad chunk; kUnsupported names a chunk that the device leaves to the CPU.
  Result<Times> run();

  // The selected elements in C order; valid after run().
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
