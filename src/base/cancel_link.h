// CancelLink: calls a function when a Cancel token is asked, to wake work that sleeps.
//
// Threads: created and destroyed on any thread. The function runs on the thread that asks, with the token's lock held,
//          so it must only set a flag and wake a waiter, and must not destroy a link.
#pragma once

#include <headrace/cancel.h>

#include <cstdint>
#include <memory>

namespace headrace::base {

class CancelLink {
 public:
  using Call = void (*)(void* context) noexcept;

  // Calls `call(context)` once: when the token is asked, or immediately if it already was.
  CancelLink(const Cancel& token, Call call, void* context);
  CancelLink(const CancelLink&) = delete;
  CancelLink& operator=(const CancelLink&) = delete;
  // Once this returns, the function is not running and is not called again.
  ~CancelLink();

 private:
  friend class headrace::Cancel::Impl;
  const std::shared_ptr<Cancel::Impl> token_;
  const Call call_;
  void* const context_;
  CancelLink* before_ = nullptr;  // in the token's list, guarded by its lock
  CancelLink* next_ = nullptr;
};

}  // namespace headrace::base
