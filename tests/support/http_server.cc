#include "support/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

namespace headrace::testing {
namespace {

constexpr const char* kBucket = "bucket";

// Makes a self-signed certificate for 127.0.0.1.
SSL_CTX* make_tls(const std::string& path) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24L * 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("headrace test"), -1, -1,
                             0);
  X509_set_issuer_name(certificate, name);
  for (const auto& [nid, text] :
       {std::pair{NID_subject_alt_name, "IP:127.0.0.1"}, {NID_basic_constraints, "CA:TRUE"}}) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, text);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  if (FILE* const file = std::fopen(path.c_str(), "w")) {
    PEM_write_X509(file, certificate);
    std::fclose(file);
  }
  X509_free(certificate);
  EVP_PKEY_free(key);
  return context;
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '-' || c == '.' || c == '_';
    char escape[8];
    std::snprintf(escape, sizeof escape, "%%%02X", static_cast<unsigned>(byte));
    out += plain ? std::string(1, c) : c == ' ' ? "+" : escape;
  }
  return out;
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string query_value(const std::string& query, const std::string& name) {
  for (std::size_t at = 0; at <= query.size();) {
    const std::size_t end = std::min(query.find('&', at), query.size());
    const std::string part = query.substr(at, end - at);
    if (part.starts_with(name + "=")) return unescaped(part.substr(name.size() + 1));
    at = end + 1;
  }
  return "";
}

}  // namespace

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

void HttpWire::send(std::string_view bytes) {
  while (open_ && !bytes.empty()) {
    const std::size_t some = std::min<std::size_t>(bytes.size(), 1 << 20);
    const ssize_t sent = tls_ != nullptr ? SSL_write(tls_, bytes.data(), static_cast<int>(some))
                                         : ::send(fd_, bytes.data(), some, MSG_NOSIGNAL);
    if (sent <= 0) {
      open_ = false;
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void HttpWire::reply(const std::string& status, const std::string& headers, std::string_view body) {
  std::string text = "HTTP/1.1 " + status + "\r\n" + headers;
  if (headers.find("Content-Length") == std::string::npos) {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  text += "\r\n";
  // Head and small body go out in one send: with two small ones the client would wait 40 ms for the second.
  send(body.size() < 65536 ? text + std::string(body) : text);
  if (body.size() >= 65536) send(body);
}

void HttpWire::reset() {
  const struct linger now { 1, 0 };
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  open_ = false;
}

void HttpWire::pause(int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!stopping_ && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(milliseconds, 5)));
  }
}

ssize_t HttpWire::receive(char* data, std::size_t room) {
  return tls_ != nullptr ? SSL_read(tls_, data, static_cast<int>(room)) : ::recv(fd_, data, room, 0);
}

HttpServer::HttpServer(Answer answer, const std::string& certificate) : answer_(std::move(answer)) {
  if (!certificate.empty()) context_ = make_tls(certificate);
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener_, 512) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("HttpServer");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    std::unique_lock lock(mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    ended_.wait(lock, [this] { return open_.empty(); });
  }
  ::close(listener_);
  if (context_ != nullptr) SSL_CTX_free(context_);
}

std::vector<HttpRequest> HttpServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::accept_all() {
  // OpenSSL writes to connections that clients have closed, which raises SIGPIPE.
  sigset_t pipes;
  ::sigemptyset(&pipes);
  ::sigaddset(&pipes, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
  while (!stopping_) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections_;
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    std::lock_guard lock(mutex_);
    if (stopping_) {
      ::close(fd);
      break;
    }
    open_.push_back(fd);
    // No code joins the threads of a server that is never destroyed.
    std::thread([this, fd] { serve(fd); }).detach();
  }
}

