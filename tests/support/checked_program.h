#pragma once
#include <stdint.h>

#include "bindings/c/rueda.h"

/* A random program of operations, the same on all ranks, that checks every number: all kinds of operations, groups of
 * tensors, a process set that one rank is not in, a rank that joins early, and messages around the ring of ranks. With
 * an odd seed the tensors lie in shared memory, if there is any. */
typedef struct Program {
  rueda_session* session;
  int32_t rank, size;
  int step;             /* of the operation that comes next */
  int wrong;            /* results that were not what they must be; each is printed as `wrong WHAT` */
  uint64_t chance;      /* drawn by all ranks alike */
  int32_t set, outside; /* a process set of all ranks but one; RUEDA_GLOBAL_SET until it is made, and the rank */
  int shares;           /* whether the tensors lie in memory of rueda_memory_allocate */
  float *input, *output;
} Program;

/* Begins with the chances of `seed`. The session is borrowed. Returns 0 if there is no memory for the tensors. */
int open_program(Program* program, rueda_session* session, uint64_t seed);
/* Runs the next operation and returns its code. */
int32_t run_step(Program* program);
void close_program(Program* program);
