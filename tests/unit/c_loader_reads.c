/* C99, compiled as users compile it. */
#include "unit/c_loader_reads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS 4

static char failure[1024];

typedef struct source {
  hr_context* context;
  hr_store* store;
  hr_array* array;
  hr_device* device;
  hr_windows* years;
  hr_windows* crops;
  hr_order* order;
} source;

static int failed(hr_error** error) {
  snprintf(failure, sizeof(failure), "%d: %s", (int)hr_error_code(*error), hr_error_message(*error));
  hr_error_free(*error);
  *error = NULL;
  return 1;
}

static int open_source(source* from, const char* url, const char* path, const char* device) {
  const hr_dim_value dims[] = {{"time", 240}, {"lat", 37}, {"lon", 49}};
  const hr_dim_value pair[] = {{"time", 2}}, stride[] = {{"time", 1}}, crop[] = {{"lat", 8}, {"lon", 12}};
  const hr_window_output outputs[] = {{"x", "time", 0, 0, 0}, {"y", "time", 1, 0, 0}};
  const char* const flipped[] = {"lon"};
  hr_window_options windows = HR_WINDOW_OPTIONS_INIT;
  hr_crop_options crops = HR_CROP_OPTIONS_INIT;
  hr_windows* frames = NULL;
  hr_error* error = NULL;

  if (hr_context_create(NULL, &from->context, &error) != HR_OK) return failed(&error);
  if (hr_store_open(from->context, url, &from->store, &error) != HR_OK) return failed(&error);
  if (hr_array_open(from->store, path, &from->array, &error) != HR_OK) return failed(&error);
  if (hr_device_open(device, &from->device, &error) != HR_OK) return failed(&error);

  windows.input_dims = pair;
  windows.input_dims_count = 1;
  windows.input_stride = stride;
  windows.input_stride_count = 1;
  if (hr_windows_create(dims, 3, &windows, &frames, &error) != HR_OK) return failed(&error);
  windows.outputs = outputs;
  windows.outputs_count = 2;
  if (hr_windows_create(dims, 3, &windows, &from->years, &error) != HR_OK) return failed(&error);
  crops.dims = crop;
  crops.dims_count = 2;
  crops.flip = flipped;
  crops.flip_count = 1;
  if (hr_windows_crop(frames, &crops, &from->crops, &error) != HR_OK) return failed(&error);
  hr_windows_free(frames);
  if (hr_order_block_shuffle(from->years, from->array, 2, &from->order, &error) != HR_OK) return failed(&error);
  return 0;
}

static void close_source(source* from) {
  hr_context_free(from->context); /* in any order */
  hr_store_free(from->store);
  hr_array_free(from->array);
  hr_device_free(from->device);
  hr_windows_free(from->years);
  hr_windows_free(from->crops);
  hr_order_free(from->order);
}

static int make_loader(const source* from, const char* state, hr_loader** out) {
  hr_loader_array air = HR_LOADER_ARRAY_INIT, crops = HR_LOADER_ARRAY_INIT;
  const hr_loader_array* arrays[2];
  hr_loader_options options = HR_LOADER_OPTIONS_INIT;
  hr_error* error = NULL;
  air.name = "air";
  air.array = from->array;
  air.samples = from->years;
  crops.name = "crops";
  crops.array = from->array;
  crops.samples = from->crops;
  crops.dtype = "float64";
  crops.scale = 0.5;
  crops.offset = -100;
  arrays[0] = &air;
  arrays[1] = &crops;
  options.order = from->order;
  options.seed = 42;
  options.epochs = 2;
  options.rank = 1;
  options.world = 2;
  options.batch_size = 7;
  options.tail = HR_TAIL_PAD;
  options.state = state;
  if (hr_loader_create(from->device, arrays, 2, &options, out, &error) != HR_OK) return failed(&error);
  return 0;
}

static int show_batch(hr_batch* batch, void (*show)(void* user, const c_batch_seen* batch), void* user) {
  hr_tensor tensors[MOST_TENSORS];
  void* elements[MOST_TENSORS] = {NULL, NULL, NULL, NULL};
  c_batch_seen seen;
  hr_error* error = NULL;
  int result = 0;
  size_t i;
  memset(&seen, 0, sizeof(seen));
  seen.epoch = hr_batch_epoch(batch);
  seen.number = hr_batch_number(batch);
  seen.valid = hr_batch_valid(batch);
  seen.size = hr_batch_size(batch);
  seen.samples = hr_batch_samples(batch);
  for (i = 0; i < 3 && result == 0; ++i) {
    const hr_tensor empty = HR_TENSOR_INIT;
    tensors[i] = empty;
    if (hr_batch_tensor(batch, i, &tensors[i], &error) != HR_OK) {
      result = failed(&error);
      break;
    }
    elements[i] = malloc((size_t)tensors[i].data_bytes);
    if (hr_batch_copy_to_host(batch, i, 0, elements[i], (size_t)tensors[i].data_bytes, &error) != HR_OK)
      result = failed(&error);
  }
  seen.tensor_count = 3;
  seen.tensors = tensors;
  seen.elements = (const void* const*)elements;
  if (result == 0) show(user, &seen);
  for (i = 0; i < 3; ++i) free(elements[i]);
  return result;
}

/* Reads until `max_batches` batches were seen or `max_ends` epochs have ended; *ends counts the ended epochs. */
static int read_batches(hr_loader* loader, uint64_t max_batches, uint64_t max_ends, uint64_t* ends,
                        void (*show)(void* user, const c_batch_seen* batch), void* user) {
  uint64_t batches = 0;
  while (batches < max_batches && *ends < max_ends) {
    hr_batch* batch = NULL;
    hr_error* error = NULL;
    int result;
    if (hr_loader_next(loader, &batch, &error) != HR_OK) return failed(&error);
    if (batch == NULL) {
      ++*ends;
      continue;
    }
    ++batches;
    result = show_batch(batch, show, user);
    hr_batch_free(batch);
    if (result != 0) return result;
  }
  return 0;
}

const char* c_loader_reads(const char* url, const char* path, const char* device, uint64_t stop_after,
                           void (*show)(void* user, const c_batch_seen* batch), void* user) {
  source from = {NULL, NULL, NULL, NULL, NULL, NULL, NULL};
  hr_loader* loader = NULL;
  hr_error* error = NULL;
  char* state = NULL;
  size_t bytes = 0;
  uint64_t ends = 0;
  failure[0] = '\0';
  do {
    if (open_source(&from, url, path, device) != 0) break;
    if (make_loader(&from, NULL, &loader) != 0) break;
    if (read_batches(loader, stop_after, 2, &ends, show, user) != 0) break;
    if (hr_loader_state(loader, NULL, 0, &bytes, &error) != HR_OK && failed(&error)) break;
    state = (char*)malloc(bytes);
    if (hr_loader_state(loader, state, bytes, NULL, &error) != HR_OK && failed(&error)) break;
    hr_loader_free(loader);
    loader = NULL;
    if (make_loader(&from, state, &loader) != 0) break;
    if (read_batches(loader, UINT64_MAX, 2, &ends, show, user) != 0) break;
  } while (0);
  free(state);
  hr_loader_free(loader);
  close_source(&from);
  return failure[0] == '\0' ? NULL : failure;
}
