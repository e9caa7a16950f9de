// Runs the device suite on every kind of device in the table. A kind without a device on this machine is skipped by
// name.
#include "support/device_suite.h"

namespace headrace::device {
namespace {

std::vector<std::string> kinds() {
  std::vector<std::string> out;
  for (const DeviceRow& row : devices()) out.push_back(row.kind);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceSuite, ::testing::ValuesIn(kinds()), [](const auto& param) {
  std::string name = param.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace headrace::device
