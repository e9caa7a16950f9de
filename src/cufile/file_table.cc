#include "cufile/file_table.h"

namespace headrace::cufile {
namespace {

// Bits 43 to 46 mark a handle; below them are 19 bits of generation, 20 of index and four zeros. The value is a
// plausible positive address, for callers that print it or store it as a signed number.
constexpr std::uint64_t kMark = 6, kIndexBits = 20, kGenerationMask = (std::uint64_t{1} << 19) - 1;

CUfileHandle_t make_handle(std::size_t index, std::uint64_t generation) {
  const std::uint64_t value =
      kMark << 43 | (generation & kGenerationMask) << 24 | static_cast<std::uint64_t>(index) << 4;
  return reinterpret_cast<CUfileHandle_t>(static_cast<std::uintptr_t>(value));
}

bool read_handle(CUfileHandle_t handle, std::size_t& index, std::uint64_t& generation) noexcept {
  const auto value = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
  if (value >> 43 != kMark || (value & 15) != 0) return false;
  index = static_cast<std::size_t>(value >> 4 & ((std::uint64_t{1} << kIndexBits) - 1));
  generation = value >> 24 & kGenerationMask;
  return true;
}

}  // namespace

const OpenFile& FileTable::Use::operator*() const noexcept { return table_->slot(slot_)->file; }

FileTable::Slot* FileTable::slot(std::size_t index) const noexcept {
  if (index / kChunk >= kChunks) return nullptr;
  Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : chunk + index % kChunk;
}

CUfileOpError FileTable::add(OpenFile file, CUfileHandle_t& handle) {
  std::lock_guard lock(mutex_);
  if (by_descriptor_.count(file.descriptor) != 0) return CU_FILE_HANDLE_ALREADY_REGISTERED;
  if (free_.empty()) {
    if (slots_ == kChunk * kChunks) return CU_FILE_NOMEM_ERROR;
    free_.reserve(slots_ + 1);  // room for all, so that returning one cannot fail
    if (slots_ % kChunk == 0) chunks_[slots_ / kChunk].store(new Slot[kChunk], std::memory_order_release);
    free_.push_back(slots_++);
  }
  const std::size_t index = free_.back();
  Slot& into = *slot(index);
  const std::uint64_t generation = into.word.load(std::memory_order_relaxed) >> 32;
  by_descriptor_.emplace(file.descriptor, index);
  free_.pop_back();
  into.descriptor = file.descriptor;
  into.file = std::move(file);
  into.word.store(generation << 32 | kOpen, std::memory_order_release);
  open_.fetch_add(1, std::memory_order_relaxed);
  handle = make_handle(index, generation);
  return CU_FILE_SUCCESS;
}

CUfileOpError FileTable::acquire(CUfileHandle_t handle, Use& use) noexcept {
  std::size_t index = 0;
  std::uint64_t generation = 0;
  if (!read_handle(handle, index, generation)) return CU_FILE_INVALID_VALUE;
  Slot* at = slot(index);
  if (at == nullptr) return CU_FILE_HANDLE_NOT_REGISTERED;
  std::uint64_t word = at->word.load(std::memory_order_acquire);
  do {
    if ((word & kOpen) == 0 || (word >> 32 & kGenerationMask) != generation) return CU_FILE_HANDLE_NOT_REGISTERED;
  } while (!at->word.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel));
  use = Use(this, index);
  return CU_FILE_SUCCESS;
}

void FileTable::release(std::size_t index) noexcept {
  Slot& at = *slot(index);
  const std::uint64_t before = at.word.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kUsers) == 1 && (before & kOpen) == 0) empty_slot(index, at);
}

// Called once, by whichever thread removes the last of the open flag and the users.
void FileTable::empty_slot(std::size_t index, Slot& at) noexcept {
  const OpenFile gone = std::move(at.file);  // closed at the end of the function
  at.file = OpenFile();
  at.word.store(((at.word.load(std::memory_order_relaxed) >> 32) + 1) << 32, std::memory_order_release);
  std::lock_guard lock(mutex_);
  free_.push_back(index);
}

bool FileTable::close_slot(std::size_t index, std::uint64_t generation) noexcept {
  Slot* at = slot(index);
  if (at == nullptr) return false;
  bool unused = false;
  {
    std::lock_guard lock(mutex_);
    std::uint64_t word = at->word.load(std::memory_order_acquire);
    do {
      if ((word & kOpen) == 0 || (word >> 32 & kGenerationMask) != generation) return false;
    } while (!at->word.compare_exchange_weak(word, word & ~kOpen, std::memory_order_acq_rel));
    by_descriptor_.erase(at->descriptor);
    unused = (word & kUsers) == 0;
  }
  open_.fetch_sub(1, std::memory_order_relaxed);
  if (unused) empty_slot(index, *at);
  return true;
}

bool FileTable::close(CUfileHandle_t handle) noexcept {
  std::size_t index = 0;
  std::uint64_t generation = 0;
  return read_handle(handle, index, generation) && close_slot(index, generation);
}

void FileTable::close_all() noexcept {
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    count = slots_;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t word = slot(i)->word.load(std::memory_order_acquire);
    if ((word & kOpen) != 0) (void)close_slot(i, word >> 32 & kGenerationMask);
  }
}

}  // namespace headrace::cufile
