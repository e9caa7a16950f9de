// Linked into tests that are declared SINGLE_THREADED, which do not run under ThreadSanitizer. Aborts if such a test
// starts a thread.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t*, const pthread_attr_t*,
                                                                     void* (*)(void*), void*) {
  std::fputs("a thread begins in a test that is declared SINGLE_THREADED: take the word out of its line\n", stderr);
  std::abort();
}
