/* A rank for scripts/chaos: a random program of operations, the same on all ranks, until one of them fails. It checks
 * every number of those that succeed. Usage: chaos_rank [SEED]
 *
 *   pid N                       once the job runs
 *   wrong WHAT                  a result is wrong
 *   failed NANOSECONDS SENTENCE of CLOCK_MONOTONIC, right after the call returned */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/checked_program.h"

enum { kStepsBefore = 8 };

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

int main(int count, char** words) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) {
    printf("failed %lld %s\n", now(), rueda_last_error());
    return 1;
  }
  Program program;
  if (!open_program(&program, session, count > 1 ? strtoull(words[1], NULL, 10) : 1)) return 1;
  while (run_step(&program) == RUEDA_OK) {
    if (program.step != kStepsBefore) continue;
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
  }
  printf("failed %lld %s\n", now(), rueda_last_error());
  fflush(stdout);
  close_program(&program);
  rueda_shutdown(session);
  return 1;
}
