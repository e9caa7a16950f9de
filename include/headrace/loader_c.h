/* headrace's batch loader from C (C99): batches of samples in device memory, read ahead of the consumer.
 *
 * Terms are those of the C++ headers named below, which give more detail. Handles, errors and option structs are as in
 * headrace.h. In every struct here 0, null and "" mean the default: a language without the *_INIT macros fills a struct
 * with zeros and sets `size`. Everything that arguments point to is copied and need not outlive the call.
 *
 * Structs that the library fills begin with their size too. The library writes no more than that size and sets fields
 * it does not know to 0.
 *
 * Ownership: handles keep alive what they need and may be freed in any order. A batch outlives its loader.
 * Threads:   hr_windows, hr_order and hr_split are immutable and may be used from any thread. hr_schema: any threads
 *            while none changes it. hr_loader: hr_loader_cancel and hr_loader_release_cache from any thread, even while
 *            another waits in hr_loader_next; all other calls by one thread at a time. hr_batch: by one thread at a
 *            time, independently of its loader and other batches.
 * fork():    in a child, hr_loader_next and hr_batch_release fail with HR_FORKED for the parent's loaders and batches,
 *            and hr_loader_release_cache does nothing. The child may free them. */
#ifndef HEADRACE_LOADER_C_H
#define HEADRACE_LOADER_C_H

#include <headrace/headrace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_windows hr_windows; /* which samples exist */
typedef struct hr_order hr_order;     /* which sample is at which position of an epoch */
typedef struct hr_split hr_split;     /* which positions a rank takes */
typedef struct hr_schema hr_schema;   /* identifies samples and order; states are valid only with the same schema */
typedef struct hr_loader hr_loader;
typedef struct hr_batch hr_batch;

/* Samples: windows of an array (headrace/windows.h), or random crops of windows (headrace/crops.h). */

typedef struct hr_dim_value {
  const char* dim;
  uint64_t value;
} hr_dim_value;

typedef struct hr_dim_starts {
  const char* dim;
  const uint64_t* starts; /* ascending */
  size_t count;
} hr_dim_starts;

/* Elements offset, offset + step, ... of the window along `dim`, delivered under their own name. */
typedef struct hr_window_output {
  const char* name; /* null: "" */
  const char* dim;  /* one of input_dims; null or "": the whole window */
  uint64_t offset;
  uint64_t count; /* 0: 1 */
  uint64_t step;  /* 0: 1 */
} hr_window_output;

#define HR_BOUNDARY_DROP 0u    /* no window extends past a dimension's end */
#define HR_BOUNDARY_PARTIAL 1u /* the last windows are smaller; loaders reject such samples */
#define HR_BOUNDARY_PAD 2u     /* the last windows are filled with padding */
#define HR_BOUNDARY_WRAP 3u    /* the dimension is circular */

typedef struct hr_window_options {
  size_t size;
  const hr_dim_value* input_dims; /* window size in elements */
  size_t input_dims_count;
  const hr_dim_value* input_overlap; /* elements shared by neighbours */
  size_t input_overlap_count;
  const hr_dim_value* input_stride; /* alternative to an overlap */
  size_t input_stride_count;
  const hr_dim_starts* input_starts; /* alternative to both */
  size_t input_starts_count;
  const hr_dim_value* batch_dims; /* windows of dimensions that a model does not see */
  size_t batch_dims_count;
  int32_t concat_input_dims;       /* not 0: one sample has all windows with the same windows of batch_dims */
  uint32_t boundary;               /* HR_BOUNDARY_... */
  const hr_dim_value* boundary_of; /* HR_BOUNDARY_... per dimension, overriding `boundary` */
  size_t boundary_of_count;
  const hr_window_output* outputs; /* none: one output, the whole window */
  size_t outputs_count;
} hr_window_options;
#define HR_WINDOW_OPTIONS_INIT \
  { sizeof(hr_window_options), NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, HR_BOUNDARY_DROP, NULL, 0, NULL, 0 }

/* dims: names and sizes of the array's dimensions, in the array's order. options may be null for defaults. */
HR_API hr_code hr_windows_create(const hr_dim_value* dims, size_t dims_count, const hr_window_options* options,
                                 hr_windows** out, hr_error** error);

