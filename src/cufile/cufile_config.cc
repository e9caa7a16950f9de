#include "cufile/cufile_config.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "cufile/cufile_api.h"
#include "os/file_handle.h"
#include "os/file_read.h"
#include "os/trusted_path.h"

namespace headrace::cufile {
namespace {

using base::Json;

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxSlabs = 64;
constexpr const char* kSystemConfig = "/etc/cufile.json";

struct BoolParameter {
  const char* section;
  const char* key;
  bool fallback;
  const char* environment;
};
constexpr BoolParameter kBoolParameters[kBools] = {
    {"properties", "use_poll_mode", false, nullptr},
    {"properties", "allow_compat_mode", true, "CUFILE_ALLOW_COMPAT_MODE"},
    {"properties", "force_compat_mode", false, "CUFILE_FORCE_COMPAT_MODE"},
    {"miscellaneous", "api_check_aggressive", false, nullptr},
    {"execution", "parallel_io", true, nullptr},
    {"profile", "nvtx", false, "CUFILE_NVTX"},
    {"properties", "allow_system_memory", true, nullptr},
    {"properties", "use_pci_p2pdma", false, "CUFILE_USE_PCIP2PDMA"},
    {"properties", "prefer_iouring", false, nullptr},
    {"properties", "force_odirect_mode", false, nullptr},
    {"properties", "skip_topology_detection", false, "CUFILE_SKIP_TOPOLOGY_DETECTION"},
    {"properties", "stream_memops_bypass", false, nullptr},
};

const Json* find(const Json& document, const char* section, const char* key) {
  const auto in = document.find(section);
  if (in == document.end() || !in->is_object()) return nullptr;
  const auto found = in->find(key);
  return found == in->end() ? nullptr : &*found;
}

std::optional<std::size_t> as_size(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::size_t>();
  return std::nullopt;
}

std::optional<bool> as_bool(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= 1) return value.get<std::uint64_t>() == 1;
  if (value.is_string()) return parse_bool(value.get_ref<const std::string&>());
  return std::nullopt;
}

std::optional<std::vector<std::size_t>> as_list(const Json* value) {
  if (value == nullptr || !value->is_array() || value->empty() || value->size() > kMaxSlabs) return std::nullopt;
  std::vector<std::size_t> list;
  for (const Json& item : *value) {
    const auto size = as_size(item);
    if (!size) return std::nullopt;
    list.push_back(*size);
  }
  return list;
}

void take_slabs(std::optional<std::vector<std::size_t>> sizes, std::optional<std::vector<std::size_t>> counts,
                SlabArray& slabs) {
  if (!sizes || !counts || sizes->size() != counts->size()) return;
  slabs = {std::move(*sizes), std::move(*counts)};
}

void take_path(std::string_view name, Config& config) {
  if (auto path = parse_path_name(name); path.ok()) config.path = *path;
}

std::optional<std::size_t> environment_size(const char* name) {
  const char* text = ::secure_getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

void take_environment(Config& config) {
  for (std::size_t i = 0; i < kBools; ++i) {
    if (kBoolParameters[i].environment == nullptr) continue;
    if (const char* text = ::secure_getenv(kBoolParameters[i].environment); text != nullptr) {
      if (const auto value = parse_bool(text)) config.bools[i] = *value;
    }
  }
  if (const char* level = ::secure_getenv("CUFILE_LOGGING_LEVEL")) config.strings[CUFILE_PARAM_LOGGING_LEVEL] = level;
  if (const char* file = ::secure_getenv("CUFILE_LOGFILE_PATH")) {
    config.strings[CUFILE_PARAM_ENV_LOGFILE_PATH] = file;
    config.names_log_file = true;
  }
  if (config.bools[CUFILE_PARAM_FORCE_ODIRECT_MODE]) config.path = Path::kDirect;
  if (const char* path = ::secure_getenv("HEADRACE_CUFILE_PATH")) take_path(path, config);
  if (const char* engine = ::secure_getenv("HEADRACE_CUFILE_ENGINE")) config.engine = engine;
  if (const auto threads = environment_size("HEADRACE_CUFILE_THREADS")) {
    config.threads = static_cast<unsigned>(std::min<std::size_t>(*threads, 1024));
  }
  if (const auto mib = environment_size("HEADRACE_CUFILE_STAGING_MIB")) config.staging_mib = *mib;
}

}  // namespace

// io_batchsize and max_direct_io_size_kb have the ranges observed in cuFile; the other ranges are this library's own.
const std::array<SizeParameter, kSizes> kSizeParameters = {{
    {"profile", "cufile_stats", 0, 1, 0},
    {"execution", "max_io_queue_depth", 128, 1, 1024},
    {"execution", "max_io_threads", 0, 0, 1024},
    {"execution", "min_io_threshold_size_kb", 8192, 4, std::size_t{1} << 30},
    {"execution", "max_request_parallelism", 4, 0, 1024},
    {"properties", "max_direct_io_size_kb", 1024, 64, 16384},
    {"properties", "max_device_cache_size_kb", 131072, 4, std::size_t{1} << 40},
    {"properties", "per_buffer_cache_size_kb", 1024, 4, std::size_t{1} << 30},
    {"properties", "max_device_pinned_mem_size_kb", 33554432, 4, std::size_t{1} << 40},
    {"properties", "io_batchsize", 128, 1, 256},
    {"properties", "poll_mode_max_size_kb", 4, 4, 1048576},
    {"properties", "batch_io_timeout_ms", 5, 1, 5000},
}};

Config::Config() : posix_slabs{{4, 1024, 16384}, {128, 64, 64}} {
  for (std::size_t i = 0; i < kSizes; ++i) sizes[i] = kSizeParameters[i].fallback;
  for (std::size_t i = 0; i < kBools; ++i) bools[i] = kBoolParameters[i].fallback;
  strings[CUFILE_PARAM_LOGGING_LEVEL] = "ERROR";
}

std::optional<bool> parse_bool(std::string_view text) noexcept {
  char lower[8] = "";
  if (text.size() >= sizeof lower) return std::nullopt;
  std::transform(text.begin(), text.end(), lower, [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view word(lower, text.size());
  if (word == "true" || word == "1" || word == "on" || word == "yes") return true;
  if (word == "false" || word == "0" || word == "off" || word == "no") return false;
  return std::nullopt;
}

Status parse_config(std::string_view text, Config& config) {
  if (text.size() > kMaxConfigBytes) {
    return Status(Code::kResourceExhausted, Layer::kApi, "the configuration is larger than 1 MiB");
  }
  std::string why;
  Json document;
  try {
    document = Json::parse(text.begin(), text.end(), nullptr, true, true);
  } catch (const Json::exception& error) {
    return Status(Code::kCorrupt, Layer::kApi, "the configuration is not JSON (comments are allowed)")
        .with_cause(error.what());
  }
  if (!document.is_object()) return Status(Code::kCorrupt, Layer::kApi, "the configuration is not a JSON object");
  for (std::size_t i = 0; i < kSizes; ++i) {
    const Json* value = find(document, kSizeParameters[i].section, kSizeParameters[i].key);
    if (value == nullptr) continue;
    if (const auto size = as_size(*value)) config.sizes[i] = *size;
  }
  for (std::size_t i = 0; i < kBools; ++i) {
    const Json* value = find(document, kBoolParameters[i].section, kBoolParameters[i].key);
    if (value == nullptr && i == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE) {
      value = find(document, "properties", "use_compat_mode");
    }
    if (value == nullptr) continue;
    if (const auto flag = as_bool(*value)) config.bools[i] = *flag;
  }
  const auto text_of = [&](const char* section, const char* key, std::string& out) {
    const Json* value = find(document, section, key);
    if (value != nullptr && value->is_string()) out = value->get_ref<const std::string&>();
  };
  text_of("logging", "level", config.strings[CUFILE_PARAM_LOGGING_LEVEL]);
  text_of("logging", "dir", config.strings[CUFILE_PARAM_LOG_DIR]);
  take_slabs(as_list(find(document, "properties", "posix_pool_slab_size_kb")),
             as_list(find(document, "properties", "posix_pool_slab_count")), config.posix_slabs);
  if (const Json* gpu = find(document, "properties", "gpu_bounce_buffer_slab_config");
      gpu != nullptr && gpu->is_object()) {
    const auto sizes = gpu->find("slab_size_kb"), counts = gpu->find("slab_count");
    if (sizes != gpu->end() && counts != gpu->end()) take_slabs(as_list(&*sizes), as_list(&*counts), config.gpu_slabs);
  }
  std::string name;
  text_of("headrace", "path", name);
  if (!name.empty()) take_path(name, config);
  text_of("headrace", "engine", config.engine);
  if (const Json* threads = find(document, "headrace", "threads"); threads != nullptr) {
    if (const auto n = as_size(*threads)) config.threads = static_cast<unsigned>(std::min<std::size_t>(*n, 1024));
  }
  if (const Json* staging = find(document, "headrace", "staging_mib"); staging != nullptr) {
    if (const auto mib = as_size(*staging)) config.staging_mib = *mib;
  }
  return {};
}

Status load_config(Config& config) {
  // Not in set-user-id programs, whose environment is controlled by another user.
  const char* named = ::secure_getenv("CUFILE_ENV_PATH_JSON");
  std::string path = named != nullptr && named[0] != '\0' ? named : kSystemConfig;
  char here[PATH_MAX];
  if (path[0] != '/' && ::getcwd(here, sizeof here) != nullptr) path = std::string(here) + "/" + path;
  const auto trusted = os::resolve_trusted(path);
  if (!trusted.ok() && trusted.status().code() == Code::kPermission) {
    config.ignored_file = "the configuration is not used: " + trusted.status().to_string();
  }
  os::FileHandle file;
  std::uint64_t bytes = 0;
  if (trusted.ok() && os::FileHandle::open(*trusted, {}, file).ok() && file.size(bytes).ok()) {
    std::string text(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kMaxConfigBytes + 1)), '\0');
    if (os::read_exactly(file.fd(), 0, {reinterpret_cast<std::byte*>(text.data()), text.size()}).ok()) {
      if (Status status = parse_config(text, config); !status.ok()) return std::move(status).with_key(path);
    }
  }
  take_environment(config);
  return {};
}

void apply(const StagedConfig& staged, Config& config) {
  for (std::size_t i = 0; i < kSizes; ++i) config.sizes[i] = staged.sizes[i].value_or(config.sizes[i]);
  for (std::size_t i = 0; i < kBools; ++i) config.bools[i] = staged.bools[i].value_or(config.bools[i]);
  for (std::size_t i = 0; i < kStrings; ++i) {
    if (staged.strings[i]) config.strings[i] = *staged.strings[i];
  }
  config.names_log_file = config.names_log_file || staged.strings[CUFILE_PARAM_ENV_LOGFILE_PATH].has_value();
  if (staged.posix_slabs) config.posix_slabs = *staged.posix_slabs;
  if (staged.bools[CUFILE_PARAM_FORCE_ODIRECT_MODE].value_or(false)) config.path = Path::kDirect;
}

std::vector<std::string> check_ranges(Config& config) {
  std::vector<std::string> replaced;
  for (std::size_t i = 0; i < kSizes; ++i) {
    const SizeParameter& parameter = kSizeParameters[i];
    if (parameter.least > parameter.most) continue;
    if (config.sizes[i] >= parameter.least && config.sizes[i] <= parameter.most) continue;
    replaced.push_back(std::string(parameter.section) + "." + parameter.key + " is " + std::to_string(config.sizes[i]) +
                       ", not in " + std::to_string(parameter.least) + " to " + std::to_string(parameter.most) +
                       ": using " + std::to_string(parameter.fallback));
    config.sizes[i] = parameter.fallback;
  }
  constexpr std::size_t kMinStaging = 4, kMaxStaging = 4096, kStaging = 16;
  if (config.staging_mib < kMinStaging || config.staging_mib > kMaxStaging) {
    replaced.push_back("staging_mib is not in 4 to 4096: using 16");
    config.staging_mib = kStaging;
  }
  return replaced;
}

}  // namespace headrace::cufile
