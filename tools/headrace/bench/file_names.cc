// The names of a job's files: given ones, those of a folder, or fio's default names.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "file_region.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxFileNames = std::size_t{1} << 16;

// Names are separated by ':'; "\:" is a colon within a name.
std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ':') {
      names.back() += text[++i];
    } else if (text[i] == ':') {
      names.emplace_back();
    } else {
      names.back() += text[i];
    }
  }
  std::erase(names, std::string());
  return names;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

Result<std::vector<std::string>> files_of_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator walk(folder, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    std::error_code ignored;
    if (!walk->is_regular_file(ignored) || walk->file_size(ignored) == 0) continue;
    if (names.size() == kMaxFileNames) {
      return Status(Code::kInvalidArgument, Layer::kApi, "opendir: there are more than 65,536 files").with_key(folder);
    }
    names.push_back(walk->path().string());
  }
  if (error) {
    return Status(Code::kNotFound, Layer::kApi, "opendir: cannot list the folder")
        .with_key(folder)
        .with_cause(error.message());
  }
  if (names.empty()) {
    return Status(Code::kNotFound, Layer::kApi, "opendir: the folder has no non-empty file").with_key(folder);
  }
  // Sorted, so that the order does not depend on the file system.
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<std::vector<std::string>> file_names(const JobOptions& options, unsigned thread) {
  std::vector<std::string> found;
  if (!options.opendir.empty()) {
    HEADRACE_TRY_ASSIGN(found, files_of_folder(options.opendir));
    if (options.filename.empty()) return found;
  }
  std::vector<std::string> names = split_names(options.filename);
  if (!options.filename.empty() && names.empty()) {
    return Status(Code::kInvalidArgument, Layer::kApi, "filename names no file").with_key(options.filename);
  }
  for (unsigned i = 0; options.filename.empty() && i < options.files; ++i) {
    std::string name = options.filename_format.empty() ? "$jobname.$jobnum.$filenum" : options.filename_format;
    name = replaced(std::move(name), "$jobname", options.name);
    name = replaced(std::move(name), "$jobnum", std::to_string(thread));
    names.push_back(replaced(std::move(name), "$filenum", std::to_string(i)));
  }
  const std::vector<std::string> folders = split_names(options.directory);
  for (std::string& name : names) {
    if (!folders.empty() && name.front() != '/') name.insert(0, folders[thread % folders.size()] + "/");
  }
  names.insert(names.end(), found.begin(), found.end());
  return names;
}

}  // namespace headrace::bench
