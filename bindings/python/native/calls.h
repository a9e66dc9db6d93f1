/* What the Python package calls: rueda.h with plain numbers for its structs, so that an enqueue from Python is one call
 * that allocates nothing. cffi reads this file too, all of it but the preprocessor's lines.
 *
 * A tensor is an address, a dtype and a shape, behind which RUEDA_PY_ORDER and the order of the dimensions in memory
 * may stand, all of which `dimensions` counts: see rueda_tensor.order. Above the low 8 bits of the dtype RUEDA_OPAQUE
 * stand the bytes of an element. As the address of an output, 0 leaves the memory to the library, see rueda_py_output.
 * `name` may be NULL. Functions that return int64_t return a live handle (> 0), or a negative error code whose sentence
 * is rueda_last_error(). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "rueda.h"

enum { RUEDA_PY_ORDER = -1 };

/* Kinds of operation: those whose output has the input's shape, and those that move or reduce rows. */
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

/* How long operations that this thread enqueues from here on may take, as rueda_op_options.timeout_seconds. */
void rueda_py_limit(double timeout_seconds);

/* Enqueues. `argument` is the reduce operator of a reduction, the root of a broadcast. */
int64_t rueda_py_start(rueda_session* session, int32_t kind, uintptr_t input, uintptr_t output, int32_t dtype,
                       int32_t dimensions, const int64_t* shape, int32_t argument, const char* name,
                       int32_t process_set, int32_t codec, double prescale, double postscale);

/* Enqueues an operation of rows. `output_shape` says what `output` has, with as many dimensions as the input; NULL: the
 * library makes the output. `splits` may be NULL, see rueda_alltoall_async. `argument` is the root, or the operator of
 * a reduce-scatter. */
int64_t rueda_py_start_rows(rueda_session* session, int32_t kind, uintptr_t input, int32_t dtype, int32_t dimensions,
                            const int64_t* shape, uintptr_t output, const int64_t* output_shape, const int64_t* splits,
                            int32_t argument, const char* name, int32_t process_set, int32_t codec, double prescale,
                            double postscale);

/* Enqueues a reduction whose result only the rank `root` gets, in `output`. */
int64_t rueda_py_start_reduce(rueda_session* session, uintptr_t input, uintptr_t output, int32_t dtype,
                              int32_t dimensions, const int64_t* shape, int32_t op, int32_t root, const char* name,
                              int32_t process_set);

/* The same for `count` tensors as one group, named "<name>.0" and so on. `shapes` holds their extents one tensor after
 * the other. Groups that gather or scatter rows leave their outputs to the library. */
int64_t rueda_py_start_group(rueda_session* session, int32_t kind, size_t count, const uintptr_t* inputs,
                             const uintptr_t* outputs, const int32_t* dtypes, const int32_t* dimensions,
                             const int64_t* shapes, int32_t argument, const char* name, int32_t process_set,
                             int32_t codec, double prescale, double postscale);

int64_t rueda_py_start_barrier(rueda_session* session, int32_t process_set);
int64_t rueda_py_start_join(rueda_session* session, int32_t process_set);

/* Enqueues what goes from one rank to another: RUEDA_PY_SEND from `data` to `peer`, RUEDA_PY_RECV from it into `data`.
 */
int64_t rueda_py_start_message(rueda_session* session, int32_t kind, uintptr_t data, int32_t dtype, int32_t dimensions,
                               const int64_t* shape, int32_t peer, const char* name, int32_t process_set);

/* An all-reduce in place that comes again and again: all of it but the address, so that its enqueue takes three
 * numbers. For one session, in which its name is interned. NULL: the name cannot be used, or no memory; see
 * rueda_last_error(). */
typedef struct rueda_py_request rueda_py_request;
rueda_py_request* rueda_py_prepare(rueda_session* session, int32_t dtype, int32_t dimensions, const int64_t* shape,
                                   int32_t op, const char* name, int32_t process_set, int32_t codec, double prescale,
                                   double postscale);

/* Enqueues `count` of them, of the tensors at `addresses`; the last wakes others unless there are `more`. Returns how
 * many there are now in `handles`; where that is less than `count` the next one could not be enqueued, see
 * rueda_last_error(). */
size_t rueda_py_start_batch(rueda_session* session, size_t count, rueda_py_request* const* requests,
                            const uintptr_t* addresses, int64_t* handles, int32_t more);
/* Waits for the operations from `handles[*next]` on, in their order, releases each that succeeded and moves `*next`
 * past it. An error code if one failed, or RUEDA_INTERRUPTED: `*next` is at it, and the caller releases it. */
int32_t rueda_py_wait_batch(size_t count, const int64_t* handles, size_t* next);

void rueda_py_forget(rueda_py_request* request);

/* Where output `index` of a finished operation lies: writes its address and extents (`shape` has 16 places) and returns
 * the number of dimensions, or a negative error code. */
int32_t rueda_py_output(rueda_handle handle, size_t index, uintptr_t* data, int64_t* shape);
