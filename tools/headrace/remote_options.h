// Options of verbs that take URLs: credentials and endpoints, and the disk cache.
#pragma once

#include <headrace/open_options.h>

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace headrace::cli {

// Adds --storage-option NAME=VALUE, which may be repeated.
void add_storage_option(CLI::App& verb, std::vector<StorageOption>& storage);
// The same, and --cache-dir DIR and --cache-bytes SIZE.
void add_remote_options(CLI::App& verb, std::vector<StorageOption>& storage);

// Whether a path is accessed over a network: https://, s3:// and the like.
bool is_remote_url(std::string_view path);

// Splits "s3://b/x:https://h/y", as fio splits file names.
std::vector<std::string> split_urls(std::string_view text);
// Such a text, or any other, in a form that is safe to print.
std::string shown_urls(std::string_view text);

// A word of the command line in a form that is safe to print: a URL without secrets, and only the name of NAME=VALUE
// after --storage-option. `before`: the previous word.
std::string shown_word(std::string_view word, std::string_view before);

}  // namespace headrace::cli
