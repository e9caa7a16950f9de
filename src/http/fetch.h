// Fetch: one small question to a service that gives credentials, and its whole answer.
//
// No redirect is followed, no answer is longer than kMostCredentialBytes, and nothing that is asked or answered is in a
// message.
//
// Threads: any; blocks until the answer is there, or its time is over.
#pragma once

#include <headrace/status.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "http/transport.h"
#include "http/url.h"

namespace headrace::http {

struct FetchQuestion {
  const char* method = "GET";
  Url url;
  std::vector<std::string> headers;
  std::string body;
  std::uint64_t total_ns = 10'000'000'000;
  std::uint64_t connect_ns = 10'000'000'000;  // of these, until the connection stands
  std::uint32_t attempts = 3;                 // after broken connections and answers of 429 and 5xx
  bool direct = false;                        // by no proxy
};

struct FetchAnswer {
  int status = 0;
  std::string body;
};

// kIo and kTimeout where no answer came; any status is an answer.
using Fetch = std::function<Result<FetchAnswer>(const FetchQuestion& question)>;

// Over transports of their own, each for one question. Where `stop` is set, also meanwhile, what is asked ends with
// kCancelled.
Fetch make_fetch(const TransportOptions& options, std::shared_ptr<const std::atomic<bool>> stop);

}  // namespace headrace::http
