/* A training loop that goes on when workers die, leave or come, for a framework that has no binding of Rueda's.
 *   hvdrun -np 4 --min-np 2 elastic        trains
 *   hvdrun -np 4 --min-np 2 elastic 1 10   worker 1 dies before step 10, and the others go on
 *
 * Each worker keeps a copy of its training, the commit. One round is: make all trainings equal, then train. A round
 * that breaks leads back to the commit and to the next plan of the job, in the same process. docs/guide/c-api.md has
 * more. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rueda.h"

enum { kWeights = 3, kSteps = 40, kNone = -1 };
/* What `commits` is before the first one: in a worker with which the job began, and in one that came later. */
enum { kFresh = -1, kCameLate = -2 };
/* Beside the codes of rueda.h: no worker is left that has the training. */
enum { kTrainingLost = 1000 };

/* Everything that the loop must find again. It has no pointers, so it can be copied and sent as bytes. */
struct training {
  int64_t commits; /* kFresh or kCameLate in a worker that has never had the others' training */
  int64_t step;
  double weights[kWeights];
  double momentum[kWeights];
  int32_t sizes[kSteps]; /* how many ranks took each step: what a replay has to know */
};

struct victim {
  long worker, step;
};

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  return 1;
}

static rueda_tensor tensor_of(void* data, int32_t dtype, const int64_t* count) {
  return (rueda_tensor){
      .struct_size = sizeof(rueda_tensor), .data = data, .dtype = dtype, .dimensions = 1, .shape = count};
}

static int32_t reduce(rueda_session* session, void* data, int32_t dtype, int64_t count, int32_t op, const char* name) {
  const rueda_tensor tensor = tensor_of(data, dtype, &count);
  const rueda_op_options options = {.struct_size = sizeof options, .name = name};
  return rueda_allreduce(session, &tensor, &tensor, op, &options);
}

/* Finds the rank with the most commits, the lowest of several. A rank may have one more than another: a death has kept
 * the other from its own. `*equal` says whether all have the same number, and nobody is new. If all ranks came late,
 * the last worker that had the training has died before it gave it away. hvdrun cannot see that, so all ranks return
 * kTrainingLost. */
static int32_t find_root(rueda_session* session, int64_t commits, int32_t* root, int* equal) {
  int64_t most_and_least[2] = {commits, -commits};
  const int32_t code = reduce(session, most_and_least, RUEDA_I64, 2, RUEDA_MAX, "commits");
  if (code != RUEDA_OK) return code;
  if (most_and_least[0] == kCameLate) return kTrainingLost;
  *equal = most_and_least[0] == -most_and_least[1] && commits >= 0;
  *root = commits == most_and_least[0] ? rueda_rank(session) : rueda_size(session);
  return reduce(session, root, RUEDA_I32, 1, RUEDA_MIN, "root");
}

/* Gives all ranks the training of the root, and commits it. If all have it already, nothing is sent. */
static int32_t make_equal(rueda_session* session, struct training* now, struct training* commit) {
  const int64_t bytes = sizeof *now;
  int32_t root = 0;
  int equal = 0;
  int32_t code = find_root(session, commit->commits, &root, &equal);
  if (code != RUEDA_OK || equal) return code;
  const rueda_tensor tensor = tensor_of(now, RUEDA_U8, &bytes);
  const rueda_op_options options = {.struct_size = sizeof options, .name = "training"};
  code = rueda_broadcast(session, &tensor, &tensor, root, &options);
  if (code != RUEDA_OK) return code; /* the commit is whole, whatever has arrived in `now` */
  if (now->commits < 0) now->commits = 0;
  *commit = *now;
  return RUEDA_OK;
}

/* The gradient is a whole number that follows from the step and the rank, so that sums are exact in every order. */
static int32_t take_step(rueda_session* session, struct training* now) {
  double gradient[kWeights];
  for (int i = 0; i < kWeights; ++i) gradient[i] = (double)((now->step * (i + 2) + rueda_rank(session)) % 5);
  const int32_t code = reduce(session, gradient, RUEDA_F64, kWeights, RUEDA_SUM, "gradient");
  if (code != RUEDA_OK) return code;
  for (int i = 0; i < kWeights; ++i) {
    now->momentum[i] = 0.5 * now->momentum[i] + gradient[i];
    now->weights[i] -= 0.25 * now->momentum[i];
  }
  now->sizes[now->step++] = rueda_size(session);
  return RUEDA_OK;
}

