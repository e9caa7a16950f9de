// OpenOptions and StorageOption: how arrays, groups and hierarchies are opened, and the stores that hold them.
#pragma once

#include <headrace/export.h>

#include <span>
#include <string>

namespace headrace {

struct OpenOptions {
  // What may be let pass although the specifications forbid it: names of leniencies() separated by commas, or "all".
  // "" refuses all of it. Each use is told in ArrayInfo::lenient_uses. Bytes are never guessed at: a rule names one
  // habit of writers whose meaning is known.
  std::string lenient;
  // Groups and listings: take what lies below a group from its consolidated metadata, where it has any. Such metadata
  // is a copy, made when somebody asked for it: what was changed since is not in it. False reads every node's own
  // document. Array::open always does.
  bool consolidated = true;
  // Array::open: a directory with the array's decode indices, as `headrace index` saves them (decode_index.h); "":
  // none. They are loaded into memory, as far as ContextOptions::index_budget_bytes has room.
  std::string index_directory = {};
  // Arrays: look at each read whether a shard that is kept open is still the one under its key, for stores whose shards
  // are replaced or removed meanwhile; some 10 us a shard. False: a shard that was read once may be read again as it
  // was then after another has been put in its place. Either way a shard that is rewritten in place is read as it is
  // now, and one that is rewritten while it is read is an error (kAgainExhausted: read again).
  // docs/reference/changing_stores.md has what holds for other stores and caches.
  bool revalidate = false;
};

// One option of a store that is asked over a network, for Store::open(): who asks, and where. Those of the cache on
// disk
// ("cache_dir") count for directories of files as well. Names are those of fsspec
// and of obstore: "anon" as well as "skip_signature", "endpoint_url" as well as "endpoint"; what is nested there has
// dots: "client_kwargs.region_name", "headers.Authorization". docs/guide/remote.md lists them. Flags are "true" or
// "false", times seconds. An empty value is as good as none. Values are in no message.
struct StorageOption {
  std::string name;
  std::string value;
};

// One habit of writers that a reader may be asked to accept.
struct LeniencyRow {
  const char* name;  // "endian-codec"
  const char* what;  // "v3: a codec called 'endian' is 'bytes', ..."
};
HEADRACE_API std::span<const LeniencyRow> leniencies() noexcept;

}  // namespace headrace
