/* Builds the structs of rueda.h from what Python passes, on the stack, and calls the library with them.
 *
 * Each function here has the same three steps: tensors, options, one call. There are a few functions for many
 * operations because cffi's conversion of the arguments is most of what an enqueue from Python costs. The requests at
 * the end go further: they keep the structs between steps, so that an optimizer's hooks enqueue many gradients by one
 * call with three numbers each. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

/* A live handle, or the error code below zero. */
static int64_t handle_or_code(int32_t code, rueda_handle handle) { return code == RUEDA_OK ? handle : -(int64_t)code; }

static const rueda_py_place on_host = {.device = RUEDA_DEVICE_CPU};

static const rueda_py_place* place_of(const rueda_py_options* options) {
  return options->place == NULL ? &on_host : options->place;
}

/* The tensor of the library at an address. The extents end at RUEDA_PY_ORDER, behind which the order begins. */
static rueda_tensor tensor_at(uintptr_t address, rueda_py_tensor given, const int64_t* shape,
                              const rueda_py_options* options) {
  const rueda_py_place* place = place_of(options);
  int32_t dimensions = 0;
  while (shape != NULL && dimensions < given.dimensions && shape[dimensions] != RUEDA_PY_ORDER) ++dimensions;
  const int has_order = shape != NULL && dimensions < given.dimensions;
  const rueda_tensor tensor = {.struct_size = sizeof tensor,
                               .data = (void*)address,
                               .dtype = given.dtype & 0xff,
                               .dimensions = dimensions,
                               .shape = shape,
                               .device = place->device,
                               .device_index = place->index,
                               .element_bytes = (size_t)(given.dtype >> 8),
                               .order = has_order ? shape + dimensions + 1 : NULL};
  return tensor;
}

/* Set by torch.distributed's groups around one enqueue. A parameter would cost every other enqueue its conversion. */
static _Thread_local double limit_seconds = 0;

void rueda_py_limit(double timeout_seconds) { limit_seconds = timeout_seconds; }

static rueda_op_options options_of(const char* name, rueda_py_options given) {
  const rueda_py_place* place = place_of(&given);
  const rueda_op_options options = {.struct_size = sizeof options,
                                    .name = name,
                                    .process_set = given.process_set,
                                    .codec = given.codec,
                                    .has_scale = given.prescale != 1.0 || given.postscale != 1.0,
                                    .prescale = given.prescale,
                                    .postscale = given.postscale,
                                    .stream = place->stream,
                                    .allocate = place->allocate,
                                    .allocate_context = place->outputs,
                                    .timeout_seconds = limit_seconds,
                                    .same_rows = given.kind == RUEDA_PY_ALLGATHER && given.op == RUEDA_PY_SAME_ROWS};
  return options;
}

