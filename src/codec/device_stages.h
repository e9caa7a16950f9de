// Which stages of a chain a device decodes, and the decoder for them. On a device that only simulates a GPU, the coders
// themselves decode.
#pragma once

#include <headrace/status.h>

#include <cstddef>
#include <memory>

#include "codec/chain.h"
#include "device/device.h"
#include "device/stand_in.h"

namespace headrace::codec {

// The stage at which the device takes over; chain.stage_count() if it does not.
std::size_t device_stage_begin(const Chain& chain, device::Device& device);

// A decoder for the stages from there on; the chain must outlive it. kUnsupported says what the device lacks.
Result<std::unique_ptr<device::ChunkDecoder>> make_decoder(const Chain& chain, device::Device& device);

// For StandIn::make_host_decoder(). `coder` must outlive it.
std::unique_ptr<device::HostStage> make_host_stage(const StreamCoder& coder, bool exact);

}  // namespace headrace::codec
