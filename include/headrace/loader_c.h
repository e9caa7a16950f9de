/* headrace's batch loader from C: batches of samples in device memory, read ahead of whoever takes them. C99.
 *
 * Words mean what they mean in C++; the headers named below say more. Handles, errors and option structs are as in
 * headrace.h. In every struct here 0, null and "" are defaults: a language without the *_INIT macros fills a struct
 * with zeros and sets `size`. What structs and pointers lead to is copied, and need not outlast the call.
 *
 * Structs that the library fills begin with their size as well. It writes no further than that, and sets to 0 what it
 * does not know.
 *
 * Ownership: handles keep alive what they need and are freed in any order. A batch outlives its loader.
 * Threads:   hr_windows, hr_order and hr_split are immutable: any thread. hr_schema: any threads while none changes
 *            it. hr_loader: hr_loader_cancel and hr_loader_release_cache from any thread, also while another waits in
 *            hr_loader_next; all else by one thread at a time. A batch: by one thread at a time, whatever others do
 *            with its loader and with other batches.
 * fork():    in a child, hr_loader_next and hr_batch_release of its parent's loaders and batches give HR_FORKED, and
 *            hr_loader_release_cache does nothing. It may free them.
 */
#ifndef HEADRACE_LOADER_C_H
#define HEADRACE_LOADER_C_H

#include <headrace/headrace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hr_windows hr_windows; /* which samples there are */
typedef struct hr_order hr_order;     /* which of them comes at which position of an epoch */
typedef struct hr_split hr_split;     /* which positions a rank takes */
typedef struct hr_schema hr_schema;   /* what decides both: a state is of use to the same one only */
typedef struct hr_loader hr_loader;
typedef struct hr_batch hr_batch;

/* Samples: windows of an array's dimensions (headrace/windows.h), or random crops of them (headrace/crops.h). */

typedef struct hr_dim_value {
  const char* dim;
  uint64_t value;
} hr_dim_value;

typedef struct hr_dim_starts {
  const char* dim;
  const uint64_t* starts; /* ascending */
  size_t count;
} hr_dim_starts;

/* Elements offset, offset + step, ... of the window along `dim`, under a name of their own. */
typedef struct hr_window_output {
  const char* name; /* null: "" */
  const char* dim;  /* of input_dims; null or "": the whole window */
  uint64_t offset;
  uint64_t count; /* 0: 1 */
  uint64_t step;  /* 0: 1 */
} hr_window_output;

#define HR_BOUNDARY_DROP 0u    /* no window reaches over a dimension's end */
#define HR_BOUNDARY_PARTIAL 1u /* the last windows are smaller; no loader takes such samples */
#define HR_BOUNDARY_PAD 2u     /* the last windows go on with padding */
#define HR_BOUNDARY_WRAP 3u    /* the dimension is a circle */

typedef struct hr_window_options {
  size_t size;
  const hr_dim_value* input_dims; /* elements of a window */
  size_t input_dims_count;
  const hr_dim_value* input_overlap; /* elements that neighbours share */
  size_t input_overlap_count;
  const hr_dim_value* input_stride; /* instead of an overlap */
  size_t input_stride_count;
  const hr_dim_starts* input_starts; /* instead of both */
  size_t input_starts_count;
  const hr_dim_value* batch_dims; /* windows of dimensions that a model does not see */
  size_t batch_dims_count;
  int32_t concat_input_dims;       /* not 0: a sample has all windows that have the same windows of batch_dims */
  uint32_t boundary;               /* HR_BOUNDARY_... */
  const hr_dim_value* boundary_of; /* HR_BOUNDARY_... where a dimension's is another */
  size_t boundary_of_count;
  const hr_window_output* outputs; /* none: one, the whole window */
  size_t outputs_count;
} hr_window_options;
#define HR_WINDOW_OPTIONS_INIT \
  { sizeof(hr_window_options), NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, HR_BOUNDARY_DROP, NULL, 0, NULL, 0 }

/* dims: names and sizes of the array's dimensions, in the array's order. options may be null. */
HR_API hr_code hr_windows_create(const hr_dim_value* dims, size_t dims_count, const hr_window_options* options,
                                 hr_windows** out, hr_error** error);