int64_t rueda_py_start(rueda_session* session, const char* name, rueda_py_options given, rueda_py_tensor input,
                       const int64_t* shape, uintptr_t output) {
  const rueda_tensor in = tensor_at(input.address, input, shape, &given);
  const rueda_tensor out = tensor_at(output, input, shape, &given);
  const rueda_op_options options = options_of(name, given);
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  switch (given.kind) {
    case RUEDA_PY_ALLREDUCE: code = rueda_allreduce_async(session, &in, &out, given.op, &options, &handle); break;
    case RUEDA_PY_BROADCAST: code = rueda_broadcast_async(session, &in, &out, given.rank, &options, &handle); break;
    case RUEDA_PY_REDUCE: code = rueda_reduce_async(session, &in, &out, given.op, given.rank, &options, &handle); break;
    default: break;
  }
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_rows(rueda_session* session, const char* name, rueda_py_options given, rueda_py_tensor input,
                            const int64_t* shape, uintptr_t output, const int64_t* output_shape,
                            const int64_t* splits) {
  const rueda_tensor in = tensor_at(input.address, input, shape, &given);
  const rueda_tensor filled = tensor_at(output, input, output_shape, &given);
  const rueda_tensor* out = output_shape == NULL ? NULL : &filled;
  const rueda_op_options options = options_of(name, given);
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  switch (given.kind) {
    case RUEDA_PY_ALLGATHER: code = rueda_allgather_async(session, &in, out, &options, &handle); break;
    case RUEDA_PY_ALLTOALL: code = rueda_alltoall_async(session, &in, splits, out, &options, &handle); break;
    case RUEDA_PY_REDUCESCATTER:
      code = rueda_reducescatter_async(session, &in, out, given.op, &options, &handle);
      break;
    case RUEDA_PY_GATHER: code = rueda_gather_async(session, &in, out, given.rank, &options, &handle); break;
    case RUEDA_PY_SCATTER: code = rueda_scatter_async(session, &in, splits, out, given.rank, &options, &handle); break;
    default: break;
  }
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_group(rueda_session* session, const char* name, rueda_py_options given, size_t count,
                             const rueda_py_tensor* inputs, const int64_t* shapes, const uintptr_t* outputs) {
  const rueda_op_options options = options_of(name, given);
  /* One piece for both arrays; one slot more, since malloc(0) may return NULL. */
  rueda_tensor* in = malloc((2 * count + 1) * sizeof *in);
  if (in == NULL) return -(int64_t)RUEDA_SYSTEM;
  rueda_tensor* out = in + count;
  for (size_t i = 0; i < count; shapes += inputs[i].dimensions, ++i) {
    in[i] = tensor_at(inputs[i].address, inputs[i], shapes, &given);
    out[i] = tensor_at(outputs[i], inputs[i], shapes, &given);
  }
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  switch (given.kind) {
    case RUEDA_PY_ALLREDUCE:
      code = rueda_grouped_allreduce_async(session, count, in, out, NULL, given.op, &options, &handle);
      break;
    case RUEDA_PY_BROADCAST:
      code = rueda_grouped_broadcast_async(session, count, in, out, NULL, given.rank, &options, &handle);
      break;
    case RUEDA_PY_ALLGATHER:
      code = rueda_grouped_allgather_async(session, count, in, NULL, NULL, &options, &handle);
      break;
    case RUEDA_PY_REDUCESCATTER:
      code = rueda_grouped_reducescatter_async(session, count, in, NULL, NULL, given.op, &options, &handle);
      break;
    default: break;
  }
  free(in); /* the library has copied the descriptions */
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_barrier(rueda_session* session, int32_t process_set) {
  const rueda_op_options options = {
      .struct_size = sizeof options, .process_set = process_set, .timeout_seconds = limit_seconds};
  rueda_handle handle = 0;
  const int32_t code = rueda_barrier_async(session, &options, &handle);
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_join(rueda_session* session, int32_t process_set) {
  /* Without the thread's limit: a rank that has joined waits for others that still train. */
  const rueda_op_options options = {.struct_size = sizeof options, .process_set = process_set};
  rueda_handle handle = 0;
  const int32_t code = rueda_join_async(session, &options, &handle);
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_message(rueda_session* session, const char* name, rueda_py_options given, rueda_py_tensor tensor,
                               const int64_t* shape) {
  const rueda_tensor memory = tensor_at(tensor.address, tensor, shape, &given);
  const rueda_op_options options = options_of(name, given);
  rueda_handle handle = 0;
  const int32_t code = given.kind == RUEDA_PY_SEND ? rueda_send_async(session, &memory, given.rank, &options, &handle)
                                                   : rueda_recv_async(session, &memory, given.rank, &options, &handle);
  return handle_or_code(code, handle);
}

struct rueda_py_request {
  rueda_tensor tensor; /* without an address; its shape is the array below */
  rueda_op_options options;
  int32_t op;
  int64_t shape[16];
};

rueda_py_request* rueda_py_prepare(rueda_session* session, const char* name, rueda_py_options given,
                                   rueda_py_tensor tensor, const int64_t* shape) {
  int64_t name_id = 0;
  if (tensor.dimensions > 16 || rueda_intern(session, name, &name_id) != RUEDA_OK) return NULL;
  rueda_py_request* request = malloc(sizeof *request);
  if (request == NULL) return NULL;
  memcpy(request->shape, shape, (size_t)tensor.dimensions * sizeof *shape);
  request->tensor = tensor_at(0, tensor, request->shape, &given);
  request->options = options_of(NULL, given); /* by number from now on, not by text */
  request->options.name_id = name_id;
  request->op = given.op;
  return request;
}

void rueda_py_forget(rueda_py_request* request) { free(request); }

size_t rueda_py_start_batch(rueda_session* session, size_t count, rueda_py_request* const* requests,
                            const uintptr_t* addresses, void* stream, int64_t* handles, int32_t more) {
  for (size_t i = 0; i < count; ++i) {
    rueda_tensor tensor = requests[i]->tensor;
    rueda_op_options options = requests[i]->options;
    tensor.data = (void*)addresses[i];
    options.stream = stream;
    options.more = more || i + 1 < count; /* one waking for all */
    rueda_handle handle = 0;
    if (rueda_allreduce_async(session, &tensor, &tensor, requests[i]->op, &options, &handle) != RUEDA_OK) return i;
    handles[i] = handle;
  }
  return count;
}

int32_t rueda_py_wait_batch(size_t count, const int64_t* handles, size_t* next) {
  for (; *next < count; ++*next) {
    const int32_t code = rueda_wait(handles[*next], -1.0);
    if (code != RUEDA_OK) return code; /* Python asks for the sentence while the handle lives */
    rueda_release(handles[*next]);
  }
  return RUEDA_OK;
}

int32_t rueda_py_wait_stream_batch(size_t count, const int64_t* handles, size_t* next, void* stream) {
  for (; *next < count; ++*next) {
    const int32_t code = rueda_wait_stream(handles[*next], stream, -1.0);
    if (code != RUEDA_OK) return code;
  }
  return RUEDA_OK;
}

int32_t rueda_py_output(rueda_handle handle, size_t index, uintptr_t* data, int64_t* shape) {
  rueda_tensor tensor = {.struct_size = sizeof tensor};
  const int32_t code = rueda_output(handle, index, &tensor);
  if (code != RUEDA_OK) return -code;
  *data = (uintptr_t)tensor.data;
  memcpy(shape, tensor.shape, (size_t)tensor.dimensions * sizeof *shape);
  return tensor.dimensions;
}
