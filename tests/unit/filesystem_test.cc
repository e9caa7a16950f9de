// File systems are identified, and mount tables of many kinds of machine are parsed.
#include "os/filesystem.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "os/proc_text.h"
#include "support/temp_dir.h"

namespace headrace::os {
namespace {

// A virtual machine, a container on overlay with a bind mount, NFS, Lustre, sshfs, a btrfs subvolume.
constexpr const char* kMountinfo =
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resv_strict\n"
    "65 27 0:40 / /tmp/m rw,relatime - overlay overlay rw,lowerdir=low,upperdir=up,workdir=work,uuid=on\n"
    "1530 1498 0:291 / / rw,relatime master:421 - overlay overlay "
    "rw,lowerdir=/var/lib/docker/overlay2/l/Q2:/var/lib/docker/overlay2/l/R3,upperdir=/var/lib/docker/overlay2/9b/"
    "diff\n"
    "1540 1530 259:2 /var/lib/docker/containers/4c/hosts /etc/hosts rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
    "812 27 0:53 / /mnt/my\\040data\\134x rw,noatime shared:310 - nfs4 10.1.2.3:/export/era5 "
    "rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,local_lock=none\n"
    "97 27 0:45 / /lustre/scratch rw,nosuid,relatime shared:55 master:2 - lustre "
    "10.1.0.1@o2ib:10.1.0.2@o2ib:/scratch rw,checksum,flock,user_xattr,lruresize,lazystatfs,verbose\n"
    "201 27 0:60 / /home/u/remote rw,nosuid,nodev,relatime - fuse.sshfs u@host:/srv rw,user_id=1000,group_id=1000\n"
    "55 27 0:33 /@home /home rw,relatime shared:30 - btrfs /dev/sda2 "
    "rw,ssd,space_cache=v2,subvolid=257,subvol=/@home\n";

TEST(Mountinfo, KindsOfMachine) {
  const auto mounts = parse_mountinfo(kMountinfo);
  ASSERT_EQ(mounts.size(), 8u);
  EXPECT_EQ(mounts[0].id, 27u);
  EXPECT_EQ(mounts[0].major, 254u);
  EXPECT_EQ(mounts[0].minor, 0u);
  EXPECT_EQ(mounts[0].type, "ext4");
  EXPECT_EQ(mounts[0].source, "/dev/vda");
  EXPECT_EQ(mounts[0].options, "rw,relatime");
  EXPECT_TRUE(lists_word(mounts[0].super_options, "discard"));
  EXPECT_EQ(mounts[1].type, "overlay");
  EXPECT_EQ(mounts[2].mount_point, "/");
  EXPECT_EQ(mounts[3].root, "/var/lib/docker/containers/4c/hosts");
  EXPECT_EQ(mounts[4].mount_point, "/mnt/my data\\x");
  EXPECT_EQ(mounts[4].type, "nfs4");
  EXPECT_EQ(mounts[4].source, "10.1.2.3:/export/era5");
  EXPECT_EQ(mounts[5].type, "lustre");  // after two optional fields
  EXPECT_EQ(mounts[6].type, "fuse.sshfs");
  EXPECT_EQ(mounts[7].root, "/@home");
  EXPECT_EQ(mounts[7].major, 0u);
}

TEST(Mountinfo, BadLinesAreLeftOut) {
  for (const char* line :
       {"", "\n", "27", "27 1 254:0 / / rw,relatime", "27 1 254:0 / / rw -", "x 1 254:0 / / rw - ext4 a b",
        "27 1 254 / / rw - ext4 a b", "27 1 :0 / / rw - ext4 a b", "27 1 99999999999:0 / / rw - ext4 a b",
        "27 -1 254:0 / / rw - ext4 a b", "27 1 254:0 / / rw shared:1 ext4 a b"}) {
    EXPECT_TRUE(parse_mountinfo(line).empty()) << line;
  }
  EXPECT_EQ(parse_mountinfo("junk\n27 1 254:0 / / rw - ext4 a b\njunk").size(), 1u);
  // Not an escape sequence: kept as it is.
  EXPECT_EQ(parse_mountinfo("1 1 0:1 / /a\\04 rw - t s o").at(0).mount_point, "/a\\04");
  EXPECT_EQ(parse_mountinfo("1 1 0:1 / /a\\777 rw - t s o").at(0).mount_point, "/a\\777");
}

TEST(FilesystemKind, TellsNetworkMemoryAndLocal) {
  const FilesystemKind ext4 = filesystem_kind_of(0xef53);
  EXPECT_STREQ(ext4.name, "ext4");
  EXPECT_TRUE(ext4.known && ext4.direct_likely);
  EXPECT_FALSE(ext4.is_network || ext4.is_memory || ext4.is_fuse || ext4.is_overlay);
  EXPECT_TRUE(filesystem_kind_of(0x6969).is_network);
  EXPECT_TRUE(filesystem_kind_of(0x0bd00bd0).is_network);
  EXPECT_TRUE(filesystem_kind_of(0xff534d42).is_network);
  EXPECT_TRUE(filesystem_kind_of(0x01021994).is_memory);
  EXPECT_FALSE(filesystem_kind_of(0x01021994).direct_likely);
  EXPECT_TRUE(filesystem_kind_of(0x65735546).is_fuse);
  EXPECT_TRUE(filesystem_kind_of(0x794c7630).is_overlay);
  const FilesystemKind unknown = filesystem_kind_of(0x12345678);
  EXPECT_FALSE(unknown.known || unknown.direct_likely || unknown.is_network);
  EXPECT_STREQ(unknown.name, "unknown");
}

TEST(FilesystemKind, OfADescriptor) {
  const int proc = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  EXPECT_STREQ(filesystem_kind(proc).name, "proc");
  ::close(proc);
  EXPECT_FALSE(filesystem_kind(-1).known);
}

TEST(MountOf, TheMountOfADescriptor) {
  const int proc = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const auto mount = mount_of(proc);
  ::close(proc);
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->type, "proc");
  EXPECT_EQ(mount->mount_point, "/proc");
  EXPECT_FALSE(mount_of(-1));

