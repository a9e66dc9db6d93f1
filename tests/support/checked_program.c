#include "tests/support/checked_program.h"

#include <stdio.h>
#include <stdlib.h>

enum { kMost = 1 << 18, kMostRows = 3, kMostRanks = 64 };

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

static int32_t grouped_all_reduce(Program* program, int64_t width, const rueda_op_options* options) {
  enum { kTensors = 3 };
  const int64_t shapes[kTensors][2] = {{1, width}, {2, width}, {1, 1}};
  rueda_tensor ins[kTensors], outs[kTensors];
  int64_t begin = 0;
  for (int i = 0; i < kTensors; ++i) {
    ins[i] = rows(program->input + begin, shapes[i]);
    outs[i] = rows(program->output + begin, shapes[i]);
    begin += shapes[i][0] * shapes[i][1];
  }
  const int32_t code = rueda_grouped_allreduce(program->session, kTensors, ins, outs, NULL, RUEDA_SUM, options);
  if (code == RUEDA_OK) expect(program, "group", 0, begin, sum_of_all(program));
  return code;
}

static int32_t reduce(Program* program, int64_t count, const rueda_op_options* options) {
  const int32_t root = (int32_t)draw(program, program->size);
  const int64_t shape[] = {1, count};
  const rueda_tensor in = rows(program->input, shape), out = rows(program->output, shape);
  const int32_t code = rueda_reduce(program->session, &in, &out, RUEDA_SUM, root, options);
  if (code == RUEDA_OK && program->rank == root) expect(program, "reduce", 0, count, sum_of_all(program));
  return code;
}

static int32_t gather(Program* program, int64_t width, const rueda_op_options* options) {
  const int32_t root = (int32_t)draw(program, program->size);
  const int64_t mine[] = {1, width}, all[] = {program->size, width};
  const rueda_tensor in = rows(program->input, mine), out = rows(program->output, all);
  const int32_t code = rueda_gather(program->session, &in, &out, root, options);
  for (int32_t rank = 0; code == RUEDA_OK && program->rank == root && rank < program->size; ++rank) {
    expect(program, "gather", rank * width, width, given(program, rank));
  }
  return code;
}

static int32_t scatter(Program* program, int64_t width, const rueda_op_options* options) {
  const int32_t root = (int32_t)draw(program, program->size);
  const int64_t all[] = {program->size, width}, mine[] = {1, width};
  const rueda_tensor in = rows(program->input, all), out = rows(program->output, mine);
  const int32_t code = rueda_scatter(program->session, &in, NULL, &out, root, options);
  if (code == RUEDA_OK) expect(program, "scatter", 0, width, given(program, root));
  return code;
}

/* Each rank sends to the next one. Those with an even number send first, so that each waits for one that is further. */
static int32_t message(Program* program, int64_t count, const rueda_op_options* options) {
  if (program->size == 1) return RUEDA_OK;
  const int32_t to = (program->rank + 1) % program->size, from = (program->rank + program->size - 1) % program->size;
  const int64_t shape[] = {1, count};
  const rueda_tensor in = rows(program->input, shape), out = rows(program->output, shape);
  int32_t code = RUEDA_OK;
  for (int turn = 0; code == RUEDA_OK && turn < 2; ++turn) {
    const int sends = (program->rank + turn) % 2 == 0;
    code = sends ? rueda_send(program->session, &in, to, options) : rueda_recv(program->session, &out, from, options);
  }
  if (code == RUEDA_OK) expect(program, "message", 0, count, given(program, from));
  return code;
}

/* An all-reduce of all ranks but one. */
static int32_t reduce_in_set(Program* program, int64_t count, rueda_op_options options) {
  if (program->size == 1 || program->rank == program->outside) return RUEDA_OK;
  if (program->set == RUEDA_GLOBAL_SET) {
    int32_t members[kMostRanks];
    size_t number = 0;
    for (int32_t rank = 0; rank < program->size && number < kMostRanks; ++rank) {
      if (rank != program->outside) members[number++] = rank;
    }
    const int32_t made = rueda_process_set_add(program->session, number, members, "inside", &program->set);
    if (made != RUEDA_OK) return made;
  }
  options.process_set = program->set;
  const int64_t shape[] = {1, count};
  const rueda_tensor in = rows(program->input, shape), out = rows(program->output, shape);
  const int32_t code = rueda_allreduce(program->session, &in, &out, RUEDA_SUM, &options);
  const float sum = sum_of_all(program) - given(program, program->outside);
  if (code == RUEDA_OK) expect(program, "all-reduce in a set", 0, count, sum);
  return code;
}

