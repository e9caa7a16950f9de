// OpenOptions: how arrays, groups and hierarchies are opened. StorageOption: how network stores are opened.
#pragma once

#include <headrace/export.h>

#include <span>
#include <string>

namespace headrace {

struct OpenOptions {
  // Deviations from the specifications to accept: names from leniencies(), separated by commas, or "all". "" accepts
  // none. ArrayInfo::lenient_uses lists each use. No rule guesses at bytes: each covers one known habit of writers
  // whose meaning is certain.
  std::string lenient;
  // Groups and listings: take the nodes below a group from its consolidated metadata, if it has any. That is a copy, so
  // it misses changes made after it was written. False: read every node's own document, as Array::open always does.
  bool consolidated = true;
  // Array::open: directory with the array's decode indices, as `headrace index` saves them (decode_index.h); "": none.
  // They are loaded into memory within ContextOptions::index_budget_bytes.
  std::string index_directory = {};
  // Arrays: check at every read that each cached open shard is still the object under its key. For stores whose shards
  // are replaced or removed while the array is open; costs some 10 us per shard. False: after a shard is replaced,
  // reads may still return the old one. In both cases a shard that is rewritten in place is read as it is now, and one
  // that changes during a read is an error (kAgainExhausted: read again). docs/reference/changing_stores.md covers
  // other stores and caches.
  bool revalidate = false;
};

// One option of a network store for Store::open(), such as credentials or an endpoint. The options of the disk cache
// ("cache_dir") apply to local directories too. Names are those of fsspec and of obstore: "anon" or "skip_signature",
// "endpoint_url" or "endpoint". Nested options use dots: "client_kwargs.region_name", "headers.Authorization".
// docs/guide/remote.md lists them. Flags are "true" or "false"; times are seconds. An empty value means not set.
// Messages never contain values.
struct StorageOption {
  std::string name;
  std::string value;
};

// One deviation by writers that OpenOptions::lenient can accept.
struct LeniencyRow {
  const char* name;  // "endian-codec"
  const char* what;  // "v3: a codec called 'endian' is 'bytes', ..."
};
HEADRACE_API std::span<const LeniencyRow> leniencies() noexcept;

}  // namespace headrace
