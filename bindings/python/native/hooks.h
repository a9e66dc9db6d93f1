/* rueda._hooks: the hook of a gradient, which usually just notes the gradient's address. It takes 2.9 to 4.5 us in
 * Python and about 1 us here, hundreds of times in a backward pass. Everything else stays in Python: reducer.py and
 * held.py of rueda/torch derive from these types, and hooks call their methods by name for what happens once for many
 * gradients, or rarely.
 *
 *     autograd --> Hook (one parameter) --> Step (one optimizer's step) --> Batch (gradients for one enqueue)
 *                     \--> Group (parameters that are reduced together)
 *
 * The code depends on no framework: it asks a tensor for its attributes, as Python code would.
 *
 * Threads: all of this runs under the GIL, but any call of Python may release it. So fields that belong together are
 * changed without a call in between, and are read again after a call. */
#pragma once
#include <Python.h>
#include <structmember.h>

enum {
  /* Gradients in a batch, at most. */
  MOST = 64,
  /* While more gradients of the step are expected, gradients of fewer bytes together do not wake the engine: waking it
   * costs more than enqueueing them, and their reduction would hardly begin before the next gradient comes. */
  ENOUGH_BYTES = 256 << 10,
  /* The same for gradients on a device, which has more to do at once, and whose program runs ahead of it. */
  ENOUGH_ON_DEVICE = 4 << 20
};

/* Parameters that are reduced together. */
typedef struct {
  PyObject ob_base;
  Py_ssize_t missing; /* how many of its gradients this step has not made yet */
} Group;

/* Gradients that one call will enqueue. Entry i of each list and array belongs to the same gradient. All lie at one
 * place: None for the host, else an object with `device`, and with stream(), the number of the stream that is current.
 * They are ready behind one stream of it. */
typedef struct {
  PyObject ob_base;
  PyObject* session;
  PyObject* place;
  uintptr_t stream; /* 0 on the host */
  PyObject* memory; /* a list of objects that keep the gradients' memory alive */
  PyObject* hooks;  /* a list */
  uintptr_t requests[MOST];
  uintptr_t addresses[MOST];
} Batch;

/* One optimizer's step. */
typedef struct {
  PyObject ob_base;
  Py_ssize_t passes_per_step;
  Py_ssize_t left;      /* groups, and gradients in no group, that this step has not enqueued yet */
  Py_ssize_t asleep;    /* bytes that are held, or were enqueued without waking the engine */
  Batch* held;          /* the current batch, or NULL */
  Py_ssize_t announces; /* set if Python is to be told of the next gradient, once */
  Py_ssize_t alone;     /* more than 0 while gradients stay this rank's, and hooks do nothing */
} Step;

/* One parameter, and its hook. */
typedef struct {
  PyObject ob_base;
  Step* step;
  PyObject* parameter;
  Group* group; /* may be NULL */
  Py_ssize_t passes;
  PyObject* handle; /* of the gradient's all-reduce; NULL if it is not enqueued */
  /* The gradients that the request fits: of this dtype, layout and count, at this place, in this session. NULL if there
   * is no request. */
  PyObject* session;
  PyObject* place;
  PyObject* dtype;
  PyObject* layout;
  Py_ssize_t count;
  Py_ssize_t bytes;
  uintptr_t request;
} Hook;

/* Interned names: attributes of tensors, and methods of the classes that derive from Step. */
struct rueda_hook_names {
  PyObject *grad, *dtype, *layout, *is_cpu, *device, *stream, *is_contiguous, *numel, *data_ptr, *untyped_storage,
      *detach;
  PyObject *begin, *send, *too_many, *enqueue_unusual, *enqueue_group, *first;
};
extern struct rueda_hook_names rueda_hook_names;

/* The type Batch, from which Python derives. */
extern PyTypeObject* rueda_batch_type;

/* Called by autograd when a backward pass has added to the gradient. Ignores its arguments. */
PyObject* rueda_hook_call(PyObject* hook, PyObject* arguments, PyObject* keywords);

/* Adds the hook's gradient to the batch, or has Python enqueue it. Returns -1 with an exception set. */
int rueda_step_enqueue(Step* step, Hook* hook);

/* Enqueues the current batch. `more` is set if others follow at once. Returns -1 with an exception set. */
int rueda_step_send(Step* step, int more);
