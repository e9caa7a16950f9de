// remote_server FOLDER [MILLISECONDS]: serves the regular files below FOLDER as objects of a bucket "bucket" with S3's
// protocol; each answer is delayed by MILLISECONDS. Prints its endpoint and exits when standard input ends. Uses a
// thread per connection and keeps all objects in memory.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "support/http_server.h"

namespace {

using headrace::testing::HttpRequest;
using headrace::testing::HttpWire;

struct Object {
  std::string bytes, etag;
};

void answer(const std::map<std::string, Object>& objects, HttpWire& wire, const HttpRequest& request) {
  const auto error = [&](const char* status, const char* code) {
    wire.reply(status, "", "<Error><Code>" + std::string(code) + "</Code></Error>");
  };
  constexpr std::string_view kBucketPath = "/bucket/";
  const std::string path = headrace::testing::unescaped(request.path);
  if (!path.starts_with(kBucketPath)) return error("404 Not Found", "NoSuchBucket");
  const auto found = objects.find(path.substr(kBucketPath.size()));
  const std::string& range = request.header("range");
  const bool head = request.method == "HEAD";
  if (found == objects.end()) {
    if (head) return wire.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    return error("404 Not Found", "NoSuchKey");
  }
  const std::string& bytes = found->second.bytes;
  unsigned long long first = 0, last = bytes.size() - 1;
  if (std::sscanf(range.c_str(), "bytes=-%llu", &last) == 1) {
    first = bytes.size() - std::min<unsigned long long>(bytes.size(), last);
    last = bytes.size() - 1;
  } else if (!range.empty() && std::sscanf(range.c_str(), "bytes=%llu-%llu", &first, &last) < 1) {
    return error("400 Bad Request", "InvalidArgument");
  }
  last = std::min<unsigned long long>(last, bytes.size() - 1);
  if (first > last) return error("416 Range Not Satisfiable", "InvalidRange");
  std::string lines =
      "ETag: " + found->second.etag + "\r\nAccept-Ranges: bytes\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
  if (!range.empty()) {
    lines += "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" +
             std::to_string(bytes.size()) + "\r\n";
  }
  const auto count = static_cast<std::size_t>(last - first + 1);
  wire.send("HTTP/1.1 " + std::string(range.empty() ? "200 OK" : "206 Partial Content") + "\r\n" + lines +
            "Content-Length: " + std::to_string(count) + "\r\n\r\n");
  if (!head) wire.send(std::string_view(bytes).substr(static_cast<std::size_t>(first), count));
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc < 2) {
    std::fprintf(stderr, "usage: remote_server FOLDER [MILLISECONDS]\n");
    return 2;
  }
  const int delay = argc > 2 ? std::atoi(argv[2]) : 0;
  std::map<std::string, Object> objects;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(argv[1])) {
    if (!file.is_regular_file() || file.file_size() == 0) continue;
    std::ifstream in(file.path(), std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(in), {});
    objects[file.path().lexically_relative(argv[1]).generic_string()] = {
        std::move(text), "\"" + std::to_string(std::hash<std::string>()(file.path().string())) + "\""};
  }
  headrace::testing::HttpServer server([&](HttpWire& wire, const HttpRequest& request) {
    if (delay > 0) wire.pause(delay);
    answer(objects, wire, request);
  });
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