typedef struct hr_crop_options {
  size_t size;
  const hr_dim_value* dims; /* crop size in elements, along dimensions that the frames take whole */
  size_t dims_count;
  uint64_t per_frame;      /* crops per frame and epoch; 0: 1 */
  const char* const* wrap; /* dimensions of `dims` whose crops may start anywhere and wrap around the end */
  size_t wrap_count;
  const char* const* flip; /* dimensions of `dims` along which each crop is reversed with probability 1/2 */
  size_t flip_count;
} hr_crop_options;
#define HR_CROP_OPTIONS_INIT \
  { sizeof(hr_crop_options), NULL, 0, 0, NULL, 0, NULL, 0 }

/* Samples that are random crops of `frames`. `frames` must not itself be crops. */
HR_API hr_code hr_windows_crop(const hr_windows* frames, const hr_crop_options* options, hr_windows** out,
                               hr_error** error);
/* A subset of the samples: those of windows [first, first + count) along `dim`. For crops, restrict the frames instead.
 */
HR_API hr_code hr_windows_restrict(const hr_windows* windows, const char* dim, uint64_t first, uint64_t count,
                                   hr_windows** out, hr_error** error);
/* Divides windows along `dim` into `count` contiguous parts, such as training and validation, with sizes in proportion
 * to `weights`; stores `count` handles in `out`. drop_leaking not 0: leaves out samples that share elements with
 * another part. If not null, `leaking` and `dropped` receive one number per part: samples that share elements with
 * another part, and samples left out. For crops, divide the frames instead. */
HR_API hr_code hr_windows_divide(const hr_windows* windows, const char* dim, const double* weights, size_t count,
                                 int drop_leaking, hr_windows** out, uint64_t* leaking, uint64_t* dropped,
                                 hr_error** error);
HR_API uint64_t hr_windows_sample_count(const hr_windows* windows);
HR_API uint64_t hr_windows_window_count(const hr_windows* windows, uint64_t sample); /* 0: no such sample */
HR_API size_t hr_windows_dim_count(const hr_windows* windows);
HR_API size_t hr_windows_output_count(const hr_windows* windows);

/* The elements taken from one dimension: begin, begin + step, ..., then those from wrapped_begin on, then padding. */
typedef struct hr_dim_slice {
  uint64_t begin;
  uint64_t count;
  uint64_t step;
  uint64_t wrapped_begin;
  uint64_t wrapped_count;
  uint64_t padding; /* number of elements that are in no array */
  int32_t flipped;  /* 1: the elements are in reverse order */
  int32_t reserved; /* 0 */
} hr_dim_slice;
/* The place of a sample: one slice per dimension; `count` must be hr_windows_dim_count. Only crops depend on seed and
 * epoch; pass the loader's seed and the batch's epoch. */
HR_API hr_code hr_windows_slices(const hr_windows* windows, uint64_t seed, uint64_t epoch, uint64_t sample,
                                 uint64_t window, size_t output, hr_dim_slice* out, size_t count, hr_error** error);
HR_API void hr_windows_free(hr_windows* windows);

/* Orders (headrace/order.h): pure functions of seed and epoch. `samples` is the number of samples. */

HR_API hr_code hr_order_sequential(uint64_t samples, hr_order** out, hr_error** error);
HR_API hr_code hr_order_full_shuffle(uint64_t samples, hr_order** out, hr_error** error);
/* Keeps samples that share chunks of `array` near each other, so that a chunk is read once and held only briefly: the
 * samples of groups_in_buffer (0: 16) such groups are shuffled together. */
HR_API hr_code hr_order_block_shuffle(const hr_windows* windows, const hr_array* array, uint64_t groups_in_buffer,
                                      hr_order** out, hr_error** error);
/* The same with the groups divided into `partitions` that stay the same in every epoch, of which `partition_run`
 * positions each take turns: with as many reader groups, and batches of that size, each reads its own chunks only. */
HR_API hr_code hr_order_partitioned_block_shuffle(const hr_windows* windows, const hr_array* array,
                                                  uint64_t groups_in_buffer, uint64_t partitions,
                                                  uint64_t partition_run, hr_order** out, hr_error** error);
