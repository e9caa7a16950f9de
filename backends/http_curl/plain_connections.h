// PlainConnections: those of one loop. The busy ones are at indexes, the idle ones wait to be used again.
//
// Threads: one at a time.
// REQUIRES: exchanges that have a target.
// Fails:   std::bad_alloc, with nothing begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "plain_connection.h"

namespace headrace::http {

class PlainConnections {
 public:
  // `most`: busy ones, and idle ones beside them.
  explicit PlainConnections(std::size_t most);

  // On an idle one to the same server; false: there is none.
  bool begin_on_idle(const CarriedExchange& carried);
  // On a socket that has just been connected to the server.
  void begin_on(os::OwnedDescriptor socket, const CarriedExchange& carried);

  std::size_t size() const noexcept { return busy_.size(); }
  PlainConnection& operator[](std::size_t index) noexcept { return *busy_[index]; }
  // Its exchange has ended, or is given up: the connection is kept where the server would go on with it. The last busy
  // one takes the index.
  CarriedExchange remove(std::size_t index, bool keep) noexcept;

 private:
  struct Idle {
    std::unique_ptr<PlainConnection> connection;
    std::uint64_t since_ns = 0;
  };

  const std::size_t most_;
  std::vector<std::unique_ptr<PlainConnection>> busy_;
  std::vector<Idle> idle_;
};

}  // namespace headrace::http
