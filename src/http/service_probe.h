// ServiceProbe: single requests to a service, one after the other, and everything about their answers: for whoever
// judges the service, not for reading arrays. Follows redirects, regions and the server's clock as reads do; what fails
// is not asked again.
//
// Threads: one at a time; each call blocks until its answer is there, or its time is over.
// Owns:    a transport with one connection, and who asks.
// Fails:   in ServiceAnswer::status, as reads of a store would; no text of the server's is in it.
#pragma once

#include <memory>
#include <string>

#include "http/remote_service.h"

namespace headrace::http {

struct ServiceAnswer {
  Status status;        // OK: what was asked for came, all of it
  int http_status = 0;  // 0: no answer came
  ExchangeEnd end = ExchangeEnd::kComplete;
  Verdict::Next next = Verdict::Next::kDone;  // what a read would do
  std::string store_code;                     // S3's or Azure's word for an error, for comparisons; "" where it is none
  AnswerHead head;
  std::string http_version;  // "1.1", "2"
  std::string body;          // as much as was to be kept, from its start
  std::uint64_t body_bytes = 0;
  std::uint64_t object_bytes = RangeRead::kUnknown;
  double first_byte_seconds = 0, seconds = 0;  // since the request was handed over
  ConnectionFacts facts;
  std::uint32_t redirects = 0;
  std::optional<double> clock_ahead_seconds;  // the server's, as its Date says: right to a second
};

class ServiceProbe {
 public:
  // Asks who may ask (RemoteService::obtain). `total_ns`: of each request, all of its redirects included.
  static Result<std::unique_ptr<ServiceProbe>> make(RemoteService service, std::uint64_t total_ns);
  virtual ~ServiceProbe() = default;

  // Bytes of an object, of which at most `keep` from the start are kept. `key`: below the URL; "": what the URL itself
  // names. `asked.etag` goes into If-Match as it is.
  virtual ServiceAnswer ask_range(std::string_view key, const RangeAsked& asked, std::size_t keep) = 0;
  // The first page of what is directly below `prefix`, relative to the URL. kUnsupported of web servers.
  virtual ServiceAnswer ask_names(std::string_view prefix, ObjectPage& page) = 0;

  virtual const RemoteService& service() const noexcept = 0;
  virtual const Credentials& credentials() const noexcept = 0;
  virtual std::string origin() const = 0;         // "https://host:port" that is asked
  virtual std::string learnt_region() const = 0;  // that the service told; "": it was right
};

}  // namespace headrace::http
