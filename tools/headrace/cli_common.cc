#include "cli_common.h"

#include <headrace/capabilities.h>
#include <headrace/group.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "json_text.h"
#include "remote_options.h"

namespace headrace::cli {
namespace {

// Whether the key names a metadata document or an archive's directory, as opposed to a chunk.
bool is_metadata(const Status& status) {
  const std::string_view key = status.key();
  const std::string_view name = key.substr(key.rfind('/') + 1);
  for (const char* document : {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}) {
    if (name == document) return true;
  }
  return status.layer() == Layer::kStore;
}

// Whether the failure did not come from a local system call.
bool is_remote(const Status& status) { return status.layer() == Layer::kStore && status.system_error() == 0; }

std::string_view default_advice(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
      return "see 'headrace --help'";
    case Code::kNotFound:
      return "check the path: it must be a Zarr array or group";
    case Code::kCorrupt:
    case Code::kShort:
      if (is_metadata(status)) {
        return "restore it from a copy or write it again; what other readers accept may pass with --lenient";
      }
      return "'headrace verify' lists every damaged chunk, which must be restored or written again";
    case Code::kIo:
      if (status.system_error() == ENOENT || status.system_error() == ENOTDIR) return "check the path";
      if (is_remote(status)) return "check the address, the network and the server";
      return "check the disk, the mount and the kernel log";
    case Code::kAgainExhausted:
    case Code::kTimeout:
      return "try again when the system is less loaded";
    case Code::kCancelled:
      return "run it again";
    case Code::kResourceExhausted:
      return "select a part with --select, or free memory";
    case Code::kUnsupported:
      if (status.layer() == Layer::kDevice)
        return "'headrace doctor' says which devices can be used, and why others cannot";
      return "'headrace info --capabilities' lists what this build reads";
    case Code::kPermission:
      if (is_remote(status)) return "check the credentials, and whether they may read the bucket";
      return "check the permissions of the store";
    case Code::kDeviceLost:
      return "run it again, or with --device host";
    default:
      return "this is a bug in headrace: please report it with this line";
  }
}

std::string format_unit(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof(text), value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

std::string scaled(double bytes, const char* const* units, int count) {
  int i = 0;
  // 999.5 would be printed as "1000".
  while (i + 1 < count && bytes >= 999.5) {
    bytes /= 1000;
    ++i;
  }
  return format_unit(bytes, units[i]);
}

}  // namespace

void add_path_and_json(CLI::App& verb, CommonOptions& options) {
  const auto take = [&options](const std::string& text) {
    options.location = text;
    options.path = shown_path(text);
  };
  verb.add_option_function<std::string>(
          "PATH", take,
          "a Zarr array or group: a directory, a path or URL through a ZIP file, or file:///, zip:///, "
          "reference:///path, s3://, https:// or reference://URL")
      ->required()
      ->check([](const std::string& text) { return text.empty() ? std::string("PATH is empty") : std::string(); });
  verb.add_flag("--json", options.json, "print one JSON object instead of text");
  add_remote_options(verb, options.storage);
}

void add_engine_and_threads(CLI::App& verb, CommonOptions& options) {
  verb.add_option("--engine", options.engine, "I/O engine for files: " + comma_list(engine_choices()))
      ->check(CLI::IsMember(engine_choices()))
      ->type_name("NAME");
  verb.add_option("--threads", options.threads, "worker threads; 0: the CPUs this process may use")
      ->check(CLI::Range(0u, 1024u))
      ->type_name("N");
}

void add_stored_budget(CLI::App& verb, CommonOptions& options) {
  verb.add_option(
          "--stored-budget", options.stored_budget,
          "memory limit for data whose size is set by the store, such as metadata, listings and shard indexes (512M)")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
}

void add_lenient(CLI::App& verb, CommonOptions& options) {
  std::string names = "all";
  for (const LeniencyRow& row : leniencies()) names += std::string(", ") + row.name;
  verb.add_option("--lenient", options.lenient, "accept these spec violations, by name, separated by commas: " + names)
      ->type_name("LIST");
}

OpenOptions open_options(const CommonOptions& options) {
  OpenOptions open;
  open.lenient = options.lenient;
  open.consolidated = !options.no_consolidated;
  open.index_directory = options.index;
  return open;
}

void note_lenient_uses(const ArrayInfo& info) {
  for (const std::string& use : info.lenient_uses) {
    std::fprintf(stderr, "headrace: note: accepted by --lenient: %s\n", one_line(use).c_str());
  }
}

void add_placement(CLI::App& verb, std::string& placement) {
  verb.add_option("--placement", placement,
                  "processor that decodes: auto (the faster), cpu or gpu (only where supported)")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}))
      ->type_name("NAME");
}

