#include "codec/config_reader.h"

#include <algorithm>
#include <string>

#include "base/json.h"

namespace headrace::codec {

ConfigReader::ConfigReader(const base::Json& config, const CodecArgs& context)
    : config_(config),
      context_(context),
      numcodecs_form_(context.zarr_format == 2 || context.name.starts_with("numcodecs.")) {
  if (!config.is_object()) {
    status_ = Status(Code::kCorrupt, Layer::kCodec,
                     "configuration of codec '" + std::string(context.name) + "' is not an object");
  }
}

void ConfigReader::refuse(const char* key, std::string_view reason) {
  if (!status_.ok()) return;
  status_ =
      Status(Code::kCorrupt, Layer::kCodec,
             "codec '" + std::string(context_.name) + "': configuration key '" + key + "' " + std::string(reason));
}

const base::Json* ConfigReader::any(const char* key, Need need) {
  queried_keys_.emplace_back(key);
  if (!config_.is_object()) return nullptr;
  const auto found = config_.find(key);
  if (found == config_.end()) {
    if (need == Need::kRequired) refuse(key, "is missing");
    return nullptr;
  }
  return &*found;
}

std::int64_t ConfigReader::integer(const char* key, Need need, std::int64_t min, std::int64_t max,
                                   std::int64_t fallback) {
  const base::Json* value = any(key, need);
  if (value == nullptr) return fallback;
  if (!value->is_number_integer()) {
    refuse(key, "is not an integer");
    return fallback;
  }
  const bool too_large =
      value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (too_large || value->get<std::int64_t>() < min || value->get<std::int64_t>() > max) {
    refuse(key, "is " + value->dump() + ", outside " + std::to_string(min) + ".." + std::to_string(max));
    return fallback;
  }
  return value->get<std::int64_t>();
}

bool ConfigReader::boolean(const char* key, Need need, bool fallback) {
  const base::Json* value = any(key, need);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    refuse(key, "is not a boolean");
    return fallback;
  }
  return value->get<bool>();
}

int ConfigReader::choice(const char* key, Need need, std::initializer_list<std::string_view> allowed, int fallback) {
  const base::Json* value = any(key, need);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    refuse(key, "is not a string");
    return fallback;
  }
  const auto found = std::find(allowed.begin(), allowed.end(), value->get_ref<const std::string&>());
  if (found != allowed.end()) return static_cast<int>(found - allowed.begin());
  std::string reason = "is '" + value->get_ref<const std::string&>().substr(0, 40) + "', not one of";
  for (std::string_view word : allowed) reason.append(" ").append(word);
  refuse(key, reason);
  return fallback;
}

Status ConfigReader::finish() {
  if (status_.ok() && context_.zarr_format != 2) {
    for (const auto& item : config_.items()) {
      if (std::find(queried_keys_.begin(), queried_keys_.end(), item.key()) != queried_keys_.end()) continue;
      refuse(item.key().substr(0, 80).c_str(), "is not known");
      break;
    }
  }
  return std::move(status_);
}

}  // namespace headrace::codec
