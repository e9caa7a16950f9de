#include "os/filesystem.h"

#include <sys/vfs.h>

#include <iterator>

#include "base/fault.h"
#include "os/proc_text.h"

namespace headrace::os {
namespace {

enum Trait : unsigned { kNone = 0, kNetwork = 1, kMemory = 2, kFuse = 4, kOverlay = 8, kDirect = 16 };

struct Row {
  std::uint32_t magic;
  const char* name;
  unsigned traits;
};

// kDirect: O_DIRECT is accepted and reads bypass the page cache. tmpfs accepts the flag since Linux 6.6 but still
// copies from the page cache; ZFS before 2.3 accepts and ignores it, so it has to be tested.
constexpr Row kRows[] = {
    {0x0000ef53, "ext4", kDirect},  // also ext2 and ext3
    {0x58465342, "xfs", kDirect},
    {0x9123683e, "btrfs", kDirect},
    {0xf2f52010, "f2fs", kDirect},
    {0xca451a4e, "bcachefs", kDirect},
    {0x2fc12fc1, "zfs", kNone},
    {0x00003434, "nilfs2", kDirect},
    {0x3153464a, "jfs", kDirect},
    {0x52654973, "reiserfs", kDirect},
    {0x7366746e, "ntfs3", kDirect},
    {0x00004d44, "vfat", kDirect},
    {0x2011bab0, "exfat", kDirect},
    {0x00009660, "iso9660", kNone},
    {0x73717368, "squashfs", kNone},
    {0xe0f5e1e2, "erofs", kNone},
    {0x0000f15f, "ecryptfs", kNone},
    {0x794c7630, "overlay", kOverlay | kDirect},
    {0x01021994, "tmpfs", kMemory},
    {0x858458f6, "ramfs", kMemory},
    {0x958458f6, "hugetlbfs", kMemory},
    {0x65735546, "fuse", kFuse},
    {0x00006969, "nfs", kNetwork | kDirect},
    {0xff534d42, "cifs", kNetwork | kDirect},
    {0xfe534d42, "smb2", kNetwork | kDirect},
    {0x0000517b, "smb", kNetwork},
    {0x00c36400, "ceph", kNetwork | kDirect},
    {0x0bd00bd0, "lustre", kNetwork | kDirect},
    {0x47504653, "gpfs", kNetwork | kDirect},
    {0x19830326, "beegfs", kNetwork | kDirect},
    {0x20030528, "orangefs", kNetwork},
    {0x01021997, "9p", kNetwork},
    {0x5346414f, "afs", kNetwork},
    {0x73757245, "coda", kNetwork},
    {0x786f4256, "vboxsf", kNetwork},
    {0x7461636f, "ocfs2", kDirect},  // shared by several machines, but each reads the block device itself
    {0x01161970, "gfs2", kDirect},
    {0x00009fa0, "proc", kNone},
    {0x62656572, "sysfs", kNone},
    {0x0027e0eb, "cgroup", kNone},
    {0x63677270, "cgroup2", kNone},
    {0x64626720, "debugfs", kNone},
    {0x74726163, "tracefs", kNone},
    {0x00001cd1, "devpts", kNone},
};

// Spaces, tabs, newlines and backslashes in names are escaped as a backslash and three octal digits.
std::string unescaped(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] <= '3' && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool parse_device_number(std::string_view text, Mount& mount) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const auto major = parse_number(text.substr(0, colon)), minor = parse_number(text.substr(colon + 1));
  if (!major || !minor || *major > UINT32_MAX || *minor > UINT32_MAX) return false;
  mount.major = static_cast<unsigned>(*major);
  mount.minor = static_cast<unsigned>(*minor);
  return true;
}

}  // namespace

FilesystemKind filesystem_kind_of(std::uint64_t magic) noexcept {
  FilesystemKind kind;
  kind.magic = magic;
  for (const Row& row : kRows) {
    if (row.magic != magic) continue;
    kind.name = row.name;
    kind.known = true;
    kind.is_network = (row.traits & kNetwork) != 0;
    kind.is_memory = (row.traits & kMemory) != 0;
    kind.is_fuse = (row.traits & kFuse) != 0;
    kind.is_overlay = (row.traits & kOverlay) != 0;
    kind.direct_likely = (row.traits & kDirect) != 0;
    break;
  }
  return kind;
}

FilesystemKind filesystem_kind(int fd) noexcept {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return {};
  // f_type is a signed word on some machines; the numbers themselves have 32 bits.
  return filesystem_kind_of(static_cast<std::uint32_t>(HEADRACE_FAULT("base.filesystem_type", info.f_type)));
}

std::vector<Mount> parse_mountinfo(std::string_view text) {
  std::vector<Mount> mounts;
  std::string_view line;
  while (next_line(text, line)) {
    Mount mount;
    const auto id = parse_number(next_word(line));
    const auto parent = parse_number(next_word(line));
    if (!id || !parent || !parse_device_number(next_word(line), mount)) continue;
    mount.id = *id;
    mount.root = unescaped(next_word(line));
    mount.mount_point = unescaped(next_word(line));
    mount.options = next_word(line);
    // Any number of optional fields, terminated by a dash.
    std::string_view field = next_word(line);
    while (!field.empty() && field != "-") field = next_word(line);
    mount.type = unescaped(next_word(line));
    mount.source = unescaped(next_word(line));
    mount.super_options = next_word(line);
    if (mount.type.empty() || mount.mount_point.empty()) continue;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<Mount> mount_of(int fd) {
  // The mount id is exact. Comparing names would have to guess with bind mounts and stacked mounts.
  const auto info = read_text_file("/proc/self/fdinfo/" + std::to_string(fd));
  const auto id = info ? labelled_number(*info, "mnt_id") : std::nullopt;
  const auto text = read_text_file("/proc/self/mountinfo");
  if (!id || !text) return std::nullopt;
  for (Mount& mount : parse_mountinfo(*text)) {
    if (mount.id == *id) return std::move(mount);
  }
  return std::nullopt;
}

}  // namespace headrace::os
