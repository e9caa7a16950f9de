/* headrace's C API (C99): the same reads for any language with a foreign function interface. Batches for training are
 * in headrace/loader_c.h.
 *
 * Handles are opaque. Each is freed with its hr_*_free, which accepts null. Every call that can fail returns an hr_code
 * and, if `error` is not null, stores an error there that the caller frees with hr_error_free. Option structs begin
 * with their size so that later versions can add fields: initialise them with the *_INIT macros.
 *
 * Threads: a handle may be used from any thread. The caller must not free one while another thread uses it. */
#ifndef HEADRACE_H
#define HEADRACE_H

#include <headrace/version.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HR_API __attribute__((visibility("default")))
#else
#define HR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hr_code {
  HR_OK = 0,
  HR_INVALID_ARGUMENT = 1,
  HR_NOT_FOUND = 2,
  HR_CORRUPT = 3,
  HR_SHORT = 4,
  HR_IO = 5,
  HR_AGAIN_EXHAUSTED = 6,
  HR_TIMEOUT = 7,
  HR_CANCELLED = 8,
  HR_RESOURCE_EXHAUSTED = 9,
  HR_UNSUPPORTED = 10,
  HR_PERMISSION = 11,
  HR_DEVICE_LOST = 12,
  HR_FORKED = 13,
  HR_INTERNAL = 14
} hr_code;

typedef struct hr_error hr_error;
HR_API hr_code hr_error_code(const hr_error* error);
HR_API const char* hr_error_message(const hr_error* error); /* one line; lives as long as the error */
HR_API void hr_error_free(hr_error* error);

typedef struct hr_context hr_context;
typedef struct hr_store hr_store;
typedef struct hr_array hr_array;
typedef struct hr_device hr_device;
typedef struct hr_buffer hr_buffer;
typedef struct hr_completion hr_completion;
typedef struct hr_variable hr_variable;
typedef struct hr_stored_chunks hr_stored_chunks;
typedef struct hr_cancel hr_cancel;
typedef struct hr_names hr_names;

typedef struct hr_context_options {
  size_t size;
  const char* engine; /* null or "auto", "gds", "io_uring", "aio", "threads" */
  uint32_t threads;   /* 0: every CPU this process may run on */
  uint32_t reserved;
  uint64_t host_budget_bytes; /* 0: default */
  uint64_t device_budget_bytes;
  uint64_t stored_budget_bytes; /* memory whose size stored bytes determine: metadata, shard indexes ... */
} hr_context_options;
#define HR_CONTEXT_OPTIONS_INIT \
  { sizeof(hr_context_options), NULL, 0, 0, 0, 0, 0 }

/* options may be null for defaults. */
HR_API hr_code hr_context_create(const hr_context_options* options, hr_context** out, hr_error** error);
HR_API void hr_context_free(hr_context* context);

HR_API hr_code hr_store_open(hr_context* context, const char* url, hr_store** out, hr_error** error);
/* One option of a network store, such as "key" or "endpoint_url"; see headrace/open_options.h. */
typedef struct hr_storage_option {
  const char* name;
  const char* value;
} hr_storage_option;
/* As hr_store_open, with options. They are copied; `options` may be null if count is 0. */
HR_API hr_code hr_store_open_with(hr_context* context, const char* url, const hr_storage_option* options, size_t count,
                                  hr_store** out, hr_error** error);
HR_API void hr_store_free(hr_store* store);

/* A store implemented by the caller and read by byte ranges. headrace/byte_store.h has the contract and how wrong
 * answers are handled. Its functions are called from any thread, several at a time. */
typedef struct hr_range_read hr_range_read; /* one range; owned by the store from start() to hr_range_done() */
typedef struct hr_listing hr_listing;       /* valid during one call of list() */
#define HR_UNKNOWN_BYTES UINT64_MAX

HR_API const char* hr_range_key(const hr_range_read* read);
HR_API uint64_t hr_range_offset(const hr_range_read* read); /* of the first byte; unused if from_end is 1 */
HR_API int hr_range_from_end(const hr_range_read* read);    /* 1: the last bytes of the object */
HR_API void* hr_range_out(const hr_range_read* read);       /* destination buffer */
HR_API size_t hr_range_bytes(const hr_range_read* read);    /* size of the destination buffer */
/* If not "", only bytes of this version are acceptable; for any other version report HR_AGAIN_EXHAUSTED. */
HR_API const char* hr_range_version(const hr_range_read* read);
/* Reports the end of a read. Call it exactly once per read, from any thread; calling it within start() or cancel() is
 * fine. code: HR_NOT_FOUND only if the object certainly does not exist. message: the reason for a failure, or null.
 * bytes: bytes written to hr_range_out(), fewer than hr_range_bytes() only at the end of the object. object_bytes: size
 * of the whole object, or HR_UNKNOWN_BYTES. version: identifies this content of the object (an ETag), or null. */
