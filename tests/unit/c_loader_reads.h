/* A training program in C, for c_loader_test.cc. It passes the content of each batch to `show`. */
#pragma once

#include <headrace/loader_c.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct c_batch_seen {
  uint64_t epoch, number, valid, size;
  const uint64_t* samples;
  size_t tensor_count;
  const hr_tensor* tensors;
  const void* const* elements; /* one per tensor, in host memory */
} c_batch_seen;

/* Reads two epochs of rank 1 of 2: pairs of years of the array at `path`, as "air" "x" and "y", and scaled random crops
 * of them, as "crops". After `stop_after` batches the loader is freed, and another one resumes from its state. Returns
 * null, or what went wrong. */
const char* c_loader_reads(const char* url, const char* path, const char* device, uint64_t stop_after,
                           void (*show)(void* user, const c_batch_seen* batch), void* user);

#ifdef __cplusplus
}
#endif
