// The file system that a descriptor is on, and its mount.
//
// Threads: every call from any thread.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::os {

// What a file system's magic number implies. Allocates nothing, so it is cheap enough for every file opened.
struct FilesystemKind {
  const char* name = "unknown";  // "ext4", "nfs", "tmpfs"
  std::uint64_t magic = 0;       // f_type of statfs(2)
  bool known = false;            // the magic number is in the table
  bool is_network = false;       // other machines hold the bytes: NFS, SMB, Lustre, Ceph, ...
  bool is_memory = false;        // the bytes exist only in the page cache; there is no backing storage
  bool is_fuse = false;          // a user-space program serves it (also virtiofs), possibly over a network
  bool is_overlay = false;       // another file system underneath holds the bytes
  bool direct_likely = false;    // O_DIRECT is usually accepted and really bypasses the page cache
};

// Everything unknown and false if the kernel does not answer.
FilesystemKind filesystem_kind(int fd) noexcept;
FilesystemKind filesystem_kind_of(std::uint64_t magic) noexcept;

// One line of /proc/PID/mountinfo. Octal escapes in names are resolved.
struct Mount {
  std::uint64_t id = 0;
  unsigned major = 0, minor = 0;  // device number; major 0 without a block device
  std::string root;               // the part of the file system that is mounted: "/" for all of it
  std::string mount_point;
  std::string options;        // of this mount: "ro,nosuid"
  std::string type;           // "ext4", "nfs4", "fuse.sshfs"
  std::string source;         // "/dev/vda", "server:/export"
  std::string super_options;  // of the file system: "rw,vers=4.2"
};

// Skips lines that do not have the documented form.
std::vector<Mount> parse_mountinfo(std::string_view text);

// The mount through which `fd` was opened; nothing if /proc is not available.
std::optional<Mount> mount_of(int fd);

}  // namespace headrace::os
