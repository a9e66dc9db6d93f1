/* A rank for scripts/soak: it repeats one thing, and measures itself on the way.
 *
 *   soak_rank sessions COUNT           begins and ends a session, with an all-reduce between
 *   soak_rank failures COUNT           submits operations that fail, each in one of several ways
 *   soak_rank programs SECONDS [SEED]  runs random programs of operations, and checks every number
 *
 * It prints lines of these forms:
 *
 *   soak {"done": N, "descriptors": N, "threads": N, "pss": KIB, "allocated": KIB}   some fifty times
 *   wrong WHAT                                                                       a result, or a code, is wrong
 *
 * "allocated" is there under a sanitizer alone, whose own tables count in "pss". */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/checked_program.h"

enum { kReports = 50, kStepsTogether = 100 };

static int wrong = 0;

static void complain(const char* what, ...) {
  va_list rest;
  va_start(rest, what);
  printf("wrong ");
  vprintf(what, rest);
  va_end(rest);
  printf("\n");
  fflush(stdout);
  ++wrong;
}

static int entries_of(const char* folder) {
  DIR* const entries = opendir(folder);
  int count = 0;
  if (entries == NULL) return -1;
  for (const struct dirent* entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(entries);
  return count;
}

static long pss_kib(void) {
  long kib = -1;
  char line[256];
  FILE* const file = fopen("/proc/self/smaps_rollup", "r");
  if (file == NULL) return kib;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "Pss:", 4) == 0) kib = strtol(line + 4, NULL, 10);
  }
  fclose(file);
  return kib;
}

/* What the program has from malloc and new, as ASan and TSan count it; absent in other builds. */
/* NOLINTNEXTLINE(clang-diagnostic-reserved-identifier) */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static void report(long done) {
  const int descriptors = entries_of("/proc/self/fd") - 1; /* without the one that reads the folder */
  printf("soak {\"done\": %ld, \"descriptors\": %d, \"threads\": %d, \"pss\": %ld", done, descriptors,
         entries_of("/proc/self/task"), pss_kib());
  if (__sanitizer_get_current_allocated_bytes != NULL) {
    printf(", \"allocated\": %zu", __sanitizer_get_current_allocated_bytes() / 1024);
  }
  printf("}\n");
  fflush(stdout);
}

/* Whether a report is due after `done` of `count`. */
static int reports_at(long done, long count) { return done * kReports / count != (done - 1) * kReports / count; }

static rueda_tensor row_of(float* data, const int64_t* shape) {
  const rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = data, .dtype = RUEDA_F32, .dimensions = 1, .shape = shape};
  return tensor;
}

static int32_t sum(rueda_session* session, float* data, int64_t count, int32_t dtype, const char* name) {
  const rueda_op_options options = {.struct_size = sizeof options, .name = name};
  rueda_tensor tensor = row_of(data, &count);
  tensor.dtype = dtype;
  return rueda_allreduce(session, &tensor, &tensor, RUEDA_SUM, &options);
}

static void expect_sum(rueda_session* session) {
  float value = (float)rueda_rank(session);
  const int32_t size = rueda_size(session);
  const float wanted = (float)(size * (size - 1)) / 2;
  const int32_t code = sum(session, &value, 1, RUEDA_F32, "good");
  if (code != RUEDA_OK) complain("a sum ended with %d: %s", code, rueda_last_error());
  if (code == RUEDA_OK && value != wanted) complain("a sum is %g, not %g", (double)value, (double)wanted);
}

static rueda_session* begin_session(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) complain("no session: %s", rueda_last_error());
  return session;
}

static void run_sessions(long count) {
  for (long done = 1; done <= count && wrong == 0; ++done) {
    rueda_session* const session = begin_session();
    if (session == NULL) return;
    expect_sum(session);
    if (rueda_shutdown(session) != RUEDA_OK) complain("a shutdown failed: %s", rueda_last_error());
    /* After the last one ranks end, and the others' shares of common pages grow. */
    if (done < count && reports_at(done, count)) report(done);
  }
}