/* One rank joins while the others still have a sum. */
static int32_t join(Program* program, int64_t count, const rueda_op_options* options) {
  const int32_t early = (int32_t)draw(program, program->size);
  if (program->rank != early) {
    const int64_t shape[] = {1, count};
    const rueda_tensor in = rows(program->input, shape), out = rows(program->output, shape);
    const int32_t code = rueda_allreduce(program->session, &in, &out, RUEDA_SUM, options);
    if (code != RUEDA_OK) return code;
    expect(program, "all-reduce beside a join", 0, count, sum_of_all(program) - given(program, early));
  }
  return rueda_join(program->session, options, NULL);
}

/* A fourth of the lengths is large. There are a hundred of them in all: ranks agree on a number for each that they have
 * not met before and keep it, up to a limit, so that ever new ones would look like a leak for hours. */
static int64_t draw_width(Program* program) {
  return draw(program, 4) == 0 ? 1 + draw(program, 32) * (kMost / 32 - 1) : 1 + draw(program, 73) * 7;
}

static int32_t run_operation(Program* program) {
  const int64_t width = draw_width(program);
  const rueda_op_options options = {.struct_size = sizeof options};
  /* Of the kinds below a few lengths, for the same reason. */
  const int64_t some = 1 + width % 8 * 1009;
  const int64_t most_rows = program->size > kMostRows ? program->size : kMostRows;
  fill(program, (width > some ? width : some) * most_rows + 1);
  switch (draw(program, 20)) {
    case 0: return all_gather(program, width, &options);
    case 1: return broadcast(program, width, &options);
    case 2: return reduce_scatter(program, width, &options);
    case 3: return all_to_all(program, width, &options);
    case 4: return rueda_barrier(program->session, &options);
    case 5: return grouped_all_reduce(program, some, &options);
    case 6: return reduce(program, some, &options);
    case 7: return gather(program, some, &options);
    case 8: return scatter(program, some, &options);
    case 9: return message(program, some, &options);
    case 10: return reduce_in_set(program, some, options);
    case 11: return join(program, some, &options);
    default: return all_reduce(program, width, &options);
  }
}

int32_t run_step(Program* program) {
  const int32_t code = run_operation(program);
  ++program->step;
  return code;
}

/* Shared memory, which a rank that may open few files does not get. */
static float* shared_floats(Program* program, size_t count) {
  rueda_memory memory = {.struct_size = sizeof memory};
  const int32_t code = rueda_memory_allocate(program->session, count * sizeof(float), &memory);
  return code == RUEDA_OK ? memory.data : NULL;
}

static void free_tensors(Program* program) {
  if (program->shares) {
    rueda_memory_free(program->input);
    rueda_memory_free(program->output);
  } else {
    free(program->input);
    free(program->output);
  }
  program->input = program->output = NULL;
}

int open_program(Program* program, rueda_session* session, uint64_t seed) {
  *program = (Program){.session = session, .rank = rueda_rank(session), .size = rueda_size(session), .chance = seed};
  program->set = RUEDA_GLOBAL_SET;
  program->outside = (int32_t)draw(program, program->size);
  const size_t most = (size_t)kMost * (size_t)(program->size > kMostRows ? program->size : kMostRows);
  program->shares = seed % 2 == 1;
  if (program->shares) {
    program->input = shared_floats(program, most);
    program->output = shared_floats(program, most * kMostRows);
    if (program->input != NULL && program->output != NULL) return 1;
    free_tensors(program);
    program->shares = 0;
  }
  program->input = calloc(most, sizeof(float));
  program->output = calloc(most * kMostRows, sizeof(float));
  if (program->input != NULL && program->output != NULL) return 1;
  close_program(program);
  return 0;
}

void close_program(Program* program) { free_tensors(program); }
