// Once a thread's scratch is warm, decoding allocates nothing, neither through new nor inside a library.
#include <gtest/gtest.h>

#include <atomic>
#include <string_view>

#include "base/json.h"
#include "codec/codec.h"
#include "tests/support/codec_seed_files.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADRACE_COUNTS_ALLOCATIONS 0  // sanitizers have their own allocators
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEADRACE_COUNTS_ALLOCATIONS 0
#endif
#endif
#if !defined(HEADRACE_COUNTS_ALLOCATIONS) && defined(__GLIBC__)
#define HEADRACE_COUNTS_ALLOCATIONS 1
#endif

#if HEADRACE_COUNTS_ALLOCATIONS

namespace {
std::atomic<std::size_t> g_allocations{0};
}

// Replaces the C library's functions for every library in the process.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
__attribute__((visibility("default"))) void* malloc(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(std::size_t count, std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* old, std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
}

namespace headrace::test {
namespace {

class CodecAllocation : public ::testing::TestWithParam<codec::CodecRow> {};

TEST_P(CodecAllocation, NoneWhenWarm) {
  const codec::CodecRow row = GetParam();
  const std::string_view name = row.name;
  if (*row.v2_ids == '\0' || name == "bitround") return;  // their seeds are not streams
  if (name == "json2") return;                            // decoding JSON text builds a tree
  unsigned checked = 0;
  for (const auto& [path, content, seed] : codec_seeds(row.name)) {
    if (!path.filename().string().starts_with("ok")) continue;
    codec::CodecArgs context;
    context.zarr_format = 2;
    const auto codec = row.make(codec_seed_config(row.name, seed.choice), context);
    ASSERT_TRUE(codec.ok());
    const codec::StreamCoder* const coder = codec->coder();
    ASSERT_NE(coder, nullptr);
    const auto scratch = coder->make_scratch();
    std::vector<std::byte> out(seed.capacity);
    codec::EncodedStream stream{.src = seed.stream.data(),
                                .src_bytes = seed.stream.size(),
                                .dst = out.data(),
                                .dst_capacity = out.size(),
                                .dst_bytes = 0,
                                .exact = seed.exact};
    const Status status = coder->decode(stream, scratch.get());
    ASSERT_TRUE(status.ok()) << path;
    const std::size_t before = g_allocations.load();
    for (int i = 0; i < 10; ++i) (void)coder->decode(stream, scratch.get());
    EXPECT_EQ(g_allocations.load() - before, 0u) << path;
    ++checked;
  }
  EXPECT_GE(checked, 2u);
}

TEST(CodecAllocationCounter, SeesAnAllocation) {
  const std::size_t before = g_allocations.load();
  const std::string text(1000, 'x');  // a plain malloc and free might be optimised away
  EXPECT_EQ(text.back(), 'x');
  EXPECT_GE(g_allocations.load() - before, 1u);
}

INSTANTIATE_TEST_SUITE_P(Table, CodecAllocation, ::testing::ValuesIn(codec::codecs()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace headrace::test

#else

TEST(CodecAllocation, NothingIsAllocated) { GTEST_SKIP() << "sanitizers keep malloc for themselves"; }

#endif  // HEADRACE_COUNTS_ALLOCATIONS