HR_API void hr_range_done(hr_range_read* read, hr_code code, const char* message, uint64_t bytes, uint64_t object_bytes,
                          const char* version);
HR_API void hr_listing_add(hr_listing* listing, const char* name, int is_directory);

typedef struct hr_store_functions {
  size_t size;
  void* user;      /* first argument of every function */
  const char* url; /* how messages name the store; copied */
  /* Starts all of these reads and returns without blocking, or starts none and returns the error. The array is valid
   * only during the call; the reads stay valid until they are done. */
  hr_code (*start)(void* user, hr_range_read* const* reads, size_t count);
  /* May be null. These reads are not needed any more. Each still ends with hr_range_done; some may already have ended.
   */
  void (*cancel)(void* user, hr_range_read* const* reads, size_t count);
  /* May be null. Calls hr_listing_add() for each name directly below prefix ("" is the root). */
  hr_code (*list)(void* user, const char* prefix, hr_listing* listing);
  /* May be null. Creates or replaces an object. */
  hr_code (*put)(void* user, const char* key, const void* bytes, size_t count);
  /* May be null. Called once nothing uses the store any more. */
  void (*free)(void* user);
  /* Tuning hints; 0 means as for files on a local disk. gap_bytes: wanted ranges of one object at most this far apart
   * become one read. group_bytes: maximum bytes of a read that combines several ranges. window_bytes: target for bytes
   * in flight. */
  uint64_t gap_bytes, group_bytes, window_bytes;
} hr_store_functions;
#define HR_STORE_FUNCTIONS_INIT \
  { sizeof(hr_store_functions), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }

/* The struct is copied. If this fails, `user` is not freed. */
HR_API hr_code hr_store_open_functions(hr_context* context, const hr_store_functions* functions, hr_store** out,
                                       hr_error** error);

/* path: "" or null for a store whose root is an array. */
HR_API hr_code hr_array_open(hr_store* store, const char* path, hr_array** out, hr_error** error);
typedef struct hr_open_options {
  size_t size;
  const char* lenient; /* deviations from the specifications to accept: names, or "all"; null or "": none */
} hr_open_options;
#define HR_OPEN_OPTIONS_INIT \
  { sizeof(hr_open_options), NULL }
/* As hr_array_open, with options, which may be null. */
HR_API hr_code hr_array_open_with(hr_store* store, const char* path, const hr_open_options* options, hr_array** out,
                                  hr_error** error);
typedef enum hr_node { HR_NODE_ARRAY = 1, HR_NODE_GROUP = 2 } hr_node;
/* Opens the node at path; *node says whether it is an array or a group. An array is opened as by hr_array_open_with and
 * must be freed by the caller; for a group *array is null. options may be null. HR_NOT_FOUND: there is no node. */
HR_API hr_code hr_open(hr_store* store, const char* path, const hr_open_options* options, hr_node* node,
                       hr_array** array, hr_error** error);
/* The deviations that were accepted, one text each: "endian-codec: codecs[0] is called 'endian'". Null past the last.
 * Lives as long as the array. */
HR_API const char* hr_array_lenient_use(const hr_array* array, uint32_t index);
HR_API void hr_array_free(hr_array* array);
HR_API uint32_t hr_array_rank(const hr_array* array);
HR_API const uint64_t* hr_array_shape(const hr_array* array);       /* rank values; lives as long as the array */
HR_API const uint64_t* hr_array_chunk_shape(const hr_array* array); /* rank values */
HR_API uint32_t hr_array_item_bytes(const hr_array* array);         /* 0: elements have variable length */
HR_API const char* hr_array_dtype(const hr_array* array);           /* "float32"; lives as long as the array */

/* The chunks (shards, if the array is sharded) for which the store has an object, found by listing the store. For
 * sparse arrays: all other chunks consist of the fill value. HR_RESOURCE_EXHAUSTED if the list exceeds the context's
 * stored_budget_bytes. */
HR_API hr_code hr_array_stored_chunks(hr_array* array, hr_stored_chunks** out, hr_error** error);
HR_API uint64_t hr_stored_chunks_count(const hr_stored_chunks* chunks);
HR_API uint32_t hr_stored_chunks_rank(const hr_stored_chunks* chunks); /* of the array */
/* Grid indices: indices[i * rank + axis], chunks in C order. count * rank values that live as long as the list; null if
 * it is empty. */
HR_API const uint64_t* hr_stored_chunks_indices(const hr_stored_chunks* chunks);
HR_API void hr_stored_chunks_free(hr_stored_chunks* chunks);

