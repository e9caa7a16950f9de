// golden_bucket FOLDER: serves the regular files below FOLDER as a bucket with S3's protocol. Prints its endpoint and
// exits when standard input ends.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/http_server.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  using headrace::store::Bytes;
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_bucket FOLDER\n");
    return 2;
  }
  headrace::testing::Objects objects;
  std::error_code error;
  for (fs::recursive_directory_iterator walk(argv[1], error); !error && walk != fs::recursive_directory_iterator();
       walk.increment(error)) {
    if (walk->is_symlink() || !walk->is_regular_file()) continue;
    std::ifstream file(walk->path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    objects[walk->path().lexically_relative(argv[1]).generic_string()] = Bytes(bytes, bytes + text.size());
  }
  if (error || objects.empty()) {
    std::fprintf(stderr, "golden_bucket: %s: %s\n", argv[1], error ? error.message().c_str() : "there are no files");
    return 1;
  }
  headrace::testing::HttpServer server(
      headrace::testing::ObjectService(std::move(objects), headrace::testing::ObjectStyle::kS3));
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
