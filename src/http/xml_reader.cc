#include "http/xml_reader.h"

#include <algorithm>

#include "base/utf8.h"
#include "http/url.h"

namespace headrace::http {
namespace {

constexpr std::size_t kMaxDepth = 16, kMaxNameBytes = 256;

std::string_view local_name(std::string_view name) { return name.substr(name.find(':') + 1); }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// "#10", "#x0a"; ~0 for an invalid character.
std::uint32_t character_number(std::string_view text) {
  std::uint32_t value = 0;
  const bool hexadecimal = text.starts_with("#x");
  text.remove_prefix(hexadecimal ? 2 : 1);
  if (text.empty() || text.size() > 7) return ~0u;
  for (const char c : text) {
    std::uint32_t digit = 99;
    if (c >= '0' && c <= '9') digit = static_cast<std::uint32_t>(c - '0');
    if (hexadecimal && c >= 'a' && c <= 'f') digit = static_cast<std::uint32_t>(c - 'a' + 10);
    if (hexadecimal && c >= 'A' && c <= 'F') digit = static_cast<std::uint32_t>(c - 'A' + 10);
    if (digit >= (hexadecimal ? 16u : 10u)) return ~0u;
    value = value * (hexadecimal ? 16 : 10) + digit;
  }
  return value == 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF) ? ~0u : value;
}

}  // namespace

XmlReader::Piece XmlReader::fail() noexcept {
  failed_ = true;
  return Piece::kError;
}

bool XmlReader::skip_to(std::string_view end) {
  const std::size_t at = text_.find(end);
  if (at == std::string_view::npos) return false;
  text_.remove_prefix(at + end.size());
  return true;
}

bool XmlReader::unescape(std::string_view raw) {
  value_.clear();
  while (!raw.empty()) {
    const std::size_t mark = std::min(raw.find('&'), raw.size());
    value_ += raw.substr(0, mark);
    raw.remove_prefix(mark);
    if (raw.empty()) break;
    const std::size_t end = raw.substr(0, 12).find(';');
    if (end == std::string_view::npos) return false;
    const std::string_view entity = raw.substr(1, end - 1);
    raw.remove_prefix(end + 1);
    if (entity == "lt") {
      value_ += '<';
    } else if (entity == "gt") {
      value_ += '>';
    } else if (entity == "amp") {
      value_ += '&';
    } else if (entity == "quot") {
      value_ += '"';
    } else if (entity == "apos") {
      value_ += '\'';
    } else if (entity.starts_with('#')) {
      const std::uint32_t code = character_number(entity);
      if (code == ~0u) return false;
      base::append_utf8(code, value_);
    } else {
      return false;
    }
  }
  return true;
}

XmlReader::Piece XmlReader::next() {
  if (failed_) return Piece::kError;
  if (close_pending_) {  // the close of <name/>
    close_pending_ = false;
    open_.pop_back();
    return Piece::kClose;
  }
  for (;;) {
    if (open_.empty()) {
      while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
      if (!any_ && text_.starts_with("\xEF\xBB\xBF")) {
        text_.remove_prefix(3);
        continue;
      }
      if (text_.empty()) return any_ ? Piece::kEnd : fail();
      if (text_.front() != '<') return fail();
    }
    if (text_.empty()) return fail();
    if (text_.front() != '<') {
      const std::size_t end = text_.find('<');
      if (end == std::string_view::npos || !unescape(text_.substr(0, end))) return fail();
      text_.remove_prefix(end);
      return Piece::kText;
    }
    if (text_.starts_with("<?")) {
      if (!skip_to("?>")) return fail();
      continue;
    }
    if (text_.starts_with("<!--")) {
      text_.remove_prefix(4);
      if (!skip_to("-->")) return fail();
      continue;
    }
    break;
  }
  const std::size_t end = text_.find('>');
  if (end == std::string_view::npos || text_.starts_with("<!")) return fail();
  std::string_view tag = text_.substr(1, end - 1);
  text_.remove_prefix(end + 1);
  const bool closes = tag.starts_with('/');
  if (closes) tag.remove_prefix(1);
  const bool empty = !closes && tag.ends_with('/');
  if (empty) tag.remove_suffix(1);
  std::size_t length = 0;
  while (length < tag.size() && !is_space(tag[length])) ++length;
  const std::string_view name = tag.substr(0, length);
  if (name.empty() || name.size() > kMaxNameBytes || tag.find('<') != std::string_view::npos) return fail();
  name_ = local_name(name);
  if (closes) {
    if (open_.empty() || open_.back() != name) return fail();
    open_.pop_back();
    return Piece::kClose;
  }
  if (open_.size() == kMaxDepth || (open_.empty() && any_)) return fail();
  any_ = true;
  open_.push_back(name);
  close_pending_ = empty;
  return Piece::kOpen;
}