typedef struct hr_crop_options {
  size_t size;
  const hr_dim_value* dims; /* elements of a crop, along dimensions that the frames take whole */
  size_t dims_count;
  uint64_t per_frame;      /* crops of each frame and epoch; 0: 1 */
  const char* const* wrap; /* of dims: crops may begin anywhere and go on at the dimension's beginning */
  size_t wrap_count;
  const char* const* flip; /* of dims: each crop is reversed along it with probability 1/2 */
  size_t flip_count;
} hr_crop_options;
#define HR_CROP_OPTIONS_INIT \
  { sizeof(hr_crop_options), NULL, 0, 0, NULL, 0, NULL, 0 }

/* Samples that are random crops of `frames`, which must not be crops. */
HR_API hr_code hr_windows_crop(const hr_windows* frames, const hr_crop_options* options, hr_windows** out,
                               hr_error** error);
/* Fewer samples: those of windows [first, first + count) along `dim`. Not of crops: restrict the frames. */
HR_API hr_code hr_windows_restrict(const hr_windows* windows, const char* dim, uint64_t first, uint64_t count,
                                   hr_windows** out, hr_error** error);
/* Contiguous parts along `dim` such as training and validation, as large as their weights: `count` handles in `out`.
 * drop_leaking not 0: samples that share elements with another part's are left out. Of each part, where not null:
 * leaking, how many such samples it has; dropped, how many were left out. Not of crops: divide the frames. */
HR_API hr_code hr_windows_divide(const hr_windows* windows, const char* dim, const double* weights, size_t count,
                                 int drop_leaking, hr_windows** out, uint64_t* leaking, uint64_t* dropped,
                                 hr_error** error);
HR_API uint64_t hr_windows_sample_count(const hr_windows* windows);
HR_API uint64_t hr_windows_window_count(const hr_windows* windows, uint64_t sample); /* 0: no such sample */
HR_API size_t hr_windows_dim_count(const hr_windows* windows);
HR_API size_t hr_windows_output_count(const hr_windows* windows);

/* The elements that are taken of one dimension: begin, begin + step, ..., then those behind wrapped_begin, then
 * padding. */
typedef struct hr_dim_slice {
  uint64_t begin;
  uint64_t count;
  uint64_t step;
  uint64_t wrapped_begin;
  uint64_t wrapped_count;
  uint64_t padding; /* so many elements that are in no array */
  int32_t flipped;  /* 1: in reverse order */
  int32_t reserved; /* 0 */
} hr_dim_slice;
/* Where a sample lies: one slice for each dimension; `count` is hr_windows_dim_count. Only crops depend on seed and
 * epoch, which are the loader's and the batch's. */
HR_API hr_code hr_windows_slices(const hr_windows* windows, uint64_t seed, uint64_t epoch, uint64_t sample,
                                 uint64_t window, size_t output, hr_dim_slice* out, size_t count, hr_error** error);
HR_API void hr_windows_free(hr_windows* windows);

/* Orders (headrace/order.h): pure functions of seed and epoch. `samples`: how many there are. */

HR_API hr_code hr_order_sequential(uint64_t samples, hr_order** out, hr_error** error);
HR_API hr_code hr_order_full_shuffle(uint64_t samples, hr_order** out, hr_error** error);
/* Samples that share chunks of `array` stay near each other, so that a chunk is read once and kept a short time:
 * samples of groups_in_buffer (0: 16) such groups are shuffled together. */
HR_API hr_code hr_order_block_shuffle(const hr_windows* windows, const hr_array* array, uint64_t groups_in_buffer,
                                      hr_order** out, hr_error** error);
/* These samples only, any number of times each: in this order, or, shuffle not 0, shuffled. */
HR_API hr_code hr_order_list(const uint64_t* ids, size_t count, uint64_t samples, int shuffle, hr_order** out,
                             hr_error** error);
/* Draws with replacement, sample i with probability weights[i] / sum. draws: positions of an epoch; 0: count.
 * table_bytes: most memory for the table; 0: 2^30. */
HR_API hr_code hr_order_weighted(const double* weights, size_t count, uint64_t draws, uint64_t table_bytes,
                                 hr_order** out, hr_error** error);