void HttpServer::serve(int fd) {
  SSL* const tls = context_ != nullptr ? SSL_new(context_) : nullptr;
  bool good = true;
  if (tls != nullptr) {
    SSL_set_fd(tls, fd);
    good = SSL_accept(tls) == 1;
  }
  HttpWire wire(fd, tls, stopping_);
  std::string buffer;
  while (good && wire.is_open() && !stopping_) {
    std::size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      char data[4096];
      const ssize_t got = wire.receive(data, sizeof data);
      if (got <= 0) {
        good = false;
        break;
      }
      buffer.append(data, static_cast<std::size_t>(got));
    }
    if (!good) break;
    HttpRequest request;
    std::size_t line = buffer.find("\r\n");
    const std::string first = buffer.substr(0, line);
    const std::size_t space = first.find(' '), second = first.rfind(' ');
    request.method = first.substr(0, space);
    const std::string target = first.substr(space + 1, second - space - 1);
    const std::size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    request.query = mark == std::string::npos ? "" : target.substr(mark + 1);
    while (line < end) {
      const std::size_t next = buffer.find("\r\n", line + 2);
      const std::string field = buffer.substr(line + 2, next - line - 2);
      const std::size_t colon = field.find(':');
      std::string name = field.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      const std::size_t value = colon == std::string::npos ? field.size() : field.find_first_not_of(' ', colon + 1);
      request.headers[name] = value < field.size() ? field.substr(value) : "";
      line = next;
    }
    buffer.erase(0, end + 4);
    const std::string length = request.header("content-length");
    const std::size_t bytes = length.empty() ? 0 : std::stoul(length);
    while (good && buffer.size() < bytes) {
      char data[4096];
      const ssize_t got = wire.receive(data, sizeof data);
      good = got > 0;
      if (good) buffer.append(data, static_cast<std::size_t>(got));
    }
    if (!good) break;
    request.body = buffer.substr(0, bytes);
    buffer.erase(0, bytes);
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    answer_(wire, request);
  }
  if (tls != nullptr) {
    if (good) SSL_shutdown(tls);
    SSL_free(tls);
  }
  std::lock_guard lock(mutex_);
  open_.remove(fd);
  ::close(fd);
  ended_.notify_one();
}

std::string ObjectService::etag(const store::Bytes& bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  return "\"" + std::to_string(hash) + "\"";
}

