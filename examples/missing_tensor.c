/* A program that hangs, to try the diagnosis: the last rank leaves out "layer2", for which the others wait.
 *   hvdrun -np 3 --stall-check-warning-time-seconds 2 --stall-check-shutdown-time-seconds 20 missing_tensor
 * While it hangs, ask in another terminal: hvdrun --dump PID, with hvdrun's pid. docs/guide/diagnosis.md shows both.
 */
#include <stdio.h>

#include "rueda.h"

static const char* position = "before the first step";

/* Rueda calls this when it reports a stall, so that the report shows what the program was doing. */
static void say_where(void* context, char* text, size_t capacity) {
  (void)context;
  snprintf(text, capacity, "missing_tensor.c, %s", position);
}

static int reduce(rueda_session* session, const char* name) {
  static float gradients[1000];
  const int64_t shape[] = {1000};
  rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = gradients, .dtype = RUEDA_F32, .dimensions = 1, .shape = shape};
  rueda_op_options options = {.struct_size = sizeof options, .name = name};
  position = name;
  if (rueda_allreduce(session, &tensor, &tensor, RUEDA_AVERAGE, &options) == RUEDA_OK) return 0;
  fprintf(stderr, "rank %d: %s: %s\n", rueda_rank(session), name, rueda_last_error());
  return 1;
}

int main(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) {
    fprintf(stderr, "no job: %s\n", rueda_last_error());
    return 1;
  }
  rueda_set_activity_callback(session, say_where, NULL);
  const int last = rueda_rank(session) == rueda_size(session) - 1;
  int failed = reduce(session, "layer0") || reduce(session, "layer1");
  printf("rank %d: two layers are reduced\n", rueda_rank(session));
  fflush(stdout);
  if (!failed && !last) failed = reduce(session, "layer2");
  if (!failed) failed = reduce(session, "layer3");
  rueda_shutdown(session);
  return failed;
}
