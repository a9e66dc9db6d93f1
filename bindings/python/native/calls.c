#include "calls.h"

#include <stdlib.h>
#include <string.h>

/* A live handle, or the error code below zero. */
static int64_t handle_or_code(int32_t code, rueda_handle handle) { return code == RUEDA_OK ? handle : -(int64_t)code; }

static rueda_tensor tensor_at(uintptr_t data, int32_t dtype, int32_t extents, const int64_t* shape) {
  int32_t dimensions = 0;
  while (shape != NULL && dimensions < extents && shape[dimensions] != RUEDA_PY_ORDER) ++dimensions;
  const rueda_tensor tensor = {.struct_size = sizeof tensor,
                               .data = (void*)data,
                               .dtype = dtype & 0xff,
                               .dimensions = dimensions,
                               .shape = shape,
                               .device = RUEDA_DEVICE_CPU,
                               .element_bytes = (size_t)(dtype >> 8),
                               .order = shape != NULL && dimensions < extents ? shape + dimensions + 1 : NULL};
  return tensor;
}

static _Thread_local double limit_seconds = 0;

void rueda_py_limit(double timeout_seconds) { limit_seconds = timeout_seconds; }

static rueda_op_options options_of(const char* name, int32_t process_set, int32_t codec, double prescale,
                                   double postscale) {
  const rueda_op_options options = {.struct_size = sizeof options,
                                    .name = name,
                                    .process_set = process_set,
                                    .codec = codec,
                                    .has_scale = prescale != 1.0 || postscale != 1.0,
                                    .prescale = prescale,
                                    .postscale = postscale,
                                    .timeout_seconds = limit_seconds};
  return options;
}