/* The given samples only, with repetitions allowed: in this order or, if shuffle is not 0, shuffled. */
HR_API hr_code hr_order_list(const uint64_t* ids, size_t count, uint64_t samples, int shuffle, hr_order** out,
                             hr_error** error);
/* Draws with replacement: sample i has probability weights[i] / sum. draws: positions of an epoch; 0: count.
 * table_bytes: maximum memory for the table; 0: 2^30. */
HR_API hr_code hr_order_weighted(const double* weights, size_t count, uint64_t draws, uint64_t table_bytes,
                                 hr_order** out, hr_error** error);
HR_API uint64_t hr_order_positions(const hr_order* order); /* in an epoch */
HR_API uint64_t hr_order_samples(const hr_order* order);   /* sample numbers are below this */
/* Positions of one buffer of a block shuffle, whose samples share chunks; 1 for other orders. */
HR_API uint64_t hr_order_buffer_positions(const hr_order* order);
/* Stores the samples at positions [first, first + count) of an epoch in `samples`. */
HR_API hr_code hr_order_epoch(const hr_order* order, uint64_t seed, uint64_t epoch, uint64_t first, size_t count,
                              uint64_t* samples, hr_error** error);
HR_API void hr_order_free(hr_order* order);

/* Which positions of an epoch a rank takes (headrace/split.h), as a loader with the same options does. For programs
 * that fetch samples themselves. */

#define HR_TAIL_DROP 0u /* positions that do not fill a global batch are left out of the epoch */
#define HR_TAIL_PAD 1u  /* batches are filled with repetitions that do not count: hr_batch_valid */
#define HR_TAIL_WRAP 2u /* the last batch is filled from the start of the epoch */

typedef struct hr_split_options {
  size_t size;
  uint32_t rank;
  uint32_t world;        /* ranks; 0: 1 */
  uint32_t reader_group; /* ranks that get the same samples; 0: 1 */
  uint32_t tail;         /* HR_TAIL_... */
  uint64_t batch_size;   /* samples; 0: 1 */
} hr_split_options;
#define HR_SPLIT_OPTIONS_INIT \
  { sizeof(hr_split_options), 0, 0, 0, HR_TAIL_DROP, 0 }

/* positions: in an epoch, hr_order_positions. consumed: how many were handed out before, hr_loader_position; only the
 * rest is divided. options may be null for defaults. */
HR_API hr_code hr_split_create(const hr_split_options* options, uint64_t positions, uint64_t consumed, hr_split** out,
                               hr_error** error);
HR_API uint64_t hr_split_batches(const hr_split* split);           /* left in the epoch; the same for every rank */
HR_API uint64_t hr_split_global_batch_size(const hr_split* split); /* positions in a batch of all ranks */
/* Stores the positions of this rank's batch `index`, one per place; `count` must be batch_size. *valid, if not null,
 * receives the number of leading places that count; the others are repetitions. hr_order_epoch and hr_windows_slices
 * lead from positions to elements. */
HR_API hr_code hr_split_batch(const hr_split* split, uint64_t index, uint64_t* positions, size_t count, uint64_t* valid,
                              hr_error** error);
/* The position of a loader that is in `epoch` and has delivered `done` of these batches. After the last batch it is the
 * start of the next epoch. after_epoch and consumed may be null. */
HR_API hr_code hr_split_after(const hr_split* split, uint64_t done, uint64_t epoch, uint64_t* after_epoch,
                              uint64_t* consumed, hr_error** error);
/* This rank's share of `extent` elements of a dimension that a reader group divides: *count elements from *begin on, in
 * multiples of `align` (0: 1). */
HR_API hr_code hr_split_share(const hr_split* split, uint64_t extent, uint64_t align, uint64_t* begin, uint64_t* count,
                              hr_error** error);
HR_API void hr_split_free(hr_split* split);

/* Schemas (headrace/loader_schema.h) identify which samples come in which order, by one digest per named parameter.
 * States can also be written without a loader, by programs that combine several or have none: hr_state_write()
 * describes a position reached with hr_order_epoch, hr_windows_slices and hr_split_after as hr_loader_state describes
 * that of a loader. */

