#include "tests/support/checked_program.h"

#include <stdio.h>
#include <stdlib.h>

enum { kMost = 1 << 18, kMostRows = 3 };

/* The next number below `limit` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static int64_t draw(Program* program, int64_t limit) {
  uint64_t mixed = program->chance += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return (int64_t)((mixed ^ (mixed >> 31)) % (uint64_t)limit);
}

/* What a rank gives in a step: small whole numbers, whose sums are exact. */
static float given(const Program* program, int32_t rank) { return (float)((rank * 7 + program->step * 3) % 11); }

static float sum_of_all(const Program* program) {
  float sum = 0;
  for (int32_t rank = 0; rank < program->size; ++rank) sum += given(program, rank);
  return sum;
}

static void fill(const Program* program, int64_t count) {
  for (int64_t i = 0; i < count; ++i) program->input[i] = given(program, program->rank);
}

static void expect(Program* program, const char* what, int64_t begin, int64_t count, float value) {
  for (int64_t i = begin; i < begin + count; ++i) {
    if (program->output[i] == value) continue;
    printf("wrong %s in step %d: element %lld is %g, not %g\n", what, program->step, (long long)i,
           (double)program->output[i], (double)value);
    fflush(stdout);
    ++program->wrong;
    return;
  }
}

static rueda_tensor rows(float* data, const int64_t* shape) {
  const rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = data, .dtype = RUEDA_F32, .dimensions = 2, .shape = shape};
  return tensor;
}

static int64_t rows_of(const Program* program, int32_t rank) { return 1 + (rank + program->step) % kMostRows; }

static int32_t all_reduce(Program* program, int64_t count, const rueda_op_options* options) {
  const int64_t shape[] = {1, count};
  const rueda_tensor in = rows(program->input, shape), out = rows(program->output, shape);
  const int32_t code = rueda_allreduce(program->session, &in, &out, RUEDA_SUM, options);
  if (code == RUEDA_OK) expect(program, "all-reduce", 0, count, sum_of_all(program));
  return code;
}

static int32_t all_gather(Program* program, int64_t width, const rueda_op_options* options) {
  int64_t total = 0;
  for (int32_t rank = 0; rank < program->size; ++rank) total += rows_of(program, rank);
  const int64_t mine[] = {rows_of(program, program->rank), width}, all[] = {total, width};
  const rueda_tensor in = rows(program->input, mine), out = rows(program->output, all);
  const int32_t code = rueda_allgather(program->session, &in, &out, options);
  int64_t begin = 0;
  for (int32_t rank = 0; code == RUEDA_OK && rank < program->size; ++rank) {
    const int64_t count = rows_of(program, rank) * width;
    expect(program, "all-gather", begin, count, given(program, rank));
    begin += count;
  }
  return code;
}

static int32_t broadcast(Program* program, int64_t count, const rueda_op_options* options) {
  const int32_t root = (int32_t)draw(program, program->size);
  const int64_t shape[] = {1, count};
  const rueda_tensor in = rows(program->input, shape), out = rows(program->output, shape);
  const int32_t code = rueda_broadcast(program->session, &in, &out, root, options);
  if (code == RUEDA_OK) expect(program, "broadcast", 0, count, given(program, root));
  return code;
}

static int32_t reduce_scatter(Program* program, int64_t width, const rueda_op_options* options) {
  const int64_t all[] = {program->size, width}, mine[] = {1, width};
  const rueda_tensor in = rows(program->input, all), out = rows(program->output, mine);
  const int32_t code = rueda_reducescatter(program->session, &in, &out, RUEDA_SUM, options);
  if (code == RUEDA_OK) expect(program, "reduce-scatter", 0, width, sum_of_all(program));
  return code;
}

static int32_t all_to_all(Program* program, int64_t width, const rueda_op_options* options) {
  const int64_t all[] = {program->size, width};
  const rueda_tensor in = rows(program->input, all), out = rows(program->output, all);
  const int32_t code = rueda_alltoall(program->session, &in, NULL, &out, options);
  for (int32_t rank = 0; code == RUEDA_OK && rank < program->size; ++rank) {
    expect(program, "all-to-all", rank * width, width, given(program, rank));
  }
  return code;
}

/* A fourth of the lengths is large. There are a hundred of them in all: ranks agree on a number for each that they have
 * not met before and keep it, up to a limit, so that ever new ones would look like a leak for hours. */
static int64_t draw_width(Program* program) {
  return draw(program, 4) == 0 ? 1 + draw(program, 32) * (kMost / 32 - 1) : 1 + draw(program, 73) * 7;
}

static int32_t run_operation(Program* program) {
  const int64_t width = draw_width(program);
  const rueda_op_options options = {.struct_size = sizeof options};
  fill(program, width * (program->size > kMostRows ? program->size : kMostRows));
  switch (draw(program, 8)) {
    case 0: return all_gather(program, width, &options);
    case 1: return broadcast(program, width, &options);
    case 2: return reduce_scatter(program, width, &options);
    case 3: return all_to_all(program, width, &options);
    case 4: return rueda_barrier(program->session, &options);
    default: return all_reduce(program, width, &options);
  }
}

int32_t run_step(Program* program) {
  const int32_t code = run_operation(program);
  ++program->step;
  return code;
}

int open_program(Program* program, rueda_session* session, uint64_t seed) {
  *program = (Program){.session = session, .rank = rueda_rank(session), .size = rueda_size(session), .chance = seed};
  const size_t most = (size_t)kMost * (size_t)(program->size > kMostRows ? program->size : kMostRows);
  program->input = calloc(most, sizeof(float));
  program->output = calloc(most * kMostRows, sizeof(float));
  if (program->input != NULL && program->output != NULL) return 1;
  close_program(program);
  return 0;
}

void close_program(Program* program) {
  free(program->input);
  free(program->output);
  program->input = program->output = NULL;
}
