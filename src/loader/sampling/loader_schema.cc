#include <headrace/loader_schema.h>

namespace headrace {

void LoaderSchema::set(std::string_view name, std::uint64_t digest) {
  digests_.insert_or_assign(std::string(name), digest);
}

void LoaderSchema::add(const LoaderSchema& other) {
  for (const auto& [name, digest] : other.digests_) digests_.insert_or_assign(name, digest);
}

std::vector<std::string> LoaderSchema::differences(const LoaderSchema& other) const {
  std::vector<std::string> names;
  auto here = digests_.begin(), there = other.digests_.begin();
  while (here != digests_.end() || there != other.digests_.end()) {
    if (there == other.digests_.end() || (here != digests_.end() && here->first < there->first)) {
      names.push_back((here++)->first);
    } else if (here == digests_.end() || there->first < here->first) {
      names.push_back((there++)->first);
    } else {
      if (here->second != there->second) names.push_back(here->first);
      ++here;
      ++there;
    }
  }
  return names;
}

}  // namespace headrace
