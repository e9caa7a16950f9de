// ByteStore: storage of one's own, which headrace reads by ranges of bytes. Store::open() takes one.
//
// A read is asked for by start() and ends by RangeListener::done(), on any thread, so that hundreds can be under way at
// a time. What a store answers is checked before it is used: sizes, ends, versions.
//
// Threads: headrace calls a ByteStore from any thread, also several calls at a time.
// Owns:    a Store and what is opened from it keep their ByteStore alive until all reads have ended and no call of its
// is
//          under way. It may be destroyed on another thread while its own have yet to come back from the last done().
// Fails:   kNotFound only where there is certainly no such object, which for a chunk means its fill value. Anything
//          else that keeps an object from being read is another code. Exceptions become kIo with their text.
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

// Where reads end. It is headrace's.
class RangeListener {
 public:
  // Each of `reads` has ended. Called once for every read that was started, whatever became of it: on any thread, also
  // from within start() or cancel(), with no lock held that those take. Takes note and returns; allocates nothing. From
  // the call on the store touches neither the read nor its `out`.
  virtual void done(std::span<RangeRead* const> reads) noexcept = 0;

 protected:
  ~RangeListener() = default;
};

// Whether a cache between the reader and the store that it is named by gave the bytes.
enum class RangeCache : std::uint8_t {
  kNone,  // there is none, or it does not keep such objects
  kHit,   // it had them: the store was not asked for them
  kMiss,  // it had not
};

// One range of one object. From start() to done() it is the store's to fill in.
struct RangeRead {
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  // What is asked for. Stays as it is until done(), as all that is pointed to.
  std::string_view key;      // '/'-separated, no component empty, "." or ".."; NUL-terminated
  std::uint64_t offset = 0;  // of the first byte; unused with from_end
  bool from_end = false;     // the object's last out.size() bytes, all of it where it is shorter
  std::span<std::byte> out;  // bytes go here, never more than there is room for
  std::string_view version;  // not empty: a found_version of before. Bytes of another one are kAgainExhausted
  RangeListener* listener = nullptr;
  std::uint64_t user = 0;  // the listener's own

  // What came of it. Set before done().
  Status status;
  std::uint64_t bytes = 0;                // in `out`, from its start: fewer than its size only where the object ends
  std::uint64_t object_bytes = kUnknown;  // size of the whole object, where the answer tells it
  // Whatever names this content of the object (an ETag); empty: unknown. With it the index of a shard is kept from one
  // read to the next; without it each read asks for the index before and after the chunks. With it large chunks of
  // which little is wanted are asked for in two steps, where their codec can decode parts.
  std::string found_version;
  RangeCache cache = RangeCache::kNone;  // for Stats::cache_bytes
};

// A name directly below a prefix.
struct ListedName {
  std::string name;
  bool is_directory = false;
};

// How ranges of a store are best asked for. A request to a distant store takes as long as megabytes that nobody wants:
// the gap that is cheaper read over is the latency times the bytes a second of one connection, and a group a few times
// that. The defaults are those of files on a local disk. Numbers beyond any use are taken as the most that is of use.
struct RangeAdvice {
  std::uint64_t gap_bytes = std::uint64_t{16} << 10;   // between two wanted ranges of one object: up to it one read
  std::uint64_t group_bytes = std::uint64_t{1} << 20;  // most that one read takes of several wanted ranges
  std::uint64_t window_bytes = 0;  // wanted under way at a time, within the budgets; 0: as many as of files
};

class HEADRACE_API ByteStore {
 public:
  virtual ~ByteStore();

  // What messages call the store: safe to print, without secrets.
  virtual std::string url() const = 0;

  // Takes all of these reads, of any objects, or none: then it fails, and done() names none of them. Waits for nothing.
  // The array is the caller's, and gone when this returns; the reads stay.
  virtual Status start(std::span<RangeRead* const> reads) = 0;

  // These reads are not wanted any more. Each still ends by done(), the sooner the better (kCancelled). Some may have
  // ended already, or be named twice: they are passed over. They stay where they are until this returns.
  virtual void cancel(std::span<RangeRead* const> reads) noexcept;

  // Names directly below `prefix` ("": the root), in any order; kNotFound where it is no directory. Those that no
  // object can have are passed over. Needed to walk hierarchies without consolidated metadata. Blocks. By default
  // kUnsupported.
  virtual Result<std::vector<ListedName>> list(std::string_view prefix);

  // Creates or replaces an object. Blocks. By default kUnsupported.
  virtual Status put(std::string_view key, std::span<const std::byte> bytes);

  // Asked for each read of an array, and may change from one to the next. Waits for nothing.
  virtual RangeAdvice advice() const noexcept;
};

// The URL of one object of a remote store, as the URL of a store that holds it, and its key there.
struct ObjectPlace {
  std::string store_url;  // with the query, which may be a secret
  std::string key;        // its last component, not escaped
};
// kInvalidArgument where the URL has no scheme, no place before the object, or no name at its end. Pure; asks nobody.
HEADRACE_API Result<ObjectPlace> split_object_url(std::string_view url);

}  // namespace headrace
