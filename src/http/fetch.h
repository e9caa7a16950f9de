// Fetch: sends one small request to a credential service and returns the whole response.
//
// Redirects are not followed, responses are limited to kMaxCredentialBytes, and no message repeats any part of a
// request or response.
//
// Threads: any; blocks until the response arrives or its time is up.
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
  std::uint64_t connect_ns = 10'000'000'000;  // of `total_ns`, for establishing the connection
  std::uint32_t attempts = 3;                 // retries follow broken connections, 429 and 5xx
  bool direct = false;                        // bypass any proxy
};

struct FetchAnswer {
  int status = 0;
  std::string body;
};

// kIo and kTimeout where no response arrived; a response of any status is a success.
using Fetch = std::function<Result<FetchAnswer>(const FetchQuestion& question)>;

// Each request uses a transport of its own. Setting `stop` at any time ends the request with kCancelled.
Fetch make_fetch(const TransportOptions& options, std::shared_ptr<const std::atomic<bool>> stop);

}  // namespace headrace::http
