#include "http/aws_credentials.h"

#include <algorithm>
#include <optional>

#include "http/answer_head.h"
#include "http/aws_sso.h"
#include "http/cloud_signs.h"
#include "http/credential_answers.h"
#include "http/program_output.h"
#include "http/request_signer.h"
#include "http/s3_settings.h"

namespace headrace::http {
namespace {

constexpr int kMaxRoles = 5;  // maximum length of a chain of roles
constexpr std::uint64_t kSecondNs = 1'000'000'000;

Status fail(Code code, std::string what) { return Status(code, Layer::kStore, std::move(what)); }

// Hosts that may receive a token without TLS: this machine and the containers' credential services.
bool is_local_service(const Url& url) {
  return is_loopback(url) || url.host == "169.254.170.2" || url.host == "169.254.170.23" ||
         url.host == "[fd00:ec2::23]";
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

class Chain {
 public:
  Chain(const StorageOptions& options, const Surroundings& surroundings, const Fetch& fetch, std::int64_t now)
      : options_(options),
        surroundings_(surroundings),
        fetch_(fetch),
        now_(now),
        profile_(find_aws_profile(options, surroundings)) {}

  Result<Credentials> run() {
    const AwsKeys given{options_.text(StorageName::kKeyId), options_.text(StorageName::kSecret),
                        options_.text(StorageName::kSessionToken)};
    if (given.id.empty() != given.secret.empty() || (given.id.empty() && !given.session_token.empty())) {
      return fail(Code::kInvalidArgument,
                  "the storage options 'key' and 'secret' belong together, also with a 'token'");
    }
    if (!given.id.empty()) return checked(given, "the storage options");
    if (!options_.text(StorageName::kRole).empty() || !options_.text(StorageName::kWebIdentityFile).empty()) {
      return by_web_identity(options_.text(StorageName::kRole), options_.text(StorageName::kWebIdentityFile),
                             options_.text(StorageName::kRoleSession));
    }
    if (!profile_.given && environment_has_keys()) return of_environment();
    if (profile_.named && !profile_.exists()) {
      return fail(Code::kPermission, "no AWS credentials: there is no profile '" + profile_.name +
                                         "' in the files of credentials and settings");
    }
    if (!profile_.value("role_arn").empty()) return of_profile(profile_.name, 0);
    const std::string role = surroundings_.secure_getenv("AWS_ROLE_ARN");
    const std::string token = surroundings_.secure_getenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    if (!profile_.given && !token.empty()) {
      return by_web_identity(role, token, surroundings_.secure_getenv("AWS_ROLE_SESSION_NAME"));
    }
    if (has_way(profile_.name)) return of_profile(profile_.name, 0);
    if (container_is_there()) return of_container();
    return of_instance_or_none();
  }

 private:
  static Result<Credentials> checked(AwsKeys keys, const std::string& from) {
    if (!is_printable(keys.id) || !is_printable(keys.secret) || !is_printable(keys.session_token)) {
      return fail(Code::kInvalidArgument, "the AWS credentials of " + from + " contain invalid characters");
    }
    Credentials found;
    found.keys = std::move(keys);
    found.source = from;
    return found;
  }

  bool environment_has_keys() const {
    return !surroundings_.secure_getenv("AWS_ACCESS_KEY_ID").empty() &&
           !surroundings_.secure_getenv("AWS_SECRET_ACCESS_KEY").empty();
  }
  Result<Credentials> of_environment() const {
    return checked(
        {surroundings_.secure_getenv("AWS_ACCESS_KEY_ID"), surroundings_.secure_getenv("AWS_SECRET_ACCESS_KEY"),
         surroundings_.secure_getenv("AWS_SESSION_TOKEN")},
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  }

  bool has_keys(const std::string& name) const {
    return !profile_.value(name, "aws_access_key_id").empty() && !profile_.value(name, "aws_secret_access_key").empty();
  }
  bool has_way(const std::string& name) const {
    return has_sso(profile_, name) || has_keys(name) || !profile_.value(name, "credential_process").empty() ||
           !profile_.value(name, "login_session").empty();
  }

  Result<Credentials> of_profile(const std::string& name, int depth) const {
    const std::string said = "profile '" + name + "'";
    const std::string role = profile_.value(name, "role_arn");
    // A profile that names itself as its source uses its own keys.
    if (!role.empty() && !(depth > 0 && profile_.value(name, "source_profile") == name)) {
      return of_role(name, role, depth);
    }
    if (has_sso(profile_, name)) return obtain_sso_credentials(profile_, name, surroundings_, fetch_, now_);
    if (has_keys(name)) {
      return checked({profile_.value(name, "aws_access_key_id"), profile_.value(name, "aws_secret_access_key"),
                      profile_.value(name, "aws_session_token")},
                     said);
    }
    if (const std::string line = profile_.value(name, "credential_process"); !line.empty()) {
      return of_program(said, line);
    }
    if (!profile_.value(name, "login_session").empty()) {
      return fail(Code::kUnsupported, said +
                                          " gets its credentials by login_session, which is not supported: aws "
                                          "configure export-credentials gives them");
    }
    return fail(Code::kPermission, "no AWS credentials: " + said + " has none");
  }

  // Messages never show the command: it may contain a password.
  Result<Credentials> of_program(const std::string& said, const std::string& line) const {
    const std::string who = "the credential_process of " + said;
    const auto words = split_command(line);
    if (!words) return fail(Code::kInvalidArgument, who + " is not a valid command: are its quotes closed?");
    if (!surroundings_.run) return fail(Code::kPermission, who + " is not run here");
    auto printed = surroundings_.run(*words);
    if (!printed.ok()) {
      const std::string why = printed.status().cause().empty() ? "" : ": " + printed.status().cause();
      return fail(printed.status().code(), who + " returned no credentials: run the command to see why")
          .with_cause(printed.status().message() + why);
    }
    auto found = fresh(parse_process_keys(*printed), who);
    if (!found.ok() && found.status().code() == Code::kIo) {
      return fail(Code::kIo, who +
                                 " prints no credentials: it has to be a JSON object of \"Version\": 1, with "
                                 "AccessKeyId and SecretAccessKey");
    }
    return found;
  }

  Result<Credentials> of_role(const std::string& name, const std::string& role, int depth) const {
    const std::string said = "profile '" + name + "'";
    if (depth == kMaxRoles) return fail(Code::kInvalidArgument, said + ": too many roles lead to one another");
    const std::string token_file = profile_.value(name, "web_identity_token_file");
    const std::string session = profile_.value(name, "role_session_name");
    if (!token_file.empty()) return by_web_identity(role, token_file, session);
    if (!profile_.value(name, "mfa_serial").empty()) {
      return fail(Code::kUnsupported, said + " asks for a code of a device (mfa_serial), which is not supported");
    }
    const std::string source = profile_.value(name, "source_profile");
    const std::string way = profile_.value(name, "credential_source");
    if (source.empty() == way.empty()) {
      return fail(Code::kInvalidArgument, said + " has a role_arn: it needs a source_profile or a credential_source");
    }
    Credentials base;
    if (!source.empty()) {
      if (!profile_.exists(source)) {
        return fail(Code::kPermission, "no AWS credentials: the source_profile of " + said + " does not exist");
      }
      HEADRACE_TRY_ASSIGN(base, of_profile(source, depth + 1));
    } else if (way == "Environment") {
      HEADRACE_TRY_ASSIGN(base, of_environment());
    } else if (way == "EcsContainer") {
      HEADRACE_TRY_ASSIGN(base, of_container());
    } else if (way == "Ec2InstanceMetadata") {
      HEADRACE_TRY_ASSIGN(base, of_instance(true));
    } else {
      return fail(Code::kInvalidArgument,
                  said + ": its credential_source is not Environment, EcsContainer or Ec2InstanceMetadata");
    }
    std::string form = "Action=AssumeRole&Version=2011-06-15";
    append_field(form, "RoleArn", role);
    append_field(form, "RoleSessionName", session.empty() ? default_session() : session);
    append_field(form, "ExternalId", profile_.value(name, "external_id"));
    append_field(form, "DurationSeconds", profile_.value(name, "duration_seconds"));
    return query_sts(form, &base.keys, "the role of " + said);
  }

  Result<Credentials> by_web_identity(const std::string& role, const std::string& token_file,
                                      const std::string& session) const {
    if (role.empty() || token_file.empty()) {
      return fail(Code::kInvalidArgument, "a web identity needs both AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE");
    }
    const auto text = surroundings_.file(token_file);
    const std::string token = trimmed(text.value_or(""));
    if (token.empty() || !is_printable(token) || token.size() > kMaxCredentialBytes) {
      return fail(Code::kPermission, "the file of AWS_WEB_IDENTITY_TOKEN_FILE does not exist, or contains no token");
    }
    std::string form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15";
    append_field(form, "RoleArn", role);
    append_field(form, "RoleSessionName", session.empty() ? default_session() : session);
    append_field(form, "WebIdentityToken", token);
    return query_sts(form, nullptr, "the role of the web identity");
  }

  std::string default_session() const { return "headrace-" + std::to_string(now_); }
  static void append_field(std::string& form, const char* name, const std::string& value) {
    if (value.empty()) return;
    form += std::string("&") + name + "=";
    append_escaped(form, value, false);
  }

  // With `keys`, the request is signed.
  Result<Credentials> query_sts(const std::string& form, const AwsKeys* keys, const std::string& what) const {
    std::string text = options_.text(StorageName::kStsEndpoint);
    if (text.empty()) text = surroundings_.first_of({"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"});
    std::string region = options_.text(StorageName::kRegion);
    if (region.empty()) region = surroundings_.first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
    if (region.empty()) region = profile_.value("region");
    if (!region.empty() && !valid_region(region)) return fail(Code::kInvalidArgument, "the AWS region is not valid");
    if (text.empty()) {
      text = "https://sts." + (region.empty() ? "" : region + ".") + "amazonaws.com" +
             (region.starts_with("cn-") ? ".cn" : "");
    }
    HEADRACE_TRY_ASSIGN(const auto url, parse_endpoint(text, "AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL", options_));
    if (!url->tls && !is_local_service(*url)) {
      return fail(Code::kInvalidArgument,
                  "the service that issues a role's credentials must be queried by https, but AWS_ENDPOINT_URL_STS is "
                  "not an https URL");
    }
    FetchQuestion question;
    question.method = "POST";
    question.url = *url;
    question.body = form;
    if (keys != nullptr) {
      sign_form(*url, form, *keys, region.empty() ? "us-east-1" : region, "sts", now_, question.headers);
    } else {
      question.headers.push_back("content-type: application/x-www-form-urlencoded");
    }
    auto answer = fetch_(question);
    if (!answer.ok()) return failed("the security token service cannot be queried for " + what, answer.status());
    if (answer->status != 200) {
      std::string cause = "HTTP " + std::to_string(answer->status);
      const std::string code = parse_sts_error(answer->body);
      if (!code.empty()) cause += " " + code;
      return fail(Code::kPermission, "AWS refused to issue the credentials of " + what).with_cause(cause);
    }
    auto found = fresh(parse_sts_keys(answer->body), "the security token service");
    if (found.ok()) found->source = what + ", of the security token service";
    return found;
  }

  static Status failed(std::string what, const Status& why) {
    return Status(why.code(), Layer::kStore, std::move(what)).with_cause(why.message());
  }

  Result<Credentials> fresh(std::optional<Credentials> found, const std::string& who) const {
    if (!found) return fail(Code::kIo, who + " sent a response without credentials");
    if (found->expires <= now_) {
      return fail(Code::kPermission, who + " returned credentials that have expired: is this machine's clock right?");
    }
    found->source = who;
    return *std::move(found);
  }

  bool container_is_there() const {
    return !surroundings_.first_of({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"})
                .empty();
  }

  Result<Credentials> of_container() const {
    const std::string relative = surroundings_.secure_getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const std::string full = surroundings_.secure_getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative.empty() && full.empty()) {
      return fail(Code::kPermission, "no AWS credentials: AWS_CONTAINER_CREDENTIALS_FULL_URI is not set");
    }
    if (!relative.empty() && !relative.starts_with('/')) {
      return fail(Code::kInvalidArgument, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
    }
    const auto url = parse_url(relative.empty() ? full : "http://169.254.170.2" + relative);
    if (!url.ok()) {
      return fail(Code::kInvalidArgument, "AWS_CONTAINER_CREDENTIALS_FULL_URI is not a valid URL")
          .with_cause(url.status().message());
    }
    if (!url->tls && !is_local_service(*url)) {
      return fail(Code::kInvalidArgument,
                  "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine or of the "
                  "container's service");
    }
    FetchQuestion question;
    question.url = *url;
    question.direct = !url->tls;
    question.total_ns = 5 * kSecondNs;
    std::string token;
    const std::string token_file = surroundings_.secure_getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (!token_file.empty()) {
      const auto text = surroundings_.file(token_file);
      if (!text) return fail(Code::kPermission, "the file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read");
      token = trimmed(*text);
    } else {
      token = surroundings_.secure_getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    }
    // "Bearer x" is valid, so blanks are allowed.
    const bool plain = std::all_of(token.begin(), token.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
    if (!plain) return fail(Code::kInvalidArgument, "the container's authorization token contains invalid characters");
    if (!token.empty()) question.headers.push_back("Authorization: " + token);
    return query_keys(question, "the container's service of credentials");
  }

  Result<Credentials> query_keys(const FetchQuestion& question, const std::string& who) const {
    auto answer = fetch_(question);
    if (!answer.ok()) return failed(who + " cannot be queried", answer.status());
    if (answer->status != 200) {
      return fail(Code::kPermission, who + " returned none").with_cause("HTTP " + std::to_string(answer->status));
    }
    return fresh(parse_json_keys(answer->body), who);
  }

  // `is_explicit`: a profile explicitly selects the instance's credentials.
  Result<Credentials> of_instance(bool is_explicit) const {
    const std::string who = "the instance's metadata service";
    if (is_yes(surroundings_.secure_getenv("AWS_EC2_METADATA_DISABLED"))) {
      return fail(Code::kPermission, who + " is not queried: AWS_EC2_METADATA_DISABLED is set");
    }
    std::string text = surroundings_.secure_getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    is_explicit = is_explicit || !text.empty();
    if (text.empty()) {
      std::string mode = surroundings_.secure_getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
      for (char& c : mode) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      text = mode == "ipv6" ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
    }
    HEADRACE_TRY_ASSIGN(auto base, parse_endpoint(text, "AWS_EC2_METADATA_SERVICE_ENDPOINT", StorageOptions()));
    while (base->path.ends_with('/')) base->path.pop_back();
    FetchQuestion question;
    question.direct = true;
    question.total_ns = kSecondNs;
    question.attempts = 1;
    if (const auto given = parse_length(surroundings_.secure_getenv("AWS_METADATA_SERVICE_TIMEOUT"))) {
      question.total_ns = std::clamp<std::uint64_t>(*given, 1, 60) * kSecondNs;
    }
    const auto at = [&](const std::string& path) {
      question.url = *base;
      question.url.path += path;
    };
    // IMDSv2 only: fetch a token first, which neither a redirect nor a proxy's plain GET can obtain.
    question.method = "PUT";
    question.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", "Content-Type:"};
    at("/latest/api/token");
    auto token = query_cloud({CloudVendor::kAmazon, is_explicit, "AWS_EC2_METADATA_SERVICE_ENDPOINT", question},
                             surroundings_, fetch_, now_);
    if (!token.ok()) return failed(who + " returned none", token.status());
    if (token->status != 200 || token->body.empty() || token->body.size() > 1024 || !is_printable(token->body)) {
      return fail(Code::kPermission, who + " returned no token").with_cause("HTTP " + std::to_string(token->status));
    }
    question.method = "GET";
    question.headers = {"X-aws-ec2-metadata-token: " + token->body};
    const std::string folder = "/latest/meta-data/iam/security-credentials/";
    at(folder);
    auto roles = fetch_(question);
    if (!roles.ok()) return failed(who + " cannot be queried", roles.status());
    if (roles->status != 200) {
      return fail(Code::kPermission, "the instance has no role").with_cause("HTTP " + std::to_string(roles->status));
    }
    const std::string role = roles->body.substr(0, roles->body.find_first_of("\r\n"));
    const bool plain = !role.empty() && role.size() <= 128 && std::all_of(role.begin(), role.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("+=,.@_-").find(c) != std::string_view::npos;
    });
    if (!plain || role == "." || role == "..") return fail(Code::kIo, who + " names no role");
    std::string escaped;
    append_escaped(escaped, role, false);
    at(folder + escaped);
    return query_keys(question, who);
  }

  Result<Credentials> of_instance_or_none() const {
    auto found = of_instance(false);
    if (found.ok()) return found;
    return fail(Code::kPermission,
                "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile that has them "
                "by AWS_PROFILE, or set AWS_NO_SIGN_REQUEST=YES (anon in storage_options) to read a public bucket")
        .with_cause(found.status().message() + (found.status().cause().empty() ? "" : ": " + found.status().cause()));
  }

  const StorageOptions& options_;
  const Surroundings& surroundings_;
  const Fetch& fetch_;
  const std::int64_t now_;
  const AwsProfile profile_;
};

}  // namespace

Result<Credentials> obtain_aws_credentials(const StorageOptions& options, const Surroundings& surroundings,
                                           const Fetch& fetch, std::int64_t now) {
  return Chain(options, surroundings, fetch, now).run();
}

}  // namespace headrace::http
