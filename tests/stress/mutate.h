// Mutations of a store's meaning: entries of shard indexes, lengths, keys, members of documents. What a reader must
// find afterwards is computed by read_meaning() from the mutated store, not by the mutation.
#pragma once

#include <string>

#include "stored.h"

namespace headrace::stress {

// Each returns a description, or "" if there was nothing to mutate.
std::string mutate_index(Dice& dice, const ArraySpec& spec, Stored& stored);
std::string mutate_object(Dice& dice, const ArraySpec& spec, Stored& stored);
// Makes another valid document.
std::string mutate_spec(Dice& dice, ArraySpec& spec);
// Makes a document that may be invalid.
std::string mutate_text(Dice& dice, std::string& document);

}  // namespace headrace::stress
