// Tells from the firmware whether this machine belongs to a cloud, and queries the cloud's metadata service where it
// may exist.
//
// Clouds serve credentials to their machines at a link-local address. Elsewhere nothing listens there, and a connection
// attempt waits in vain. So the service is queried where the firmware names the cloud or the user has named the
// service, and never where the firmware names another maker. Where the firmware cannot be read, as in containers that
// hide it, it is queried with a short timeout. A service that did not respond is remembered for a while.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "http/fetch.h"
#include "http/surroundings.h"

namespace headrace::http {

enum class CloudVendor : std::uint8_t { kAmazon, kGoogle, kAzure };
enum class CloudSign : std::uint8_t { kIsThere, kIsElsewhere, kUnknown };

// Reads /sys/class/dmi/id and, for Amazon's older machines, /sys/hypervisor/uuid.
CloudSign find_cloud_sign(CloudVendor vendor, const Surroundings& surroundings);

// Addresses that recently did not respond.
class SilentServices {
 public:
  static constexpr std::int64_t kSeconds = 300;    // on machines whose vendor is unknown
  static constexpr std::int64_t kOwnSeconds = 10;  // on the cloud's own machines, whose network may still be starting
  static SilentServices& of_process();

  // Times are seconds since 1970.
  bool is_silent(const std::string& origin, std::int64_t now);
  // An address that has responded once never counts as silent again: the service exists and may be busy.
  void note(const std::string& origin, bool answered, std::int64_t now, std::int64_t seconds);

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> until_;  // guarded by mutex_; the minimum value: it has responded
};

struct CloudQuestion {
  CloudVendor vendor = CloudVendor::kAmazon;
  bool is_explicit = false;   // the user has asked for this service explicitly
  const char* variable = "";  // the variable that does so, for messages
  FetchQuestion first;        // the first request to the service
};

// kPermission, with the reason, where the service is not queried; otherwise as Fetch.
Result<FetchAnswer> query_cloud(const CloudQuestion& question, const Surroundings& surroundings, const Fetch& fetch,
                                std::int64_t now);

}  // namespace headrace::http
