/* Reads a call of XLA's, and enqueues it.
 *
 * The attributes are scalars and texts, since every version of JAX can pass those: `names` holds one name per tensor,
 * one on each line, and `splits` numbers with commas between them. Python has checked them when it traced the call, but
 * a compiled program may come from another process (JAX's compilation cache), so this file checks what memory depends
 * on. One tensor is enqueued alone: the library fuses it with others as it likes. Several are a group. */
#include "bindings/jax/call.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attribute `name` if it has this type, else NULL. */
static const void* attribute(const xla_frame* frame, const char* name, int32_t type) {
  const xla_attributes* all = &frame->attributes;
  for (int64_t i = 0; i < all->count; ++i) {
    const xla_span* found = all->names[i];
    if (found->bytes == strlen(name) && memcmp(found->text, name, found->bytes) == 0)
      return all->types[i] == type ? all->items[i] : NULL;
  }
  return NULL;
}

static int64_t integer(const xla_frame* frame, const char* name) {
  const xla_scalar* scalar = attribute(frame, name, RUEDA_XLA_SCALAR);
  return scalar == NULL ? 0 : *(const int64_t*)scalar->value;
}

static double factor(const xla_frame* frame, const char* name) {
  const xla_scalar* scalar = attribute(frame, name, RUEDA_XLA_SCALAR);
  return scalar == NULL ? 1.0 : *(const double*)scalar->value;
}