Placement placement_of(std::string_view name) {
  return name == "cpu" ? Placement::kCpu : name == "gpu" ? Placement::kGpu : Placement::kAuto;
}

namespace {

// "auto" and the names of the available parts.
std::vector<std::string> choices(std::vector<std::string> Capabilities::*names) {
  std::vector<std::string> out = {"auto"};
  if (const auto found = capabilities(); found.ok())
    out.insert(out.end(), ((*found).*names).begin(), ((*found).*names).end());
  return out;
}

}  // namespace

const std::vector<std::string>& engine_choices() {
  static const std::vector<std::string> names = choices(&Capabilities::engines);
  return names;
}

const std::vector<std::string>& device_choices() {
  static const std::vector<std::string> names = choices(&Capabilities::devices);
  return names;
}

std::string device_help() { return comma_list(device_choices()) + "; of several of a kind KIND:N"; }

std::string check_device_name(const std::string& name) {
  constexpr std::size_t kMaxDigits = 4;
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon), number = colon == std::string::npos ? "0" : name.substr(colon + 1);
  const auto& kinds = device_choices();
  const bool digits = !number.empty() && number.size() <= kMaxDigits &&
                      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  const bool numbered = colon == std::string::npos || kind != "auto";
  if (digits && numbered && std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return {};
  return "unknown device; use " + device_help();
}

std::optional<Array> open_array(const Store& store, const CommonOptions& options) {
  auto node = open(store, "", open_options(options));
  if (!node.ok()) {
    (void)fail(node.status(), options.path);
    return std::nullopt;
  }
  if (auto* array = std::get_if<Array>(&*node)) return std::move(*array);
  print_error("this is a group, not an array", options.path, "'headrace info' lists the arrays of a group");
  return std::nullopt;
}

void print_error(std::string_view what, std::string_view where, std::string_view advice) {
  // Semicolons separate the three parts, so the first two must not contain any.
  const auto part = [](std::string_view text) {
    std::string out = one_line(text);
    std::replace(out.begin(), out.end(), ';', ',');
    return out;
  };
  const std::string line = "headrace: " + part(what) + "; " + part(where) + "; " + one_line(advice) + "\n";
  std::fputs(line.c_str(), stderr);
}

std::string describe(const Status& status) {
  std::string what = std::string(code_name(status.code())) + ": " + status.message();
  if (!status.cause().empty()) what += " (" + status.cause() + ")";
  return one_line(what);
}

std::string output_advice(const Status& status, std::string_view option) {
  const auto first = [&]() -> std::string_view {
    switch (status.system_error()) {
      case ENOSPC:
      case EDQUOT:
        return "free space";
      case ENOENT:
      case ENOTDIR:
        return "create its parent directory first";
      case EACCES:
      case EPERM:
      case EROFS:
        return "check the permissions of the directory";
      case EISDIR:
        return "name a file, not a directory";
      default:
        return "check the disk";
    }
  };
  return std::string(first()) + ", or choose another place with " + std::string(option);
}

int fail(const Status& status, std::string_view where, std::string_view advice) {
  std::string place(where);
  if (!status.key().empty() && status.key() != where) place += " key " + status.key();
  if (status.offset()) place += " offset " + std::to_string(*status.offset());
  if (status.length()) place += " length " + std::to_string(*status.length());
  print_error(describe(status), place, advice.empty() ? default_advice(status) : advice);
  return kExitFailed;
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  return scaled(static_cast<double>(bytes), kUnits, 7);
}

