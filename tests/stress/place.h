// Makes stores of every kind from given objects.
#pragma once

#include <headrace/array.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "stored.h"
#include "support/zip_writer.h"

namespace headrace::stress {

using Objects = std::map<std::string, Bytes>;

// Each returns the store's URL. `directory` exists and is empty.
std::string place_files(const std::string& directory, const Objects& objects);
std::string place_zip(Dice& dice, const std::string& directory, const Objects& objects,
                      const std::function<void(testing::ZipRecord&)>& change = {},
                      const std::function<void(testing::ZipEnd&)>& change_end = {});
// The store lives as long as `keep` is held.
std::string place_memory(const Context& context, const Objects& objects, std::optional<Store>& keep);

// References to ranges of two files; `change` may modify a range (offset, length), given the file's size.
using ChangeRange =
    std::function<void(const std::string& key, std::uint64_t& offset, std::uint64_t& length, const Bytes& file)>;
std::string place_references(const std::string& directory, const Objects& objects, const ChangeRange& change = {});

void write_whole(const std::string& path, std::span<const std::byte> bytes);
// Drops the file from the page cache, where the file system allows, so that the next read finds none of it there.
void drop_cached(const std::string& path);

// Deletes the directory with its content and makes it again, empty.
void fresh_directory(const std::string& path);

}  // namespace headrace::stress
