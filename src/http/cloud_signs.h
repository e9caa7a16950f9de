// Whether this machine is one of a cloud's, by what its firmware says; and its metadata service, asked where that may
// be.
//
// Clouds give credentials to their machines by a service at an address of the link. Elsewhere nobody is at that
// address, and a connection to it is waited for in vain. So it is asked on machines whose firmware names the cloud, and
// where somebody has named the service; not where the firmware names somebody else; and for a moment where there is
// nothing to be read, as in containers that hide it. Where nobody answered, that is remembered for a while.
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

// Of /sys/class/dmi/id, and of /sys/hypervisor/uuid for Amazon's older machines.
CloudSign find_cloud_sign(CloudVendor vendor, const Surroundings& surroundings);

// Addresses of which nobody answered a moment ago.
class SilentServices {
 public:
  static constexpr std::int64_t kSeconds = 300;    // on machines that do not say whose they are
  static constexpr std::int64_t kOwnSeconds = 10;  // on the cloud's own, whose network may just be starting
  static SilentServices& of_process();

  // Times are seconds since 1970.
  bool is_silent(const std::string& origin, std::int64_t now);
  // An address that has answered once is not taken to be silent later: it is there, and may be busy.
  void note(const std::string& origin, bool answered, std::int64_t now, std::int64_t seconds);

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> until_;  // guarded by mutex_; least: it has answered
};

struct CloudQuestion {
  CloudVendor vendor = CloudVendor::kAmazon;
  bool meant = false;         // somebody has said that it is to be asked
  const char* variable = "";  // that says so, for messages
  FetchQuestion first;        // the first question to the service
};

// kPermission where it is not asked, with why; else as Fetch.
Result<FetchAnswer> ask_cloud(const CloudQuestion& question, const Surroundings& surroundings, const Fetch& fetch,
                              std::int64_t now);

}  // namespace headrace::http