/* The number of Rueda's for one of XLA's element types; -1 if Rueda has none. */
static int32_t dtype_of(int32_t xla) {
  static const struct {
    int32_t xla, rueda;
  } known[] = {{1, RUEDA_BOOL}, {2, RUEDA_I8},   {3, RUEDA_I16},   {4, RUEDA_I32},        {5, RUEDA_I64},
               {6, RUEDA_U8},   {7, RUEDA_U16},  {8, RUEDA_U32},   {9, RUEDA_U64},        {10, RUEDA_F16},
               {11, RUEDA_F32}, {12, RUEDA_F64}, {16, RUEDA_BF16}, {15, RUEDA_COMPLEX64}, {18, RUEDA_COMPLEX128}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (known[i].xla == xla) return known[i].rueda;
  return -1;
}

/* Describes XLA's buffer in `tensor`. Returns 0 if Rueda does not know its dtype. */
static int describe(const xla_buffer* buffer, rueda_tensor* tensor) {
  const rueda_tensor described = {.struct_size = sizeof described,
                                  .data = buffer->data,
                                  .dtype = dtype_of(buffer->dtype),
                                  .dimensions = (int32_t)buffer->dimensions,
                                  .shape = buffer->shape,
                                  .device = RUEDA_DEVICE_CPU};
  *tensor = described;
  return described.dtype >= 0;
}

static atomic_int first_device;

void rueda_jax_first_device(int32_t number) { atomic_store(&first_device, number); }

/* The device's suffix for names: several devices of one process are so many callers of one operation. Empty for the
 * process's first device, and for an XLA that does not say which device calls. */
static void device_suffix(const xla_frame* frame, char* text, size_t capacity) {
  text[0] = '\0';
  if (!xla_has_ordinal(frame->api)) return;
  xla_ordinal_args args = {.size = sizeof args, .context = frame->context};
  if (frame->api->device_ordinal_get(&args) != NULL) return;
  const int number = args.ordinal - atomic_load(&first_device);
  if (number > 0) snprintf(text, capacity, ".device%d", number);
}

/* Splits the lines of the attribute `names` into `count` names. Returns 0 if there are fewer, or no memory. */
static int read_names(const xla_frame* frame, rueda_jax_call* call) {
  const xla_span* lines = attribute(frame, "names", RUEDA_XLA_STRING);
  char suffix[32];
  device_suffix(frame, suffix, sizeof suffix);
  if (lines == NULL) return 0;
  const size_t longest = lines->bytes + call->count * sizeof suffix;
  call->names = malloc(call->count * sizeof *call->names + longest + 1);
  if (call->names == NULL) return 0;
  char* out = (char*)(call->names + call->count);
  const char *at = lines->text, *end = lines->text + lines->bytes;
  for (size_t i = 0; i < call->count; ++i) {
    if (at > end) return 0;
    const char* line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (line_end == NULL) line_end = end;
    call->names[i] = out;
    memcpy(out, at, (size_t)(line_end - at));
    out += line_end - at;
    out = stpcpy(out, suffix) + 1;
    at = line_end + 1;
  }
  return 1;
}

/* Reads the numbers of the attribute `splits`; without it the call has none. Returns 0 if it holds anything else, or if
 * there is no memory. */
static int read_splits(const xla_frame* frame, rueda_jax_call* call) {
  const xla_span* text = attribute(frame, "splits", RUEDA_XLA_STRING);
  if (text == NULL || text->bytes == 0) return 1;
  char* copy = malloc(text->bytes + 1);
  call->splits = malloc((text->bytes + 1) * sizeof *call->splits); /* at least one for each number */
  if (copy == NULL || call->splits == NULL) {
    free(copy);
    return 0;
  }
  memcpy(copy, text->text, text->bytes);
  copy[text->bytes] = '\0';
  char *at = copy, *end = copy;
  for (; *at != '\0'; at = end + (*end == ',')) {
    call->splits[call->split_count++] = strtoll(at, &end, 10);
    if (end == at || (*end != ',' && *end != '\0')) break;
  }
  const int read = *at == '\0';
  free(copy);
  return read;
}

static int read_tensors(const xla_frame* frame, rueda_jax_call* call, char* why, size_t capacity) {
  call->inputs = malloc((2 * call->count + 1) * sizeof *call->inputs);
  if (call->inputs == NULL) {
    snprintf(why, capacity, "no memory is left for %zu tensors", call->count);
    return 0;
  }
  call->outputs = call->inputs + call->count;
  for (size_t i = 0; i < call->count; ++i) {
    if (describe(frame->inputs.items[i], &call->inputs[i]) && describe(frame->outputs.items[i], &call->outputs[i]))
      continue;
    snprintf(why, capacity, "tensor %zu has XLA's element type %d, which Rueda does not have", i,
             (int)frame->inputs.items[i]->dtype);
    return 0;
  }
  return 1;
}

const char* rueda_jax_call_read(const xla_frame* frame, rueda_jax_call* call, char* why, size_t capacity) {
  memset(call, 0, sizeof *call);
  call->count = (size_t)frame->inputs.count;
  if (frame->inputs.count != frame->outputs.count) {
    snprintf(why, capacity, "XLA passes %lld inputs and %lld outputs", (long long)frame->inputs.count,
             (long long)frame->outputs.count);
    return why;
  }
  call->kind = (int32_t)integer(frame, "kind");
  call->op = (int32_t)integer(frame, "op");
  call->root = (int32_t)integer(frame, "root");
  call->epoch = integer(frame, "epoch");
  if (!read_tensors(frame, call, why, capacity)) return why;
  if (!read_names(frame, call)) {
    snprintf(why, capacity, "the call lacks names for %zu tensors, or no memory is left for them", call->count);
    return why;
  }
  if (!read_splits(frame, call)) {
    snprintf(why, capacity, "the call's splits are no numbers with commas between them, or no memory is left for them");
    return why;
  }
  const rueda_op_options options = {.struct_size = sizeof options,
                                    .process_set = (int32_t)integer(frame, "process_set"),
                                    .codec = RUEDA_CODEC_NONE,
                                    .prescale = factor(frame, "prescale"),
                                    .postscale = factor(frame, "postscale")};
  call->options = options;
  call->options.has_scale = options.prescale != 1.0 || options.postscale != 1.0;
  return NULL;
}

void rueda_jax_call_free(rueda_jax_call* call) {
  free(call->inputs);
  free((void*)call->names);
  free(call->splits);
}

static int32_t enqueue_one(rueda_session* session, const rueda_jax_call* call, const rueda_op_options* options,
                           rueda_handle* handle) {
  const rueda_tensor *in = call->inputs, *out = call->outputs;
  switch (call->kind) {
    case RUEDA_JAX_ALLREDUCE: return rueda_allreduce_async(session, in, out, call->op, options, handle);
    case RUEDA_JAX_BROADCAST: return rueda_broadcast_async(session, in, out, call->root, options, handle);
    case RUEDA_JAX_ALLGATHER: return rueda_allgather_async(session, in, out, options, handle);
    case RUEDA_JAX_ALLTOALL: return rueda_alltoall_async(session, in, call->splits, out, options, handle);
    case RUEDA_JAX_REDUCESCATTER: return rueda_reducescatter_async(session, in, out, call->op, options, handle);
    default: return RUEDA_UNSUPPORTED;
  }
}

static int32_t enqueue_group(rueda_session* session, const rueda_jax_call* call, const rueda_op_options* options,
                             rueda_handle* handle) {
  const rueda_tensor *in = call->inputs, *out = call->outputs;
  const char* const* names = (const char* const*)call->names;
  const size_t n = call->count;
  switch (call->kind) {
    case RUEDA_JAX_ALLREDUCE:
      return rueda_grouped_allreduce_async(session, n, in, out, names, call->op, options, handle);
    case RUEDA_JAX_BROADCAST:
      return rueda_grouped_broadcast_async(session, n, in, out, names, call->root, options, handle);
    case RUEDA_JAX_ALLGATHER: return rueda_grouped_allgather_async(session, n, in, out, names, options, handle);
    case RUEDA_JAX_REDUCESCATTER:
      return rueda_grouped_reducescatter_async(session, n, in, out, names, call->op, options, handle);
    default: return RUEDA_UNSUPPORTED;
  }
}

int32_t rueda_jax_call_enqueue(rueda_session* session, const rueda_jax_call* call, rueda_handle* handle) {
  rueda_op_options options = call->options;
  if (call->count != 1) return enqueue_group(session, call, &options, handle);
  options.name = call->names[0];
  return enqueue_one(session, call, &options, handle);
}