/* The devices of this machine that can be used now, by the names that hr_device_open takes: "host", "cuda:0". */
HR_API hr_code hr_device_names(hr_names** out, hr_error** error);
HR_API uint32_t hr_names_count(const hr_names* names);
HR_API const char* hr_names_get(const hr_names* names, uint32_t index); /* null past the last; lives as the list */
HR_API void hr_names_free(hr_names* names);

/* name: "auto", or one of hr_device_names. "cuda" means "cuda:0". */
HR_API hr_code hr_device_open(const char* name, hr_device** out, hr_error** error);
HR_API void hr_device_free(hr_device* device);
HR_API const char* hr_device_name(const hr_device* device);
/* Why "auto" chose no GPU, or that the driver has yet to compile code for this GPU; "" otherwise. Lives as long
 * as the device. */
HR_API const char* hr_device_note(const hr_device* device);

HR_API hr_code hr_buffer_allocate(hr_device* device, size_t bytes, hr_buffer** out, hr_error** error);
HR_API void hr_buffer_free(hr_buffer* buffer);
HR_API void* hr_buffer_data(const hr_buffer* buffer);
HR_API hr_code hr_buffer_copy_to_host(const hr_buffer* buffer, size_t offset_bytes, void* dst, size_t bytes,
                                      hr_error** error);

/* A token that cancels reads. Any number of reads may share it. It may be used from any thread at any time, but not
 * from a signal handler, and freed while reads run. In a forked child, asking an inherited token does not
 * stop reads that the child has started. */
HR_API hr_code hr_cancel_create(hr_cancel** out, hr_error** error);
/* Cannot be undone: running reads end with HR_CANCELLED and later ones are refused. Returns at once. */
HR_API void hr_cancel_ask(const hr_cancel* cancel);
HR_API int hr_cancel_asked(const hr_cancel* cancel); /* 1: cancellation was requested */
HR_API void hr_cancel_free(hr_cancel* cancel);

typedef struct hr_read_options {
  size_t size;
  const char* selection; /* "0:10, :, ::2", ":, [1, 5, 7]"; null or "": the whole array */
  void* data;            /* address of element [0, 0, ...] on the device */
  uint64_t data_bytes; /* size of the memory that holds all elements. It begins at `data` or, with negative strides, at
                          the lowest address of any element */
  const int64_t* strides_bytes; /* one per dimension of the result; null: C order */
  void* native_stream;          /* cudaStream_t or null */
  uint32_t placement;           /* where to decode: HR_PLACEMENT_... */
  uint32_t verify;              /* how much of a partly selected chunk to check: HR_VERIFY_... */
  /* Conversion into `data`, as ReadOptions in headrace/array.h describes it. */
  const char* dtype; /* element type of the result: "float32", "bfloat16", "int16"; null or "": as stored */
  double scale;      /* the value of a stored number x is x * scale + offset; scale 0 means 1 */
  double offset;
  int32_t fill_as_nan;   /* not 0: elements equal to the fill value, and absent chunks, become NaN */
  int32_t damage_as_nan; /* not 0: elements of damaged chunks become NaN and the read continues */
  /* Alternatives to `selection`: set at most one of the three. */
  const int64_t* points; /* coordinates of single elements, points[i * dimensions + axis]; negative ones count from the
                            end. The result has one dimension of point_count */
  uint64_t point_count;
  const char* blocks;      /* chunks of the array's grid (shards if it is sharded): "0, 1:3" */
  const hr_cancel* cancel; /* cancels the read when asked; null: none */
} hr_read_options;
#define HR_PLACEMENT_AUTO 0u /* the faster of CPU and device, if the device has decoders */
#define HR_PLACEMENT_CPU 1u
#define HR_PLACEMENT_GPU 2u  /* HR_UNSUPPORTED if the device cannot decode */
#define HR_VERIFY_AS_READ 0u /* damage outside the selection may go unnoticed */
#define HR_VERIFY_WHOLE 1u   /* each chunk is read and decoded whole */
#define HR_READ_OPTIONS_INIT                                                                                          \
  {                                                                                                                   \
    sizeof(hr_read_options), NULL, NULL, 0, NULL, NULL, HR_PLACEMENT_AUTO, HR_VERIFY_AS_READ, NULL, 0, 0, 0, 0, NULL, \
        0, NULL, NULL                                                                                                 \
  }

HR_API hr_code hr_array_read(hr_array* array, hr_device* device, const hr_read_options* options, hr_error** error);
HR_API hr_code hr_array_read_async(hr_array* array, hr_device* device, const hr_read_options* options,
                                   hr_completion** out, hr_error** error);
HR_API int hr_completion_done(const hr_completion* completion);
HR_API hr_code hr_completion_wait(hr_completion* completion, hr_error** error);
HR_API void hr_completion_cancel(hr_completion* completion);
HR_API void hr_completion_free(hr_completion* completion);

