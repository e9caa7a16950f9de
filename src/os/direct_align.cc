#include "os/direct_align.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

namespace headrace::os {
namespace {

// Older C libraries lack these fields of struct statx but reserve the space: mask bit and offset of the two fields.
constexpr unsigned kStatxDioAlign = 0x2000;
constexpr std::size_t kDioFields = 0x98;
static_assert(sizeof(struct statx) >= kDioFields + 2 * sizeof(std::uint32_t));

bool plausible(std::uint32_t value) { return value != 0 && (value & (value - 1)) == 0 && value <= (1u << 20); }

}  // namespace

DirectAlignment direct_alignment(int fd) noexcept {
  DirectAlignment out;
  struct statx st;
  std::memset(&st, 0, sizeof st);
  if (::statx(fd, "", AT_EMPTY_PATH, kStatxDioAlign, &st) != 0 || (st.stx_mask & kStatxDioAlign) == 0) return out;
  std::uint32_t fields[2];
  std::memcpy(fields, reinterpret_cast<const char*>(&st) + kDioFields, sizeof fields);
  if (!plausible(fields[0]) || !plausible(fields[1])) return out;
  return {fields[0], fields[1], true};
}

}  // namespace headrace::os
