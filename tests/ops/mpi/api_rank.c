/* A rank that uses Rueda alone, under mpirun: mpi_api_rank MODE
 *
 *   sum     all kinds of sums, twice with a shutdown in between
 *   last    the last rank kills itself while the others wait for its tensor
 *   leave   exits with 0 and no shutdown
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rueda.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  return 1;
}

static int add(rueda_session* session, float* values, int64_t count, int32_t op, const char* name) {
  rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = values, .dtype = RUEDA_F32, .dimensions = 1, .shape = &count};
  rueda_op_options options = {.struct_size = sizeof options, .name = name};
  return rueda_allreduce(session, &tensor, &tensor, op, &options);
}

static int sum_up(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) return fail("init");
  const int32_t rank = rueda_rank(session), size = rueda_size(session);
  for (int64_t count = 1; count <= 1 << 20; count *= 32) {
    float* values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; ++i) values[i] = (float)(rank + i % 7);
    if (add(session, values, count, RUEDA_SUM, "sum") != RUEDA_OK) return fail("allreduce");
    for (int64_t i = 0; i < count; ++i) {
      const float expected = (float)(size * (size - 1) / 2 + size * (int)(i % 7));
      if (values[i] == expected) continue;
      fprintf(stderr, "rank %d: element %ld of %ld is %g, expected %g\n", rank, (long)i, (long)count, values[i],
              expected);
      return 1;
    }
    free(values);
  }
  printf("rank %d of %d, local %d of %d, cross %d of %d: sums are right\n", rank, size, rueda_local_rank(session),
         rueda_local_size(session), rueda_cross_rank(session), rueda_cross_size(session));
  fflush(stdout);
  return rueda_shutdown(session) == RUEDA_OK ? 0 : fail("shutdown");
}

static int lose_last(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) return fail("init");
  float value = 1;
  if (add(session, &value, 1, RUEDA_SUM, "first") != RUEDA_OK) return fail("first");
  if (rueda_rank(session) == rueda_size(session) - 1) raise(SIGKILL);
  add(session, &value, 1, RUEDA_SUM, "second");
  return fail("second");
}

static int leave(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) return fail("init");
  float value = 1;
  if (add(session, &value, 1, RUEDA_SUM, "only") != RUEDA_OK) return fail("only");
  printf("rank %d leaves\n", rueda_rank(session));
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "sum";
  if (strcmp(mode, "last") == 0) return lose_last();
  if (strcmp(mode, "leave") == 0) return leave();
  const int first = sum_up();
  return first != 0 ? first : sum_up();
}
