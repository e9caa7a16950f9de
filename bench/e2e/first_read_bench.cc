// Measures the first reads of a process.
//
// Reads 8 bytes that are not in the page cache; prints the milliseconds of the read, and those from before the Context
// is created until everything is destroyed:
//   first_read_bench file PATH DEVICE FILE      FileQueue by that path (auto, direct, buffered, mapped)
//   first_read_bench array DEVICE ARRAY         the first 8 elements of a one-dimensional array
// Reads whole arrays, each repeatedly and one array after the other, cached or not:
//   first_read_bench reads COUNT DEVICE ARRAY...
// Prints a line of JSON for each: milliseconds to open the device (which creates a GPU's context), from then to the
// first tensor, of the first read alone, and of the other reads. The first read's time includes allocating the tensor.
#include <fcntl.h>
#include <headrace/array.h>
#include <headrace/file.h>
#include <headrace/selection.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

namespace {

using namespace headrace;
using Clock = std::chrono::steady_clock;

template <class Value>
Value checked(Result<Value> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "first_read_bench: %s\n", result.status().to_string().c_str());
  std::exit(1);
}
void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "first_read_bench: %s\n", status.to_string().c_str());
  std::exit(1);
}

void cool(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::fdatasync(fd) != 0 || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  ::close(fd);
}

double milliseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

void read_file(const std::string& path_name, const std::string& device_name, const std::string& name) {
  const Context context = checked(Context::create());
  const Device device = checked(Device::open(device_name));
  const Buffer memory = checked(Buffer::allocate(device, 4096));
  const File file = checked(File::open(name));
  FileQueueOptions options;
  options.path = checked(parse_path_name(path_name));
  FileQueue queue = checked(FileQueue::create(context, device, options));
  const auto begin = Clock::now();
  const FileRange range{4096, memory.data(), 8};
  check(queue.read(file, {&range, 1}, 0));
  FileCompletion done;
  queue.wait({&done, 1});
  check(done.status);
  std::printf("%.3f ", milliseconds(begin, Clock::now()));
}

void read_array(const std::string& device_name, const std::string& name) {
  const Context context = checked(Context::create());
  const Device device = checked(Device::open(device_name));
  const Buffer memory = checked(Buffer::allocate(device, 4096));
  const Array array = checked(Array::open(checked(Store::open(context, name))));
  const auto begin = Clock::now();
  check(array.read(checked(parse_selection("0:8")), {memory, array.info().dtype, {8}}, device));
  std::printf("%.3f ", milliseconds(begin, Clock::now()));
}

void read_whole(int count, const std::string& device_name, std::span<char*> names) {
  auto begin = Clock::now();
  const Device device = checked(Device::open(device_name));
  const Buffer first = checked(Buffer::allocate(device, 4096));
  auto opened = Clock::now();
  const Context context = checked(Context::create());
  for (const char* name : names) {
    const Array array = checked(Array::open(checked(Store::open(context, name))));
    const ArrayInfo& info = array.info();
    std::uint64_t bytes = info.dtype.item_bytes;
    for (const std::uint64_t extent : info.shape) bytes *= extent;
    const Buffer memory = checked(Buffer::allocate(device, bytes));
    std::printf("{\"array\": \"%s\", \"device\": \"%s\", \"mb\": %.1f, \"device_ms\": %.2f, ", name,
                device_name.c_str(), static_cast<double>(bytes) / 1e6, milliseconds(begin, opened));
    for (int i = 0; i < count; ++i) {
      const auto start = Clock::now();
      check(array.read(Selection(), {memory, info.dtype, info.shape}, device));
      const auto end = Clock::now();
      if (i == 0) std::printf("\"first_tensor_ms\": %.2f, \"reads_ms\": [", milliseconds(opened, end));
      std::printf("%s%.2f", i == 0 ? "" : ", ", milliseconds(start, end));
    }
    std::printf("]}\n");
    begin = opened = Clock::now();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (!(kind == "file" && argc == 5) && !(kind == "array" && argc == 4) && !(kind == "reads" && argc >= 5)) {
    std::fputs("usage: first_read_bench file PATH DEVICE FILE | array DEVICE ARRAY | reads COUNT DEVICE ARRAY...\n",
               stderr);
    return 2;
  }
  const std::string name = argv[argc - 1];
  if (kind == "reads") {
    read_whole(std::atoi(argv[2]), argv[3], std::span(argv + 4, static_cast<std::size_t>(argc - 4)));
    return 0;
  }
  if (kind == "file") {
    cool(name);
  } else {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(name)) {
      if (entry.is_regular_file()) cool(entry.path());
    }
  }
  const auto begin = Clock::now();
  kind == "file" ? read_file(argv[2], argv[3], name) : read_array(argv[2], name);
  std::printf("%.3f\n", milliseconds(begin, Clock::now()));
}
