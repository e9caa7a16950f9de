// Options of verbs that take URLs: who asks, and what is kept on this machine's disk.
#pragma once

#include <headrace/open_options.h>

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace headrace::cli {

// --storage-option NAME=VALUE, which may be repeated.
void add_storage_option(CLI::App& verb, std::vector<StorageOption>& storage);
// And --cache-dir DIR and --cache-bytes SIZE.
void add_remote_options(CLI::App& verb, std::vector<StorageOption>& storage);

// Whether a path is asked over a network: https://, s3:// and the like.
bool is_remote_url(std::string_view path);

// "s3://b/x:https://h/y" taken apart, as fio does with names of files.
std::vector<std::string> split_urls(std::string_view text);
// Such a text, or any other, as it may be printed.
std::string shown_urls(std::string_view text);

// A word of the command line as it may be printed: of a URL nothing secret, of NAME=VALUE behind --storage-option the
// name. `before`: the word before it.
std::string shown_word(std::string_view word, std::string_view before);

}  // namespace headrace::cli
