// ByteStore: a store implemented by the caller, which headrace reads by byte ranges. Pass it to Store::open().
//
// Reads are asynchronous: start() begins them, and the store calls RangeListener::done() for each from any thread, so
// hundreds can be in flight. headrace validates every answer (sizes, ends, versions) before it uses it.
//
// Threads: headrace calls a ByteStore from any thread, several calls at a time.
// Owns:    a Store and everything opened from it keep their ByteStore alive until all reads have ended and no call into
//          it is running. The ByteStore may be destroyed on another thread while one of its own threads is still
//          returning from its last done().
// Fails:   return kNotFound only if the object certainly does not exist: for a chunk it means the fill value. Use
//          another code for anything else that prevents a read. Exceptions become kIo with their text.
#pragma once

#include <headrace/export.h>
#include <headrace/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

struct RangeRead;

// Receives the end of each read. Implemented by headrace.
class RangeListener {
 public:
  // Each of `reads` has ended. The store must call this exactly once for every read it started, whatever the outcome.
  // It may call it from any thread, including within start() or cancel(), but must not hold a lock that those take. The
  // call returns quickly and allocates nothing. Afterwards the store must not touch the read or its `out`.
  virtual void done(std::span<RangeRead* const> reads) noexcept = 0;

 protected:
  ~RangeListener() = default;
};

// Whether a cache in front of the store supplied the bytes.
enum class RangeCache : std::uint8_t {
  kNone,  // there is no cache, or it does not keep such objects
  kHit,   // the cache had the bytes; the store was not asked
  kMiss,  // the cache did not have them
};

// One range of one object. The store fills in the results between start() and done().
struct RangeRead {
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  // The request. It and everything it points to stay unchanged until done().
  std::string_view key;      // '/'-separated, no component empty, "." or ".."; NUL-terminated
  std::uint64_t offset = 0;  // of the first byte; unused with from_end
  bool from_end = false;     // read the last out.size() bytes of the object, or all of a shorter one
  std::span<std::byte> out;  // destination; never write beyond it
  std::string_view version;  // if not empty, an earlier found_version: bytes of another version are kAgainExhausted
  RangeListener* listener = nullptr;
  std::uint64_t user = 0;  // for the listener's use

  // The result. Set before done().
  Status status;
  std::uint64_t bytes = 0;  // bytes in `out`, from its start; fewer than its size only at the end of the object
  std::uint64_t object_bytes = kUnknown;  // size of the whole object, if the answer states it
  // Identifies this content of the object (an ETag); empty: unknown. With a version, headrace keeps the index of a
  // shard from one read to the next; without one, each read fetches the index before and after the chunks. With a
  // version, large chunks of which only a little is selected are read in two steps, if their codec can decode parts.
  std::string found_version;
  RangeCache cache = RangeCache::kNone;  // for Stats::cache_bytes
};

// A name directly below a prefix.
struct ListedName {
  std::string name;
  bool is_directory = false;
};

// Tuning hints for reads of a store. In the latency of one request a distant store could transfer megabytes, so reading
// across gaps pays off. Set gap_bytes to about latency times the bandwidth of one connection, and group_bytes to a few
// times that. The defaults suit files on a local disk. Values above the useful maximum are clamped.
struct RangeAdvice {
  std::uint64_t gap_bytes = std::uint64_t{16} << 10;   // wanted ranges at most this far apart become one read
  std::uint64_t group_bytes = std::uint64_t{1} << 20;  // maximum bytes of a read that combines several ranges
  std::uint64_t window_bytes = 0;  // target for bytes in flight, within the budgets; 0: as for files
};

class HEADRACE_API ByteStore {
 public:
  virtual ~ByteStore();

  // How messages name the store. Must be safe to print: no secrets.
  virtual std::string url() const = 0;

  // Starts all of these reads, which may be of any objects, and returns without blocking. Or starts none: then it fails
  // and done() is called for none of them. The array is valid only during the call; the reads stay valid until done().
  virtual Status start(std::span<RangeRead* const> reads) = 0;

  // These reads are not needed any more. Each still ends with done(), ideally soon, with kCancelled. Ignore reads that
  // have already ended or occur twice. The pointers stay valid until this call returns.
  virtual void cancel(std::span<RangeRead* const> reads) noexcept;

  // Names directly below `prefix` ("" is the root), in any order; kNotFound if it is not a directory. Names that no
  // object can have are ignored. Needed to walk hierarchies without consolidated metadata. May block. Default:
  // kUnsupported.
  virtual Result<std::vector<ListedName>> list(std::string_view prefix);

  // Creates or replaces an object. May block. Default: kUnsupported.
  virtual Status put(std::string_view key, std::span<const std::byte> bytes);

  // Called once per read of an array; the answer may change between reads. Must not block.
  virtual RangeAdvice advice() const noexcept;
};

// The URL of an object in a remote store, split into the URL of a store that contains it and its key there.
struct ObjectPlace {
  std::string store_url;  // includes the query, which may be secret
  std::string key;        // last component of the path, unescaped
};
// kInvalidArgument if the URL has no scheme, no container before the object, or no name at its end. Makes no request.
HEADRACE_API Result<ObjectPlace> split_object_url(std::string_view url);

}  // namespace headrace
