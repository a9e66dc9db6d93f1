/* A program that uses MPI itself, and Rueda beside it: mpi_application MODE
 *
 *   multiple   initialises MPI for threads, talks over it while Rueda does, and finalises it after rueda_shutdown
 *   finalize   the same, but finalises MPI with the session still open
 *   funneled   asks MPI for too little: rueda_init refuses
 *   comm       gives rueda_init the odd or the even ranks, as a communicator
 *   ranks      gives it the list of the ranks below the last one, which does not take part
 *   wrong      gives it lists that are wrong
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "rueda.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  return 1;
}

static int initialise(int wanted) {
  int provided = 0;
  return MPI_Init_thread(NULL, NULL, wanted, &provided) == MPI_SUCCESS && provided >= wanted;
}

/* Rueda's sum over the job and MPI's over the world, in turn. */
static int both(rueda_session* session, float expected) {
  for (int i = 0; i < 20; ++i) {
    float value = (float)(rueda_rank(session) + i);
    const int64_t shape[] = {1};
    rueda_tensor tensor = {
        .struct_size = sizeof tensor, .data = &value, .dtype = RUEDA_F32, .dimensions = 1, .shape = shape};
    rueda_op_options options = {.struct_size = sizeof options, .name = "both"};
    rueda_handle handle = 0;
    if (rueda_allreduce_async(session, &tensor, &tensor, RUEDA_SUM, &options, &handle) != RUEDA_OK) return fail("both");
    int mine = 1, all = 0, size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rueda_wait(handle, -1) != RUEDA_OK) return fail("wait");
    rueda_release(handle);
    if (all != size || value != expected + (float)(rueda_size(session) * i)) {
      fprintf(stderr, "MPI's sum is %d of %d, Rueda's %g\n", all, size, value);
      return 1;
    }
  }
  return 0;
}

static float sum_of_ranks(const rueda_session* session) {
  return (float)(rueda_size(session) * (rueda_size(session) - 1) / 2);
}

static int run(const rueda_init_options* options, int shut_down) {
  rueda_session* session = NULL;
  if (rueda_init(options, &session) != RUEDA_OK) return fail("init");
  if (both(session, sum_of_ranks(session)) != 0) return 1;
  printf("rank %d of %d: both are right\n", rueda_rank(session), rueda_size(session));
  fflush(stdout);
  if (shut_down && rueda_shutdown(session) != RUEDA_OK) return fail("shutdown");
  MPI_Finalize();
  return 0;
}

static int refused(const rueda_init_options* options) {
  rueda_session* session = NULL;
  const int32_t code = rueda_init(options, &session);
  printf("%d: %s\n", code, rueda_last_error());
  return code == RUEDA_OK;
}

static int part(void) {
  int rank = 0;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  rueda_init_options options = {.struct_size = sizeof options, .mpi_comm = &half};
  return run(&options, 1);
}

static int below_last(void) {
  int32_t ranks[64];
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < size - 1; ++i) ranks[i] = size - 2 - i;
  rueda_init_options options = {.struct_size = sizeof options, .ranks = ranks, .rank_count = (size_t)size - 1};
  if (rank < size - 1) return run(&options, 1);
  int failed = refused(&options);
  for (int i = 0; i < 20; ++i) {
    int mine = 1, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    failed |= all != size;
  }
  MPI_Finalize();
  return failed;
}

static int wrong(void) {
  const int32_t outside[] = {0, 99}, twice[] = {0, 0};
  const MPI_Comm null = MPI_COMM_NULL;
  int failed = 0;
  rueda_init_options options = {.struct_size = sizeof options, .ranks = outside, .rank_count = 2};
  failed |= refused(&options);
  options.ranks = twice;
  failed |= refused(&options);
  options = (rueda_init_options){.struct_size = sizeof options, .mpi_comm = &null};
  failed |= refused(&options);
  options = (rueda_init_options){.struct_size = sizeof options, .mpi_comm = &null, .has_rank = 1, .size = 1};
  failed |= refused(&options);
  MPI_Finalize();
  return failed;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "multiple";
  const int funneled = strcmp(mode, "funneled") == 0;
  if (!initialise(funneled ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE)) return 3;
  if (funneled) {
    const int failed = refused(NULL);
    MPI_Finalize();
    return failed;
  }
  if (strcmp(mode, "comm") == 0) return part();
  if (strcmp(mode, "ranks") == 0) return below_last();
  if (strcmp(mode, "wrong") == 0) return wrong();
  return run(NULL, strcmp(mode, "finalize") != 0);
}