HR_API uint64_t hr_order_positions(const hr_order* order); /* of an epoch */
HR_API uint64_t hr_order_samples(const hr_order* order);   /* every sample is below */
/* Positions of one buffer of a block shuffle, whose samples share chunks; of other orders 1. */
HR_API uint64_t hr_order_buffer_positions(const hr_order* order);
/* The samples at positions [first, first + count) of an epoch, in `samples`. */
HR_API hr_code hr_order_epoch(const hr_order* order, uint64_t seed, uint64_t epoch, uint64_t first, size_t count,
                              uint64_t* samples, hr_error** error);
HR_API void hr_order_free(hr_order* order);

/* Which positions of an epoch a rank takes (headrace/split.h): what a loader of the same options does, for programs
 * that ask for samples themselves. */

#define HR_TAIL_DROP 0u /* positions that do not fill a global batch are left out of the epoch */
#define HR_TAIL_PAD 1u  /* batches are filled up with repetitions that do not count: hr_batch_valid */
#define HR_TAIL_WRAP 2u /* the last batch is filled up from the epoch's beginning */

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

/* positions: of an epoch, hr_order_positions. consumed: so many of them were handed out before, hr_loader_position;
 * only the others are divided. options may be null. */
HR_API hr_code hr_split_create(const hr_split_options* options, uint64_t positions, uint64_t consumed, hr_split** out,
                               hr_error** error);
HR_API uint64_t hr_split_batches(const hr_split* split); /* that are left of the epoch; for every rank the same */
HR_API uint64_t hr_split_global_batch_size(const hr_split* split); /* positions of a batch of all ranks */
/* The positions of this rank's batch `index`, one for each of its places: `count` is batch_size. valid, where not null:
 * the first so many places count, the others are repetitions. Of batch i, hr_order_epoch and hr_windows_slices say the
 * rest. */
HR_API hr_code hr_split_batch(const hr_split* split, uint64_t index, uint64_t* positions, size_t count, uint64_t* valid,
                              hr_error** error);
/* Where a loader is that was in `epoch` and has given `done` of these batches: behind the last one, at the beginning of
 * the next epoch. Either may be null. */
HR_API hr_code hr_split_after(const hr_split* split, uint64_t done, uint64_t epoch, uint64_t* after_epoch,
                              uint64_t* consumed, hr_error** error);
/* Of `extent` elements of a dimension that a reader group divides, this rank's: from *begin on, *count of them, in
 * multiples of `align` (0: 1). */
HR_API hr_code hr_split_share(const hr_split* split, uint64_t extent, uint64_t align, uint64_t* begin, uint64_t* count,
                              hr_error** error);
HR_API void hr_split_free(hr_split* split);

/* Schemas (headrace/loader_schema.h): what decides which samples come in which order, as a digest for each named
 * parameter. And states, for programs that keep one beside more than a loader, or have none: hr_state_write() says of
 * hr_order_epoch, hr_windows_slices and hr_split_after what hr_loader_state says of a loader. */

HR_API hr_code hr_schema_create(hr_schema** out, hr_error** error); /* without digests */
/* A copy of what each of them has. A loader has the digests of its order and of the samples of all its arrays. */
HR_API hr_code hr_windows_schema(const hr_windows* windows, hr_schema** out, hr_error** error);
HR_API hr_code hr_order_schema(const hr_order* order, hr_schema** out, hr_error** error);
HR_API hr_code hr_loader_schema(const hr_loader* loader, hr_schema** out, hr_error** error);
/* Sets the digest of one parameter; a second time it is replaced. */
HR_API hr_code hr_schema_set(hr_schema* schema, const char* name, uint64_t digest, hr_error** error);
/* What `other` has is set in `schema`, too. */
HR_API hr_code hr_schema_add(hr_schema* schema, const hr_schema* other, hr_error** error);
HR_API size_t hr_schema_count(const hr_schema* schema); /* digests */
/* Digest `index`, by ascending names; either may be null. *name lives until the schema is freed. */
HR_API hr_code hr_schema_digest(const hr_schema* schema, size_t index, const char** name, uint64_t* digest,
                                hr_error** error);
/* The names whose digests differ or that only one of the two has, ascending, in `names`; each lives until the schema
 * that has it is freed. *needed, where not null: how many there are (0: the same schema), also where `count` is less,
 * which is HR_INVALID_ARGUMENT. names null: only *needed. */
