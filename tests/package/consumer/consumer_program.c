/* Prints the sum of a uint8 array: consumer_c STORE [DEVICE]. DEVICE: the host must be able to access its memory. */
#include <headrace/headrace.h>
#include <stdio.h>
#include <stdlib.h>

static int report(hr_error* error) {
  fprintf(stderr, "%s\n", hr_error_message(error));
  hr_error_free(error);
  return 1;
}

int main(int argc, char** argv) {
  hr_error* error = NULL;
  hr_context* context = NULL;
  hr_store* store = NULL;
  hr_array* array = NULL;
  hr_device* device = NULL;
  hr_read_options options = HR_READ_OPTIONS_INIT;
  unsigned char* data;
  size_t bytes = 1, i;
  unsigned total = 0;

  if (argc != 2 && argc != 3) return 2;
  if (hr_context_create(NULL, &context, &error) != HR_OK) return report(error);
  if (hr_store_open(context, argv[1], &store, &error) != HR_OK) return report(error);
  if (hr_array_open(store, NULL, &array, &error) != HR_OK) return report(error);
  if (hr_device_open(argc == 3 ? argv[2] : "host", &device, &error) != HR_OK) return report(error);
  fprintf(stderr, "%s\n", hr_device_note(device));
  for (i = 0; i < hr_array_rank(array); ++i) bytes *= (size_t)hr_array_shape(array)[i];
  data = malloc(bytes);
  if (data == NULL) return 1;
  options.data = data;
  options.data_bytes = bytes;
  if (hr_array_read(array, device, &options, &error) != HR_OK) return report(error);
  for (i = 0; i < bytes; ++i) total += data[i];
  printf("%u\n", total);

  free(data);
  hr_device_free(device);
  hr_array_free(array);
  hr_store_free(store);
  hr_context_free(context);
  return 0;
}
