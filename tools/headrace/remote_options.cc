#include "remote_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli_common.h"

namespace headrace::cli {
namespace {

constexpr std::string_view kStorageOption = "--storage-option";

}  // namespace

void add_storage_option(CLI::App& verb, std::vector<StorageOption>& storage) {
  const auto take = [&storage](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::size_t equal = text.find('=');
      // The message omits the text, which may be a secret.
      if (equal == std::string::npos || equal == 0) {
        throw CLI::ValidationError(std::string(kStorageOption), "it is NAME=VALUE, such as anon=true");
      }
      storage.push_back({text.substr(0, equal), text.substr(equal + 1)});
    }
  };
  verb.add_option_function<std::vector<std::string>>(
          std::string(kStorageOption), take,
          "of a URL: an option of fsspec or obstore, such as anon=true; secrets are better in the environment, where "
          "other users do not see them")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all();
}

void add_remote_options(CLI::App& verb, std::vector<StorageOption>& storage) {
  add_storage_option(verb, storage);
  verb.add_option_function<std::string>(
          "--cache-dir",
          [&storage](const std::string& text) {
            storage.push_back({"cache_dir", text});
          },
          "keep what is read in this directory: of a URL, or of a file system that is slower than its disk; off: in "
          "none. "
          "Without, of a URL: HEADRACE_CACHE_DIR")
      ->type_name("DIR");
  verb.add_option_function<std::string>(
          "--cache-bytes",
          [&storage](const std::string& text) {
            storage.push_back({"cache_bytes", text});
          },
          "how much the directory may hold, such as 64G")
      ->type_name("SIZE");
}

bool is_remote_url(std::string_view path) {
  const std::size_t mark = path.find("://");
  if (mark == std::string_view::npos) return false;
  for (const char* scheme : {"http", "https", "s3", "gs", "gcs", "az", "abfs", "abfss"}) {
    if (path.substr(0, mark) == scheme) return true;
  }
  return false;
}

std::vector<std::string> split_urls(std::string_view text) {
  std::vector<std::string> urls;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    do {
      end = std::min(text.find(':', end + 1), text.size());
    } while (end < text.size() && !is_remote_url(text.substr(end + 1)));
    urls.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return urls;
}

std::string shown_urls(std::string_view text) {
  if (!is_remote_url(text)) return std::string(text);
  std::string out;
  for (const std::string& url : split_urls(text)) out += (out.empty() ? "" : ":") + shown_path(url);
  return out;
}

std::string shown_word(std::string_view word, std::string_view before) {
  std::string_view option;  // including the '='
  if (word.starts_with("--")) option = word.substr(0, word.find('=') + 1);
  const std::string_view value = word.substr(option.size());
  if (before == kStorageOption || option == "--storage-option=") {
    return std::string(option) + std::string(value.substr(0, value.find('='))) + "=...";
  }
  return is_remote_url(value) ? std::string(option) + shown_urls(value) : std::string(word);
}

}  // namespace headrace::cli
