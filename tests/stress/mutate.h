// Mutations of what a store means: entries of shard indexes, lengths, keys, members of documents. What a reader must
// find afterwards is told by read_meaning() of the mutated store, not by the mutation.
#pragma once

#include <string>

#include "stored.h"

namespace headrace::stress {

// Each says what it did; "" where there was nothing to do it to.
std::string mutate_index(Dice& dice, const ArraySpec& spec, Stored& stored);
std::string mutate_object(Dice& dice, const ArraySpec& spec, Stored& stored);
// Another document, as valid as the first.
std::string mutate_spec(Dice& dice, ArraySpec& spec);
// A document that may be anything.
std::string mutate_text(Dice& dice, std::string& document);

}  // namespace headrace::stress
