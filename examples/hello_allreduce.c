/* Every rank gives its number, every rank gets the sum.
 *   hvdrun -np 2 hello_allreduce */
#include <stdio.h>

#include "rueda.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  return 1;
}

int main(void) {
  rueda_session* session = NULL;
  if (rueda_init(NULL, &session) != RUEDA_OK) return fail("no job");

  float value = (float)rueda_rank(session);
  const int64_t shape[] = {1};
  rueda_tensor tensor = {
      .struct_size = sizeof tensor, .data = &value, .dtype = RUEDA_F32, .dimensions = 1, .shape = shape};
  rueda_op_options options = {.struct_size = sizeof options, .name = "hello"};
  if (rueda_allreduce(session, &tensor, &tensor, RUEDA_SUM, &options) != RUEDA_OK) return fail("allreduce");

  printf("rank %d of %d: the ranks add up to %g\n", rueda_rank(session), rueda_size(session), (double)value);
  return rueda_shutdown(session) == RUEDA_OK ? 0 : fail("shutdown");
}
