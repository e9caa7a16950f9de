#include <headrace/status.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>

namespace headrace {

struct Status::Rep {
  std::atomic<int> refs{1};
  bool immortal = false;
  Code code = Code::kInternal;
  Layer layer = Layer::kBase;
  int system_error = 0;
  std::optional<std::uint64_t> offset, length;
  std::string message, key, cause;
};

namespace {
const std::string kEmpty;
}

Status Status::out_of_memory() noexcept {
  // The text fits std::string's inline buffer, so this allocates nothing.
  static Rep* rep = [] {
    static Rep storage;
    storage.immortal = true;
    storage.code = Code::kResourceExhausted;
    storage.message = "out of memory";
    return &storage;
  }();
  Status status;
  status.rep_ = rep;
  return status;
}

Status::Status(Code code, Layer layer, std::string message) noexcept {
  rep_ = new (std::nothrow) Rep;
  if (rep_ == nullptr) {
    *this = out_of_memory();
    return;
  }
  rep_->code = code == Code::kOk ? Code::kInternal : code;
  rep_->layer = layer;
  rep_->message = std::move(message);
}

Status::Status(const Status& other) noexcept : rep_(other.rep_) {
  if (rep_ != nullptr && !rep_->immortal) rep_->refs.fetch_add(1, std::memory_order_relaxed);
}

Status& Status::operator=(const Status& other) noexcept {
  Status copy(other);
  std::swap(rep_, copy.rep_);
  return *this;
}

Status& Status::operator=(Status&& other) noexcept {
  std::swap(rep_, other.rep_);
  return *this;
}

Status::~Status() {
  if (rep_ != nullptr && !rep_->immortal && rep_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete rep_;
}

Code Status::code() const noexcept { return rep_ ? rep_->code : Code::kOk; }
Layer Status::layer() const noexcept { return rep_ ? rep_->layer : Layer::kBase; }
const std::string& Status::message() const noexcept { return rep_ ? rep_->message : kEmpty; }
const std::string& Status::key() const noexcept { return rep_ ? rep_->key : kEmpty; }
const std::string& Status::cause() const noexcept { return rep_ ? rep_->cause : kEmpty; }
std::optional<std::uint64_t> Status::offset() const noexcept { return rep_ ? rep_->offset : std::nullopt; }
std::optional<std::uint64_t> Status::length() const noexcept { return rep_ ? rep_->length : std::nullopt; }
int Status::system_error() const noexcept { return rep_ ? rep_->system_error : 0; }

// Copies a Rep that is shared with another Status before it is changed. Null if there is no memory.
Status::Rep* Status::writable() noexcept {
  if (rep_ == nullptr || rep_->immortal) return nullptr;
  if (rep_->refs.load(std::memory_order_acquire) == 1) return rep_;
  try {
    auto copy = std::make_unique<Rep>();
    copy->code = rep_->code;
    copy->layer = rep_->layer;
    copy->system_error = rep_->system_error;
    copy->offset = rep_->offset;
    copy->length = rep_->length;
    copy->message = rep_->message;
    copy->key = rep_->key;
    copy->cause = rep_->cause;
    Status old;
    std::swap(old.rep_, rep_);
    rep_ = copy.release();
    return rep_;
  } catch (...) {
    return nullptr;
  }
}

Status Status::with_key(std::string_view key) && {
  if (Rep* rep = writable(); rep != nullptr && rep->key.empty()) {
    try {
      rep->key.assign(key);
    } catch (...) {  // better to report the failure without its key than not at all
    }
  }
  return std::move(*this);
}

Status Status::with_range(std::uint64_t offset, std::uint64_t length) && {
  if (Rep* rep = writable(); rep != nullptr && !rep->offset) {
    rep->offset = offset;
    rep->length = length;
  }
  return std::move(*this);
}

Status Status::with_cause(std::string_view cause) && {
  if (Rep* rep = writable(); rep != nullptr && rep->cause.empty()) {
    try {
      rep->cause.assign(cause);
    } catch (...) {
    }
  }
  return std::move(*this);
}

Status Status::with_errno(int error) && {
  if (Rep* rep = writable(); rep != nullptr && rep->system_error == 0) {
    rep->system_error = error;
    try {
      char text[128];
      rep->cause = strerror_r(error, text, sizeof text);  // GNU form: returns the text
    } catch (...) {
    }
  }
  return std::move(*this);
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  std::string out(code_name(rep_->code));
  out += " (";
  out += layer_name(rep_->layer);
  out += "): ";
  out += rep_->message;
  if (!rep_->key.empty()) out += "; key '" + rep_->key + "'";
  if (rep_->offset) out += "; offset " + std::to_string(*rep_->offset);
  if (rep_->length) out += "; length " + std::to_string(*rep_->length);
  if (!rep_->cause.empty()) out += "; cause: " + rep_->cause;
  for (char& c : out) {
    // One line, whatever bytes a key or a library's text contains.
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    // text contains
  }
  return out;
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kNotFound:
      return "not found";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kShort:
      return "short";
    case Code::kIo:
      return "i/o error";
    case Code::kAgainExhausted:
      return "retries exhausted";
    case Code::kTimeout:
      return "timeout";
    case Code::kCancelled:
      return "cancelled";
    case Code::kResourceExhausted:
      return "resource exhausted";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kPermission:
      return "permission denied";
    case Code::kDeviceLost:
      return "device lost";
    case Code::kForked:
      return "used after fork";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown code";
}

std::string_view layer_name(Layer layer) {
  switch (layer) {
    case Layer::kBase:
      return "base";
    case Layer::kIo:
      return "io";
    case Layer::kDevice:
      return "device";
    case Layer::kStore:
      return "store";
    case Layer::kCodec:
      return "codec";
    case Layer::kTransfer:
      return "transfer";
    case Layer::kZarr:
      return "zarr";
    case Layer::kApi:
      return "api";
  }
  return "unknown layer";
}

}  // namespace headrace