void ObjectService::answer(HttpWire& wire, const HttpRequest& request) const {
  const auto error = [&](const std::string& status, const std::string& code) {
    wire.reply(status, "x-amz-request-id: R1\r\n",
               style_ != ObjectStyle::kPlain
                   ? "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>no</Message></Error>"
                   : "no");
  };
  std::string key = unescaped(request.path).substr(1);
  const bool azure = style_ == ObjectStyle::kAzure;
  if (style_ != ObjectStyle::kPlain) {
    const std::size_t slash = key.find('/');
    const std::string bucket = key.substr(0, slash);
    key = slash == std::string::npos ? "" : key.substr(slash + 1);
    if (request.header("authorization").empty()) return error("403 Forbidden", "AccessDenied");
    if (azure && request.header("x-ms-version").empty()) return error("400 Bad Request", "MissingRequiredHeader");
    if (bucket != kBucket) return error("404 Not Found", azure ? "ContainerNotFound" : "NoSuchBucket");
    if (key.empty()) return list(wire, request, bucket);
  }
  const auto found = objects_.find(key);
  if (found == objects_.end()) return error("404 Not Found", azure ? "BlobNotFound" : "NoSuchKey");
  const store::Bytes& bytes = found->second;
  const std::string& etag = etags_.at(key);
  const std::string etag_line = "ETag: " + etag + "\r\n";
  if (const std::string match = request.header("if-match"); !match.empty() && match != etag) {
    return error("412 Precondition Failed", "PreconditionFailed");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string range = request.header("range");
  if (range.empty()) return wire.reply("200 OK", etag_line, text);
  unsigned long long first = 0, last = 0;
  if (azure && range.starts_with("bytes=-")) return error("400 Bad Request", "InvalidHeaderValue");
  if (std::sscanf(range.c_str(), "bytes=-%llu", &last) == 1) {
    first = bytes.size() - std::min<unsigned long long>(bytes.size(), last);
    last = bytes.size() - 1;
  } else if (std::sscanf(range.c_str(), "bytes=%llu-%llu", &first, &last) != 2) {
    return error("400 Bad Request", "InvalidArgument");
  }
  if (first >= bytes.size()) {
    return wire.reply("416 Range Not Satisfiable", "Content-Range: bytes */" + std::to_string(bytes.size()) + "\r\n",
                      "");
  }
  last = std::min<unsigned long long>(last, bytes.size() - 1);
  wire.reply("206 Partial Content",
             etag_line + "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" +
                 std::to_string(bytes.size()) + "\r\n",
             text.substr(first, last - first + 1));
}

void ObjectService::list(HttpWire& wire, const HttpRequest& request, const std::string& bucket) const {
  constexpr std::size_t kPage = 3;  // small, so that tests see several pages
  const std::string prefix = query_value(request.query, "prefix"),
                    after = query_value(request.query, style_ == ObjectStyle::kAzure ? "marker" : "continuation-token");
  std::set<std::pair<std::string, bool>> names;
  for (const auto& [key, bytes] : objects_) {
    if (!key.starts_with(prefix)) continue;
    const std::size_t slash = key.find('/', prefix.size());
    names.insert(slash == std::string::npos ? std::pair{key, false} : std::pair{key.substr(0, slash + 1), true});
  }
  std::string body =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>" +
      bucket + "</Name><EncodingType>url</EncodingType>";
  const bool azure = style_ == ObjectStyle::kAzure;
  if (azure) body = "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs>";
  std::size_t at = 0;
  const std::size_t begin = after.empty() ? 0 : std::stoul(after), end = std::min(begin + kPage, names.size());
  for (const auto& [name, directory] : names) {
    if (at >= begin && at < end && azure) {
      const char* const kind = directory ? "BlobPrefix" : "Blob";
      body += std::string("<") + kind + "><Name>" + xml_text(name) + "</Name></" + kind + ">";
    } else if (at >= begin && at < end) {
      body += directory ? "<CommonPrefixes><Prefix>" + xml_escaped(name) + "</Prefix></CommonPrefixes>"
                        : "<Contents><Key>" + xml_escaped(name) + "</Key><Size>1</Size></Contents>";
    }
    ++at;
  }
  if (azure) {
    body += "</Blobs><NextMarker>" + (end < names.size() ? std::to_string(end) : "") + "</NextMarker>";
    return wire.reply("200 OK", "Content-Type: application/xml\r\n", body + "</EnumerationResults>");
  }
  body += std::string("<IsTruncated>") + (end < names.size() ? "true" : "false") + "</IsTruncated>";
  if (end < names.size()) body += "<NextContinuationToken>" + std::to_string(end) + "</NextContinuationToken>";
  wire.reply("200 OK", "Content-Type: application/xml\r\n", body + "</ListBucketResult>");
}

std::string serve_objects(const std::string& name, Objects objects, ObjectStyle style, const std::string& certificate) {
  struct Served {
    pid_t process = 0;
    HttpServer* server = nullptr;
  };
  // Never destroyed: a forked child has the map but not the servers' threads.
  static auto& served = *new std::map<std::string, Served>;
  std::erase_if(objects, [](const auto& object) { return !store::valid_key(object.first); });
  Served& slot = served[name];
  auto fresh = std::make_unique<HttpServer>(ObjectService(std::move(objects), style), certificate);
  std::string url = fresh->url();
  HttpServer* const before = std::exchange(slot.server, fresh.release());
  if (std::exchange(slot.process, ::getpid()) == ::getpid()) delete before;
  return url;
}

}  // namespace headrace::testing