HR_API hr_code hr_schema_create(hr_schema** out, hr_error** error); /* an empty schema */
/* Each returns a copy. The schema of a loader has the digests of its order and of the samples of all its arrays. */
HR_API hr_code hr_windows_schema(const hr_windows* windows, hr_schema** out, hr_error** error);
HR_API hr_code hr_order_schema(const hr_order* order, hr_schema** out, hr_error** error);
HR_API hr_code hr_loader_schema(const hr_loader* loader, hr_schema** out, hr_error** error);
/* Sets the digest of a parameter, replacing an earlier one. */
HR_API hr_code hr_schema_set(hr_schema* schema, const char* name, uint64_t digest, hr_error** error);
/* Sets all digests of `other` in `schema` too. */
HR_API hr_code hr_schema_add(hr_schema* schema, const hr_schema* other, hr_error** error);
HR_API size_t hr_schema_count(const hr_schema* schema); /* number of digests */
/* Digest `index`, in ascending order of names. name and digest may be null. *name lives until the schema is freed. */
HR_API hr_code hr_schema_digest(const hr_schema* schema, size_t index, const char** name, uint64_t* digest,
                                hr_error** error);
/* Stores in `names` the names whose digests differ or exist in only one of the two, ascending; each lives until the
 * schema that has it is freed. *needed, if not null, receives their number (0: the schemas are equal). If `count` is
 * smaller than that, the call still sets *needed and fails with HR_INVALID_ARGUMENT. names null: sets only *needed. */
HR_API hr_code hr_schema_differences(const hr_schema* schema, const hr_schema* other, const char** names, size_t count,
                                     size_t* needed, hr_error** error);
HR_API void hr_schema_free(hr_schema* schema);

/* Parses a state, which may be untrusted: seed, position, schema. Any output may be null. HR_CORRUPT: not a state;
 * HR_UNSUPPORTED: another version; HR_RESOURCE_EXHAUSTED: over 64 KiB. */
HR_API hr_code hr_state_read(const char* state, uint64_t* seed, uint64_t* epoch, uint64_t* consumed, hr_schema** schema,
                             hr_error** error);
/* Whether a consumer with this schema and this many positions per epoch (hr_order_positions) can resume from a state.
 * HR_INVALID_ARGUMENT names every parameter that differs, or says that too much was consumed. Also fails as
 * hr_state_read does. */
HR_API hr_code hr_state_check(const char* state, const hr_schema* schema, uint64_t positions, hr_error** error);
/* Writes a state; text, bytes and needed are as in hr_loader_state. HR_INVALID_ARGUMENT for a schema that states cannot
 * hold: more than 64 digests, or a name over 64 bytes or not UTF-8. */
HR_API hr_code hr_state_write(const hr_schema* schema, uint64_t seed, uint64_t epoch, uint64_t consumed, char* text,
                              size_t bytes, size_t* needed, hr_error** error);

/* Loaders (headrace/loader.h). */

/* For one dimension, by number: maps each index of the samples to an index of the array; -1 becomes padding. */
typedef struct hr_dim_positions {
  size_t dim;
  const int64_t* positions;
  size_t count;
} hr_dim_positions;

/* One array that contributes to every sample. Sample i of a loader is sample i of each of its arrays. */
typedef struct hr_loader_array {
  size_t size;
  const char* name; /* name of its tensors; unique among the arrays */
  const hr_array* array;
  const hr_windows* samples; /* with the array's dimensions */
  const char* stack;         /* arrays of one stack are the channels of one tensor of this name; null: its own tensor */
  const void* padding;       /* one element as in the tensor, for samples that extend past the end; null: zeros */
  size_t padding_bytes;
  /* Conversion, placement and verification, as in hr_read_options. */
  const char* dtype;
  double scale; /* 0: 1 */
  double offset;
  int32_t fill_as_nan;
  int32_t damage_as_nan;
  uint32_t placement;  /* HR_PLACEMENT_... */
  uint32_t verify;     /* HR_VERIFY_... */
  const void* missing; /* with fill_as_nan: one stored element, little-endian, that means NaN; null: the fill value */
  size_t missing_bytes;
  const hr_dim_positions* positions; /* for arrays that are aligned with others by a coordinate */
  size_t positions_count;
  /* A scale and an offset per index of some dimensions (numbers, ascending), applied after those above: one per
   * combination of indices, in C order. For tensors of float32 and float64. */
  const size_t* scale_by_dims;
  size_t scale_by_dims_count;
  const double* scale_by_scale;
  const double* scale_by_offset;
  size_t scale_by_count;
} hr_loader_array;
#define HR_LOADER_ARRAY_INIT                                                                                          \
  {                                                                                                                   \
    sizeof(hr_loader_array), NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0, 0, 0, HR_PLACEMENT_AUTO, HR_VERIFY_AS_READ, \
        NULL, 0, NULL, 0, NULL, 0, NULL, NULL, 0                                                                      \
  }

