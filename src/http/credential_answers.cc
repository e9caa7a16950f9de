#include "http/credential_answers.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/json.h"
#include "http/answer_head.h"
#include "http/storage_options.h"
#include "http/xml_reader.h"

namespace headrace::http {
namespace {

constexpr std::int64_t kMinuteSeconds = 60, kHourSeconds = 60 * kMinuteSeconds, kDaySeconds = 24 * kHourSeconds;
constexpr std::uint64_t kMaxMilliseconds = std::uint64_t{1} << 53;
constexpr std::size_t kMaxIdBytes = 256, kMaxSecretBytes = 32 << 10;

// Fails unless every character is a digit.
std::optional<int> digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Keys of roles have a session token, keys of users have none.
bool usable_without_token(const Credentials& found) {
  const AwsKeys& keys = found.keys;
  return !keys.id.empty() && keys.id.size() <= kMaxIdBytes && is_printable(keys.id) && !keys.secret.empty() &&
         keys.secret.size() <= kMaxIdBytes && is_printable(keys.secret) &&
         keys.session_token.size() <= kMaxSecretBytes && is_printable(keys.session_token);
}
bool usable(const Credentials& found) { return !found.keys.session_token.empty() && usable_without_token(found); }

std::optional<base::Json> object_of(std::string_view text) {
  auto json = base::parse_json(text, {kMaxCredentialBytes, 8, std::size_t{1} << 20});
  if (!json.ok() || !json->is_object()) return std::nullopt;
  return *std::move(json);
}

std::string text_in(const base::Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  if (text.size() < 20 || text.size() > 40 || text[4] != '-' || text[7] != '-' ||
      (text[10] != 'T' && text[10] != ' ') || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const auto year = digits(text.substr(0, 4)), month = digits(text.substr(5, 2)), day = digits(text.substr(8, 2)),
             hour = digits(text.substr(11, 2)), minute = digits(text.substr(14, 2)),
             second = digits(text.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  std::int64_t seconds = std::chrono::sys_days(date).time_since_epoch().count() * kDaySeconds + *hour * kHourSeconds +
                         *minute * kMinuteSeconds + *second;
  text.remove_prefix(19);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    if (end == 0) return std::nullopt;
    text.remove_prefix(end);
  }
  if (text == "Z") return seconds;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return std::nullopt;
  const auto hours = digits(text.substr(1, 2)), minutes = digits(text.substr(4, 2));
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::int64_t offset = *hours * kHourSeconds + *minutes * kMinuteSeconds;
  return text[0] == '+' ? seconds - offset : seconds + offset;
}

std::optional<Credentials> parse_json_keys(std::string_view text) {
  const auto json = object_of(text);
  if (!json) return std::nullopt;
  const std::string code = text_in(*json, "Code");
  const auto expires = parse_timestamp(text_in(*json, "Expiration"));
  if ((!code.empty() && code != "Success") || !expires) return std::nullopt;
  Credentials found;
  found.keys = {text_in(*json, "AccessKeyId"), text_in(*json, "SecretAccessKey"), text_in(*json, "Token")};
  found.expires = *expires;
  if (!usable(found)) return std::nullopt;
  return found;
}

std::optional<Credentials> parse_process_keys(std::string_view text) {
  const auto json = object_of(text);
  if (!json) return std::nullopt;
  const auto version = json->find("Version");
  if (version == json->end() || !version->is_number_integer() || *version != 1) return std::nullopt;
  Credentials found;
  found.keys = {text_in(*json, "AccessKeyId"), text_in(*json, "SecretAccessKey"), text_in(*json, "SessionToken")};
  // A member of the wrong type is an error, not a missing member.
  for (const char* name : {"SessionToken", "Expiration"}) {
    const auto value = json->find(name);
    if (value != json->end() && !value->is_string() && !value->is_null()) return std::nullopt;
  }
  if (const std::string end = text_in(*json, "Expiration"); !end.empty()) {
    const auto expires = parse_timestamp(end);
    if (!expires) return std::nullopt;
    found.expires = *expires;
  }
  if (!usable_without_token(found)) return std::nullopt;
  return found;
}

std::optional<Credentials> parse_sso_token(std::string_view text) {
  const auto json = object_of(text);
  if (!json) return std::nullopt;
  std::string end = text_in(*json, "expiresAt");
  if (end.ends_with("UTC")) end.replace(end.size() - 3, 3, "Z");  // as older tools write it
  const auto expires = parse_timestamp(end);
  Credentials found;
  found.bearer = text_in(*json, "accessToken");
  if (!expires || found.bearer.empty() || found.bearer.size() > kMaxSecretBytes || !is_printable(found.bearer)) {
    return std::nullopt;
  }
  found.expires = *expires;
  return found;
}

std::optional<Credentials> parse_sso_keys(std::string_view text) {
  const auto json = object_of(text);
  if (!json) return std::nullopt;
  const auto keys = json->find("roleCredentials");
  if (keys == json->end() || !keys->is_object()) return std::nullopt;
  const auto end = keys->find("expiration");
  if (end == keys->end() || !end->is_number_integer()) return std::nullopt;
  Credentials found;
  found.keys = {text_in(*keys, "accessKeyId"), text_in(*keys, "secretAccessKey"), text_in(*keys, "sessionToken")};
  found.expires = end->is_number_unsigned() && end->get<std::uint64_t>() > kMaxMilliseconds
                      ? static_cast<std::int64_t>(kMaxMilliseconds / 1000)
                      : end->get<std::int64_t>() / 1000;
  if (!usable(found)) return std::nullopt;
  return found;
}

std::optional<Credentials> parse_json_token(std::string_view text, std::int64_t now) {
  const auto json = object_of(text);
  if (!json) return std::nullopt;
  Credentials found;
  found.bearer = text_in(*json, "access_token");
  // Azure sends it as a string. Its application services send only the absolute expiry.
  auto expires = json->find("expires_in");
  const bool absolute = expires == json->end();
  if (absolute) expires = json->find("expires_on");
  if (expires == json->end()) return std::nullopt;
  std::int64_t seconds = 0;
  if (expires->is_number_integer()) {
    seconds = expires->get<std::int64_t>();
  } else if (expires->is_string()) {
    const auto number = parse_length(expires->get_ref<const std::string&>());
    seconds = number ? static_cast<std::int64_t>(std::min<std::uint64_t>(*number, kMaxMilliseconds)) : 0;
  }
  if (absolute) seconds = seconds > now ? seconds - now : 0;
  constexpr std::int64_t kMaxSeconds = 366 * kDaySeconds;
  if (found.bearer.empty() || found.bearer.size() > kMaxSecretBytes || !is_printable(found.bearer) || seconds <= 0) {
    return std::nullopt;
  }
  found.expires = now + std::min(seconds, kMaxSeconds);
  return found;
}

std::optional<Credentials> parse_sts_keys(std::string_view text) {
  if (text.size() > kMaxCredentialBytes) return std::nullopt;
  Credentials found;
  std::optional<std::int64_t> expires;
  XmlReader reader(text);
  std::array<std::string, 5> path;
  for (;;) {
    switch (reader.next()) {
      case XmlReader::Piece::kOpen:
        if (reader.depth() <= path.size()) path[reader.depth() - 1] = reader.name();
        break;
      case XmlReader::Piece::kText: {
        const bool inside = reader.depth() == 4 && path[2] == "Credentials" && path[0].starts_with("AssumeRole") &&
                            path[0].ends_with("Response") && path[1].starts_with("AssumeRole") &&
                            path[1].ends_with("Result");
        if (!inside) break;
        if (path[3] == "AccessKeyId") found.keys.id = reader.text();
        if (path[3] == "SecretAccessKey") found.keys.secret = reader.text();
        if (path[3] == "SessionToken") found.keys.session_token = reader.text();
        if (path[3] == "Expiration") expires = parse_timestamp(reader.text());
        break;
      }
      case XmlReader::Piece::kClose:
        break;
      case XmlReader::Piece::kEnd:
        if (!expires || !usable(found)) return std::nullopt;
        found.expires = *expires;
        return found;
      case XmlReader::Piece::kError:
        return std::nullopt;
    }
  }
}

std::string parse_sts_error(std::string_view text) {
  XmlReader reader(text);
  std::string code, element;
  for (;;) {
    switch (reader.next()) {
      case XmlReader::Piece::kOpen:
        element = reader.name();
        if (reader.depth() == 1 && element != "ErrorResponse") return {};
        break;
      case XmlReader::Piece::kText:
        if (reader.depth() == 3 && element == "Code") code = reader.text();
        break;
      case XmlReader::Piece::kClose:
        element.clear();
        break;
      case XmlReader::Piece::kEnd: {
        const bool word =
            code.size() <= 64 && std::all_of(code.begin(), code.end(), [](char c) {
              return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
            });
        return word ? code : std::string();
      }
      case XmlReader::Piece::kError:
        return {};
    }
  }
}

}  // namespace headrace::http
