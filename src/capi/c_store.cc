// Stores implemented by the caller as a table of functions.
#include <headrace/byte_store.h>

#include <memory>
#include <string_view>
#include <vector>

#include "capi/c_call.h"

using headrace::Code;
using headrace::Layer;
using headrace::ListedName;
using headrace::RangeRead;
using headrace::Result;
using headrace::Status;

struct hr_listing {
  std::vector<ListedName> names;
  bool failed = false;
};

namespace {

static_assert(HR_UNKNOWN_BYTES == RangeRead::kUnknown);

// An hr_range_read is a RangeRead.
RangeRead& of(hr_range_read* read) noexcept { return *reinterpret_cast<RangeRead*>(read); }
const RangeRead& of(const hr_range_read* read) noexcept { return *reinterpret_cast<const RangeRead*>(read); }
hr_range_read* const* as_c(std::span<RangeRead* const> reads) noexcept {
  return reinterpret_cast<hr_range_read* const*>(reads.data());
}

// The caller may pass any number; unknown codes become HR_IO.
Status status_of(hr_code code, const char* message) {
  if (code == HR_OK) return {};
  const bool known = code > HR_OK && code <= HR_INTERNAL;
  return Status(known ? static_cast<Code>(code) : Code::kIo, Layer::kStore, message);
}

class FunctionStore final : public headrace::ByteStore {
 public:
  explicit FunctionStore(const hr_store_functions& functions) : functions_(functions), url_(functions.url) {}
  ~FunctionStore() override {
    if (owned_ && functions_.free != nullptr) functions_.free(functions_.user);
  }
  void own() noexcept { owned_ = true; }

  std::string url() const override { return url_; }
  Status start(std::span<RangeRead* const> reads) override {
    return status_of(functions_.start(functions_.user, as_c(reads), reads.size()),
                     "the store could not start the reads");
  }
  void cancel(std::span<RangeRead* const> reads) noexcept override {
    if (functions_.cancel != nullptr) functions_.cancel(functions_.user, as_c(reads), reads.size());
  }
  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    if (functions_.list == nullptr) return ByteStore::list(prefix);
    hr_listing listing;
    HEADRACE_TRY(status_of(functions_.list(functions_.user, std::string(prefix).c_str(), &listing),
                           "the store cannot list this prefix"));
    if (listing.failed) return Status::out_of_memory();
    return std::move(listing.names);
  }
  Status put(std::string_view key, std::span<const std::byte> bytes) override {
    if (functions_.put == nullptr) return ByteStore::put(key, bytes);
    return status_of(functions_.put(functions_.user, std::string(key).c_str(), bytes.data(), bytes.size()),
                     "the store cannot put the object");
  }
  headrace::RangeAdvice advice() const noexcept override {
    headrace::RangeAdvice advice;
    if (functions_.gap_bytes != 0) advice.gap_bytes = functions_.gap_bytes;
    if (functions_.group_bytes != 0) advice.group_bytes = functions_.group_bytes;
    advice.window_bytes = functions_.window_bytes;
    return advice;
  }

 private:
  const hr_store_functions functions_;
  const std::string url_;
  bool owned_ = false;
};

constexpr std::size_t kFunctionsEnds[] = {
    headrace::capi::field_end<void (*)(void*)>(offsetof(hr_store_functions, free)),
    headrace::capi::field_end<std::uint64_t>(offsetof(hr_store_functions, window_bytes)),
};

}  // namespace

const char* hr_range_key(const hr_range_read* read) { return of(read).key.data(); }
uint64_t hr_range_offset(const hr_range_read* read) { return of(read).offset; }
int hr_range_from_end(const hr_range_read* read) { return of(read).from_end ? 1 : 0; }
void* hr_range_out(const hr_range_read* read) { return of(read).out.data(); }
size_t hr_range_bytes(const hr_range_read* read) { return of(read).out.size(); }
const char* hr_range_version(const hr_range_read* read) {
  return of(read).version.empty() ? "" : of(read).version.data();  // points into a NUL-terminated std::string
}

void hr_range_done(hr_range_read* read, hr_code code, const char* message, uint64_t bytes, uint64_t object_bytes,
                   const char* version) {
  RangeRead& range = of(read);
  try {
    range.status = status_of(code, message != nullptr && *message != '\0' ? message : "the store cannot read");
    if (version != nullptr) range.found_version = version;
  } catch (...) {
    range.status = Status::out_of_memory();
  }
  range.bytes = bytes;
  range.object_bytes = object_bytes;
  RangeRead* const one[] = {&range};
  range.listener->done(one);
}

void hr_listing_add(hr_listing* listing, const char* name, int is_directory) {
  try {
    listing->names.push_back({name, is_directory != 0});
  } catch (...) {
    listing->failed = true;
  }
}

hr_code hr_store_open_functions(hr_context* context, const hr_store_functions* functions, hr_store** out,
                                hr_error** error) {
  using headrace::capi::require;
  if (out == nullptr) return headrace::capi::out_is_null(error);
  *out = nullptr;
  return headrace::capi::guarded(error, [&]() -> Status {
    HEADRACE_TRY(require(context, "context"));
    HEADRACE_TRY(require(functions, "functions"));
    hr_store_functions taken = HR_STORE_FUNCTIONS_INIT;
    HEADRACE_TRY(headrace::capi::take_options(functions, kFunctionsEnds, taken));
    HEADRACE_TRY(require(taken.url, "functions->url"));
    if (taken.start == nullptr) return headrace::capi::invalid("functions->start is null");
    auto store = std::make_shared<FunctionStore>(taken);
    HEADRACE_TRY_ASSIGN(headrace::Store opened, headrace::Store::open(context->value, store));
    *out = new hr_store{std::move(opened)};
    store->own();  // takes ownership only now: if anything above fails, `user` stays the caller's
    return {};
  });
}
