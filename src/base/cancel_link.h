// CancelLink: has a function called when a Cancel token is asked, for work that sleeps meanwhile.
//
// Threads: made and destroyed on any thread. The function runs on the thread that asks, with the token's lock held: it
//          takes note and wakes somebody, and destroys no link.
#pragma once

#include <headrace/cancel.h>

#include <cstdint>
#include <memory>

namespace headrace::base {

class CancelLink {
 public:
  using Call = void (*)(void* context) noexcept;

  // Calls `call(context)` once: when the token is asked, or now where it has been.
  CancelLink(const Cancel& token, Call call, void* context);
  CancelLink(const CancelLink&) = delete;
  CancelLink& operator=(const CancelLink&) = delete;
  // From here on it is not called, and no call is under way.
  ~CancelLink();

 private:
  friend class headrace::Cancel::Impl;
  const std::shared_ptr<Cancel::Impl> token_;
  const Call call_;
  void* const context_;
  CancelLink* before_ = nullptr;  // of the token's list, guarded by its lock
  CancelLink* next_ = nullptr;
};

}  // namespace headrace::base