HR_API hr_code hr_schema_differences(const hr_schema* schema, const hr_schema* other, const char** names, size_t count,
                                     size_t* needed, hr_error** error);
HR_API void hr_schema_free(hr_schema* schema);

/* What a state says, whoever wrote it: seed, place, schema. Any of them may be null. HR_CORRUPT, HR_UNSUPPORTED,
 * HR_RESOURCE_EXHAUSTED: what is no state, of another version, or above 64 KiB. */
HR_API hr_code hr_state_read(const char* state, uint64_t* seed, uint64_t* epoch, uint64_t* consumed, hr_schema** schema,
                             hr_error** error);
/* Whether what has this schema, and so many positions in an epoch (hr_order_positions), can go on from a state:
 * HR_INVALID_ARGUMENT naming every parameter that differs, or saying that more has been consumed. Also fails as
 * hr_state_read does. */
HR_API hr_code hr_state_check(const char* state, const hr_schema* schema, uint64_t positions, hr_error** error);
/* A state; text, bytes and needed as in hr_loader_state. HR_INVALID_ARGUMENT for a schema that no state can have: more
 * than 64 digests, or a name that is above 64 bytes or no UTF-8. */
HR_API hr_code hr_state_write(const hr_schema* schema, uint64_t seed, uint64_t epoch, uint64_t consumed, char* text,
                              size_t bytes, size_t* needed, hr_error** error);

/* Loaders (headrace/loader.h). */

/* Of one dimension, by its number: which of the array's indices each index of the samples is; -1 becomes padding. */
typedef struct hr_dim_positions {
  size_t dim;
  const int64_t* positions;
  size_t count;
} hr_dim_positions;

