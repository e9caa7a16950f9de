#include "http/url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace headrace::http {
namespace {

constexpr std::size_t kMaxUrlBytes = 16 << 10;
constexpr char kHex[] = "0123456789ABCDEF";

Status refuse(const char* what) { return Status(Code::kInvalidArgument, Layer::kStore, what); }

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_byte(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  out += '%';
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

// Escapes a path or query: characters that RFC 3986 allows stay, as does '%' where it begins an escape.
std::string cleaned(std::string_view text, std::string_view more) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escape = c == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    if (is_letter_or_digit(c) || escape || std::string_view("-._~!$&'()*+,;=:@/").find(c) != std::string_view::npos ||
        more.find(c) != std::string_view::npos) {
      out += c;
    } else {
      append_byte(out, c);
    }
  }
  return out;
}

Status parse_host(std::string_view text, Url& url) {
  std::size_t end = text.find(':');
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return refuse("the URL's IPv6 address has no end");
    end = bracket + 1 < text.size() ? bracket + 1 : std::string_view::npos;
    if (end != std::string_view::npos && text[end] != ':') return refuse("the URL's host is not valid");
    for (const char c : text.substr(1, bracket - 1)) {
      if (hex_value(c) < 0 && c != ':' && c != '.') return refuse("the URL's IPv6 address is not valid");
    }
    if (bracket < 3) return refuse("the URL's IPv6 address is not valid");
  }
  for (const char c : text.substr(0, end)) {
    const bool bracket = text.starts_with('[') && (c == '[' || c == ']' || c == ':');
    if (!is_letter_or_digit(c) && c != '-' && c != '.' && c != '_' && !bracket) {
      return refuse("the URL's host is not valid");
    }
    url.host += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (url.host.empty() || url.host.size() > 255) return refuse("the URL has no valid host");
  url.port = url.tls ? 443 : 80;
  if (end == std::string_view::npos || end + 1 == text.size()) return {};
  const std::string_view digits = text.substr(end + 1);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
  if (error != std::errc() || stop != digits.data() + digits.size() || url.port == 0) {
    return refuse("the URL's port is not a number of 1 to 65535");
  }
  return {};
}

void take_path(std::string_view text, Url& url) {
  text = text.substr(0, text.find('#'));
  const std::size_t mark = text.find('?');
  url.path = cleaned(text.substr(0, mark), "");
  if (!url.path.starts_with('/')) url.path.insert(0, "/");
  url.query = mark == std::string_view::npos ? "" : cleaned(text.substr(mark + 1), "?");
}

using Ipv6 = std::array<std::uint8_t, 16>;

// Four decimal numbers.
bool take_ipv4(std::string_view text, std::uint8_t* out) noexcept {
  for (int i = 0; i < 4; ++i) {
    const std::size_t end = i < 3 ? text.find('.') : text.size();
    if (end == std::string_view::npos) return false;
    const char* const stop = text.data() + end;
    const auto [at, error] = std::from_chars(text.data(), stop, out[i]);
    if (error != std::errc() || at != stop) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

// RFC 4291, 2.2. `host`: in brackets. nullopt: not an address.
std::optional<Ipv6> ipv6_of(std::string_view host) noexcept {
  constexpr std::size_t kNone = 17;
  std::string_view text = host.substr(1, host.size() - 2);
  Ipv6 out{};
  std::size_t bytes = 0, gap = kNone;  // where zeros are left out
  if (text.starts_with("::")) {
    gap = 0;
    text.remove_prefix(2);
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(':'), text.size());
    const std::string_view part = text.substr(0, end);
    if (part.find('.') != std::string_view::npos) {
      if (end != text.size() || bytes > 12 || !take_ipv4(part, &out[bytes])) return std::nullopt;
      bytes += 4;
      break;
    }
    std::uint16_t value = 0;
    const auto [at, error] = std::from_chars(part.data(), part.data() + part.size(), value, 16);
    if (error != std::errc() || at != part.data() + part.size() || part.size() > 4 || bytes > 14) return std::nullopt;
    out[bytes++] = static_cast<std::uint8_t>(value >> 8);
    out[bytes++] = static_cast<std::uint8_t>(value & 0xff);
    text.remove_prefix(end);
    if (text.empty()) break;
    text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
    if (!text.starts_with(':')) continue;
    if (gap != kNone) return std::nullopt;
    gap = bytes;
    text.remove_prefix(1);
  }
  if (gap == kNone) return bytes == 16 ? std::optional(out) : std::nullopt;
  if (bytes == 16) return std::nullopt;
  Ipv6 whole{};
  std::copy_n(out.begin(), gap, whole.begin());
  std::copy_n(out.begin() + gap, bytes - gap, whole.end() - (bytes - gap));
  return whole;
}

// The first of the four bytes of an IPv4 address that this one stands for: mapped, compatible, translated (RFC 6052) or
// 6to4. Null: none.
const std::uint8_t* ipv4_in(const Ipv6& address) noexcept {
  static constexpr std::array<std::uint8_t, 12> kPrefixes[] = {
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, {}, {0, 0x64, 0xff, 0x9b}};
  for (const auto& prefix : kPrefixes) {
    if (std::equal(prefix.begin(), prefix.end(), address.begin())) return &address[12];
  }
  return address[0] == 0x20 && address[1] == 0x02 ? &address[2] : nullptr;
}

bool is_link_local(std::string_view host) {
  // Other spellings of these addresses (a single number, octal) are rejected too; a host whose last label is a number
  // is not a name.
  if (host.starts_with("169.254.")) return true;
  if (host.starts_with('[')) {
    const std::optional<Ipv6> address = ipv6_of(host);
    if (!address) return true;
    const Ipv6& a = *address;
    const std::uint8_t* const v4 = ipv4_in(a);
    return (v4 != nullptr && v4[0] == 169 && v4[1] == 254) || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) ||
           (a[0] == 0xfd && a[1] == 0 && a[2] == 0x0e && a[3] == 0xc2);
  }
  const std::string_view last = host.substr(host.rfind('.') + 1);
  const bool number = last.starts_with("0x") || (!last.empty() && last.find_first_not_of("0123456789") == last.npos);
  if (!number) return false;
  std::size_t dots = 0;
  for (std::size_t i = 0; i < host.size(); ++i) {
    dots += host[i] == '.';
    const bool begins = i == 0 || host[i - 1] == '.';
    if (begins && host[i] == '0' && i + 1 < host.size() && host[i + 1] != '.') return true;
  }
  return dots != 3;
}

}  // namespace