#define HR_DAMAGE_FAIL 0u   /* hr_loader_next fails on a damaged chunk */
#define HR_DAMAGE_SKIP 1u   /* batches that need a damaged chunk are skipped and counted */
#define HR_CACHE_DECODED 0u /* chunks are cached decoded */
#define HR_CACHE_ENCODED 1u /* chunks are cached as stored: more fit */

typedef struct hr_loader_options {
  size_t size;
  const hr_order* order; /* null: sequential */
  uint64_t seed;         /* for the order and for crops */
  uint64_t epochs;       /* 0: endless */
  uint32_t rank;
  uint32_t world;         /* ranks; 0: 1 */
  uint32_t reader_group;  /* ranks that get the same samples; 0: 1 */
  uint32_t tail;          /* HR_TAIL_... */
  uint64_t batch_size;    /* samples; 0: 1 */
  uint32_t read_together; /* batches read as one; 0: a block shuffle's buffer, otherwise 1 */
  uint32_t read_ahead;    /* reads started before one of their batches is requested; 0: 2 */
  uint64_t memory_bytes;  /* maximum device memory for batches; 0: 2^32 */
  uint64_t cache_bytes;   /* maximum device memory for cached chunks, which are not read again; 0: none */
  uint32_t cache_form;    /* HR_CACHE_... */
  uint32_t on_damage;     /* HR_DAMAGE_... */
  int32_t channels_last;  /* not 0: the channels of a stack are the last dimension of the tensor */
  uint32_t reserved;      /* 0 */
  const char* state;      /* resume from this state (hr_loader_state), with its seed; null: none */
  /* Device memory that the cache leaves free for others, such as a model: it grows only while this much stays free. If
   * less than half of it is free when a read starts, the cache is released as by hr_loader_release_cache. 0:
   * no such limit. */
  uint64_t leave_free_bytes;
  uint64_t host_cache_bytes; /* maximum host memory for cached stored chunks of stores without files; 0: none */
} hr_loader_options;
#define HR_LOADER_OPTIONS_INIT                                                                                        \
  {                                                                                                                   \
    sizeof(hr_loader_options), NULL, 0, 0, 0, 0, 0, HR_TAIL_DROP, 0, 0, 0, 0, 0, HR_CACHE_DECODED, HR_DAMAGE_FAIL, 0, \
        0, NULL, 0, 0                                                                                                 \
  }

/* Starts reading. `arrays`: `count` pointers. options may be null for defaults. HR_INVALID_ARGUMENT names the array or
 * the option; also for a state of other samples or another order. HR_CORRUPT, HR_UNSUPPORTED: the state is malformed or
 * of another version. HR_RESOURCE_EXHAUSTED: memory_bytes does not hold two reads. */
HR_API hr_code hr_loader_create(hr_device* device, const hr_loader_array* const* arrays, size_t count,
                                const hr_loader_options* options, hr_loader** out, hr_error** error);
/* Stops running reads. */
HR_API void hr_loader_free(hr_loader* loader);

/* Returns the next batch, blocking until it is ready; the caller must free it. HR_OK and null at the end of each epoch;
 * the following call returns the first batch of the next epoch, or null again after the last epoch.
 * If a read failed: its code, and a message that names the chunk; the next call continues after the batches of that
 * read. HR_RESOURCE_EXHAUSTED: the batches that the caller holds leave no memory for another read, or there is no
 * memory for the handle, in which case no batch is lost. HR_CANCELLED after hr_loader_cancel. */
