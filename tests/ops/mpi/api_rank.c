/* A rank that uses Rueda alone, under mpirun: mpi_api_rank MODE
 *
 *   sum     all kinds of sums and an all-gather of each length, twice with a shutdown in between
 *   large   a sum and a broadcast of more elements than MPI's int counts
 *   last    the last rank kills itself while the others wait for its tensor
 *   leave   exits with 0 and no shutdown
 *   again N  a sum and a shutdown, N times
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

/* Rank r gives r + 1 times `count` elements, so that no two ranks' rows are as many. */
static int gather(rueda_session* session, int64_t count) {
  const int32_t rank = rueda_rank(session), size = rueda_size(session);
  const int64_t own = count * (rank + 1), all = count * size * (size + 1) / 2;
  float* rows = malloc((size_t)own * sizeof *rows);
  float* gathered = malloc((size_t)all * sizeof *gathered);
  for (int64_t i = 0; i < own; ++i) rows[i] = (float)(rank * 100 + i % 7);
  const rueda_tensor input = {
      .struct_size = sizeof input, .data = rows, .dtype = RUEDA_F32, .dimensions = 1, .shape = &own};
  const rueda_tensor output = {
      .struct_size = sizeof output, .data = gathered, .dtype = RUEDA_F32, .dimensions = 1, .shape = &all};
  const rueda_op_options options = {.struct_size = sizeof options, .name = "rows"};
  if (rueda_allgather(session, &input, &output, &options) != RUEDA_OK) return fail("allgather");
  int64_t at = 0;
  for (int32_t from = 0; from < size; ++from) {
    for (int64_t i = 0; i < count * (from + 1); ++i, ++at) {
      if (gathered[at] == (float)(from * 100 + i % 7)) continue;
      fprintf(stderr, "rank %d: row %ld of rank %d is %g\n", rank, (long)i, from, gathered[at]);
      return 1;
    }
  }
  free(rows);
  free(gathered);
  return 0;
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
    if (gather(session, count) != 0) return 1;
  }
  printf("rank %d of %d, local %d of %d, cross %d of %d: sums are right\n", rank, size, rueda_local_rank(session),
         rueda_local_size(session), rueda_cross_rank(session), rueda_cross_size(session));
  fflush(stdout);
  return rueda_shutdown(session) == RUEDA_OK ? 0 : fail("shutdown");
}

static int8_t given(int32_t rank, size_t i) { return (int8_t)((i + i / 251 + (size_t)rank * 3) % 30); }

static int check_large(rueda_session* session, const int8_t* values, size_t count, int32_t first, int32_t last) {
  for (size_t i = 0; i < count; ++i) {
    int expected = 0;
    for (int32_t from = first; from <= last; ++from) expected += given(from, i);
    if (values[i] == expected) continue;
    fprintf(stderr, "rank %d: element %zu of %zu is %d, expected %d\n", rueda_rank(session), i, count, values[i],
            expected);
    return 1;
  }
  return 0;
}

static int sum_large(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) return fail("init");
  const int32_t rank = rueda_rank(session), size = rueda_size(session);
  const int64_t count = ((int64_t)1 << 31) + 1001;
  int8_t* values = malloc((size_t)count);
  const rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = values, .dtype = RUEDA_I8, .dimensions = 1, .shape = &count};
  for (size_t i = 0; i < (size_t)count; ++i) values[i] = given(rank, i);
  if (rueda_allreduce(session, &tensor, &tensor, RUEDA_SUM, NULL) != RUEDA_OK) return fail("allreduce");
  if (check_large(session, values, (size_t)count, 0, size - 1) != 0) return 1;
  for (size_t i = 0; i < (size_t)count; ++i) values[i] = given(rank, i);
  if (rueda_broadcast(session, &tensor, &tensor, size - 1, NULL) != RUEDA_OK) return fail("broadcast");
  if (check_large(session, values, (size_t)count, size - 1, size - 1) != 0) return 1;
  free(values);
  printf("rank %d of %d: 2^31 + 1001 elements are right\n", rank, size);
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

static int again(int times) {
  for (int i = 0; i < times; ++i) {
    rueda_session* session = NULL;
    if (rueda_init(NULL, &session) != RUEDA_OK) return fail("init");
    float value = 1;
    if (add(session, &value, 1, RUEDA_SUM, "again") != RUEDA_OK) return fail("allreduce");
    if (value != (float)rueda_size(session)) return 1;
    if (rueda_shutdown(session) != RUEDA_OK) return fail("shutdown");
  }
  printf("%d times\n", times);
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "sum";
  if (strcmp(mode, "large") == 0) return sum_large();
  if (strcmp(mode, "last") == 0) return lose_last();
  if (strcmp(mode, "leave") == 0) return leave();
  if (strcmp(mode, "again") == 0) return again(argc > 2 ? atoi(argv[2]) : 1);
  const int first = sum_up();
  return first != 0 ? first : sum_up();
}
