/* A rank for scripts/chaos: reduces small and large tensors until an operation fails, and says when it did.
 *
 *   pid N                       once the job runs
 *   failed NANOSECONDS SENTENCE of CLOCK_MONOTONIC, right after the call returned */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bindings/c/rueda.h"

enum { kLarge = 1 << 18, kSmall = 16 };

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int32_t sum(rueda_session* session, float* values, int64_t count, const char* name) {
  const rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = values, .dtype = RUEDA_F32, .dimensions = 1, .shape = &count};
  const rueda_op_options options = {.struct_size = sizeof options, .name = name};
  return rueda_allreduce(session, &tensor, &tensor, RUEDA_MAX, &options);
}

int main(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) {
    printf("failed %lld %s\n", (long long)now(), rueda_last_error());
    return 1;
  }
  float* const values = calloc(kLarge, sizeof *values);
  if (values == NULL) return 1;
  int32_t code = RUEDA_OK;
  for (int step = 0; code == RUEDA_OK; ++step) {
    code = sum(session, values, step % 4 == 0 ? kLarge : kSmall, step % 4 == 0 ? "large" : "small");
    if (step == 8) {
      printf("pid %d\n", (int)getpid());
      fflush(stdout);
    }
  }
  const int64_t when = now();
  printf("failed %lld %s\n", (long long)when, rueda_last_error());
  fflush(stdout);
  free(values);
  rueda_shutdown(session);
  return 1;
}
