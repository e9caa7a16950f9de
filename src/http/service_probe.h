// ServiceProbe: sends single requests to a service, one after the other, and reports everything about the responses.
// For diagnosing the service, not for reading arrays. Follows redirects, regions and the server's clock as reads do,
// but does not retry failures.
//
// Threads: one at a time; each call blocks until its response arrives or its time is up.
// Owns:    a transport with one connection, and the credentials.
// Fails:   through ServiceAnswer::status, as reads of a store would; it contains no text from the server.
#pragma once

#include <memory>
#include <string>

#include "http/remote_service.h"

namespace headrace::http {

struct ServiceAnswer {
  Status status;        // OK: everything requested has arrived
  int http_status = 0;  // 0: no response
  ExchangeEnd end = ExchangeEnd::kComplete;
  Verdict::Next next = Verdict::Next::kDone;  // what a read would do next
  std::string store_code;                     // S3's or Azure's error code, for comparison; "" where there is none
  AnswerHead head;
  std::string http_version;  // "1.1", "2"
  std::string body;          // its start, up to the `keep` bytes asked for
  std::uint64_t body_bytes = 0;
  std::uint64_t object_bytes = RangeRead::kUnknown;
  double first_byte_seconds = 0, seconds = 0;  // since the request was submitted
  ConnectionFacts facts;
  std::uint32_t redirects = 0;
  std::optional<double> clock_ahead_seconds;  // how far the server's Date is ahead; accurate to a second
};

class ServiceProbe {
 public:
  // Obtains credentials (RemoteService::obtain). `total_ns`: time limit of each request, including its redirects.
  static Result<std::unique_ptr<ServiceProbe>> make(RemoteService service, std::uint64_t total_ns);
  virtual ~ServiceProbe() = default;

  // Requests bytes of an object and keeps at most the first `keep` of them. `key`: relative to the URL; "": the URL
  // itself. `requested.etag` is sent in If-Match unchanged.
  virtual ServiceAnswer probe_range(std::string_view key, const RequestedRange& requested, std::size_t keep) = 0;
  // Requests the first page of the names directly below `prefix`, relative to the URL. kUnsupported for web servers.
  virtual ServiceAnswer probe_names(std::string_view prefix, ObjectPage& page) = 0;

  virtual const RemoteService& service() const noexcept = 0;
  virtual const Credentials& credentials() const noexcept = 0;
  virtual std::string origin() const = 0;         // "https://host:port" that requests go to
  virtual std::string learnt_region() const = 0;  // a region that the service named as the right one; "": none
};

}  // namespace headrace::http
