/* Runs Rueda's operations inside XLA's programs, as a custom call.
 *
 * With futures (jaxlib 0.6.2 and later) a call enqueues the operation and returns: XLA goes on with everything that
 * does not need the result, and many operations are in flight. The library's callback then has the future completed.
 * An older XLA waits in the call.
 *
 * The session is the one that all of Rueda's Python packages share. XLA calls on threads of its own, which know nothing
 * of Python's session, so Python says here when the session begins and ends. Enqueues hold the gate for reading, and
 * the end of a session takes it for writing: rueda_shutdown() must not run beside another call on the session. */
#include "bindings/jax/handler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bindings/jax/call.h"
#include "bindings/jax/deliver.h"

static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static rueda_session* session; /* under the gate, as are the next two */
static int64_t session_epoch;
static char why_none[512] = "Rueda is not initialised: call init() first";
static atomic_llong begun, finished;

void rueda_jax_use(rueda_session* current, int64_t epoch) {
  pthread_rwlock_wrlock(&gate);
  session = current;
  session_epoch = epoch;
  pthread_rwlock_unlock(&gate);
}

void rueda_jax_leave(const char* why) {
  pthread_rwlock_wrlock(&gate);
  session = NULL;
  snprintf(why_none, sizeof why_none, "%s", why);
  pthread_rwlock_unlock(&gate);
}

void rueda_jax_forked(const char* why) {
  const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
  gate = fresh;
  rueda_jax_leave(why);
}

void rueda_jax_counts(int64_t* calls_begun, int64_t* calls_finished) {
  *calls_finished = atomic_load(&finished); /* first, so that the difference is never too small */
  *calls_begun = atomic_load(&begun);
}

/* Answers XLA's question which version of the interface the handler speaks. Returns 0 if that is not what it asks. */
static int answered_metadata(const xla_frame* frame) {
  for (const xla_extension* at = frame->extensions; at != NULL; at = at->next) {
    if (at->type != RUEDA_XLA_METADATA) continue;
    xla_metadata* metadata = ((const xla_metadata_extension*)at)->metadata;
    /* XLA's own, whose fields this file checks one by one. */
    metadata->version.major = frame->api != NULL ? frame->api->version.major : 0;
    metadata->version.minor = frame->api != NULL ? frame->api->version.minor : 1;
    metadata->traits = 0;
    return 1;
  }
  return 0;
}

/* The sentence of a finished operation, copied to `text`: the handle is released with it. */
static const char* end_of(rueda_handle handle, char* text, size_t capacity) {
  snprintf(text, capacity, "%s", rueda_handle_error(handle));
  rueda_release(handle);
  atomic_fetch_add(&finished, 1);
  return text;
}

/* The library's callback. */
static void on_finished(void* context, rueda_handle handle, int32_t code) {
  rueda_jax_pending* pending = context;
  char text[4096];
  const char* sentence = end_of(handle, text, sizeof text);
  if (code != RUEDA_OK) pending->error = rueda_jax_error(pending->api, code, sentence);
  rueda_jax_deliver(pending);
}

/* Returns whether the number of splits is not that of the set's ranks, which is how many the library reads. A set that
 * does not exist is the library's to refuse. The gate is held. */
static int has_wrong_splits(const rueda_jax_call* call) {
  const int32_t ranks = rueda_process_set_size(session, call->options.process_set);
  return call->splits != NULL && ranks >= 0 && call->split_count != (size_t)ranks;
}

/* Enqueues the call in the session of this moment. Returns NULL, or the error. */
static xla_error* enqueue(const xla_api* api, const rueda_jax_call* call, rueda_handle* handle) {
  xla_error* error = NULL;
  pthread_rwlock_rdlock(&gate);
  if (session == NULL) {
    error = rueda_jax_error(api, RUEDA_NOT_INITIALIZED, why_none);
  } else if (call->epoch != 0 && call->epoch != session_epoch) {
    error = rueda_jax_error(api, RUEDA_INVALID_ARGUMENT,
                            "this program was traced with a process set of a session that has ended; add the set "
                            "again, and trace the program anew (jax.clear_caches())");
  } else if (has_wrong_splits(call)) {
    char text[160];
    snprintf(text, sizeof text, "alltoall: there are %zu splits; give one for each of the %d ranks of the process set",
             call->split_count, (int)rueda_process_set_size(session, call->options.process_set));
    error = rueda_jax_error(api, RUEDA_INVALID_ARGUMENT, text);
  } else {
    atomic_fetch_add(&begun, 1);
    const int32_t code = rueda_jax_call_enqueue(session, call, handle);
    if (code != RUEDA_OK) {
      atomic_fetch_add(&finished, 1);
      error = rueda_jax_error(api, code, rueda_last_error());
    }
  }
  pthread_rwlock_unlock(&gate);
  return error;
}

/* Enqueues the call and waits. */
static xla_error* run_blocking(const xla_api* api, const rueda_jax_call* call) {
  rueda_handle handle = 0;
  xla_error* error = enqueue(api, call, &handle);
  if (error != NULL) return error;
  int32_t code = RUEDA_INTERRUPTED;
  while (code == RUEDA_INTERRUPTED) code = rueda_wait(handle, -1.0); /* no Python runs here to handle the signal */
  char text[4096];
  const char* sentence = end_of(handle, text, sizeof text);
  return code == RUEDA_OK ? NULL : rueda_jax_error(api, code, sentence);
}

/* Enqueues the call and returns with the frame's future set. An error of the enqueue is returned instead. */
static xla_error* run_with_future(xla_frame* frame, rueda_jax_call* call) {
  const xla_api* api = frame->api;
  rueda_jax_pending* pending = calloc(1, sizeof *pending);
  if (pending == NULL) return rueda_jax_error(api, RUEDA_SYSTEM, "no memory is left for the operation");
  xla_future_args create = {.size = offsetof(xla_future_args, error)};
  xla_error* error = api->future_create(&create);
  if (error != NULL) {
    free(pending);
    return error;
  }
  pending->api = api;
  pending->future = create.future;
  call->options.callback = on_finished;
  call->options.callback_context = pending;
  rueda_handle handle = 0;
  frame->future = create.future;
  error = enqueue(api, call, &handle);
  if (error != NULL) { /* the future exists, so it has to be completed */
    pending->error = error;
    rueda_jax_deliver(pending);
  }
  return NULL;
}

xla_error* rueda_jax_handler(xla_frame* frame) {
  if (answered_metadata(frame) || frame->stage != RUEDA_XLA_EXECUTE) return NULL;
  const xla_api* api = frame->api;
  if (api->version.major != 0)
    return rueda_jax_error(api, RUEDA_UNSUPPORTED, "this jaxlib speaks another version of XLA's FFI than 0.x");
  rueda_jax_call call;
  char why[512];
  xla_error* error = NULL;
  if (rueda_jax_call_read(frame, &call, why, sizeof why) != NULL)
    error = rueda_jax_error(api, RUEDA_INVALID_ARGUMENT, why);
  else if (xla_has_futures(api))
    error = run_with_future(frame, &call);
  else
    error = run_blocking(api, &call);
  rueda_jax_call_free(&call);
  return error;
}
