// ConfigReader: strict parsing of a codec's configuration.
//
// Read each key once with its type and range, then call finish(), which returns the first error. In v3 an unread key is
// an error, since it may change how bytes are decoded; v2 objects may contain extra numcodecs keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "codec/codec.h"

namespace headrace::codec {

enum class Need : std::uint8_t { kRequired, kOptional };

class ConfigReader {
 public:
  // REQUIRES: config outlives the reader.
  ConfigReader(const base::Json& config, const CodecArgs& context);

  // Whether the configuration follows numcodecs: any v2 object, and v3 names that begin with "numcodecs.".
  bool numcodecs_form() const noexcept { return numcodecs_form_; }

  // Each returns the value, or the fallback if the key is absent or wrong.
  std::int64_t integer(const char* key, Need need, std::int64_t min, std::int64_t max, std::int64_t fallback = 0);
  bool boolean(const char* key, Need need, bool fallback = false);
  // Index of the value in `allowed`, or `fallback`.
  int choice(const char* key, Need need, std::initializer_list<std::string_view> allowed, int fallback = 0);
  // The value itself, of any type; null if absent.
  const base::Json* any(const char* key, Need need);

  // Fails with `reason`, appended to the key's name. The first failure wins.
  void refuse(const char* key, std::string_view reason);
  // kCorrupt, naming the codec and the key.
  Status finish();

 private:
  const base::Json& config_;
  const CodecArgs& context_;
  bool numcodecs_form_;
  std::vector<std::string_view> queried_keys_;
  Status status_;
};

}  // namespace headrace::codec
