/* headrace's C API: the same reads for any language with a foreign function interface. C99. Batches for training are
 * in headrace/loader_c.h.
 *
 * Handles are opaque and freed with their hr_*_free (null is allowed). Every call that can fail returns an hr_code and,
 * where `error` is not null, stores a message there that the caller frees with hr_error_free. Option structs start with
 * their size, so that later versions can add fields: set it with the *_INIT macros.
 *
 * Threads: handles may be used from any thread; freeing one while it is in use elsewhere is the caller's error.
 */
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
  uint32_t threads;   /* 0: all CPUs this process may use */
  uint32_t reserved;
  uint64_t host_budget_bytes; /* 0: default */
  uint64_t device_budget_bytes;
  uint64_t stored_budget_bytes; /* memory whose size stored bytes decide, such as metadata and shard indexes */
} hr_context_options;
#define HR_CONTEXT_OPTIONS_INIT \
  { sizeof(hr_context_options), NULL, 0, 0, 0, 0, 0 }

/* options may be null for defaults */
HR_API hr_code hr_context_create(const hr_context_options* options, hr_context** out, hr_error** error);
HR_API void hr_context_free(hr_context* context);

HR_API hr_code hr_store_open(hr_context* context, const char* url, hr_store** out, hr_error** error);
/* One option of a store that is asked over a network: "key", "endpoint_url", ... headrace/open_options.h says more. */
typedef struct hr_storage_option {
  const char* name;
  const char* value;
} hr_storage_option;
/* The same with options, which are copied and may be null where count is 0. */
HR_API hr_code hr_store_open_with(hr_context* context, const char* url, const hr_storage_option* options, size_t count,
                                  hr_store** out, hr_error** error);
HR_API void hr_store_free(hr_store* store);

/* A store of the caller's own, which is read by ranges of bytes: headrace/byte_store.h says what is asked of it, and
 * what becomes of wrong answers. Its functions are called from any thread, also several at a time. */
typedef struct hr_range_read hr_range_read; /* one range; the store's from start() to hr_range_done() */
typedef struct hr_listing hr_listing;       /* of one call of list() */
#define HR_UNKNOWN_BYTES UINT64_MAX

HR_API const char* hr_range_key(const hr_range_read* read);
HR_API uint64_t hr_range_offset(const hr_range_read* read); /* of the first byte; unused where from_end is 1 */
HR_API int hr_range_from_end(const hr_range_read* read);    /* 1: the object's last bytes */
HR_API void* hr_range_out(const hr_range_read* read);       /* where they go */
HR_API size_t hr_range_bytes(const hr_range_read* read);    /* most that go there */
/* Not "": bytes of another version are HR_AGAIN_EXHAUSTED. */
HR_API const char* hr_range_version(const hr_range_read* read);
/* The read has ended: exactly once each, on any thread, also from within start() or cancel(). code: HR_NOT_FOUND only
 * where there is certainly no such object; message: why not, or null. bytes: in hr_range_out(), fewer than
 * hr_range_bytes() only where the object ends. object_bytes: of the whole object, or HR_UNKNOWN_BYTES. version:
 * whatever names this content of the object (an ETag), or null. */
HR_API void hr_range_done(hr_range_read* read, hr_code code, const char* message, uint64_t bytes, uint64_t object_bytes,
                          const char* version);
HR_API void hr_listing_add(hr_listing* listing, const char* name, int is_directory);

