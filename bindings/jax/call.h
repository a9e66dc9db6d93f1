/* A call of XLA's as Rueda's C API takes it. */
#pragma once
#include "bindings/c/rueda.h"
#include "bindings/jax/xla_ffi.h"

/* What an operation does; the attribute `kind`. */
enum { RUEDA_JAX_ALLREDUCE, RUEDA_JAX_BROADCAST, RUEDA_JAX_ALLGATHER, RUEDA_JAX_ALLTOALL, RUEDA_JAX_REDUCESCATTER };

/* An operation on `count` tensors, ready to be enqueued. The tensors' memory belongs to XLA. */
typedef struct {
  int32_t kind, op, root;
  int64_t epoch; /* of the session that numbered the process set; 0 for the set of all ranks */
  size_t count;
  rueda_tensor* inputs; /* `count` inputs, then as many outputs */
  rueda_tensor* outputs;
  char** names;    /* `count` names, in one piece of memory with their text */
  int64_t* splits; /* of an all-to-all, `split_count` of them; may be NULL */
  size_t split_count;
  rueda_op_options options;
} rueda_jax_call;

/* Reads the frame into `call`. Returns NULL, or a sentence in `why` (of `capacity` bytes) that says what is wrong. End
 * it with rueda_jax_call_free() in both cases. Thread-safe. */
const char* rueda_jax_call_read(const xla_frame* frame, rueda_jax_call* call, char* why, size_t capacity);
void rueda_jax_call_free(rueda_jax_call* call);

/* From here on `number` is what XLA calls this process's first device: processes of jax.distributed number their
 * devices together. 0 before the first call. Any thread. */
RUEDA_API void rueda_jax_first_device(int32_t number);

/* Enqueues the call. Returns RUEDA_OK or the code of rueda.h; the sentence is rueda_last_error(). */
int32_t rueda_jax_call_enqueue(rueda_session* session, const rueda_jax_call* call, rueda_handle* handle);
