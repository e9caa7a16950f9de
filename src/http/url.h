// Url: an http or https address, parsed and validated, and the escaping of keys.
//
// Threads: pure functions.
// Fails:   kInvalidArgument; messages never repeat the text, which may hold a secret.
#pragma once

#include <headrace/status.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::http {

struct Url {
  bool tls = false;        // https
  std::string host;        // lower case; IPv6 addresses in brackets
  std::uint16_t port = 0;  // never 0: 80 or 443 by default
  std::string path = "/";  // escaped, begins with '/'
  std::string query;       // escaped, without '?'

  // "host", or "host:port" where the port is not the scheme's default, as in a Host header.
  std::string authority() const;
  // "https://host:port": the scope of a connection and of credentials.
  std::string origin() const { return (tls ? "https://" : "http://") + authority(); }
  std::string to_string() const { return origin() + path + (query.empty() ? "" : "?" + query); }
  // Without the query, which may hold a signature.
  std::string without_secrets() const { return origin() + path; }
};

// Rejects user names and passwords. Characters not allowed in a path or query are escaped, existing escapes are kept,
// and a fragment is dropped.
Result<Url> parse_url(std::string_view text);

// Whether the URL names this machine, judged by the text alone: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const Url& url) noexcept;

// The same in more spellings, for refusing such URLs: also 0.0.0.0, ::, names below localhost, and IPv6 addresses that
// stand for such IPv4 addresses.
bool may_be_this_machine(const Url& url) noexcept;

// Whether the URL names a link-local address (169.254.0.0/16, fe80::/10) in any spelling, judged by the text alone.
bool is_link_local(const Url& url) noexcept;

// The target of a redirect from `base` to `location`. Rejects what parse_url() rejects, https to http, link-local
// addresses (169.254.0.0/16, fe80::/10), where clouds serve credentials, unless `base` has the same one, and this
// machine, where services trust local clients, unless `base` is on it.
Result<Url> resolve_redirect(const Url& base, std::string_view location);

// Escapes every byte except A-Z a-z 0-9 - . _ ~ as %XX, as S3 signs it; keeps '/' if `keep_slash`.
void append_escaped(std::string& out, std::string_view text, bool keep_slash);

// The reverse of append_escaped(). False where a '%' is not followed by two hexadecimal digits. Throws std::bad_alloc.
bool unescape_path(std::string_view text, std::string& out);

// The same by the rules of forms: '+' is a space. False where a '%' is not followed by two hexadecimal digits.
bool unescape_form(std::string_view text, std::string& out);

}  // namespace headrace::http
