// One case: a store, what happens to it, and reads of it. A case depends only on its seed and number, and on timing if
// the store changes during a read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rig.h"

namespace headrace::stress {

struct CaseKind {
  const char* name;
  unsigned weight;  // cases of this kind in 1,000, when kinds are mixed
  // Returns "" or what was found.
  std::string (*run)(Rig& rig, Dice& dice);
  const char* what;
};
const std::vector<CaseKind>& case_kinds();

std::string run_valid(Rig& rig, Dice& dice);
std::string run_index(Rig& rig, Dice& dice);
std::string run_object(Rig& rig, Dice& dice);
std::string run_spec(Rig& rig, Dice& dice);
std::string run_text(Rig& rig, Dice& dice);
std::string run_zip(Rig& rig, Dice& dice);
std::string run_reference(Rig& rig, Dice& dice);
std::string run_change(Rig& rig, Dice& dice);
std::string run_race(Rig& rig, Dice& dice);
std::string run_bomb(Rig& rig, Dice& dice);
std::string run_strings(Rig& rig, Dice& dice);

}  // namespace headrace::stress