S3Error parse_s3_error(std::string_view text) {
  S3Error found, nothing;
  XmlReader reader(text);
  std::string element;
  for (;;) {
    switch (reader.next()) {
      case XmlReader::Piece::kOpen:
        element = reader.name();
        if (reader.depth() == 1 && element != "Error") return nothing;
        break;
      case XmlReader::Piece::kText:
        if (reader.depth() != 2) break;
        if (element == "Code") found.code = reader.text();
        if (element == "Message") found.message = reader.text();
        if (element == "Region") found.region = reader.text();
        if (element == "RequestId") found.request_id = reader.text();
        break;
      case XmlReader::Piece::kClose:
        element.clear();
        break;
      case XmlReader::Piece::kEnd:
        return found;
      case XmlReader::Piece::kError:
        return nothing;
    }
  }
}

bool parse_s3_page(std::string_view text, ObjectPage& out) {
  out = {};
  XmlReader reader(text);
  std::string outer, element;
  bool encoded = false;
  for (;;) {
    switch (reader.next()) {
      case XmlReader::Piece::kOpen:
        if (reader.depth() == 1 && reader.name() != "ListBucketResult") return false;
        if (reader.depth() == 2) outer = reader.name();
        element = reader.name();
        break;
      case XmlReader::Piece::kText:
        if (reader.depth() == 2) {
          if (outer == "IsTruncated") out.truncated = reader.text() == "true";
          if (outer == "NextContinuationToken") out.next_token = reader.text();
          if (outer == "EncodingType") encoded = reader.text() == "url";
        } else if (reader.depth() == 3) {
          if (outer == "Contents" && element == "Key") out.names.push_back({reader.text(), false});
          if (outer == "CommonPrefixes" && element == "Prefix") out.names.push_back({reader.text(), true});
        }
        break;
      case XmlReader::Piece::kClose:
        element.clear();
        break;
      case XmlReader::Piece::kEnd:
        if (encoded) {
          for (ObjectPage::Name& name : out.names) {
            std::string plain;
            if (!unescape_form(name.key, plain)) return false;
            name.key = std::move(plain);
          }
        }
        return true;
      case XmlReader::Piece::kError:
        return false;
    }
  }
}

bool parse_azure_page(std::string_view text, ObjectPage& out) {
  out = {};
  XmlReader reader(text);
  std::string path[4];
  for (;;) {
    switch (reader.next()) {
      case XmlReader::Piece::kOpen:
        if (reader.depth() == 1 && reader.name() != "EnumerationResults") return false;
        if (reader.depth() <= 4) path[reader.depth() - 1] = reader.name();
        break;
      case XmlReader::Piece::kText:
        if (reader.depth() == 2 && path[1] == "NextMarker") out.next_token = reader.text();
        if (reader.depth() == 4 && path[1] == "Blobs" && path[3] == "Name") {
          if (path[2] == "Blob") out.names.push_back({reader.text(), false});
          if (path[2] == "BlobPrefix") out.names.push_back({reader.text(), true});
        }
        break;
      case XmlReader::Piece::kClose:
        break;
      case XmlReader::Piece::kEnd:
        out.truncated = !out.next_token.empty();
        return true;
      case XmlReader::Piece::kError:
        return false;
    }
  }
}

}  // namespace headrace::http
