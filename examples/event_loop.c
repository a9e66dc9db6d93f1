/* Uses Rueda from a program's own event loop. The loop starts operations and gets their completions through a
 * descriptor, next to whatever else it waits for (here a timer). No thread of the program ever blocks in the library.
 *   hvdrun -np 2 event_loop */
#include <poll.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "rueda.h"

enum { kTensors = 8, kRounds = 50, kCount = 1000 };

struct work {
  int64_t name; /* from rueda_intern, so that no call has to look up the text */
  int rounds;   /* finished */
  float values[kCount];
};

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  return 1;
}

/* Starts a sum in which every rank gives its number plus one. The completion returns `work` as its context. */
static int start(rueda_session* session, struct work* work) {
  const int64_t shape[] = {kCount};
  rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = work->values, .dtype = RUEDA_F32, .dimensions = 1, .shape = shape};
  rueda_op_options options = {.struct_size = sizeof options, .name_id = work->name, .drain = 1, .drain_context = work};
  rueda_handle handle;
  const float mine = (float)(rueda_rank(session) + 1);
  for (int i = 0; i < kCount; ++i) work->values[i] = mine;
  return rueda_allreduce_async(session, &tensor, &tensor, RUEDA_SUM, &options, &handle);
}

/* Takes up to four completions, checks each and starts its next round. Returns how many tensors have finished all their
 * rounds, or -1 on an error. poll() reports the descriptor again while more completions wait. */
static int take_completions(rueda_session* session) {
  rueda_completion done[4];
  size_t count = 0;
  int through = 0;
  const float sum = (float)(rueda_size(session) * (rueda_size(session) + 1) / 2);
  if (rueda_drain(session, done, sizeof done / sizeof done[0], &count) != RUEDA_OK) return -1;
  for (size_t i = 0; i < count; ++i) {
    struct work* work = done[i].context;
    if (done[i].code != RUEDA_OK || work->values[kCount - 1] != sum) {
      fprintf(stderr, "a sum is wrong: %s\n", rueda_handle_error(done[i].handle));
      return -1;
    }
    rueda_release(done[i].handle);
    if (++work->rounds == kRounds) {
      ++through;
    } else if (start(session, work) != RUEDA_OK) {
      return -1;
    }
  }
  return through;
}

int main(void) {
  static struct work all[kTensors];
  rueda_session* session = NULL;
  int through = 0;
  int32_t completions = -1;
  unsigned long ticks = 0;
  if (rueda_init(NULL, &session) != RUEDA_OK) return fail("no job");
  if (rueda_completion_fd(session, &completions) != RUEDA_OK) return fail("completion_fd");

  const struct itimerspec every = {{0, 1000000}, {0, 1000000}}; /* every millisecond */
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer < 0 || timerfd_settime(timer, 0, &every, NULL) != 0) return fail("timer");

  for (int i = 0; i < kTensors; ++i) {
    char name[32];
    snprintf(name, sizeof name, "layer %d", i);
    if (rueda_intern(session, name, &all[i].name) != RUEDA_OK) return fail("intern");
    if (start(session, &all[i]) != RUEDA_OK) return fail("allreduce");
  }
  while (through < kTensors) {
    struct pollfd sources[] = {{completions, POLLIN, 0}, {timer, POLLIN, 0}};
    uint64_t expired = 0;
    if (poll(sources, 2, -1) < 0) continue; /* a signal interrupted it */
    if (sources[1].revents && read(timer, &expired, sizeof expired) == sizeof expired) ticks += expired;
    if (sources[0].revents) {
      const int more = take_completions(session);
      if (more < 0) return fail("completions");
      through += more;
    }
  }
  printf("rank %d of %d: %d sums finished in the loop, beside %lu ticks of its timer\n", rueda_rank(session),
         rueda_size(session), kTensors * kRounds, ticks);
  close(timer);
  return rueda_shutdown(session) == RUEDA_OK ? 0 : fail("shutdown");
}