/* Strings and byte strings of variable length, read to the host in the layout of an Arrow LargeString or LargeBinary
 * array: element i, in C order, is data[offsets[i], offsets[i + 1]). See headrace/variable.h. */
typedef struct hr_variable_options {
  size_t size;
  const char* selection;   /* as for reads; null or "": the whole array */
  uint64_t max_bytes;      /* maximum size of the result: 24 bytes per element plus the elements; 0: 2^30 */
  const hr_cancel* cancel; /* cancels the read when asked; null: none */
} hr_variable_options;
#define HR_VARIABLE_OPTIONS_INIT \
  { sizeof(hr_variable_options), NULL, 0, NULL }

/* options may be null for defaults. HR_INVALID_ARGUMENT if elements have a fixed size: use hr_array_read for those. */
HR_API hr_code hr_array_read_variable(hr_array* array, const hr_variable_options* options, hr_variable** out,
                                      hr_error** error);
HR_API uint32_t hr_variable_rank(const hr_variable* variable);
HR_API const uint64_t* hr_variable_shape(const hr_variable* variable);  /* rank values; lives as long as the result */
HR_API uint64_t hr_variable_count(const hr_variable* variable);         /* elements */
HR_API const int64_t* hr_variable_offsets(const hr_variable* variable); /* count + 1 values; lives as long */
HR_API const void* hr_variable_data(const hr_variable* variable);       /* offsets[count] bytes; lives as long */
HR_API int hr_variable_is_utf8(const hr_variable* variable);            /* 1: every element is valid UTF-8 */
HR_API void hr_variable_free(hr_variable* variable);

/* Contents of the directory in which remote stores cache what they read (storage option "cache_dir"); see
 * headrace/disk_cache.h. `directory` is its path. Stores of this and other processes may use it at the same time. */
typedef struct hr_cache_report hr_cache_report;
typedef struct hr_cache_totals {
  size_t size;
  uint64_t segments;        /* files of the directory; see hr_cache_segment */
  uint64_t file_bytes;      /* their size on the disk */
  uint64_t records;         /* cached ranges of objects */
  uint64_t data_bytes;      /* cached bytes of objects */
  uint64_t damaged_records; /* records with a wrong checksum; 0 without verify */
  uint64_t disk_free_bytes; /* free on the file system, for this user */
  /* Of the stores in this process that use the directory; 0 if there are none. */
  uint64_t most_bytes; /* size limit of all segments together */
  uint64_t hits, hit_bytes, misses;
  uint64_t added_records, added_bytes;
  uint64_t dropped_records; /* not cached: no room, or the disk was too slow */
  int32_t in_use;           /* 1: stores of this process use the directory */
  int32_t reserved;
} hr_cache_totals;
#define HR_CACHE_TOTALS_INIT \
  { sizeof(hr_cache_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
typedef struct hr_cache_segment {
  size_t size;
  const char* name; /* file name in the directory; lives as long as the report */
  uint64_t file_bytes, records, data_bytes, damaged_records;
  uint64_t torn_bytes; /* incomplete record at the end, left by a killed process */
  int32_t sealed;      /* 1: full, and ends with an index of its records */
  int32_t growing;     /* 1: a process is appending to it */
  int32_t foreign;     /* 1: not a segment of this directory */
  int32_t reserved;
} hr_cache_segment;
#define HR_CACHE_SEGMENT_INIT \
  { sizeof(hr_cache_segment), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* verify 1: also reads all data and compares checksums. Nothing is changed. HR_NOT_FOUND: no such directory.
 * HR_PERMISSION: it belongs to another user, or others can write to it. */
HR_API hr_code hr_cache_inspect(const char* directory, int verify, hr_cache_report** out, hr_error** error);
HR_API hr_code hr_cache_total(const hr_cache_report* report, hr_cache_totals* out, hr_error** error);
/* HR_NOT_FOUND for an index past the last. */
HR_API hr_code hr_cache_segment_at(const hr_cache_report* report, uint64_t index, hr_cache_segment* out,
                                   hr_error** error);
/* The directory with symbolic links resolved; null for a null report. Lives as long as the report. */
HR_API const char* hr_cache_directory(const hr_cache_report* report);
/* The first problem that kept this process's stores from caching or serving data; "" if none. Lives as long
 * as the report. */
HR_API const char* hr_cache_problem(const hr_cache_report* report);
HR_API void hr_cache_free(hr_cache_report* report);
/* Removes all segments, including those that stores have open. *freed_bytes, if not null, receives the
 * disk space freed. */
HR_API hr_code hr_cache_clear(const char* directory, uint64_t* freed_bytes, hr_error** error);

HR_API const char* hr_version(void); /* "0.1.0"; headrace/version.h has the version of the headers */

#ifdef __cplusplus
}
#endif
#endif