typedef struct hr_store_functions {
  size_t size;
  void* user;      /* first argument of all functions */
  const char* url; /* what messages call the store; copied */
  /* Takes all of these reads, or none and says why not. Waits for nothing. The array is gone when it returns. */
  hr_code (*start)(void* user, hr_range_read* const* reads, size_t count);
  /* Null, or: these are not wanted any more. Each still ends by hr_range_done; some may have ended already. */
  void (*cancel)(void* user, hr_range_read* const* reads, size_t count);
  /* Null, or: hr_listing_add() for each name directly below prefix ("": the root). */
  hr_code (*list)(void* user, const char* prefix, hr_listing* listing);
  /* Null, or: creates or replaces an object. */
  hr_code (*put)(void* user, const char* key, const void* bytes, size_t count);
  /* Null, or: nothing uses the store any more. */
  void (*free)(void* user);
  /* How ranges are best asked for; 0: as of files on a local disk. Between two wanted ranges of one object, up to this
   * they are one read; most that one read takes of several; wanted under way at a time. */
  uint64_t gap_bytes, group_bytes, window_bytes;
} hr_store_functions;
#define HR_STORE_FUNCTIONS_INIT \
  { sizeof(hr_store_functions), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0 }

/* The struct is copied. Where this fails, user is not freed. */
HR_API hr_code hr_store_open_functions(hr_context* context, const hr_store_functions* functions, hr_store** out,
                                       hr_error** error);

/* path: "" or null for a store that is itself an array */
HR_API hr_code hr_array_open(hr_store* store, const char* path, hr_array** out, hr_error** error);
typedef struct hr_open_options {
  size_t size;
  const char* lenient; /* what may be let pass beyond the specifications: names, "all"; null or "": nothing */
} hr_open_options;
#define HR_OPEN_OPTIONS_INIT \
  { sizeof(hr_open_options), NULL }
/* The same with options, which may be null. */
HR_API hr_code hr_array_open_with(hr_store* store, const char* path, const hr_open_options* options, hr_array** out,
                                  hr_error** error);
typedef enum hr_node { HR_NODE_ARRAY = 1, HR_NODE_GROUP = 2 } hr_node;
/* What lies at path, array or group: *node says which. An array is opened, as by hr_array_open_with, and is the
 * caller's; for a group *array is null. options may be null. HR_NOT_FOUND: no node there. */
HR_API hr_code hr_open(hr_store* store, const char* path, const hr_open_options* options, hr_node* node,
                       hr_array** array, hr_error** error);
/* What was let pass, one text each: "endian-codec: codecs[0] is called 'endian'"; null from the first that there is
   not. Lives as long as the array. */
HR_API const char* hr_array_lenient_use(const hr_array* array, uint32_t index);
HR_API void hr_array_free(hr_array* array);
HR_API uint32_t hr_array_rank(const hr_array* array);
HR_API const uint64_t* hr_array_shape(const hr_array* array);       /* rank values; lives as long as the array */
HR_API const uint64_t* hr_array_chunk_shape(const hr_array* array); /* rank values */
HR_API uint32_t hr_array_item_bytes(const hr_array* array);         /* 0: elements have variable length */
HR_API const char* hr_array_dtype(const hr_array* array);           /* "float32"; lives as long as the array */

/* The chunks (shards, where the array is sharded) that the store has an object for, found by listing it. For sparse
 * arrays: what is not among them is the fill value. HR_RESOURCE_EXHAUSTED where the list takes more than the context's
 * stored_budget_bytes. */
HR_API hr_code hr_array_stored_chunks(hr_array* array, hr_stored_chunks** out, hr_error** error);
HR_API uint64_t hr_stored_chunks_count(const hr_stored_chunks* chunks);
HR_API uint32_t hr_stored_chunks_rank(const hr_stored_chunks* chunks); /* the array's */
/* Where they lie in the array's grid: indices[i * rank + axis], in C order; count * rank values, which live as long as
 * the list. Null where there are none. */
HR_API const uint64_t* hr_stored_chunks_indices(const hr_stored_chunks* chunks);
HR_API void hr_stored_chunks_free(hr_stored_chunks* chunks);

/* The devices of this machine that can be used now, by the names that hr_device_open takes: "host", "cuda:0". */
HR_API hr_code hr_device_names(hr_names** out, hr_error** error);
HR_API uint32_t hr_names_count(const hr_names* names);
HR_API const char* hr_names_get(const hr_names* names, uint32_t index); /* null beyond the last; lives as the list */
HR_API void hr_names_free(hr_names* names);