HR_API hr_code hr_loader_next(hr_loader* loader, hr_batch** out, hr_error** error);
/* Continues at a state (hr_loader_state, or hr_loader_state_of_epoch for the beginning of an epoch) of the same samples
 * and order. Drops batches that were read ahead; keeps cached chunks, memory for batches, and figures. A state that
 * does not fit changes nothing: HR_INVALID_ARGUMENT, HR_CORRUPT, HR_UNSUPPORTED as for hr_loader_create. */
HR_API hr_code hr_loader_restart_at(hr_loader* loader, const char* state, hr_error** error);
/* Blocks until hr_loader_next would not block (returns 1), or until timeout_ns has passed (returns 0). */
HR_API int hr_loader_wait_for(hr_loader* loader, uint64_t timeout_ns);
/* Stops running reads and starts no more. Returns at once. */
HR_API void hr_loader_cancel(hr_loader* loader);
/* Frees the device memory of cached chunks, now or as the reads that use it end, and turns the cache off. May be called
 * from any thread. */
HR_API void hr_loader_release_cache(hr_loader* loader);

HR_API uint64_t hr_loader_sample_count(const hr_loader* loader);
HR_API uint64_t hr_loader_batches(const hr_loader* loader);      /* in a whole epoch */
HR_API uint64_t hr_loader_batches_left(const hr_loader* loader); /* in this epoch, for hr_loader_next */
/* The position after the last batch that hr_loader_next returned: the epoch, and how many of its positions have been
 * handed out to all ranks together. Either may be null. */
HR_API hr_code hr_loader_position(const hr_loader* loader, uint64_t* epoch, uint64_t* consumed, hr_error** error);
/* The same position as one line of text without pointers or times, for hr_loader_options.state of a loader with the
 * same samples and order, on any number of ranks, in C, C++ (LoaderState::to_json) or Python
 * (state_dict()["headrace"]). *needed, if not null, receives its size including the terminating 0. If `bytes` is
 * smaller than that, the call still sets *needed and fails with HR_INVALID_ARGUMENT. text null: sets only *needed. */
HR_API hr_code hr_loader_state(const hr_loader* loader, char* text, size_t bytes, size_t* needed, hr_error** error);
/* The state at the start of any epoch. */
HR_API hr_code hr_loader_state_of_epoch(const hr_loader* loader, uint64_t epoch, char* text, size_t bytes,
                                        size_t* needed, hr_error** error);

/* Description of tensor i of every batch. Names, shape and strides live as long as the loader or batch they came from.
 */
typedef struct hr_tensor {
  size_t size;
  const char* array;  /* the array's name, or its stack's */
  const char* output; /* "" for a whole window */
  const char* dtype;  /* "float32" */
  const char* device; /* "host", "cuda:0" */
  uint32_t item_bytes;
  uint32_t rank;
  /* Batch size, windows per sample (only if there are several), channels of a stack, then the array's dimensions. */
  const uint64_t* shape;
  const int64_t* strides_bytes; /* C order */
  void* data;                   /* for a batch: its device memory, until it is released; for a loader: null */
  uint64_t data_bytes;
} hr_tensor;
#define HR_TENSOR_INIT \
  { sizeof(hr_tensor), NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, 0 }

HR_API size_t hr_loader_tensor_count(const hr_loader* loader);
/* HR_INVALID_ARGUMENT: no tensor `index`. */
HR_API hr_code hr_loader_tensor(const hr_loader* loader, size_t index, hr_tensor* out, hr_error** error);
/* HR_NOT_FOUND: no such tensor; the message names those that exist. output may be null for "". */
HR_API hr_code hr_loader_tensor_index(const hr_loader* loader, const char* array, const char* output, size_t* index,
                                      hr_error** error);

/* Also HR_INVALID_ARGUMENT: the batch was released. */
HR_API hr_code hr_batch_tensor(const hr_batch* batch, size_t index, hr_tensor* out, hr_error** error);
/* Blocking copy of a range of a tensor to ordinary host memory. */
HR_API hr_code hr_batch_copy_to_host(const hr_batch* batch, size_t index, size_t offset_bytes, void* dst, size_t bytes,
                                     hr_error** error);