  support::TempDir dir;
  const int fd = ::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto own = mount_of(fd);
  const FilesystemKind kind = filesystem_kind(fd);
  ::close(fd);
  ASSERT_TRUE(own);
  EXPECT_EQ(dir.path().rfind(own->mount_point == "/" ? "" : own->mount_point, 0), 0u);
  if (kind.known && !kind.is_fuse && kind.magic != 0xef53) {
    EXPECT_EQ(own->type, kind.name);
  }
}

TEST(ProcText, CpuLists) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (std::vector<unsigned>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), (std::vector<unsigned>{5}));
  EXPECT_EQ(parse_cpu_list("\n"), std::vector<unsigned>{});
  for (const char* bad :
       {"a", "1-", "-1", "3-1", "1,,2", "1,", "0-65536", "0-99999999999999999999", "1 2", "2,1", "0-3,3"}) {
    EXPECT_FALSE(parse_cpu_list(bad)) << bad;
  }
}

TEST(ProcText, LabelledNumbers) {
  constexpr const char* kText =
      "MemTotal:       24684084 kB\nMemAvailable:   23441852 kB\ninactive_file 4096\nempty:\n";
  EXPECT_EQ(labelled_number(kText, "MemAvailable"), 23441852u);
  EXPECT_EQ(labelled_number(kText, "inactive_file"), 4096u);
  EXPECT_FALSE(labelled_number(kText, "Mem"));
  EXPECT_FALSE(labelled_number(kText, "empty"));
  EXPECT_FALSE(labelled_number("", "x"));
}

TEST(ProcText, Files) {
  support::TempDir dir;
  EXPECT_FALSE(read_text_file(dir / "absent"));
  EXPECT_FALSE(read_text_file(dir.path()));  // a directory
  const std::string text = " 42 \nsecond";
  ASSERT_TRUE(support::write_file(dir / "f", std::as_bytes(std::span(text))));
  EXPECT_EQ(read_first_line(dir / "f"), "42");
  EXPECT_EQ(read_number(dir / "f"), 42u);
  ASSERT_TRUE(support::write_file(dir / "g", std::as_bytes(std::span("max", 3))));
  EXPECT_FALSE(read_number(dir / "g"));
}

}  // namespace
}  // namespace headrace::os
