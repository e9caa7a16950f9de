// A metadata service is queried where the firmware names the cloud or the user names the service; elsewhere only with a
// short timeout, and not repeatedly.
#include "http/cloud_signs.h"

#include <gtest/gtest.h>

#include <vector>

#include "http/aws_credentials.h"
#include "http/google.h"
#include "support/given_surroundings.h"

namespace headrace::http {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;
const std::string kDmi = "/sys/class/dmi/id/";

// A machine with these files; every request gets `answer`, by default a timeout.
struct Machine : testing::GivenSurroundings {
  Result<FetchAnswer> answer = Status(Code::kTimeout, Layer::kStore, "no connection to the server in time");
  SilentServices silent;
  std::vector<FetchQuestion> asked;

  Surroundings surroundings() {
    Surroundings all = GivenSurroundings::surroundings();
    all.silent = &silent;
    return all;
  }
  Fetch fetch() {
    return [this](const FetchQuestion& question) -> Result<FetchAnswer> {
      asked.push_back(question);
      if (!answer.ok()) return Status(answer.status());
      return *answer;
    };
  }
  std::string aws(std::int64_t now = kNow) {
    return obtain_aws_credentials(StorageOptions(), surroundings(), fetch(), now).status().to_string();
  }
  std::string google(std::int64_t now = kNow, const std::vector<StorageOption>& given = {}) {
    const auto options = StorageOptions::parse(given, StorageService::kGoogle);
    return obtain_google_credentials(*options, surroundings(), fetch(), now).status().to_string();
  }
};

bool tells(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

TEST(CloudSigns, IdentifyEachVendor) {
  struct {
    const char* file;
    const char* text;
    CloudSign amazon, google, azure;
  } const rows[] = {
      {"sys_vendor", "Amazon EC2\n", CloudSign::kIsThere, CloudSign::kIsElsewhere, CloudSign::kIsElsewhere},
      {"bios_vendor", "Amazon EC2\n", CloudSign::kIsThere, CloudSign::kIsElsewhere, CloudSign::kIsElsewhere},
      {"product_version", "4.11.amazon\n", CloudSign::kIsThere, CloudSign::kUnknown, CloudSign::kUnknown},
      {"product_name", "Google Compute Engine\n", CloudSign::kIsElsewhere, CloudSign::kIsThere,
       CloudSign::kIsElsewhere},
      {"sys_vendor", "Google\n", CloudSign::kIsElsewhere, CloudSign::kIsElsewhere, CloudSign::kIsElsewhere},
      {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", CloudSign::kUnknown, CloudSign::kUnknown,
       CloudSign::kIsThere},
      {"sys_vendor", "Microsoft Corporation\n", CloudSign::kIsElsewhere, CloudSign::kIsElsewhere,
       CloudSign::kIsElsewhere},
      {"sys_vendor", "LENOVO\nAmazon EC2\n", CloudSign::kIsElsewhere, CloudSign::kIsElsewhere, CloudSign::kIsElsewhere},
      {"sys_vendor", " \n", CloudSign::kUnknown, CloudSign::kUnknown, CloudSign::kUnknown},
  };
  for (const auto& row : rows) {
    Machine machine;
    machine.files[kDmi + row.file] = row.text;
    EXPECT_EQ(find_cloud_sign(CloudVendor::kAmazon, machine.surroundings()), row.amazon) << row.text;
    EXPECT_EQ(find_cloud_sign(CloudVendor::kGoogle, machine.surroundings()), row.google) << row.text;
    EXPECT_EQ(find_cloud_sign(CloudVendor::kAzure, machine.surroundings()), row.azure) << row.text;
  }
  Machine xen;
  xen.files["/sys/hypervisor/uuid"] = "EC2E1916-9099-7CAF-FD21-012345ABCDEF\n";
  EXPECT_EQ(find_cloud_sign(CloudVendor::kAmazon, xen.surroundings()), CloudSign::kIsThere);
}

TEST(CloudSigns, MachinesOfOtherVendorsSendNoRequests) {
  Machine machine;
  machine.files[kDmi + "sys_vendor"] = "LENOVO\n";
  EXPECT_TRUE(tells(machine.aws(), "no AWS credentials"));
  EXPECT_TRUE(tells(machine.aws(), "set AWS_EC2_METADATA_SERVICE_ENDPOINT if there is such a service"));
  EXPECT_TRUE(tells(machine.google(), "set GCE_METADATA_HOST if there is such a service"));
  EXPECT_TRUE(machine.asked.empty());
  // An explicitly named service is always queried.
  machine.variables = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9"}, {"GCE_METADATA_HOST", "127.0.0.1"}};
  (void)machine.aws();
  (void)machine.google();
  ASSERT_EQ(machine.asked.size(), 2u);
  machine.variables.clear();
  (void)machine.google(kNow, {{"token", "cloud"}});
  ASSERT_EQ(machine.asked.size(), 3u);
  EXPECT_EQ(machine.asked[2].url.host, "metadata.google.internal");
  EXPECT_GE(machine.asked[2].connect_ns, machine.asked[2].total_ns);
}

TEST(CloudSigns, UnidentifiedMachinesAreProbedBrieflyAndOnce) {
  Machine machine;
  EXPECT_TRUE(tells(machine.aws(), "no AWS credentials"));
  ASSERT_EQ(machine.asked.size(), 1u);
  EXPECT_EQ(machine.asked[0].connect_ns, 250'000'000u);
  EXPECT_EQ(machine.asked[0].attempts, 1u);
  EXPECT_TRUE(tells(machine.aws(), "it did not respond a moment ago"));
  EXPECT_EQ(machine.asked.size(), 1u);
  EXPECT_TRUE(tells(machine.google(), "it did not respond a moment ago")) << "the address is the same";
  EXPECT_EQ(machine.asked.size(), 1u);
  (void)machine.aws(kNow + SilentServices::kSeconds);
  EXPECT_EQ(machine.asked.size(), 2u) << "later it is tried again";
}

TEST(CloudSigns, GooglesNameIsNotLookedUpElsewhere) {
  Machine machine;
  (void)machine.google();
  ASSERT_EQ(machine.asked.size(), 1u);
  EXPECT_EQ(machine.asked[0].url.host, "169.254.169.254");
  EXPECT_EQ(machine.asked[0].connect_ns, 250'000'000u);
}

TEST(CloudSigns, CloudMachinesGetTheFullTimeout) {
  Machine machine;
  machine.files[kDmi + "sys_vendor"] = "Amazon EC2\n";
  (void)machine.aws();
  ASSERT_EQ(machine.asked.size(), 1u);
  EXPECT_GE(machine.asked[0].connect_ns, machine.asked[0].total_ns);
  (void)machine.aws(kNow + SilentServices::kOwnSeconds - 1);
  EXPECT_EQ(machine.asked.size(), 1u);
  (void)machine.aws(kNow + SilentServices::kOwnSeconds);
  EXPECT_EQ(machine.asked.size(), 2u) << "its network may have come up";
}

TEST(CloudSigns, AServiceThatAnsweredIsNotRememberedAsSilent) {
  Machine machine;
  machine.answer = FetchAnswer{500, "geheim"};
  (void)machine.aws();
  machine.answer = Status(Code::kTimeout, Layer::kStore, "no connection to the server in time");
  for (int i = 0; i < 3; ++i) (void)machine.aws();
  EXPECT_EQ(machine.asked.size(), 4u);
}

TEST(CloudSigns, ACancelledRequestIsNoEvidence) {
  Machine machine;
  machine.answer = Status(Code::kCancelled, Layer::kStore, "cancelled");
  (void)machine.aws();
  (void)machine.aws();
  EXPECT_EQ(machine.asked.size(), 2u);
}

// st_size of a procfs or sysfs file is not its content length, so files are read until EOF; non-regular files are not
// read.
TEST(CloudSigns, FilesOfTheSurroundingsAreReadToTheirEnd) {
  const Surroundings surroundings = Surroundings::of_process(nullptr);
  EXPECT_GT(surroundings.file("/proc/self/status").value_or("").size(), 100u);
  EXPECT_FALSE(surroundings.file("/proc/self").has_value());
  EXPECT_FALSE(surroundings.file("/dev/zero").has_value());
  EXPECT_FALSE(surroundings.file("/nowhere").has_value());
}

}  // namespace
}  // namespace headrace::http
