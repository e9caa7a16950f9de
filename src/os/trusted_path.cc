#include "os/trusted_path.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "base/fault.h"

namespace headrace::os {
namespace {

constexpr unsigned kMaxLinks = 40;  // Linux's own limit

bool is_trusted_owner(uid_t owner) {
  // The owner of the root folder is root, under another number in nested user namespaces.
  static const uid_t root = [] {
    struct stat about {};
    return ::lstat("/", &about) == 0 ? about.st_uid : 0;
  }();
  if (owner == 0 || owner == root || owner == ::geteuid()) return true;
  static const auto code_owner = []() -> std::pair<bool, uid_t> {
    struct stat about {};
    const std::string path = own_code_path();
    return {!path.empty() && ::stat(path.c_str(), &about) == 0, about.st_uid};
  }();
  return code_owner.first && owner == code_owner.second;
}

Status refuse(Code code, const std::string& path, const std::string& why) {
  return Status(code, Layer::kBase, path + " " + why);
}

Status failed(const std::string& path, int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound
                    : error == EACCES                   ? Code::kPermission
                                                        : Code::kIo;
  return refuse(code, path, "cannot be examined").with_errno(error);
}

}  // namespace

std::string own_code_path() {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(&own_code_path), &info, reinterpret_cast<void**>(&map),
                RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return {};
  }
  // For the main program dladdr returns argv[0], which the caller of execve() chooses; the loader's name
  // for it is empty.
  if (map->l_name != nullptr && map->l_name[0] != '\0') return map->l_name[0] == '/' ? map->l_name : "";
  char program[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0 || length == static_cast<ssize_t>(sizeof program) || program[0] != '/') return {};
  return std::string(program, static_cast<std::size_t>(length));
}

std::string why_others_can_write(const struct stat& about, bool sticky_allowed) {
  if (!is_trusted_owner(about.st_uid)) return "belongs to user " + std::to_string(about.st_uid);
  if (S_ISLNK(about.st_mode)) return {};  // the mode of a link is meaningless
  if (S_ISDIR(about.st_mode) && sticky_allowed && (about.st_mode & S_ISVTX) != 0) return {};
  const uid_t user = ::geteuid();
  const bool private_group = user != 0 && about.st_gid == user && about.st_gid == ::getegid();
  const mode_t others = S_IWOTH | (private_group ? 0 : S_IWGRP);
  if ((about.st_mode & others) == 0) return {};
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(about.st_mode & 07777));
  return std::string("may be written by ") + ((about.st_mode & S_IWOTH) != 0 ? "everybody" : "its group") + " (mode " +
         mode + ")";
}

Result<std::string> resolve_trusted(const std::string& path) {
  if (path.empty() || path[0] != '/')
    return refuse(Code::kInvalidArgument, "'" + path + "'", "is not an absolute path");
  std::string here = "/", rest = path;
  for (unsigned links = 0;;) {
    struct stat about {};
    int result = ::lstat(here.c_str(), &about) == 0 ? 0 : -errno;
    result = static_cast<int>(HEADRACE_FAULT("base.lstat", result));
    if (result < 0) return failed(here, -result);
    rest.erase(0, rest.find_first_not_of('/'));  // removes everything if only slashes are left
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const bool last = rest.find_first_not_of('/', end) == std::string::npos;
    if (const std::string why = why_others_can_write(about, !last); !why.empty()) {
      return refuse(Code::kPermission, here, why + ": remove the permission, or move the file elsewhere");
    }
    if (S_ISLNK(about.st_mode)) {
      char target[PATH_MAX];
      const ssize_t length = ::readlink(here.c_str(), target, sizeof target);
      if (length < 0) return failed(here, errno);
      if (++links > kMaxLinks || length == static_cast<ssize_t>(sizeof target)) return failed(here, ELOOP);
      rest.insert(0, std::string(target, static_cast<std::size_t>(length)) + "/");
      here = target[0] == '/' ? "/" : here.substr(0, std::max<std::size_t>(here.rfind('/'), 1));
      continue;
    }
    if (rest.empty()) return here;
    const std::string name = rest.substr(0, end);
    rest.erase(0, end);
    if (name == ".") continue;
    if (name == "..") {
      here.erase(std::max<std::size_t>(here.rfind('/'), 1));
    } else {
      here += (here.size() > 1 ? "/" : "") + name;
    }
  }
}

}  // namespace headrace::os
