/* Calls every function of headrace.h once from C99, on an array that this program writes. c_api_smoke DIRECTORY */
#define _POSIX_C_SOURCE 200809L
#include <headrace/headrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                             \
    }                                                                         \
  } while (0)

#define MUST(call)                                                                                  \
  do {                                                                                              \
    hr_error* must_error_ = NULL;                                                                   \
    hr_error** error = &must_error_;                                                                \
    if ((call) != HR_OK) {                                                                          \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hr_error_message(must_error_)); \
      hr_error_free(must_error_);                                                                   \
      exit(1);                                                                                      \
    }                                                                                               \
    CHECK(must_error_ == NULL);                                                                     \
  } while (0)

static void write_file(const char* directory, const char* name, const void* bytes, size_t size) {
  char path[4096];
  FILE* file;
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

static const char metadata[] =
    "{\"zarr_format\": 2, \"shape\": [4, 6], \"chunks\": [2, 6], \"dtype\": \"<u2\", \"compressor\": null,"
    " \"fill_value\": 7, \"filters\": null, \"order\": \"C\"}";

int main(int argc, char** argv) {
  hr_context* context = NULL;
  hr_store* store = NULL;
  hr_array* array = NULL;
  hr_device* device = NULL;
  hr_buffer* buffer = NULL;
  hr_completion* completion = NULL;
  hr_stored_chunks* stored = NULL;
  hr_names* names = NULL;
  hr_cancel* cancel = NULL;
  hr_node node = HR_NODE_GROUP;
  hr_error* failure = NULL;
  hr_context_options context_options = HR_CONTEXT_OPTIONS_INIT;
  hr_read_options read_options = HR_READ_OPTIONS_INIT;
  uint16_t chunk[12], out[24], part[6];
  unsigned char little[24];
  int64_t strides[2];
  size_t i;

  if (argc != 2) {
    fprintf(stderr, "usage: c_api_smoke DIRECTORY\n");
    return 2;
  }
  mkdir(argv[1], 0777);
  write_file(argv[1], ".zarray", metadata, sizeof(metadata) - 1);
  for (i = 0; i < 12; ++i) {
    chunk[i] = (uint16_t)(1000 + i);
    little[2 * i] = (unsigned char)(chunk[i] & 0xff);
    little[2 * i + 1] = (unsigned char)(chunk[i] >> 8);
  }
  write_file(argv[1], "0.0", little, sizeof(little)); /* chunk 1.0 is missing: fill value */

  CHECK(strlen(hr_version()) > 0);
  context_options.engine = "auto";
  context_options.threads = 2;
  MUST(hr_context_create(&context_options, &context, error));
  MUST(hr_store_open(context, argv[1], &store, error));
  MUST(hr_open(store, "", NULL, &node, &array, error));
  CHECK(node == HR_NODE_ARRAY && hr_array_rank(array) == 2);
  hr_array_free(array);
  MUST(hr_device_names(&names, error));
  CHECK(hr_names_count(names) >= 1 && strcmp(hr_names_get(names, 0), "host") == 0);
  hr_names_free(names);
  MUST(hr_cancel_create(&cancel, error));
  read_options.cancel = cancel;
  MUST(hr_array_open(store, "", &array, error));
  CHECK(hr_array_rank(array) == 2);
  CHECK(hr_array_shape(array)[0] == 4 && hr_array_shape(array)[1] == 6);
  CHECK(hr_array_chunk_shape(array)[0] == 2 && hr_array_chunk_shape(array)[1] == 6);
  CHECK(hr_array_item_bytes(array) == 2);
  CHECK(strcmp(hr_array_dtype(array), "uint16") == 0);
  MUST(hr_array_stored_chunks(array, &stored, error));
  CHECK(hr_stored_chunks_count(stored) == 1 && hr_stored_chunks_rank(stored) == 2);
  CHECK(hr_stored_chunks_indices(stored)[0] == 0 && hr_stored_chunks_indices(stored)[1] == 0);
  hr_stored_chunks_free(stored);

  MUST(hr_device_open("host", &device, error));
  CHECK(strcmp(hr_device_name(device), "host") == 0);
  MUST(hr_buffer_allocate(device, sizeof(out), &buffer, error));
  CHECK(hr_buffer_data(buffer) != NULL);

  read_options.data = hr_buffer_data(buffer);
  read_options.data_bytes = sizeof(out);
  MUST(hr_array_read(array, device, &read_options, error));
  MUST(hr_buffer_copy_to_host(buffer, 0, out, sizeof(out), error));
  for (i = 0; i < 24; ++i) CHECK(out[i] == (i < 12 ? 1000 + i : 7));

  /* Reads a selection into caller-owned memory with strides that leave gaps. */
  memset(part, 0, sizeof(part));
  read_options.selection = "0, ::2";
  read_options.data = part;
  read_options.data_bytes = 0; /* too small for the strides */
  strides[0] = 4;
  read_options.strides_bytes = strides;
  CHECK(hr_array_read(array, device, &read_options, NULL) == HR_INVALID_ARGUMENT);
  read_options.data_bytes = sizeof(part);
  MUST(hr_array_read_async(array, device, &read_options, &completion, error));
  MUST(hr_completion_wait(completion, error));
  CHECK(hr_completion_done(completion) == 1);
  hr_completion_cancel(completion); /* after the end: no effect */
  hr_completion_free(completion);
  CHECK(part[0] == 1000 && part[1] == 0 && part[2] == 1002 && part[3] == 0 && part[4] == 1004 && part[5] == 0);

  /* Errors carry a code and one line. */
  read_options.selection = "99";
  CHECK(hr_array_read(array, device, &read_options, &failure) == HR_INVALID_ARGUMENT);
  CHECK(failure != NULL && hr_error_code(failure) == HR_INVALID_ARGUMENT);
  CHECK(strlen(hr_error_message(failure)) > 0 && strchr(hr_error_message(failure), '\n') == NULL);
  hr_error_free(failure);
  {
    hr_array* none = NULL;
    CHECK(hr_array_open(store, "nowhere", &none, NULL) == HR_NOT_FOUND);
    CHECK(none == NULL);
  }

  /* A read whose token was already asked to cancel does not start. */
  CHECK(hr_cancel_asked(cancel) == 0);
  hr_cancel_ask(cancel);
  CHECK(hr_cancel_asked(cancel) == 1);
  read_options.selection = "0, ::2";
  CHECK(hr_array_read(array, device, &read_options, NULL) == HR_CANCELLED);
  hr_cancel_free(cancel);

  hr_buffer_free(buffer);
  hr_device_free(device);
  hr_array_free(array);
  hr_store_free(store);
  hr_context_free(context);
  if (failures == 0) printf("c_api_smoke: ok\n");
  return failures == 0 ? 0 : 1;
}
