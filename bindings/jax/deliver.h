/* Completes XLA's futures on threads of their own. */
#pragma once
#include "bindings/c/rueda.h"
#include "bindings/jax/xla_ffi.h"

/* An operation in flight that XLA waits for. From malloc; the functions below free it. */
typedef struct rueda_jax_pending {
  const xla_api* api;
  xla_future* future;
  xla_error* error; /* NULL: it succeeded */
  struct rueda_jax_pending* next;
} rueda_jax_pending;

/* Makes XLA's error for a code of rueda.h and its sentence: "rueda: SENTENCE [CODE]". */
xla_error* rueda_jax_error(const xla_api* api, int32_t code, const char* sentence);

/* Completes the future, with the error if there is one, on some thread of this file's. Never blocks. Any thread. */
void rueda_jax_deliver(rueda_jax_pending* pending);