HR_API const uint64_t* hr_batch_samples(const hr_batch* batch); /* one sample number per place; lives as the handle */
HR_API uint64_t hr_batch_size(const hr_batch* batch);           /* places */
HR_API uint64_t hr_batch_valid(const hr_batch* batch);          /* places that count; the others are repetitions */
HR_API uint64_t hr_batch_epoch(const hr_batch* batch);
HR_API uint64_t hr_batch_number(const hr_batch* batch); /* among this rank's in the epoch, from the loader's start */
/* Releases the memory: now, or once the work queued so far on these streams (cudaStream_t; null: the default stream) is
 * done, without blocking the caller. Releasing twice does nothing. The handle stays, without tensors.
 * HR_INVALID_ARGUMENT: streams for a device that has none; the batch is still released. */
HR_API hr_code hr_batch_release(hr_batch* batch, void* const* native_streams, size_t count, hr_error** error);
/* Releases the memory now, unless that has been done, and frees the handle. */
HR_API void hr_batch_free(hr_batch* batch);

/* Where the time of a batch went: LoaderTiming in headrace/loader.h. Nanoseconds of the monotonic clock. */
typedef struct hr_batch_times {
  size_t size;
  uint64_t planned_ns; /* start of its planning */
  uint64_t begun_ns;   /* its reads have been started */
  uint64_t ready_ns;   /* the last element is in place */
  uint64_t asked_ns;   /* hr_loader_next was called */
  uint64_t given_ns;   /* hr_loader_next returned it */
  double read_seconds; /* thread seconds, summed, for all batches of the same read */
  double decode_seconds;
  double place_seconds;
  uint64_t chunks;
  uint64_t kept_chunks;
  uint64_t read_bytes;
  uint64_t decoded_bytes;
  uint64_t batches; /* batches in the same read */
} hr_batch_times;
#define HR_BATCH_TIMES_INIT \
  { sizeof(hr_batch_times), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
HR_API hr_code hr_batch_timing(const hr_batch* batch, hr_batch_times* out, hr_error** error);

/* What a loader has done for the batches it delivered; from `chunks` on as in headrace/stats.h. */
typedef struct hr_loader_totals {
  size_t size;
  uint64_t batches;    /* delivered */
  uint64_t skipped;    /* skipped because of a damaged chunk */
  double wait_seconds; /* time hr_loader_next spent waiting for a batch to be ready */
  uint64_t chunks;
  uint64_t missing_chunks;
  uint64_t damaged_chunks;
  uint64_t kept_chunks;
  uint64_t gpu_chunks;
  uint64_t cpu_chunks;
  uint64_t kept_encoded_chunks;
  uint64_t requests;
  uint64_t stored_bytes;
  uint64_t read_bytes;
  uint64_t bus_bytes;
  uint64_t decoded_bytes;
  uint64_t direct_bytes; /* read_bytes by path, from here on */
  uint64_t engine_bytes;
  uint64_t buffered_bytes;
  uint64_t memory_bytes;
  uint64_t mapped_bytes;
  uint64_t store_bytes;
  uint64_t packed_bytes;
  double plan_seconds;
  double open_seconds;
  double read_seconds;
  double decode_seconds;
  double assemble_seconds;
  double copy_seconds;
  double wall_seconds;
  const char* path;         /* one phrase: "buffered (page cache)"; until the next hr_loader_next or free */
  uint64_t kept_bytes;      /* device memory of cached chunks */
  uint64_t cache_released;  /* 1: the device cache is off (hr_loader_release_cache) */
  uint64_t cache_bytes;     /* of read_bytes: served by a remote store's disk cache */
  uint64_t host_kept_bytes; /* host memory of cached chunks */
  uint64_t straight_bytes;  /* of direct_bytes: straight into device memory, no host staging (engine gds) */
} hr_loader_totals;
#define HR_LOADER_TOTALS_INIT                                                                                        \
  {                                                                                                                  \
    sizeof(hr_loader_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        NULL, 0, 0, 0, 0, 0                                                                                          \
  }
HR_API hr_code hr_loader_stats(const hr_loader* loader, hr_loader_totals* out, hr_error** error);

#ifdef __cplusplus
}
#endif
#endif