int64_t rueda_py_start(rueda_session* session, int32_t kind, uintptr_t input, uintptr_t output, int32_t dtype,
                       int32_t dimensions, const int64_t* shape, int32_t argument, const char* name,
                       int32_t process_set, int32_t codec, double prescale, double postscale) {
  const rueda_tensor in = tensor_at(input, dtype, dimensions, shape);
  const rueda_tensor out = tensor_at(output, dtype, dimensions, shape);
  const rueda_op_options options = options_of(name, process_set, codec, prescale, postscale);
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  switch (kind) {
    case RUEDA_PY_ALLREDUCE: code = rueda_allreduce_async(session, &in, &out, argument, &options, &handle); break;
    case RUEDA_PY_BROADCAST: code = rueda_broadcast_async(session, &in, &out, argument, &options, &handle); break;
    default: break;
  }
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_rows(rueda_session* session, int32_t kind, uintptr_t input, int32_t dtype, int32_t dimensions,
                            const int64_t* shape, uintptr_t output, const int64_t* output_shape, const int64_t* splits,
                            int32_t argument, const char* name, int32_t process_set, int32_t codec, double prescale,
                            double postscale) {
  const rueda_tensor in = tensor_at(input, dtype, dimensions, shape);
  const rueda_tensor place = tensor_at(output, dtype, dimensions, output_shape);
  const rueda_tensor* out = output_shape == NULL ? NULL : &place;
  const rueda_op_options options = options_of(name, process_set, codec, prescale, postscale);
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  switch (kind) {
    case RUEDA_PY_ALLGATHER: code = rueda_allgather_async(session, &in, out, &options, &handle); break;
    case RUEDA_PY_ALLTOALL: code = rueda_alltoall_async(session, &in, splits, out, &options, &handle); break;
    case RUEDA_PY_REDUCESCATTER:
      code = rueda_reducescatter_async(session, &in, out, argument, &options, &handle);
      break;
    case RUEDA_PY_GATHER: code = rueda_gather_async(session, &in, out, argument, &options, &handle); break;
    case RUEDA_PY_SCATTER: code = rueda_scatter_async(session, &in, splits, out, argument, &options, &handle); break;
    default: break;
  }
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_reduce(rueda_session* session, uintptr_t input, uintptr_t output, int32_t dtype,
                              int32_t dimensions, const int64_t* shape, int32_t op, int32_t root, const char* name,
                              int32_t process_set) {
  const rueda_tensor in = tensor_at(input, dtype, dimensions, shape);
  const rueda_tensor out = tensor_at(output, dtype, dimensions, shape);
  const rueda_op_options options = options_of(name, process_set, RUEDA_CODEC_NONE, 1.0, 1.0);
  rueda_handle handle = 0;
  const int32_t code = rueda_reduce_async(session, &in, &out, op, root, &options, &handle);
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_group(rueda_session* session, int32_t kind, size_t count, const uintptr_t* inputs,
                             const uintptr_t* outputs, const int32_t* dtypes, const int32_t* dimensions,
                             const int64_t* shapes, int32_t argument, const char* name, int32_t process_set,
                             int32_t codec, double prescale, double postscale) {
  const rueda_op_options options = options_of(name, process_set, codec, prescale, postscale);
  rueda_tensor* in = malloc((2 * count + 1) * sizeof *in);
  if (in == NULL) return -(int64_t)RUEDA_SYSTEM;
  rueda_tensor* out = in + count;
  for (size_t i = 0; i < count; shapes += dimensions[i], ++i) {
    in[i] = tensor_at(inputs[i], dtypes[i], dimensions[i], shapes);
    out[i] = tensor_at(outputs[i], dtypes[i], dimensions[i], shapes);
  }
  rueda_handle handle = 0;
  int32_t code = RUEDA_UNSUPPORTED;
  switch (kind) {
    case RUEDA_PY_ALLREDUCE:
      code = rueda_grouped_allreduce_async(session, count, in, out, NULL, argument, &options, &handle);
      break;
    case RUEDA_PY_BROADCAST:
      code = rueda_grouped_broadcast_async(session, count, in, out, NULL, argument, &options, &handle);
      break;
    case RUEDA_PY_ALLGATHER:
      code = rueda_grouped_allgather_async(session, count, in, NULL, NULL, &options, &handle);
      break;
    case RUEDA_PY_REDUCESCATTER:
      code = rueda_grouped_reducescatter_async(session, count, in, NULL, NULL, argument, &options, &handle);
      break;
    default: break;
  }
  free(in);
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_barrier(rueda_session* session, int32_t process_set) {
  const rueda_op_options options = options_of(NULL, process_set, RUEDA_CODEC_DEFAULT, 1.0, 1.0);
  rueda_handle handle = 0;
  const int32_t code = rueda_barrier_async(session, &options, &handle);
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_join(rueda_session* session, int32_t process_set) {
  const rueda_op_options options = {.struct_size = sizeof options, .process_set = process_set};
  rueda_handle handle = 0;
  const int32_t code = rueda_join_async(session, &options, &handle);
  return handle_or_code(code, handle);
}

int64_t rueda_py_start_message(rueda_session* session, int32_t kind, uintptr_t data, int32_t dtype, int32_t dimensions,
                               const int64_t* shape, int32_t peer, const char* name, int32_t process_set) {
  const rueda_tensor tensor = tensor_at(data, dtype, dimensions, shape);
  const rueda_op_options options = options_of(name, process_set, RUEDA_CODEC_NONE, 1.0, 1.0);
  rueda_handle handle = 0;
  const int32_t code = kind == RUEDA_PY_SEND ? rueda_send_async(session, &tensor, peer, &options, &handle)
                                             : rueda_recv_async(session, &tensor, peer, &options, &handle);
  return handle_or_code(code, handle);
}

struct rueda_py_request {
  rueda_tensor tensor;
  rueda_op_options options;
  int32_t op;
  int64_t shape[16];
};

rueda_py_request* rueda_py_prepare(rueda_session* session, int32_t dtype, int32_t dimensions, const int64_t* shape,
                                   int32_t op, const char* name, int32_t process_set, int32_t codec, double prescale,
                                   double postscale) {
  int64_t name_id = 0;
  if (dimensions > 16 || rueda_intern(session, name, &name_id) != RUEDA_OK) return NULL;
  rueda_py_request* request = malloc(sizeof *request);
  if (request == NULL) return NULL;
  memcpy(request->shape, shape, (size_t)dimensions * sizeof *shape);
  request->tensor = tensor_at(0, dtype, dimensions, request->shape);
  request->options = options_of(NULL, process_set, codec, prescale, postscale);
  request->options.name_id = name_id;
  request->op = op;
  return request;
}

size_t rueda_py_start_batch(rueda_session* session, size_t count, rueda_py_request* const* requests,
                            const uintptr_t* addresses, int64_t* handles, int32_t more) {
  for (size_t i = 0; i < count; ++i) {
    rueda_tensor tensor = requests[i]->tensor;
    rueda_op_options options = requests[i]->options;
    tensor.data = (void*)addresses[i];
    options.more = more || i + 1 < count;
    rueda_handle handle = 0;
    if (rueda_allreduce_async(session, &tensor, &tensor, requests[i]->op, &options, &handle) != RUEDA_OK) return i;
    handles[i] = handle;
  }
  return count;
}

int32_t rueda_py_wait_batch(size_t count, const int64_t* handles, size_t* next) {
  for (; *next < count; ++*next) {
    const int32_t code = rueda_wait(handles[*next], -1.0);
    if (code != RUEDA_OK) return code;
    rueda_release(handles[*next]);
  }
  return RUEDA_OK;
}

void rueda_py_forget(rueda_py_request* request) { free(request); }

int32_t rueda_py_output(rueda_handle handle, size_t index, uintptr_t* data, int64_t* shape) {
  rueda_tensor tensor = {.struct_size = sizeof tensor};
  const int32_t code = rueda_output(handle, index, &tensor);
  if (code != RUEDA_OK) return -code;
  *data = (uintptr_t)tensor.data;
  memcpy(shape, tensor.shape, (size_t)tensor.dimensions * sizeof *shape);
  return tensor.dimensions;
}