/* One array that every sample has a part of. Sample i of a loader is sample i of each of its arrays. */
typedef struct hr_loader_array {
  size_t size;
  const char* name; /* of its tensors; unlike the other arrays' */
  const hr_array* array;
  const hr_windows* samples; /* of the array's dimensions */
  const char* stack;         /* arrays of one stack are channels of one tensor of this name; null: its own tensor */
  const void* padding;       /* one element as it is in the tensor, where samples reach over the end; null: zeros */
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
  const hr_dim_positions* positions; /* for arrays that are aligned with others */
  size_t positions_count;
  /* A scale and an offset for each index of some dimensions (numbers, ascending), behind those above: one for each
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

#define HR_DAMAGE_FAIL 0u   /* a damaged chunk is hr_loader_next's failure */
#define HR_DAMAGE_SKIP 1u   /* batches that need a damaged chunk are passed over and counted */
#define HR_CACHE_DECODED 0u /* chunks are kept as they are placed */
#define HR_CACHE_ENCODED 1u /* chunks are kept as they are stored: more fit */

typedef struct hr_loader_options {
  size_t size;
  const hr_order* order; /* null: sequential */
  uint64_t seed;         /* of the order and of crops */
  uint64_t epochs;       /* 0: without end */
  uint32_t rank;
  uint32_t world;         /* ranks; 0: 1 */
  uint32_t reader_group;  /* ranks that get the same samples; 0: 1 */
  uint32_t tail;          /* HR_TAIL_... */
  uint64_t batch_size;    /* samples; 0: 1 */
  uint32_t read_together; /* batches whose chunks are read once for all; 0: a block shuffle's buffer, else 1 */
  uint32_t read_ahead;    /* reads begun before one of their batches is asked for; 0: 2 */
  uint64_t memory_bytes;  /* most device memory for batches; 0: 2^32 */
  uint64_t cache_bytes;   /* most device memory for chunks, which are not read again; 0: none */
  uint32_t cache_form;    /* HR_CACHE_... */
  uint32_t on_damage;     /* HR_DAMAGE_... */
  int32_t channels_last;  /* not 0: the channels of a stack are a tensor's last dimension */
  uint32_t reserved;      /* 0 */
  const char* state;      /* goes on where the loader was that gave this (hr_loader_state), with its seed; null: none */
  /* Device memory that kept chunks leave to others, such as a model: they take more as long as so much stays free.
   * Where less than half of it is free as a read begins, hr_loader_release_cache. 0: they take what they may. */
  uint64_t leave_free_bytes;
  uint64_t host_cache_bytes; /* most host memory for stored chunks of stores without files; 0: none */
} hr_loader_options;
#define HR_LOADER_OPTIONS_INIT                                                                                        \
  {                                                                                                                   \
    sizeof(hr_loader_options), NULL, 0, 0, 0, 0, 0, HR_TAIL_DROP, 0, 0, 0, 0, 0, HR_CACHE_DECODED, HR_DAMAGE_FAIL, 0, \
        0, NULL, 0, 0                                                                                                 \
  }

/* Begins to read. `arrays`: `count` pointers. options may be null.
 * HR_INVALID_ARGUMENT naming the array or the option, also for a state of other samples or another order;
 * HR_CORRUPT, HR_UNSUPPORTED: what is no state, or of another version. HR_RESOURCE_EXHAUSTED: memory_bytes holds no two
 * reads. */
HR_API hr_code hr_loader_create(hr_device* device, const hr_loader_array* const* arrays, size_t count,
                                const hr_loader_options* options, hr_loader** out, hr_error** error);
/* Stops what is being read. */
HR_API void hr_loader_free(hr_loader* loader);

/* The next batch, once it is there: the caller's, to be freed. HR_OK and null at the end of each epoch; the call after
 * that gives the next epoch's first batch, or null again after the last epoch.
 * A read that failed: its code, naming the chunk; the next call goes on behind its batches. HR_RESOURCE_EXHAUSTED: more
 * batches are held than leave memory for another read, or no memory for the handle, and then no batch is lost.
 * HR_CANCELLED after hr_loader_cancel. */
HR_API hr_code hr_loader_next(hr_loader* loader, hr_batch** out, hr_error** error);
/* Blocks until hr_loader_next would not wait (1), or until so many nanoseconds have passed (0). */
HR_API int hr_loader_wait_for(hr_loader* loader, uint64_t timeout_ns);
/* What is being read stops, and nothing more is read. Returns at once. */
HR_API void hr_loader_cancel(hr_loader* loader);
/* Gives the device memory of kept chunks back: now, or as the reads that use it end. None are kept any more. From any
 * thread. */
HR_API void hr_loader_release_cache(hr_loader* loader);

HR_API uint64_t hr_loader_sample_count(const hr_loader* loader);
HR_API uint64_t hr_loader_batches(const hr_loader* loader);      /* of a whole epoch */
HR_API uint64_t hr_loader_batches_left(const hr_loader* loader); /* of this epoch, for hr_loader_next */
/* Behind the last batch that hr_loader_next gave: the epoch, and how many of its positions all ranks together have been
 * given. Either may be null. */
HR_API hr_code hr_loader_position(const hr_loader* loader, uint64_t* epoch, uint64_t* consumed, hr_error** error);
/* The same as a line of text without pointers or times in it, for hr_loader_options.state of a loader of the same
 * samples and order, on any number of ranks, in C, C++ (LoaderState::to_json) or Python (state_dict()["headrace"]).
 * *needed, where not null: its bytes, with the 0 at its end, also where `bytes` are fewer, which is
 * HR_INVALID_ARGUMENT. text null: only *needed. */
HR_API hr_code hr_loader_state(const hr_loader* loader, char* text, size_t bytes, size_t* needed, hr_error** error);
/* The state of the beginning of any epoch. */
HR_API hr_code hr_loader_state_of_epoch(const hr_loader* loader, uint64_t epoch, char* text, size_t bytes,
                                        size_t* needed, hr_error** error);

/* What tensor i of every batch is. Names, shape and strides live as long as the loader or batch that was asked. */
typedef struct hr_tensor {
  size_t size;
  const char* array;  /* the array's name, or its stack's */
  const char* output; /* "" for a whole window */
  const char* dtype;  /* "float32" */
  const char* device; /* "host", "cuda:0" */
  uint32_t item_bytes;
  uint32_t rank;
  const uint64_t*
      shape; /* batch size, windows of a sample (only where it has several), channels of a stack, dimensions */
  const int64_t* strides_bytes; /* C order */
  void* data;                   /* of a batch: its memory on the device, until it is given back; of a loader: null */
  uint64_t data_bytes;
} hr_tensor;
#define HR_TENSOR_INIT \
  { sizeof(hr_tensor), NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, 0 }

HR_API size_t hr_loader_tensor_count(const hr_loader* loader);
/* HR_INVALID_ARGUMENT: there is no tensor `index`. */
HR_API hr_code hr_loader_tensor(const hr_loader* loader, size_t index, hr_tensor* out, hr_error** error);
/* HR_NOT_FOUND, naming those that there are. output may be null for "". */
HR_API hr_code hr_loader_tensor_index(const hr_loader* loader, const char* array, const char* output, size_t* index,
                                      hr_error** error);

/* Also HR_INVALID_ARGUMENT: the batch was given back. */
HR_API hr_code hr_batch_tensor(const hr_batch* batch, size_t index, hr_tensor* out, hr_error** error);
/* Blocking copy of bytes of a tensor to ordinary host memory. */
HR_API hr_code hr_batch_copy_to_host(const hr_batch* batch, size_t index, size_t offset_bytes, void* dst, size_t bytes,
                                     hr_error** error);
HR_API const uint64_t* hr_batch_samples(const hr_batch* batch); /* one number for each place; lives as the handle */
HR_API uint64_t hr_batch_size(const hr_batch* batch);           /* places */
HR_API uint64_t hr_batch_valid(const hr_batch* batch);          /* places that count; the others are repetitions */
HR_API uint64_t hr_batch_epoch(const hr_batch* batch);
HR_API uint64_t hr_batch_number(const hr_batch* batch); /* of this rank's in what its loader had left of the epoch */
/* Gives the memory back: now, or once what is queued on these streams (cudaStream_t; null: the default stream) by then
 * is done, for which nobody waits. A second time: nothing. The handle stays, without tensors.
 * HR_INVALID_ARGUMENT for a stream where the device has none; the batch is given back then, too. */
HR_API hr_code hr_batch_release(hr_batch* batch, void* const* native_streams, size_t count, hr_error** error);
/* Gives the memory back if that has not been done, now, and frees the handle. */
HR_API void hr_batch_free(hr_batch* batch);

/* Where a batch's time went; LoaderTiming in headrace/loader.h. Nanoseconds of the monotonic clock. */
typedef struct hr_batch_times {
  size_t size;
  uint64_t planned_ns; /* its planning began */
  uint64_t begun_ns;   /* its reads had been begun */
  uint64_t ready_ns;   /* the last element was there */
  uint64_t asked_ns;   /* hr_loader_next was called */
  uint64_t given_ns;   /* and had it */
  double read_seconds; /* of threads, summed, for all batches that were read together */
  double decode_seconds;
  double place_seconds;
  uint64_t chunks;
  uint64_t kept_chunks;
  uint64_t read_bytes;
  uint64_t decoded_bytes;
  uint64_t batches; /* that were read together */
} hr_batch_times;
#define HR_BATCH_TIMES_INIT \
  { sizeof(hr_batch_times), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
HR_API hr_code hr_batch_timing(const hr_batch* batch, hr_batch_times* out, hr_error** error);

/* What a loader has done for the batches that it handed out; from `chunks` on as in headrace/stats.h. */
typedef struct hr_loader_totals {
  size_t size;
  uint64_t batches;    /* handed out */
  uint64_t skipped;    /* passed over, as a chunk was damaged */
  double wait_seconds; /* hr_loader_next waiting for what was not there yet */
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
  uint64_t direct_bytes; /* read_bytes by path, from here */
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
  const char* path;         /* one phrase: "buffered (page cache)"; until the next call of hr_loader_next or free */
  uint64_t kept_bytes;      /* device memory of chunks that are kept */
  uint64_t cache_released;  /* 1: none are kept any more (hr_loader_release_cache) */
  uint64_t cache_bytes;     /* of read_bytes: what a remote store's cache on disk had */
  uint64_t host_kept_bytes; /* host memory of chunks that are kept */
} hr_loader_totals;
#define HR_LOADER_TOTALS_INIT                                                                                        \
  {                                                                                                                  \
    sizeof(hr_loader_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        NULL, 0, 0, 0, 0                                                                                             \
  }
HR_API hr_code hr_loader_stats(const hr_loader* loader, hr_loader_totals* out, hr_error** error);

#ifdef __cplusplus
}
#endif
#endif
