#include "plugin_file.h"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "os/file_handle.h"
#include "os/file_read.h"
#include "os/trusted_path.h"

namespace headrace::device {
namespace {

constexpr std::size_t kMaxHeaders = 256, kMaxNoteBytes = 64 << 10;  // far more than linkers write

Status not_elf(const std::string& path, const char* why) {
  return Status(Code::kCorrupt, Layer::kDevice, path + " is not a 64-bit ELF library: " + why);
}

std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

// Finds headrace's note among those of one segment.
bool find_note(std::span<const std::byte> notes, std::string& text) {
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data(), sizeof header);
    notes = notes.subspan(sizeof header);
    const std::size_t owner_bytes = padded(header.n_namesz);
    if (owner_bytes > notes.size() || header.n_descsz > notes.size() - owner_bytes) return false;
    const std::string_view owner(reinterpret_cast<const char*>(notes.data()), header.n_namesz);
    const std::string_view content(reinterpret_cast<const char*>(notes.data() + owner_bytes), header.n_descsz);
    if (owner == std::string_view(kPluginNoteOwner, std::strlen(kPluginNoteOwner) + 1) &&
        header.n_type == kPluginNoteType) {
      text = content.substr(0, content.find('\0'));
      return true;
    }
    notes = notes.subspan(std::min(owner_bytes + padded(header.n_descsz), notes.size()));
  }
  return false;
}

Result<std::string> read_note(const os::FileHandle& file) {
  Elf64_Ehdr header;
  const auto bytes_of = [](auto& object) { return std::as_writable_bytes(std::span(&object, 1)); };
  if (!os::read_exactly(file.fd(), 0, bytes_of(header)).ok()) return not_elf(file.path(), "it is too short");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxHeaders) {
    return not_elf(file.path(), "its header is not of such a file");
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!os::read_exactly(file.fd(), header.e_phoff, std::as_writable_bytes(std::span(segments))).ok()) {
    return not_elf(file.path(), "its program headers are missing");
  }
  std::string text;
  std::vector<std::byte> notes;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    notes.resize(static_cast<std::size_t>(segment.p_filesz));
    if (!os::read_exactly(file.fd(), segment.p_offset, notes).ok()) {
      return not_elf(file.path(), "its notes are missing");
    }
    if (find_note(notes, text)) return text;
  }
  return Status(Code::kUnsupported, Layer::kDevice,
                file.path() + " is not a CUDA plug-in of headrace: it has no build id");
}

}  // namespace

std::vector<PluginPlace> plugin_places() {
  std::vector<PluginPlace> places;
  // Ignored in set-user-id programs, whose environment is not trusted.
  if (const char* named = ::secure_getenv("HEADRACE_PLUGIN_DIR"); named != nullptr && named[0] != '\0') {
    places.push_back({named, true});
  }
  if (const std::string code = os::own_code_path(); !code.empty()) {
    const std::string directory = code.substr(0, std::max<std::size_t>(code.rfind('/'), 1));
    places.push_back({directory});
    places.push_back({directory + "/headrace"});
  }
  places.push_back({HEADRACE_PLUGIN_INSTALL_DIR});
  return places;
}

Result<std::string> read_build_note(const std::string& path) {
  os::FileHandle file;
  HEADRACE_TRY(os::FileHandle::open(path, {}, file));
  return read_note(file);
}

Result<std::string> check_plugin_file(const std::string& file, const std::string& build_id) {
  HEADRACE_TRY_ASSIGN(const std::string path, os::resolve_trusted(file));
  os::FileHandle handle;
  HEADRACE_TRY(os::FileHandle::open(path, {}, handle));
  // Check the open file: its name may refer to another one by now.
  struct stat about {};
  if (::fstat(handle.fd(), &about) != 0) return Status(Code::kIo, Layer::kDevice, path).with_errno(errno);
  if (const std::string why = os::why_others_can_write(about, false); !why.empty()) {
    return Status(Code::kPermission, Layer::kDevice, path + " " + why);
  }
  HEADRACE_TRY_ASSIGN(const std::string built_as, read_note(handle));
  if (built_as != build_id) {
    return Status(
        Code::kUnsupported, Layer::kDevice,
        path + " was built as '" + built_as + "', this library as '" + build_id + "': install both from one build");
  }
  // Only trusted users can replace the file, such as an installation in progress. Detect that too before any code runs.
  os::FileIdentity opened, named;
  int error = 0;
  if (!os::identify(handle.fd(), opened, error) || !os::identify(path.c_str(), named, error) || opened != named) {
    return Status(Code::kPermission, Layer::kDevice, path + " was replaced while it was looked at: try again");
  }
  return path;
}

}  // namespace headrace::device
