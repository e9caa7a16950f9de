// The stage that undoes a Reorder: elements with their axes as stored, back into C order of the axes as they entered.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/representation.h"

namespace headrace::codec {

// Without an encoder.
std::unique_ptr<StreamCoder> make_reorder(Reorder reorder);

}  // namespace headrace::codec
