// Two ranks of a job that fails although no rank dies: rank 1 never gets memory for an output, and rank 0 abandons the
// operation that waits for it. Then both shut down and exit with 0. The argument is a FIFO between them.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "rueda.h"

namespace {

const char* fifo = nullptr;

// Waits until the other rank opens the FIFO too.
void meet_writing() { close(open(fifo, O_WRONLY)); }
void meet_reading() { close(open(fifo, O_RDONLY)); }

// Rank 1's operation is in a batch by now; it stays there until rank 0 has given up.
void* give_nothing(void*, size_t, int32_t, int32_t, void*) {
  meet_writing();
  meet_reading();
  return nullptr;
}

int fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  return 9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 8;
  fifo = argv[1];
  rueda_session* session = nullptr;
  if (rueda_init(nullptr, &session) != RUEDA_OK) return fail("init");
  const bool giver = rueda_rank(session) == 0;
  std::vector<float> input(1 << 20), output(1 << 20);
  const int64_t shape[] = {1 << 20};
  rueda_tensor in{}, out{};
  in.struct_size = sizeof in;
  in.data = input.data();
  in.dtype = RUEDA_F32;
  in.dimensions = 1;
  in.shape = shape;
  out = in;
  out.data = giver ? output.data() : nullptr;
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.name = "left";
  options.allocate = give_nothing;
  rueda_handle handle = 0;
  if (rueda_allreduce_async(session, &in, &out, RUEDA_SUM, &options, &handle) != RUEDA_OK) return fail("enqueue");
  if (giver) {
    meet_reading();
    if (rueda_abandon(handle, 0.5) != RUEDA_PEER_LOST) return fail("abandon");
    meet_writing();
  }
  if (rueda_wait(handle, -1) == RUEDA_OK) return 7;
  rueda_release(handle);
  if (rueda_shutdown(session) != RUEDA_OK) return fail("shutdown");
  return 0;
}