/* Sets `*changes` to what a coming plan changes, the same on all ranks: hvdrun's notices do not reach them at the same
 * moment, and all have to leave this plan behind the same step. */
static int32_t ask_for_changes(rueda_session* session, int32_t* changes) {
  rueda_membership_info info = {.struct_size = sizeof info};
  const int32_t code = rueda_membership(session, &info);
  *changes = info.pending;
  return code != RUEDA_OK ? code : reduce(session, changes, RUEDA_I32, 1, RUEDA_BOR, "changes");
}

/* Trains until all steps are done, workers are to come or go, or an operation fails. */
static int32_t train(rueda_session* session, struct training* now, struct training* commit, struct victim victim) {
  int32_t code = RUEDA_OK, changes = 0;
  while (code == RUEDA_OK && changes == 0 && now->step < kSteps) {
    if (victim.worker == rueda_worker_id(session) && victim.step == now->step) raise(SIGKILL);
    code = take_step(session, now);
    if (code != RUEDA_OK) return code;
    ++now->commits;
    *commit = *now;
    code = ask_for_changes(session, &changes);
  }
  return code;
}

/* Joins the others if they train already. Until then they train on, so a worker builds what it needs before this. */
static int32_t take_part(rueda_session* session, struct training* now) {
  rueda_membership_info info = {.struct_size = sizeof info};
  const int32_t code = rueda_membership(session, &info);
  if (code != RUEDA_OK) return code;
  if (info.waits || (info.plan > 1 && !info.holds_state)) now->commits = kCameLate;
  return info.waits ? rueda_reset(session, NULL) : RUEDA_OK;
}

/* Returns whether the next plan would bring the same error again. */
static int is_lasting(int32_t code) { return code == RUEDA_MISMATCH || code == RUEDA_INVALID_ARGUMENT; }

static void report(rueda_session* session, const struct training* done) {
  const int64_t id = rueda_worker_id(session); /* -1 in a job that is not elastic */
  printf("worker %lld is rank %d of %d after %lld steps; weights", (long long)(id < 0 ? rueda_rank(session) : id),
         rueda_rank(session), rueda_size(session), (long long)done->step);
  for (int i = 0; i < kWeights; ++i) printf(" %.17g", done->weights[i]);
  printf("; ranks in each step");
  for (int i = 0; i < kSteps; ++i) printf(" %d", done->sizes[i]);
  printf("\n");
}

int main(int argc, char** argv) {
  struct training now = {.commits = kFresh};
  const struct victim victim = {argc > 2 ? atol(argv[1]) : kNone, argc > 2 ? atol(argv[2]) : kNone};
  const rueda_init_options options = {.struct_size = sizeof options, .wait_outside = 1};
  rueda_session* session = NULL;
  int32_t code = rueda_init(&options, &session);
  if (code == RUEDA_OK) code = take_part(session, &now);
  struct training commit = now;
  while (code == RUEDA_OK) {
    code = make_equal(session, &now, &commit);
    if (code == RUEDA_OK) code = train(session, &now, &commit, victim);
    if (code == RUEDA_OK && now.step == kSteps) break;
    if (code == kTrainingLost) {
      fprintf(stderr,
              "no worker is left that has the training: the last one died before it could give it to the new "
              "workers; start the job again\n");
      return 1;
    }
    if (is_lasting(code)) return fail("training");
    if (code != RUEDA_OK) fprintf(stderr, "going back to step %lld: %s\n", (long long)commit.step, rueda_last_error());
    now = commit; /* what an operation that has failed has left in `now` is not known */
    code = rueda_reset(session, NULL);
  }
  if (code != RUEDA_OK && code != RUEDA_REMOVED) return fail(session == NULL ? "no job" : "reset");
  if (code == RUEDA_OK) report(session, &now);
  return rueda_shutdown(session) == RUEDA_OK ? 0 : fail("shutdown");
}
