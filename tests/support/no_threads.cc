// Linked into tests that are declared SINGLE_THREADED, which do not run under ThreadSanitizer. Aborts if such a test
// starts a thread.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t*, const pthread_attr_t*,
                                                                     void* (*)(void*), void*) {
  std::fputs("this SINGLE_THREADED test starts a thread: remove SINGLE_THREADED from its headrace_test() line\n",
             stderr);
  std::abort();
}