std::string human_rate(std::uint64_t bytes, double seconds) {
  static constexpr const char* kUnits[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  if (seconds <= 0) return "-";
  return scaled(static_cast<double>(bytes) / seconds, kUnits, 5);
}

std::string human_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string human_seconds(double seconds) {
  if (seconds >= 1) return format_unit(seconds, "s");
  if (seconds >= 1e-3) return format_unit(seconds * 1e3, "ms");
  return format_unit(seconds * 1e6, "us");
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

std::string dtype_text(const DataType& dtype) {
  std::string out = dtype.name;
  // In format 2 the name contains the unit: "<M8[ns]".
  if (!dtype.unit.empty() && out.find('[') == std::string::npos) out += " [" + dtype.unit + "]";
  if (dtype.kind == TypeKind::kStruct) {
    out += " {";
    for (const DataType::Field& field : dtype.fields) {
      if (out.back() != '{') out += ", ";
      out += field.name + ": " + dtype_text(field.type);
      if (!field.shape.empty()) out += " " + shape_text(field.shape);
    }
    out += "}";
  }
  return one_line(out);
}

std::string shown_path(std::string_view path) {
  for (const std::string_view through : {"reference://", "zip://"}) {
    if (path.starts_with(through)) return std::string(through) + shown_path(path.substr(through.size()));
  }
  const std::size_t mark = path.find("://");
  if (!is_remote_url(path)) return std::string(path);
  const std::string_view scheme = path.substr(0, mark);
  const std::string_view rest = path.substr(mark + 3, path.find_first_of("?#") - mark - 3);
  const std::string_view host = rest.substr(0, rest.find('/'));
  // In Azure URLs the part before the '@' is a container.
  const bool azure = scheme.starts_with("a");
  const std::size_t at = azure ? std::string_view::npos : host.rfind('@');
  return std::string(scheme) + "://" + std::string(rest.substr(at == std::string_view::npos ? 0 : at + 1));
}

std::optional<std::string> local_directory(std::string_view path) {
  constexpr std::string_view kFile = "file://";
  if (path.substr(0, kFile.size()) == kFile) return std::string(path.substr(kFile.size()));
  if (path.find("://") != std::string_view::npos) return std::nullopt;
  return std::string(path);
}

std::uint64_t host_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  std::uint64_t bytes = UINT64_MAX;
  if (pages > 0 && page_bytes > 0) bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::uint64_t limit = 0;
    if (std::ifstream file(path); file >> limit && limit > 0) bytes = std::min(bytes, limit);  // "max" is not a number
  }
  return bytes;
}

std::optional<std::uint64_t> decoded_bytes(std::span<const std::uint64_t> shape, std::uint32_t item_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t bytes = item_bytes;
  for (std::uint64_t count : shape) {
    if (__builtin_mul_overflow(bytes, count, &bytes)) return std::nullopt;
  }
  return bytes;
}

Result<Context> make_context(const CommonOptions& options) {
  ContextOptions native;
  native.engine = options.engine;
  native.threads = options.threads;
  if (options.stored_budget != 0) native.stored_budget_bytes = options.stored_budget;
  if (!options.index.empty()) native.index_budget_bytes = std::size_t{256} << 20;
  return Context::create(native);
}

Json stats_json(const Stats& stats) {
  return {
      {"chunks", stats.chunks},
      {"missing_chunks", stats.missing_chunks},
      {"damaged_chunks", stats.damaged_chunks},
      {"gpu_chunks", stats.gpu_chunks},
      {"cpu_chunks", stats.cpu_chunks},
      {"skipped_bytes", stats.skipped_bytes},
      {"returned_chunks", stats.returned_chunks},
      {"indexed_chunks", stats.indexed_chunks},
      {"bad_indices", stats.bad_indices},
      {"waves", stats.waves},
      {"requests", stats.requests},
      {"objects_opened", stats.objects_opened},
      {"stored_bytes", stats.stored_bytes},
      {"read_bytes", stats.read_bytes},
      {"bus_bytes", stats.bus_bytes},
      {"decoded_bytes", stats.decoded_bytes},
      {"gpu_decoded_bytes", stats.gpu_decoded_bytes},
      {"cpu_decoded_bytes", stats.cpu_decoded_bytes},
      {"undecoded_bytes", undecoded_bytes(stats)},
      {"direct_bytes", stats.direct_bytes},
      {"straight_bytes", stats.straight_bytes},
      {"engine_bytes", stats.engine_bytes},
      {"buffered_bytes", stats.buffered_bytes},
      {"memory_bytes", stats.memory_bytes},
      {"mapped_bytes", stats.mapped_bytes},
      {"store_bytes", stats.store_bytes},
      {"cache_bytes", stats.cache_bytes},
      {"cache_hits", stats.cache_hits},
      {"cache_misses", stats.cache_misses},
      {"packed_bytes", stats.packed_bytes},
      {"plan_seconds", stats.plan_seconds},
      {"open_seconds", stats.open_seconds},
      {"read_seconds", stats.read_seconds},
      {"decode_seconds", stats.decode_seconds},
      {"assemble_seconds", stats.assemble_seconds},
      {"copy_seconds", stats.copy_seconds},
      {"wall_seconds", stats.wall_seconds},
      {"engine", stats.engine},
      {"path", stats.path},
      {"device_note", stats.device_note},
  };
}

