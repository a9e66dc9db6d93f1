/* Completes futures away from the library's completer thread.
 *
 * XLA goes on with the program in the call that completes a future: it may compute for seconds there, or wait for
 * another future. On the completer thread that would hold up every other completion, and a wait for one of them would
 * never end. So there is a queue, and threads that take from it. A thread is added whenever none is idle, so that a
 * completion never waits for a program. Threads stay until the process ends; there are never more than futures that
 * were completed at one moment. */
#include "bindings/jax/deliver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static rueda_jax_pending *first, *last; /* the queue; under `lock`, as are the next two */
static size_t queued, idle;

static int32_t status_of(int32_t code) {
  switch (code) {
    case RUEDA_NOT_INITIALIZED:
    case RUEDA_MISMATCH: return RUEDA_XLA_FAILED_PRECONDITION;
    case RUEDA_INVALID_ARGUMENT: return RUEDA_XLA_INVALID_ARGUMENT;
    case RUEDA_PEER_LOST: return RUEDA_XLA_UNAVAILABLE;
    case RUEDA_SHUT_DOWN: return RUEDA_XLA_ABORTED;
    case RUEDA_TIMEOUT: return RUEDA_XLA_DEADLINE_EXCEEDED;
    case RUEDA_UNSUPPORTED: return RUEDA_XLA_UNIMPLEMENTED;
    default: return RUEDA_XLA_INTERNAL;
  }
}

xla_error* rueda_jax_error(const xla_api* api, int32_t code, const char* sentence) {
  char message[4096];
  snprintf(message, sizeof message, "rueda: %.4000s [%s]", sentence, rueda_error_name(code));
  xla_error_create_args args = {.size = sizeof args, .message = message, .code = status_of(code)};
  return api->error_create(&args);
}

static void complete(rueda_jax_pending* pending) {
  xla_future_args args = {.size = sizeof args, .future = pending->future, .error = pending->error};
  if (pending->error != NULL)
    pending->api->future_set_error(&args);
  else {
    args.size = offsetof(xla_future_args, error);
    pending->api->future_set_available(&args);
  }
  free(pending);
}

static void* work(void* unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  for (;;) {
    ++idle;
    while (first == NULL) pthread_cond_wait(&arrived, &lock);
    --idle;
    rueda_jax_pending* mine = first;
    first = mine->next;
    --queued;
    pthread_mutex_unlock(&lock);
    complete(mine);
    pthread_mutex_lock(&lock);
  }
  return NULL;
}

/* Adds a thread. Returns 0 if the machine has none left. */
static int add_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0) return 0;
  pthread_detach(thread);
  return 1;
}

/* Takes the future out of the queue again, if it is still there. */
static int take_back(rueda_jax_pending* pending) {
  for (rueda_jax_pending **at = &first, *before = NULL; *at != NULL; before = *at, at = &(*at)->next) {
    if (*at != pending) continue;
    *at = pending->next;
    if (last == pending) last = before;
    --queued;
    return 1;
  }
  return 0;
}

void rueda_jax_deliver(rueda_jax_pending* pending) {
  pending->next = NULL;
  pthread_mutex_lock(&lock);
  if (first == NULL)
    first = pending;
  else
    last->next = pending;
  last = pending;
  const int missing = ++queued > idle;
  pthread_cond_signal(&arrived);
  pthread_mutex_unlock(&lock);
  if (!missing || add_thread()) return;
  pthread_mutex_lock(&lock);
  const int taken = take_back(pending); /* else a thread that became idle has it */
  pthread_mutex_unlock(&lock);
  if (taken) complete(pending);
}
