// XmlReader: a pull parser for the subset of XML that object stores respond with. Supports only the five predefined
// entities and numeric ones; no document types, no CDATA.
//
// Threads: one. Keeps views into the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::http {

class XmlReader {
 public:
  enum class Piece : std::uint8_t { kOpen, kText, kClose, kEnd, kError };

  explicit XmlReader(std::string_view text) noexcept : text_(text) {}
  // Elements are properly nested, or the result is kError; kEnd follows the last close. kError is permanent.
  Piece next();
  const std::string& name() const noexcept { return name_; }   // of kOpen and kClose, without its prefix
  const std::string& text() const noexcept { return value_; }  // of kText, unescaped
  std::size_t depth() const noexcept { return open_.size(); }

 private:
  Piece fail() noexcept;
  bool skip_to(std::string_view end);
  bool unescape(std::string_view raw);

  std::string_view text_;
  std::string name_, value_;
  std::vector<std::string_view> open_;
  bool any_ = false, close_pending_ = false, failed_ = false;
};

// <Error><Code>..</Code>..</Error>; all empty for any other text.
struct S3Error {
  std::string code, message, region, request_id;
};
S3Error parse_s3_error(std::string_view text);

// One page of a listing.
struct ObjectPage {
  struct Name {
    std::string key;
    bool is_prefix = false;
  };
  std::vector<Name> names;
  bool truncated = false;
  std::string next_token;
};
// A page of ListObjectsV2. False where the text is something else.
bool parse_s3_page(std::string_view text, ObjectPage& out);
// A page of Azure's List Blobs; likewise.
bool parse_azure_page(std::string_view text, ObjectPage& out);

}  // namespace headrace::http