std::uint64_t undecoded_bytes(const Stats& stats) {
  return stats.decoded_bytes - stats.gpu_decoded_bytes - stats.cpu_decoded_bytes;
}

std::string stats_table(const Stats& stats, const std::string& decoder) {
  std::string out;
  const auto row = [&out](const std::string& name, const std::string& text) {
    char line[64];
    std::snprintf(line, sizeof(line), "  %-20s ", name.c_str());
    out += line + text + "\n";
  };
  const auto bytes = [&](const std::string& name, std::uint64_t count) {
    row(name, human_bytes(count) + (count >= 1000 ? " (" + human_count(count) + ")" : ""));
  };
  // Stage times are sums, so a rate here is per thread or, for reading, per request.
  const auto stage = [&](const char* name, double seconds, std::uint64_t count, const char* of) {
    std::string text = human_seconds(seconds);
    if (of != nullptr && count > 0 && seconds > 0) text += ", " + human_rate(count, seconds) + " " + of;
    row(name, text);
  };
  const std::uint64_t plain_chunks = stats.chunks - stats.gpu_chunks - stats.cpu_chunks;
  out += "work\n";
  row("chunks", human_count(stats.chunks));
  row("missing (filled)", human_count(stats.missing_chunks));
  if (stats.damaged_chunks > 0) row("damaged (NaN)", human_count(stats.damaged_chunks));
  if (!decoder.empty()) {
    row("by " + decoder,
        human_count(stats.gpu_chunks) + " decoded" +
            (stats.indexed_chunks > 0 ? " (" + human_count(stats.indexed_chunks) + " with a decode index)" : ""));
  }
  row("by the CPU",
      human_count(stats.cpu_chunks) + " decoded" +
          (stats.returned_chunks > 0 ? " (" + human_count(stats.returned_chunks) + " handed back by " + decoder + ")"
                                     : ""));
  if (stats.skipped_bytes > 0) row("not decoded of them", human_bytes(stats.skipped_bytes));
  row("stored as they are", human_count(plain_chunks));
  row("waves", human_count(stats.waves));
  row("requests", human_count(stats.requests));
  row("objects opened", human_count(stats.objects_opened));
  out += "bytes by kind\n";
  bytes("stored", stats.stored_bytes);
  bytes("read", stats.read_bytes);
  if (!decoder.empty()) bytes("over the bus", stats.bus_bytes);
  bytes("decoded", stats.decoded_bytes);
  if (!decoder.empty()) bytes("  by " + decoder, stats.gpu_decoded_bytes);
  bytes("  by the CPU", stats.cpu_decoded_bytes);
  bytes("  not to decode", undecoded_bytes(stats));
  out += "bytes read by path\n";
  bytes("direct", stats.direct_bytes);
  if (stats.straight_bytes > 0) bytes("  into device memory", stats.straight_bytes);
  bytes("engine, buffered", stats.engine_bytes);
  bytes("page cache", stats.buffered_bytes);
  bytes("memory", stats.memory_bytes);
  bytes("mapped", stats.mapped_bytes);
  bytes("unpacked", stats.packed_bytes);
  bytes("store", stats.store_bytes);
  if (stats.cache_hits + stats.cache_misses > 0) {
    bytes("disk cache", stats.cache_bytes);
    row("  ranges it had", human_count(stats.cache_hits) + " of " + human_count(stats.cache_hits + stats.cache_misses));
  }
  out += "time by stage (summed over threads, of read over requests in flight)\n";
  stage("plan", stats.plan_seconds, 0, nullptr);
  stage("open", stats.open_seconds, 0, nullptr);
  // Mapped bytes and bytes in memory are not read.
  stage("read", stats.read_seconds, stats.read_bytes - stats.mapped_bytes - stats.memory_bytes, "read by each");
  stage("decode by the CPU", stats.decode_seconds, stats.cpu_decoded_bytes, "decoded per thread");
  // On a device, this is only the time for queueing.
  stage("assemble", stats.assemble_seconds, decoder.empty() ? stats.decoded_bytes : 0, "placed per thread");
  if (!decoder.empty()) stage("wait for the device", stats.copy_seconds, 0, nullptr);
  row("wall", human_seconds(stats.wall_seconds) + ", " + human_rate(stats.stored_bytes, stats.wall_seconds) +
                  " stored, " + human_rate(stats.decoded_bytes, stats.wall_seconds) + " decoded");
  row("engine", stats.engine);
  row("path", stats.path);
  if (!stats.device_note.empty()) row("device", one_line(stats.device_note));
  return out;
}

}  // namespace headrace::cli
