/* What the Python package rueda.jax calls. Its only other contact with this library is the handler's address. */
#pragma once
#include "bindings/c/rueda.h"
#include "bindings/jax/xla_ffi.h"

/* The handler that XLA calls. Any thread. With futures it never blocks; with an older XLA it blocks until the operation
 * has finished. Returns NULL or an error, which XLA frees. */
RUEDA_API xla_error* rueda_jax_handler(xla_frame* frame);

/* From here on calls go to this session, the `epoch`-th of the process. */
RUEDA_API void rueda_jax_use(rueda_session* session, int64_t epoch);

/* From here on calls fail with NOT_INITIALIZED and the sentence `why`. Once it has returned no call uses the session,
 * so that rueda_shutdown() may follow. */
RUEDA_API void rueda_jax_leave(const char* why);

/* The same in a process that was just forked, in which another thread may seem to hold the lock. */
RUEDA_API void rueda_jax_forked(const char* why);

/* Writes the numbers of operations that calls have begun and that have finished. */
RUEDA_API void rueda_jax_counts(int64_t* begun, int64_t* finished);
