// CurlLoop: one thread that runs a libcurl multi handle. Only this thread calls libcurl for it: work arrives through an
// ExchangeQueue, and a descriptor wakes the thread.
//
// Requests without TLS and without a proxy use connections that libcurl establishes and then hands over
// (PlainConnection), because libcurl receives into memory of its own, from which the body would have to be copied.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "curl_library.h"
#include "http/exchange_queue.h"
#include "http/transport.h"
#include "plain_connections.h"

namespace headrace::http {

class CurlLoop final : public ExchangeLoop {
 public:
  // Loop `index` of the queue; add it to the queue before begin(). Throws std::bad_alloc. The arguments must outlive
  // it.
  CurlLoop(const CurlLibrary& curl, const TransportOptions& options, ExchangeQueue& queue, std::size_t index);
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;
  ~CurlLoop();  // joins its thread. REQUIRES: the queue was stopped

  Status begin() noexcept override;
  void wake() noexcept override;

 private:
  struct Transfer {
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    CurlLoop* loop = nullptr;
    CarriedExchange carried;  // with a target, it only connects: a PlainConnection takes over
    bool answering = false, stopped = false;
    char error[CURL_ERROR_SIZE] = {};
  };

  void run() noexcept;
  void make_multi() noexcept;
  void begin_exchange(Exchange& exchange) noexcept;
  void begin_transfer(const CarriedExchange& carried) noexcept;
  bool set_request(Transfer& transfer) noexcept;
  bool set_headers(Transfer& transfer) noexcept;
  PlainTarget plain_target(const Exchange& exchange) const noexcept;
  bool begin_on_idle(const CarriedExchange& carried) noexcept;
  void hand_over(Transfer* transfer) noexcept;
  void run_plain() noexcept;
  bool set_method(Transfer& transfer, const Exchange& exchange) noexcept;
  Transfer* idle_transfer() noexcept;
  bool set_options(Transfer& transfer) noexcept;
  void clear_headers(Transfer& transfer) noexcept;
  void free_transfer(Transfer* transfer) noexcept;
  void end_cancelled() noexcept;
  void end_finished() noexcept;
  Exchange& finish(Transfer* transfer) noexcept;
  void end_late() noexcept;
  ExchangeEnd late_end(const CarriedExchange& carried, std::uint64_t patience_ns, std::uint64_t now_ns) noexcept;
  void end(Transfer* transfer, ExchangeEnd how, std::string_view detail) noexcept;
  void tell(Exchange& exchange, ExchangeEnd how, std::string_view detail) noexcept;
  void note_late(Exchange& exchange, std::uint64_t now_ns) noexcept;
  void wait() noexcept;
  void wait_with_curl(int milliseconds) noexcept;
  void note_tls(Transfer& transfer) const noexcept;
  void note_facts(Transfer& transfer, CURLcode code) const noexcept;
  static ExchangeEnd end_of(CURLcode code, const Transfer& transfer) noexcept;
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user);

  const CurlLibrary& curl_;
  const TransportOptions& options_;
  ExchangeQueue& queue_;
  const std::size_t index_;
  int wake_ = -1;
  std::thread thread_;
  // Used by the loop's thread only.
  CURLM* multi_ = nullptr;
  std::vector<Transfer*> active_, idle_;
  PlainConnections plain_;
  std::vector<pollfd> polled_;       // wake_, then the sockets of plain_
  std::vector<curl_waitfd> waited_;  // the same
  std::uint64_t next_late_ns_ = 0;
};

}  // namespace headrace::http
