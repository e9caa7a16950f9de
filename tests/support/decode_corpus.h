// Encoded chunks for tests of device decoders: for every codec row with device code, its seeds, and streams of several
// kinds and sizes made by its encoder and by the reference library. The codec's CPU code decides which are valid and
// what they decode to.
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
  std::vector<std::byte> plain;  // valid streams only
};

// Streams that one decoder takes: they share the configuration and the decoded size.
struct CorpusGroup {
  std::string name;   // "lz4/4096", "blosc/seed/ok_lz4_0"
  std::string codec;  // row
  std::shared_ptr<const codec::StreamCoder> cpu;
  device::DecodeStage stage;     // as described to a device
  bool may_be_host_only = true;  // whether a device may leave valid streams of this group to the CPU
  // The same for damaged streams that are still valid, by the reading of libzstd or libdeflate, which may be more
  // lenient than the formats.
  bool damaged_may_be_host_only = true;
  std::vector<CorpusStream> streams;
};

struct CorpusOptions {
  std::string codec;              // row; empty: all
  std::size_t largest = 1 << 20;  // decoded bytes of a generated chunk
  bool seeds = true;
  std::string source_dir;  // root of the repository, for the seeds; empty: HEADRACE_SOURCE_DIR
};

std::vector<CorpusGroup> make_decode_corpus(const CorpusOptions& options);
// A device that simulates a GPU runs the CPU's code.
Result<std::unique_ptr<device::ChunkDecoder>> make_decoder(const CorpusGroup& group, device::Device& device);
// What the CPU decodes a stream to.
CorpusStream decode_on_cpu(const CorpusGroup& group, std::span<const std::byte> encoded);

}  // namespace headrace::test
