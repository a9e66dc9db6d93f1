/* What the Python package calls: rueda.h with plain numbers for its structs, so that an enqueue from Python is one call
 * that allocates nothing. cffi reads this file too, all of it but the preprocessor's lines.
 *
 * A tensor is an address, a dtype and a shape. As the address of an output, 0 leaves the memory to the library, see
 * rueda_py_output. `name` may be NULL. Functions that return int64_t return a live handle (> 0), or a negative error
 * code whose sentence is rueda_last_error(). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "rueda.h"

/* Kinds of operation. */
enum { RUEDA_PY_ALLREDUCE, RUEDA_PY_BROADCAST };

/* Enqueues. `argument` is the reduce operator of a reduction, the root of a broadcast. */
int64_t rueda_py_start(rueda_session* session, int32_t kind, uintptr_t input, uintptr_t output, int32_t dtype,
                       int32_t dimensions, const int64_t* shape, int32_t argument, const char* name,
                       int32_t process_set, int32_t codec, double prescale, double postscale);

/* The same for `count` tensors as one group, named "<name>.0" and so on. `shapes` holds their extents one tensor after
 * the other. */
int64_t rueda_py_start_group(rueda_session* session, int32_t kind, size_t count, const uintptr_t* inputs,
                             const uintptr_t* outputs, const int32_t* dtypes, const int32_t* dimensions,
                             const int64_t* shapes, int32_t argument, const char* name, int32_t process_set,
                             int32_t codec, double prescale, double postscale);

int64_t rueda_py_start_barrier(rueda_session* session, int32_t process_set);

/* Where output `index` of a finished operation lies: writes its address and extents (`shape` has 16 places) and returns
 * the number of dimensions, or a negative error code. */
int32_t rueda_py_output(rueda_handle handle, size_t index, uintptr_t* data, int64_t* shape);
