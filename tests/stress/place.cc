#include "place.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

namespace headrace::stress {
namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "store_fuzz: %s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(3);
}

}  // namespace

void write_whole(const std::string& path, std::span<const std::byte> bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) die(path);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) die(path);
    done += static_cast<std::size_t>(wrote);
  }
  ::close(fd);
}

void drop_cached(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

void fresh_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  std::filesystem::create_directories(path, error);
  if (error) die(path);
}

std::string place_files(const std::string& directory, const Objects& objects) {
  std::set<std::string> made;
  for (const auto& [key, bytes] : objects) {
    const std::string path = directory + "/" + key;
    const std::string folder = path.substr(0, path.rfind('/'));
    if (made.insert(folder).second) std::filesystem::create_directories(folder);
    write_whole(path, bytes);
  }
  return directory;
}

std::string place_zip(Dice& dice, const std::string& directory, const Objects& objects,
                      const std::function<void(testing::ZipRecord&)>& change,
                      const std::function<void(testing::ZipEnd&)>& change_end) {
  testing::ZipWriter writer;
  const bool deflate = dice.one_in(3);
  for (const auto& [key, bytes] : objects) {
    // No padding before the first entry: a ZIP file is recognised by its first bytes.
    if (key != objects.begin()->first) writer.pad(static_cast<std::size_t>(dice.below(4)));
    testing::ZipWriter::Options options;
    options.deflate = deflate && !bytes.empty();
    options.descriptor = dice.one_in(3);
    options.zip64 = dice.one_in(8);
    options.change = change;
    writer.add(key, bytes, options);
  }
  const std::string path = directory + "/store.zip";
  write_whole(path, change_end ? writer.finish(change_end) : writer.finish());
  return path;
}

std::string place_memory(const Context& context, const Objects& objects, std::optional<Store>& keep) {
  static std::uint64_t number = 0;
  const std::string url = "memory://store_fuzz" + std::to_string(number++);
  auto store = Store::open(context, url);
  if (!store.ok()) die(store.status().to_string());
  for (const auto& [key, bytes] : objects) {
    if (Status status = store->put(key, bytes); !status.ok()) die(status.to_string());
  }
  keep = std::move(*store);
  return url;
}

std::string place_references(const std::string& directory, const Objects& objects, const ChangeRange& change) {
  Bytes files[2];
  struct Range {
    std::string key;
    int file;
    std::uint64_t offset, length;
  };
  std::vector<Range> ranges;
  for (const auto& [key, bytes] : objects) {
    Bytes& file = files[ranges.size() % 2];
    file.resize(file.size() + ranges.size() % 3, std::byte{0x99});
    ranges.push_back({key, static_cast<int>(ranges.size() % 2), file.size(), bytes.size()});
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  std::string json = R"({"version":1,"refs":{)";
  for (Range& range : ranges) {
    if (change) change(range.key, range.offset, range.length, files[range.file]);
    json += (&range == ranges.data() ? "\"" : ",\"") + range.key + R"(":["data)" + std::to_string(range.file) + "\"," +
            std::to_string(range.offset) + "," + std::to_string(range.length) + "]";
  }
  json += "}}";
  write_whole(directory + "/data0", files[0]);
  write_whole(directory + "/data1", files[1]);
  write_whole(directory + "/refs.json", std::as_bytes(std::span(json)));
  return "reference://" + directory + "/refs.json";
}

}  // namespace headrace::stress
