// PartStore: a read-only ByteStore whose objects are parts of objects of other stores: entries of an archive,
// references into files.
//
// A subclass says where an object's bytes are. Bytes may follow a head whose length is known only once it has been
// read, as in ZIP archives: it is then read together with all of the bytes, or else before them.
//
// Threads: as in ByteStore.
// Owns:    nothing of the other stores, which outlive it, or whose destructors wait until running calls have returned.
// Fails:   as the other stores do; an object that they do not have is an error and never kNotFound.
#pragma once

#include <headrace/byte_store.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/forwarded_reads.h"
#include "base/memory_budget.h"

namespace headrace::store {

// Where an object's bytes are. Views stay valid as long as the store.
struct Part {
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};

  ByteStore* store = nullptr;  // null: `memory` has the bytes
  std::span<const std::byte> memory;
  std::string_view key, version;                     // of the object that holds the bytes
  std::uint64_t object_bytes = RangeRead::kUnknown;  // of that object, if it is known
  std::uint64_t begin = 0;                           // of the bytes, if no head must be read; for kToTheEnd always 0
  std::uint64_t bytes = 0;                           // kToTheEnd: all that the object has
  std::uint32_t number = 0;                          // for the subclass
  bool has_head = false;                             // whether the bytes follow a head
  bool head_known = false;                           // whether it was checked before; `begin` is known then
  std::uint64_t head_at = 0, end = 0;  // where the head begins, and the first byte that belongs to something else
  std::uint32_t head_bytes = 0;        // to be read for the head; it may be longer
};

class PartStore : public ByteStore, private RangeListener {
 public:
  Status start(std::span<RangeRead* const> reads) final;
  void cancel(std::span<RangeRead* const> reads) noexcept final;

 protected:
  // `memory`: budget for parts that are read with their heads; without room, heads are read separately. Null: no limit.
  // `steady`: always read whole objects with their heads, so that the same ranges are requested each time.
  PartStore(std::shared_ptr<base::MemoryBudget> memory, bool steady) noexcept
      : budget_(std::move(memory)), steady_(steady) {}
  // REQUIRES: all reads have ended.
  ~PartStore() override = default;

  // kNotFound if there is no object of that name. Waits for nothing.
  virtual Status locate(std::string_view key, Part& out) const noexcept = 0;
  // Checks a head, of which `head` has the first bytes, and finds where the bytes begin. kShort: `needed` bytes are
  // needed, more than there are.
  virtual Status check_head(const Part& part, std::span<const std::byte> head, std::uint64_t& begin,
                            std::uint64_t& needed) noexcept;
  // Checks the bytes of an object that was read whole.
  virtual Status check_whole(const Part& part, std::span<const std::byte> whole) const noexcept;
  // The error for an object of another store that does not exist.
  virtual Status missing(const Part& part) const noexcept = 0;

 private:
  enum class Stage : std::uint8_t {
    kEnded,   // without a request
    kHead,    // reading the head
    kWhole,   // reading the head and all bytes
    kDirect,  // reading bytes into the reader's memory
  };
  // A read from start() to done().
  struct Job : base::ForwardedRead {
    Part part;
    Stage stage = Stage::kEnded;
    std::uint64_t offset = 0, length = 0;  // wanted of the object
    std::unique_ptr<std::byte[]> buffer;
    std::uint64_t charged = 0;
  };

  void done(std::span<RangeRead* const> reads) noexcept final;
  void prepare(Job& job) noexcept;
  bool ask_whole(Job& job) noexcept;
  bool ask_head(Job& job, std::uint64_t bytes) noexcept;
  void ask_direct(Job& job) noexcept;
  void ask(Job& job, std::uint64_t offset, std::span<std::byte> out) noexcept;
  void start_all(std::span<Job* const> jobs) noexcept;
  void answered(Job& job) noexcept;
  Status take_answer(Job& job, bool& again) noexcept;
  Status end_with(Job& job, std::span<const std::byte> bytes) noexcept;
  void finish(Job& job, Status status) noexcept;

  const std::shared_ptr<base::MemoryBudget> budget_;
  const bool steady_;
  base::ForwardedReads<Job> reads_{*this};
};

}  // namespace headrace::store
