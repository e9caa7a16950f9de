// Reads many arrays in one process for the property test: one request per line of standard input, one answer per
// request.
//
//   request: PATH \t DEVICE \t PLACEMENT \t SELECTION \n    DEVICE as for Device::open; PLACEMENT auto, cpu or gpu
//   answer:  "ok N\n" and N bytes, C order, packed; or "error CODE MESSAGE\n"
//
// The environment variable HEADRACE_STAGED_DECODE says what the host-staged device decodes.
#include <headrace/array.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

using headrace::Result;
using headrace::Status;

struct Reader {
  headrace::Context context;
  std::map<std::string, headrace::Device> devices;

  Result<std::vector<std::byte>> read(const std::array<std::string, 4>& request);
};

#define TRY_ASSIGN(name, expression)              \
  auto name##_or = (expression);                  \
  if (!name##_or.ok()) return name##_or.status(); \
  auto& name = *name##_or

Result<std::vector<std::byte>> Reader::read(const std::array<std::string, 4>& request) {
  const auto& [path, device_name, placement, selection_text] = request;
  auto device = devices.find(device_name);
  if (device == devices.end()) {
    TRY_ASSIGN(opened, headrace::Device::open(device_name));
    device = devices.emplace(device_name, opened).first;
  }
  TRY_ASSIGN(store, headrace::Store::open(context, path));
  TRY_ASSIGN(array, headrace::Array::open(store));
  TRY_ASSIGN(selection, headrace::parse_selection(selection_text));
  TRY_ASSIGN(resolved, headrace::resolve_selection(selection, array.info().shape));
  std::size_t bytes = array.info().dtype.item_bytes;
  for (const std::uint64_t n : resolved.shape) bytes *= n;
  TRY_ASSIGN(buffer, headrace::Buffer::allocate(device->second, bytes));
  headrace::ReadOptions options;
  options.placement = placement == "gpu"   ? headrace::Placement::kGpu
                      : placement == "cpu" ? headrace::Placement::kCpu
                                           : headrace::Placement::kAuto;
  Status status = array.read(selection, {buffer, array.info().dtype, resolved.shape}, device->second, options);
  if (!status.ok()) return status;
  std::vector<std::byte> out(bytes);
  if (status = buffer.copy_to_host(0, out.data(), bytes); !status.ok()) return status;
  return out;
}

}  // namespace

int main() {
  headrace::ContextOptions options;
  options.threads = 2;
  auto context = headrace::Context::create(options);
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().to_string().c_str());
    return 1;
  }
  Reader reader{*context, {}};
  std::string line;
  while (std::getline(std::cin, line)) {
    std::array<std::string, 4> request;
    std::size_t at = 0;
    for (std::string& part : request) {
      const std::size_t tab = std::min(line.find('\t', at), line.size());
      part = line.substr(at, tab - at);
      at = std::min(tab + 1, line.size());
    }
    const auto answer = reader.read(request);
    if (answer.ok()) {
      std::printf("ok %zu\n", answer->size());
      std::fwrite(answer->data(), 1, answer->size(), stdout);
    } else {
      std::string message = answer.status().to_string();
      for (char& c : message) c = c == '\n' ? ' ' : c;
      std::printf("error %d %s\n", static_cast<int>(answer.status().code()), message.c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}
