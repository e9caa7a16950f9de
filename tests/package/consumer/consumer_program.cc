// Prints the sum of a uint8 array: consumer_cxx STORE
#include <headrace/array.h>
#include <headrace/context.h>
#include <headrace/device.h>

#include <cstdio>
#include <numeric>
#include <vector>

namespace {

headrace::Status sum(const char* path, unsigned& total) {
  HEADRACE_TRY_ASSIGN(auto context, headrace::Context::create());
  HEADRACE_TRY_ASSIGN(auto store, headrace::Store::open(context, path));
  HEADRACE_TRY_ASSIGN(auto array, headrace::Array::open(store));
  HEADRACE_TRY_ASSIGN(auto device, headrace::Device::open("host"));
  std::vector<std::byte> data(static_cast<std::size_t>(array.info().decoded_bytes));
  HEADRACE_TRY(array.read({}, {data, array.info().dtype, array.info().shape}, device));
  for (std::byte b : data) total += static_cast<unsigned>(b);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  unsigned total = 0;
  const headrace::Status status = argc == 2 ? sum(argv[1], total)
                                            : headrace::Status(headrace::Code::kInvalidArgument, headrace::Layer::kApi,
                                                               "usage: consumer_cxx STORE");
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return 1;
  }
  std::printf("%u\n", total);
  return 0;
}
