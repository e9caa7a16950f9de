// Url: an address of http or https, taken apart and checked, and the escaping of keys.
//
// Threads: pure functions.
// Fails:   kInvalidArgument, with messages that never repeat the text: it may hold a secret.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::http {

struct Url {
  bool tls = false;        // https
  std::string host;        // lower case; an IPv6 address in its brackets
  std::uint16_t port = 0;  // never 0: 80 or 443 where none was given
  std::string path = "/";  // escaped, begins with '/'
  std::string query;       // escaped, without '?'

  // "host", or "host:port" where the port is not the scheme's own: as it stands in a Host header.
  std::string authority() const;
  // "https://host:port": what a connection, and with it a credential, is for.
  std::string origin() const { return (tls ? "https://" : "http://") + authority(); }
  std::string to_string() const { return origin() + path + (query.empty() ? "" : "?" + query); }
  // Without the query, which may be a signature.
  std::string without_secrets() const { return origin() + path; }
};

// Refuses names and passwords in the address. What has no place in a path or a query is escaped, what is escaped
// already stays; a fragment is dropped.
Result<Url> parse_url(std::string_view text);

// Whether it is of this machine, by its name or number alone: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const Url& url) noexcept;

// Where a redirect from `base` to `location` leads. Besides what parse_url() refuses: https to http, and addresses of
// the link (169.254.0.0/16, fe80::/10), where clouds keep credentials, unless `base` is one.
Result<Url> resolve_redirect(const Url& base, std::string_view location);

// Every byte but A-Z a-z 0-9 - . _ ~ as %XX, as S3 signs it; '/' stays where `keep_slash`.
void append_escaped(std::string& out, std::string_view text, bool keep_slash);

// The reverse, as forms have it: '+' is a space. False where a '%' is not followed by two hexadecimal digits.
bool unescape_form(std::string_view text, std::string& out);

}  // namespace headrace::http
