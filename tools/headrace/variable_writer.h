// VariableWriter: encodes variable-length elements in an output format, part by part in C order.
#pragma once

#include <headrace/status.h>
#include <headrace/variable.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::cli {

// An element as text: strings unchanged, bytes as base64.
std::string element_text(const VariableResult& result, std::uint64_t i);

class VariableWriter {
 public:
  enum class Format {
    kRaw,   // each element after its length, uint32 little-endian
    kJson,  // nested lists by shape, one innermost list per line; a string if there are no dimensions
  };
  using Sink = std::function<Status(std::span<const std::byte>)>;
  // `shape`: of all parts together.
  VariableWriter(Format format, std::vector<std::uint64_t> shape, Sink sink);

  Status add(const VariableResult& part);
  // Call it after the last part.
  Status finish();

 private:
  Status add_raw(const VariableResult& part, std::uint64_t i);
  Status add_json(const VariableResult& part, std::uint64_t i);
  Status put(std::string_view bytes);
  Status flush();

  const Format format_;
  const std::vector<std::uint64_t> shape_;
  const Sink sink_;
  std::uint64_t written_ = 0;  // number of elements
  std::string piece_;          // buffer for small writes
};

}  // namespace headrace::cli
