// Encoded chunks for tests of device decoders: for every codec row that has device code, its seeds and streams of
// several kinds and sizes made by its encoder and by the reference library. What is valid, and what it decodes to, is
// what the codec says on the CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "device/device.h"

namespace headrace::test {

struct CorpusStream {
  std::vector<std::byte> encoded;
  bool valid = false;
  std::vector<std::byte> plain;  // of valid ones
};

// Streams that one decoder takes: they share the configuration and the size they decode to.
struct CorpusGroup {
  std::string name;   // "lz4/4096", "blosc/seed/ok_lz4_0"
  std::string codec;  // row
  std::shared_ptr<const codec::StreamCoder> cpu;
  device::DecodeStage stage;     // described for a device
  bool may_be_host_only = true;  // whether a device may leave streams of this group to the CPU
  // The same, of damaged ones that are still valid: as libzstd or libdeflate read them, which the formats may not.
  bool damaged_may_be_host_only = true;
  std::vector<CorpusStream> streams;
};

struct CorpusOptions {
  std::string codec;              // one row only; empty: all
  std::size_t largest = 1 << 20;  // decoded bytes of a generated chunk
  bool seeds = true;
  std::string source_dir;  // of the repository, for the seeds; empty: HEADRACE_SOURCE_DIR
};

std::vector<CorpusGroup> make_decode_corpus(const CorpusOptions& options);
// A device that simulates a GPU gets the CPU's code.
Result<std::unique_ptr<device::ChunkDecoder>> make_decoder(const CorpusGroup& group, device::Device& device);
// What the CPU makes of a stream.
CorpusStream decode_on_cpu(const CorpusGroup& group, std::span<const std::byte> encoded);

}  // namespace headrace::test
