// PlainConnections: the connections of one loop. Busy ones have indexes; idle ones are kept for reuse.
//
// Threads: one at a time.
// REQUIRES: exchanges that have a target.
// Fails:   std::bad_alloc, before anything is started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plain_connection.h"

namespace headrace::http {

class PlainConnections {
 public:
  // `most`: maximum number of busy connections, and of idle ones.
  explicit PlainConnections(std::size_t most);

  // Starts the exchange on an idle connection to the same server; false: there is none.
  bool begin_on_idle(const CarriedExchange& carried);
  // Begins on a socket newly connected to the server.
  void begin_on(os::OwnedDescriptor socket, const CarriedExchange& carried);

  std::size_t size() const noexcept { return busy_.size(); }
  PlainConnection& operator[](std::size_t index) noexcept { return *busy_[index]; }
  // Its exchange has ended or is abandoned. The connection is kept if `keep` is set and the server allows reuse. The
  // last busy connection moves to `index`.
  CarriedExchange remove(std::size_t index, bool keep) noexcept;

 private:
  struct Idle {
    std::unique_ptr<PlainConnection> connection;
    std::uint64_t since_ns = 0;
  };

  const std::size_t max_;
  std::vector<std::unique_ptr<PlainConnection>> busy_;
  std::vector<Idle> idle_;
};

}  // namespace headrace::http
