// Parses a server's output: a head, a body after it, an address. Whatever it is, the plan for a body never has more
// bytes than requested, an accepted address contains no line end, and printed messages contain no text of the server.
#include <headrace/status.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/answer_head.h"
#include "http/credential_answers.h"
#include "http/ini_file.h"
#include "http/program_output.h"
#include "http/request_signer.h"
#include "http/s3_settings.h"
#include "http/url.h"
#include "http/verdict.h"
#include "http/xml_reader.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

using namespace headrace::http;

void check_url(const headrace::Result<Url>& url) {
  if (!url.ok()) {
    FUZZ_CHECK(url.status().code() == headrace::Code::kInvalidArgument);
    return;
  }
  for (const char c : url->to_string())
    FUZZ_CHECK(static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) < 0x7f);
  FUZZ_CHECK(url->port != 0 && url->path.starts_with('/'));
  const auto again = parse_url(url->to_string());
  FUZZ_CHECK(again.ok() && again->to_string() == url->to_string());
  const std::string query = RequestSigner::canonical_query(url->query);
  FUZZ_CHECK(RequestSigner::canonical_query(query) == query);
}

void check_head(const AnswerHead& head, std::string_view body) {
  for (const RequestedRange& asked : {RequestedRange{0, 10, false, {}}, RequestedRange{5, 10, false, {}},
                                      RequestedRange{0, 10, true, {}}, RequestedRange{5, 10, false, "\"abc\""}}) {
    if (head.status == 200 || head.status == 206) {
      const auto plan = plan_body(head, asked);
      FUZZ_CHECK(!plan.ok() || plan->bytes <= asked.count);
    }
    for (const ServiceKind kind : {ServiceKind::kHttp, ServiceKind::kS3, ServiceKind::kAzure}) {
      const Verdict verdict = judge(head, asked, kind, body);
      FUZZ_CHECK(verdict.status.to_string().size() < 1000);
      FUZZ_CHECK(verdict.status.code() != headrace::Code::kNotFound || head.status == 404 || head.status == 410);
    }
  }
  const auto whole = plan_whole_body(head, 1000);
  FUZZ_CHECK(!whole.ok() || whole->bytes <= 1000);
  const auto wait = parse_retry_after(head.retry_after, 784111777);
  FUZZ_CHECK(!wait || *wait <= 86400);
  const std::string_view etag = strong_etag(head.etag);
  FUZZ_CHECK(etag.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
  check_url(resolve_redirect(*parse_url("http://host/a/b"), head.location));
}

// Credentials from a service are put into header lines verbatim, so they must be printable.
void check_credentials(const std::optional<Credentials>& found, bool may_be_for_ever = false) {
  if (!found) return;
  for (const std::string* const text :
       {&found->keys.id, &found->keys.secret, &found->keys.session_token, &found->bearer}) {
    for (const char c : *text) FUZZ_CHECK(c > 0x20 && c < 0x7f);
  }
  FUZZ_CHECK(found->bearer.empty() != found->keys.id.empty());
  FUZZ_CHECK(may_be_for_ever || found->expires != Credentials::kNever);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  AnswerHead head;
  std::string_view rest = text;
  while (!rest.empty() && !head.is_complete()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    head.line(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (head.is_complete()) check_head(head, rest);
  for (const std::string_view part : {text, rest}) {
    (void)parse_s3_error(part);
    for (const auto parse : {&parse_s3_page, &parse_azure_page}) {
      ObjectPage page;
      if (parse(part, page)) FUZZ_CHECK(page.names.size() <= part.size());
    }
    check_credentials(parse_json_keys(part));
    check_credentials(parse_json_token(part, 1'700'000'000));
    check_credentials(parse_sts_keys(part));
    check_credentials(parse_process_keys(part), true);
    check_credentials(parse_sso_token(part));
    check_credentials(parse_sso_keys(part));
    FUZZ_CHECK(parse_sts_error(part).size() <= 64);
    const auto time = parse_timestamp(part);
    FUZZ_CHECK(!time || (*time > -63'000'000'000 && *time < 254'000'000'000));
  }
  if (const auto words = split_command(text)) {
    FUZZ_CHECK(!words->empty() && words->size() <= 256 && !(*words)[0].empty());
    for (const std::string& word : *words) FUZZ_CHECK(word.size() <= text.size() && word.find('\0') == word.npos);
  }
  check_url(parse_url(text));
  const auto range = parse_content_range(text);
  FUZZ_CHECK(!range || range->unsatisfied || (range->first <= range->last && range->last >> 63 == 0));
  (void)parse_http_date(text);
  (void)ini_value(text, "default", "region");
  std::string escaped, back;
  append_escaped(escaped, text, false);
  FUZZ_CHECK(unescape_form(escaped, back) && back == text);
  return 0;
}
