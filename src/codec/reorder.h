// The stage that reverses a Reorder: moves elements from their stored axis order back to C order of the original axes.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/representation.h"

namespace headrace::codec {

// It has no encoder.
std::unique_ptr<StreamCoder> make_reorder(Reorder reorder);

}  // namespace headrace::codec