/* name: "auto", or one of hr_device_names; "cuda" is "cuda:0" */
HR_API hr_code hr_device_open(const char* name, hr_device** out, hr_error** error);
HR_API void hr_device_free(hr_device* device);
HR_API const char* hr_device_name(const hr_device* device);
/* Why "auto" gave no GPU, or that the driver has yet to compile this GPU's code; else "". Lives as long as the device.
 */
HR_API const char* hr_device_note(const hr_device* device);

HR_API hr_code hr_buffer_allocate(hr_device* device, size_t bytes, hr_buffer** out, hr_error** error);
HR_API void hr_buffer_free(hr_buffer* buffer);
HR_API void* hr_buffer_data(const hr_buffer* buffer);
HR_API hr_code hr_buffer_copy_to_host(const hr_buffer* buffer, size_t offset_bytes, void* dst, size_t bytes,
                                      hr_error** error);

/* A token that stops the reads it is given to; any number of them, at any time, from any thread but no signal handler.
 * It may be freed while they run. In a forked child an inherited one reaches nothing that the child has begun. */
HR_API hr_code hr_cancel_create(hr_cancel** out, hr_error** error);
/* For good: reads that have not ended end with HR_CANCELLED, later ones do not begin. Returns at once. */
HR_API void hr_cancel_ask(const hr_cancel* cancel);
HR_API int hr_cancel_asked(const hr_cancel* cancel); /* 1: it has been asked */
HR_API void hr_cancel_free(hr_cancel* cancel);

typedef struct hr_read_options {
  size_t size;
  const char* selection;        /* "0:10, :, ::2", ":, [1, 5, 7]"; null or "": the whole array */
  void* data;                   /* element [0, 0, ...] on the device */
  uint64_t data_bytes;          /* of the memory that all elements lie in: from `data` on or, where strides are
                                   negative, from the lowest address that one of them has */
  const int64_t* strides_bytes; /* one per dimension of the result, or null for C order */
  void* native_stream;          /* cudaStream_t or null */
  uint32_t placement;           /* who decodes: HR_PLACEMENT_... */
  uint32_t verify;              /* of what is read of a chunk in part: HR_VERIFY_... */
  /* Conversion into `data`, as headrace/array.h describes it for ReadOptions. */
  const char* dtype; /* type of the result: "float32", "bfloat16", "int16"; null or "": as stored */
  double scale;      /* a stored number x means x * scale + offset; a scale of 0 stands for 1 */
  double offset;
  int32_t fill_as_nan;   /* not 0: elements equal to the fill value, and chunks that are not stored, become NaN */
  int32_t damage_as_nan; /* not 0: elements of damaged chunks become NaN, and the read goes on */
  /* Instead of `selection`, at most one of the two. */
  const int64_t* points; /* coordinates of single elements, one after the other: points[i * dimensions + axis]; negative
                            ones count from the end; the result has one dimension of point_count */
  uint64_t point_count;
  const char* blocks;      /* chunks of the array's grid (shards where it is sharded): "0, 1:3" */
  const hr_cancel* cancel; /* once it is asked, the read stops; null: none */
} hr_read_options;
#define HR_PLACEMENT_AUTO 0u /* whoever is faster on a device with decoders of its own */
#define HR_PLACEMENT_CPU 1u
#define HR_PLACEMENT_GPU 2u  /* HR_UNSUPPORTED where the device cannot */
#define HR_VERIFY_AS_READ 0u /* damage in what is not asked for need not be noticed */
#define HR_VERIFY_WHOLE 1u   /* each chunk is read and decoded as a whole */
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
  uint64_t max_bytes;      /* most that the result may take, 24 bytes an element and the elements; 0: 2^30 */
  const hr_cancel* cancel; /* once it is asked, the read stops; null: none */
} hr_variable_options;
#define HR_VARIABLE_OPTIONS_INIT \
  { sizeof(hr_variable_options), NULL, 0, NULL }

