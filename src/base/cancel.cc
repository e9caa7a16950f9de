#include <headrace/cancel.h>

#include <atomic>
#include <mutex>

#include "base/access.h"
#include "base/cancel_link.h"
#include "base/fork.h"

namespace headrace {

class Cancel::Impl {
 public:
  void ask() noexcept {
    if (cancelled_.exchange(true) || inherited()) return;
    std::lock_guard lock(mutex_);
    for (base::CancelLink* link = first_; link != nullptr; link = link->next_) link->call_(link->context_);
  }
  bool asked() const noexcept { return cancelled_.load(); }

  // Returns false if the token was already asked: the link will not be called.
  bool add(base::CancelLink& link) noexcept {
    if (inherited()) return !asked();
    std::lock_guard lock(mutex_);
    if (asked()) return false;
    link.next_ = first_;
    if (first_ != nullptr) first_->before_ = &link;
    first_ = &link;
    return true;
  }
  void remove(base::CancelLink& link) noexcept {
    if (inherited()) return;
    std::lock_guard lock(mutex_);
    if (link.next_ != nullptr) link.next_->before_ = link.before_;
    if (link.before_ != nullptr) {
      link.before_->next_ = link.next_;
    } else if (first_ == &link) {
      first_ = link.next_;
    }
  }

 private:
  // In a forked child, the lock may be held by a thread that does not exist, and the links belong to the parent.
  bool inherited() const noexcept { return generation_ != base::fork_generation(); }

  const std::uint64_t generation_ = base::fork_generation();
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  base::CancelLink* first_ = nullptr;  // guarded by mutex_
};

Cancel::Cancel() : impl_(std::make_shared<Impl>()) {}
void Cancel::ask() const noexcept { impl_->ask(); }
bool Cancel::asked() const noexcept { return impl_->asked(); }

namespace base {

CancelLink::CancelLink(const Cancel& token, Call call, void* context)
    : token_(Access::impl(token)), call_(call), context_(context) {
  if (!token_->add(*this)) call_(context_);
}

CancelLink::~CancelLink() { token_->remove(*this); }

}  // namespace base
}  // namespace headrace
