/* What the Python package calls: rueda.h with numbers and arrays for its structs, so that an enqueue from Python is one
 * call that allocates nothing. cffi reads this file too, all of it but the preprocessor's lines.
 *
 * Structs are passed by value: cffi fills one from a Python tuple, field by field (rueda/operations.py has Options as a
 * NamedTuple of the same fields). It cannot fill a pointer in a struct from a list or from bytes, so shapes, splits and
 * names are parameters of their own.
 *
 * `name` may be NULL. Functions that return int64_t return a live handle (> 0), or a negative error code; the sentence
 * of the error is rueda_last_error(). All of them may be called on any thread, and none blocks except
 * rueda_py_wait_batch() and rueda_py_wait_stream_batch(). Memory of tensors is lent until the operation has finished;
 * arrays only during the call. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "rueda.h"

/* What an operation does. The output of the first three has the input's shape. */
enum {
  RUEDA_PY_ALLREDUCE,
  RUEDA_PY_BROADCAST,
  RUEDA_PY_REDUCE,
  RUEDA_PY_ALLGATHER,
  RUEDA_PY_ALLTOALL,
  RUEDA_PY_REDUCESCATTER,
  RUEDA_PY_GATHER,
  RUEDA_PY_SCATTER,
  RUEDA_PY_SEND,
  RUEDA_PY_RECV
};

/* All ranks give as many rows: rueda_op_options.same_rows. */
enum { RUEDA_PY_SAME_ROWS = 1 };

/* Where the tensors of an operation are: a device of rueda.h, its number, and the stream behind which they are ready.
 * `allocate`, called with `outputs`, gives memory to outputs without an address; if it is NULL the library owns that
 * memory. Must live until the operation has ended. */
typedef struct {
  int32_t device;
  int32_t index;
  void* stream;
  rueda_allocate allocate;
  void* outputs;
} rueda_py_place;

/* How an operation runs. An operation ignores the fields that it has no use for. */
typedef struct {
  int32_t kind;                /* one of the enum above */
  int32_t process_set;         /* its number, 0 for all ranks */
  int32_t op;                  /* the reduce operator; of an all-gather RUEDA_PY_SAME_ROWS or 0 */
  int32_t rank;                /* the root, or the other rank of a message: a rank of the job */
  int32_t codec;               /* RUEDA_CODEC_..., for all-reduce and reduce-scatter */
  double prescale;             /* multiplies the input of a reduction */
  double postscale;            /* multiplies its result */
  const rueda_py_place* place; /* NULL: the host's memory */
} rueda_py_options;

/* Separates the extents in a shape array from the order of the dimensions in memory, if the array has one. */
enum { RUEDA_PY_ORDER = -1 };

/* A tensor but for its shape, which is an array beside it: the extents, then optionally RUEDA_PY_ORDER and the order of
 * the dimensions in memory, see rueda_tensor.order. */
typedef struct {
  uintptr_t address;  /* 0 as an output: the library makes the memory, see rueda_py_output() */
  int32_t dtype;      /* above the low 8 bits of RUEDA_OPAQUE: the bytes of an element */
  int32_t dimensions; /* the length of the shape array, so with RUEDA_PY_ORDER and the order */
} rueda_py_tensor;

/* Sets how many seconds operations may take that this thread enqueues from here on: rueda_op_options.timeout_seconds.
 */
void rueda_py_limit(double timeout_seconds);

/* Enqueues an all-reduce, a broadcast or a reduce. `output` is the address of a tensor like the input, or the input's.
 * Only the root of a reduce gets a result. */
int64_t rueda_py_start(rueda_session* session, const char* name, rueda_py_options options, rueda_py_tensor input,
                       const int64_t* shape, uintptr_t output);

/* Enqueues an operation that moves or reduces rows. `output_shape` has as many entries as `shape`; if it is NULL the
 * library makes the output. `splits` may be NULL, see rueda_alltoall_async. */
int64_t rueda_py_start_rows(rueda_session* session, const char* name, rueda_py_options options, rueda_py_tensor input,
                            const int64_t* shape, uintptr_t output, const int64_t* output_shape, const int64_t* splits);

/* Enqueues an operation on `count` tensors as one group, with the names "<name>.0", "<name>.1" and so on. `shapes`
 * holds the shapes one after the other. If the group gathers or scatters rows, the library makes the outputs. */
int64_t rueda_py_start_group(rueda_session* session, const char* name, rueda_py_options options, size_t count,
                             const rueda_py_tensor* inputs, const int64_t* shapes, const uintptr_t* outputs);

int64_t rueda_py_start_barrier(rueda_session* session, int32_t process_set);
int64_t rueda_py_start_join(rueda_session* session, int32_t process_set);

/* Enqueues a message: RUEDA_PY_SEND sends the tensor to options.rank, RUEDA_PY_RECV receives it from there. */
int64_t rueda_py_start_message(rueda_session* session, const char* name, rueda_py_options options,
                               rueda_py_tensor tensor, const int64_t* shape);

/* An all-reduce in place that comes again in every step: all of it but the address. It belongs to one session, which
 * has interned its name. rueda_py_prepare() returns NULL if the name cannot be used or there is no memory, see
 * rueda_last_error(). The caller ends it with rueda_py_forget(), not before its operations are enqueued. */
typedef struct rueda_py_request rueda_py_request;
rueda_py_request* rueda_py_prepare(rueda_session* session, const char* name, rueda_py_options options,
                                   rueda_py_tensor tensor, const int64_t* shape);
void rueda_py_forget(rueda_py_request* request);

/* Enqueues `count` requests for the tensors at `addresses`, which are ready behind `stream`, NULL on the host. The last
 * of them wakes the engine unless `more` is set. Returns how many it has enqueued, with their handles in `handles`. If
 * that is less than `count`, the next request was refused: see rueda_last_error(). */
size_t rueda_py_start_batch(rueda_session* session, size_t count, rueda_py_request* const* requests,
                            const uintptr_t* addresses, void* stream, int64_t* handles, int32_t more);

/* Waits for the operations from `handles[*next]` on, in their order. Releases each one that succeeded and moves `*next`
 * past it. Returns the error code of the first that failed, or RUEDA_INTERRUPTED if a signal came; `*next` is then at
 * that operation, which the caller releases. */
int32_t rueda_py_wait_batch(size_t count, const int64_t* handles, size_t* next);

/* The same for operations on a device, but that it releases none: waits until each is launched, and makes the stream go
 * on behind them. */
int32_t rueda_py_wait_stream_batch(size_t count, const int64_t* handles, size_t* next, void* stream);

/* Copies memory past the caches if the machine can: for a copy that is not read soon. The two do not overlap. */
void rueda_py_copy(uintptr_t to, uintptr_t from, size_t bytes);

/* Writes the address and the extents of output `index` of a finished operation. `shape` has 16 slots. Returns the
 * number of dimensions, or a negative error code. */
int32_t rueda_py_output(rueda_handle handle, size_t index, uintptr_t* data, int64_t* shape);