/* options may be null for defaults. HR_INVALID_ARGUMENT where elements have a size: hr_array_read is for those. */
HR_API hr_code hr_array_read_variable(hr_array* array, const hr_variable_options* options, hr_variable** out,
                                      hr_error** error);
HR_API uint32_t hr_variable_rank(const hr_variable* variable);
HR_API const uint64_t* hr_variable_shape(const hr_variable* variable);  /* rank values; lives as long as the result */
HR_API uint64_t hr_variable_count(const hr_variable* variable);         /* elements */
HR_API const int64_t* hr_variable_offsets(const hr_variable* variable); /* count + 1 values; lives as long */
HR_API const void* hr_variable_data(const hr_variable* variable);       /* offsets[count] bytes; lives as long */
HR_API int hr_variable_is_utf8(const hr_variable* variable);            /* 1: every element is valid UTF-8 */
HR_API void hr_variable_free(hr_variable* variable);

/* What the directory holds in which remote stores keep what they read (the storage option "cache_dir"):
 * headrace/disk_cache.h says more. directory: its path. Stores of this process and of others may use it meanwhile. */
typedef struct hr_cache_report hr_cache_report;
typedef struct hr_cache_totals {
  size_t size;
  uint64_t segments;        /* files of the directory; hr_cache_segment tells of each */
  uint64_t file_bytes;      /* that they take on the disk */
  uint64_t records;         /* ranges of objects that are kept */
  uint64_t data_bytes;      /* of the objects */
  uint64_t damaged_records; /* whose checksum is wrong; 0 without verify */
  uint64_t disk_free_bytes; /* of the file system, for this user */
  /* Of the stores of this process that use the directory now; 0 where there are none. */
  uint64_t most_bytes; /* that the segments may have together */
  uint64_t hits, hit_bytes, misses;
  uint64_t added_records, added_bytes;
  uint64_t dropped_records; /* not kept: no room, or the disk was too slow */
  int32_t in_use;           /* 1: there are such stores */
  int32_t reserved;
} hr_cache_totals;
#define HR_CACHE_TOTALS_INIT \
  { sizeof(hr_cache_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
typedef struct hr_cache_segment {
  size_t size;
  const char* name; /* in the directory; lives as long as the report */
  uint64_t file_bytes, records, data_bytes, damaged_records;
  uint64_t torn_bytes; /* at its end, of a process that was killed */
  int32_t sealed;      /* 1: full, and with a list of its records */
  int32_t growing;     /* 1: a process appends to it now */
  int32_t foreign;     /* 1: no segment of this directory */
  int32_t reserved;
} hr_cache_segment;
#define HR_CACHE_SEGMENT_INIT \
  { sizeof(hr_cache_segment), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* verify 1: reads all data and compares checksums; nothing is changed. HR_NOT_FOUND: no such directory; HR_PERMISSION:
 * it belongs to somebody else, or others can write to it. */
HR_API hr_code hr_cache_inspect(const char* directory, int verify, hr_cache_report** out, hr_error** error);
HR_API hr_code hr_cache_total(const hr_cache_report* report, hr_cache_totals* out, hr_error** error);
/* HR_NOT_FOUND from the first index on that there is not. */
HR_API hr_code hr_cache_segment_at(const hr_cache_report* report, uint64_t index, hr_cache_segment* out,
                                   hr_error** error);
/* The directory without links; null for null. Both texts live as long as the report. */
HR_API const char* hr_cache_directory(const hr_cache_report* report);
/* The first thing that kept something from being kept or served by stores of this process; "": none. */
HR_API const char* hr_cache_problem(const hr_cache_report* report);
HR_API void hr_cache_free(hr_cache_report* report);
/* Removes all segments, those that stores have open included. *freed_bytes, which may be null: what the disk has back.
 */
HR_API hr_code hr_cache_clear(const char* directory, uint64_t* freed_bytes, hr_error** error);

HR_API const char* hr_version(void); /* "0.1.0"; headrace/version.h has that of the headers */

#ifdef __cplusplus
}
#endif
#endif
