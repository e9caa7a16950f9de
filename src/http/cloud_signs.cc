#include "http/cloud_signs.h"

#include <algorithm>
#include <limits>

#include "base/fork.h"
#include "os/proc_text.h"

namespace headrace::http {
namespace {

constexpr std::uint64_t kMomentNs = 250'000'000;  // a link-local service responds within a few milliseconds
constexpr std::int64_t kHasAnswered = std::numeric_limits<std::int64_t>::min();
constexpr const char* kAzureTag = "7783-7084-3265-9085-8269-3286-77";  // the same on all Azure machines

struct VendorWords {
  const char* name;
  const char* machine;
};
VendorWords words_of(CloudVendor vendor) {
  switch (vendor) {
    case CloudVendor::kAmazon:
      return {"Amazon", "EC2"};
    case CloudVendor::kGoogle:
      return {"Google", "Compute Engine"};
    case CloudVendor::kAzure:
      break;
  }
  return {"Microsoft", "Azure"};
}

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace

CloudSign find_cloud_sign(CloudVendor vendor, const Surroundings& surroundings) {
  bool any = false;
  const auto word = [&](const char* path) {
    const std::string text = surroundings.file(path).value_or("");
    const std::string line(os::trimmed(std::string_view(text).substr(0, text.find('\n'))));
    any = any || !line.empty();
    return lower_case(line);
  };
  const std::string maker = word("/sys/class/dmi/id/sys_vendor"), product = word("/sys/class/dmi/id/product_name"),
                    firmware = word("/sys/class/dmi/id/bios_vendor");
  bool is = false;
  switch (vendor) {
    case CloudVendor::kAmazon:
      is = maker.starts_with("amazon") || firmware.starts_with("amazon") ||
           word("/sys/class/dmi/id/product_version").find("amazon") != std::string::npos ||
           word("/sys/hypervisor/uuid").starts_with("ec2");
      break;
    case CloudVendor::kGoogle:
      is = product.starts_with("google");  // the vendor is Google for its notebooks too
      break;
    case CloudVendor::kAzure:
      is = word("/sys/class/dmi/id/chassis_asset_tag") == kAzureTag;
      break;
  }
  return is ? CloudSign::kIsThere : any ? CloudSign::kIsElsewhere : CloudSign::kUnknown;
}

SilentServices& SilentServices::of_process() {
  static base::PerProcess<SilentServices> services;
  return services.get();
}

bool SilentServices::is_silent(const std::string& origin, std::int64_t now) {
  std::lock_guard lock(mutex_);
  const auto found = until_.find(origin);
  return found != until_.end() && found->second > now;
}

void SilentServices::note(const std::string& origin, bool answered, std::int64_t now, std::int64_t seconds) {
  std::lock_guard lock(mutex_);
  std::int64_t& until = until_.try_emplace(origin, 0).first->second;
  if (answered) {
    until = kHasAnswered;
  } else if (until != kHasAnswered) {
    until = now + seconds;
  }
}

Result<FetchAnswer> query_cloud(const CloudQuestion& question, const Surroundings& surroundings, const Fetch& fetch,
                                std::int64_t now) {
  if (question.is_explicit) return fetch(question.first);
  const auto [name, machine] = words_of(question.vendor);
  const CloudSign sign = find_cloud_sign(question.vendor, surroundings);
  if (sign == CloudSign::kIsElsewhere) {
    return Status(Code::kPermission, Layer::kStore,
                  std::string("not queried: /sys/class/dmi/id says that this machine is not of ") + name + " (" +
                      machine + "); set " + question.variable + " if there is such a service");
  }
  const std::string origin = question.first.url.origin();
  SilentServices* const memory = surroundings.silent;
  if (memory != nullptr && memory->is_silent(origin, now)) {
    return Status(Code::kPermission, Layer::kStore,
                  std::string("it did not respond a moment ago; set ") + question.variable + " if it exists");
  }
  FetchQuestion first = question.first;
  if (sign == CloudSign::kUnknown) first.connect_ns = kMomentNs;
  auto answer = fetch(first);
  const bool cancelled = !answer.ok() && answer.status().code() == Code::kCancelled;
  if (memory != nullptr && !cancelled) {
    memory->note(origin, answer.ok(), now,
                 sign == CloudSign::kUnknown ? SilentServices::kSeconds : SilentServices::kOwnSeconds);
  }
  return answer;
}

}  // namespace headrace::http
