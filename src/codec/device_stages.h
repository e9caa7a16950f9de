// What of a chain a device undoes, and the decoder for it; where the device only simulates a GPU, by the coders
// themselves.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>

#include "codec/chain.h"
#include "device/device.h"
#include "device/stand_in.h"

namespace headrace::codec {

// The device takes over from this stage; chain.stage_count(): it does not.
std::size_t device_stage_begin(const Chain& chain, device::Device& device);

// A decoder for the stages from there on, for as long as the chain lives. kUnsupported says what the device lacks.
Result<std::unique_ptr<device::ChunkDecoder>> make_decoder(const Chain& chain, device::Device& device);

// For StandIn::make_host_decoder(). `coder` outlives it.
std::unique_ptr<device::HostStage> make_host_stage(const StreamCoder& coder, bool exact);

}  // namespace headrace::codec
