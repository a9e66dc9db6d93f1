/* A rank for scripts/chaos: a random program of operations, the same on all ranks, until one of them fails. It checks
 * every number of those that succeed. Usage: chaos_rank [SEED]
 *
 *   pid N                       once the job runs
 *   wrong WHAT                  a result is wrong
 *   failed NANOSECONDS SENTENCE of CLOCK_MONOTONIC, right after the call returned
 *   done NANOSECONDS            the job has ended well
 *
 * SIGUSR1 to any rank has all of them end well. SIGUSR2 has one exit with code 3, SIGRTMIN with 0 at once, and
 * SIGRTMIN + 1 with 0 as a program does that thinks it is done: the library then says goodbye to the others. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/checked_program.h"

enum { kStepsBefore = 8, kStepsBetweenVotes = 16, kCodeOfLeaver = 3 };

/* The signal that came last. */
static volatile sig_atomic_t asked = 0;

static void ask(int number) { asked = number; }

static void listen_to(int number) {
  struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
  sigaction(number, &action, NULL);
}

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Sets *end if any rank was asked to end: all of them learn it at the same step. */
static int32_t vote(const Program* program, int* end) {
  float mine = asked == SIGUSR1 ? 1.0F : 0.0F;
  const int64_t shape[] = {1};
  const rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = &mine, .dtype = RUEDA_F32, .dimensions = 1, .shape = shape};
  const rueda_op_options options = {.struct_size = sizeof options, .name = "vote"};
  const int32_t code = rueda_allreduce(program->session, &tensor, &tensor, RUEDA_SUM, &options);
  *end = code == RUEDA_OK && mine > 0;
  return code;
}

/* Runs operations until the ranks are to end, and returns RUEDA_OK then; or until one fails. */
static int32_t run(Program* program) {
  for (int end = 0; end == 0;) {
    int32_t code = run_step(program);
    if (code == RUEDA_OK && program->step % kStepsBetweenVotes == 0) code = vote(program, &end);
    if (code != RUEDA_OK) return code;
    if (asked == SIGUSR2) exit(kCodeOfLeaver);
    if (asked == SIGRTMIN) _exit(0);
    if (asked == SIGRTMIN + 1) exit(0);
    if (program->step != kStepsBefore) continue;
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
  }
  return RUEDA_OK;
}

int main(int count, char** words) {
  listen_to(SIGUSR1);
  listen_to(SIGUSR2);
  listen_to(SIGRTMIN);
  listen_to(SIGRTMIN + 1);
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) {
    printf("failed %lld %s\n", now(), rueda_last_error());
    return 1;
  }
  Program program;
  if (!open_program(&program, session, count > 1 ? strtoull(words[1], NULL, 10) : 1)) return 1;
  const int32_t code = run(&program);
  if (code != RUEDA_OK) printf("failed %lld %s\n", now(), rueda_last_error());
  fflush(stdout);
  close_program(&program);
  const int32_t last = rueda_shutdown(session);
  if (code != RUEDA_OK) return 1;
  printf(last == RUEDA_OK ? "done %lld\n" : "failed %lld by the shutdown\n", now());
  return last == RUEDA_OK ? 0 : 1;
}