std::string Url::authority() const { return port == (tls ? 443 : 80) ? host : host + ":" + std::to_string(port); }

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxUrlBytes) return refuse("the URL is too long");
  Url url;
  const std::size_t mark = text.find("://");
  std::string scheme(text.substr(0, mark == std::string_view::npos ? 0 : mark));
  for (char& c : scheme) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (scheme != "http" && scheme != "https") return refuse("the URL's scheme is neither http nor https");
  url.tls = scheme == "https";
  text.remove_prefix(mark + 3);
  const std::size_t end = std::min(text.find_first_of("/?#"), text.size());
  const std::string_view host = text.substr(0, end);
  if (host.find('@') != std::string_view::npos) {
    return refuse("user names and passwords in a URL are not accepted, since they would appear in logs");
  }
  HEADRACE_TRY(parse_host(host, url));
  take_path(text.substr(end), url);
  return url;
}

bool is_loopback(const Url& url) noexcept {
  const std::string& host = url.host;
  if (host == "localhost" || host == "[::1]") return true;
  // Requires four numbers: "127.example.org" is a name.
  return host.starts_with("127.") && std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

bool may_be_this_machine(const Url& url) noexcept {
  std::string_view host = url.host;
  if (is_loopback(url) || host == "0.0.0.0") return true;
  if (host.starts_with('[')) {
    const std::optional<Ipv6> address = ipv6_of(host);
    const std::uint8_t* const v4 = address ? ipv4_in(*address) : nullptr;
    // :: and ::1 stand for 0.0.0.0 and 0.0.0.1.
    return v4 != nullptr && (v4[0] == 127 || v4[0] == 0);
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  return host == "localhost" || host.ends_with(".localhost") || host == "ip6-localhost" || host == "ip6-loopback";
}

bool is_link_local(const Url& url) noexcept { return is_link_local(url.host); }

Result<Url> resolve_redirect(const Url& base, std::string_view location) {
  if (location.empty() || location.size() > kMaxUrlBytes) return refuse("a redirect leads nowhere");
  Url url = base;
  const std::size_t colon = location.find(':');
  const bool absolute = colon != std::string_view::npos && colon < location.find_first_of("/?#");
  if (absolute || location.starts_with("//")) {
    const std::string text = absolute ? std::string(location) : (base.tls ? "https:" : "http:") + std::string(location);
    HEADRACE_TRY_ASSIGN(url, parse_url(text));
  } else if (location.starts_with('/')) {
    take_path(location, url);
  } else {
    const std::string folder = base.path.substr(0, base.path.rfind('/') + 1);
    take_path((location.starts_with('?') ? base.path : folder) + std::string(location), url);
  }
  if (base.tls && !url.tls) return refuse("a redirect leads from https to http");
  if (is_link_local(url.host) && url.host != base.host) return refuse("a redirect leads to a link-local address");
  if (may_be_this_machine(url) && !may_be_this_machine(base)) return refuse("a redirect leads to this machine");
  return url;
}

void append_escaped(std::string& out, std::string_view text, bool keep_slash) {
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slash && c == '/')) {
      out += c;
    } else {
      append_byte(out, c);
    }
  }
}

bool unescape_path(std::string_view text, std::string& out) {
  std::string plain;  // in a path '+' is not a space
  for (const char c : text) plain += c == '+' ? std::string("%2B") : std::string(1, c);
  return unescape_form(plain, out);
}

bool unescape_form(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size() || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0) return false;
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return true;
}

}  // namespace headrace::http