/* One way to fail, which all ranks take together. */
static int32_t fail(rueda_session* session, int way, float* data, int64_t root_off) {
  const int32_t rank = rueda_rank(session);
  const rueda_op_options options = {.struct_size = sizeof options, .name = "root"};
  const int64_t two = 2;
  const rueda_tensor tensor = row_of(data, &two);
  switch (way) {
    case 0: return sum(session, data, 1 + rank, RUEDA_F32, "shape");
    case 1: return sum(session, data, 2, rank == 0 ? RUEDA_F32 : RUEDA_I32, "type");
    case 2: return rueda_broadcast(session, &tensor, &tensor, rank == 0 ? 0 : 1, &options);
    case 3: return sum(session, data, 2, 12345, "no type");
    default: return rueda_broadcast(session, &tensor, &tensor, (int32_t)root_off, &options);
  }
}

static void run_failures(long count) {
  enum { kWays = 5, kMismatches = 3 };
  rueda_session* const session = begin_session();
  if (session == NULL) return;
  const int32_t size = rueda_size(session);
  float* const data = calloc((size_t)size + 2, sizeof *data);
  if (size < 2) complain("%d rank cannot disagree; failures need 2", size);
  for (long done = 1; data != NULL && done <= count && wrong == 0; ++done) {
    const int way = (int)(done % kWays);
    const int32_t code = fail(session, way, data, size);
    const int32_t wanted = way < kMismatches ? RUEDA_MISMATCH : RUEDA_INVALID_ARGUMENT;
    if (code != wanted) complain("way %d to fail ended with %d, not %d: %s", way, code, wanted, rueda_last_error());
    if (done % 100 == 0) expect_sum(session);
    if (reports_at(done, count)) report(done);
  }
  if (rueda_shutdown(session) != RUEDA_OK) complain("the shutdown failed: %s", rueda_last_error());
  free(data);
}

static double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Whole programs until rank 0 says that the time is over. */
static void run_programs(double seconds, uint64_t seed) {
  rueda_session* const session = begin_session();
  if (session == NULL) return;
  const double begin = seconds_now();
  const double part = seconds / (double)kReports;
  double next = part;
  Program program;
  if (!open_program(&program, session, seed)) complain("there is no memory for the tensors");
  for (float over = 0; over == 0 && wrong == 0;) {
    int32_t code = RUEDA_OK;
    for (int i = 0; code == RUEDA_OK && i < kStepsTogether; ++i) code = run_step(&program);
    const double spent = seconds_now() - begin;
    over = program.rank == 0 && spent > seconds ? 1 : 0;
    if (code == RUEDA_OK) code = sum(session, &over, 1, RUEDA_F32, "over");
    if (code != RUEDA_OK) complain("step %d ended with %d: %s", program.step, code, rueda_last_error());
    wrong += program.wrong;
    if (spent < next && over == 0) continue;
    next += part;
    report(program.step);
  }
  if (rueda_shutdown(session) != RUEDA_OK) complain("the shutdown failed: %s", rueda_last_error());
  close_program(&program);
}

int main(int count, char** words) {
  const char* const what = count > 2 ? words[1] : "";
  const long much = count > 2 ? strtol(words[2], NULL, 10) : 0;
  if (much > 0 && strcmp(what, "sessions") == 0) {
    run_sessions(much);
  } else if (much > 0 && strcmp(what, "failures") == 0) {
    run_failures(much);
  } else if (much > 0 && strcmp(what, "programs") == 0) {
    run_programs((double)much, count > 3 ? strtoull(words[3], NULL, 10) : 1);
  } else {
    fprintf(stderr, "usage: soak_rank sessions|failures COUNT | programs SECONDS [SEED]\n");
    return 2;
  }
  return wrong == 0 ? 0 : 1;
}
