/* rueda._hooks: what a gradient's hook does as a rule, which is to note where the gradient lies. The rest is Python's:
 * rueda/torch/reducer.py and held.py derive from these types, and their methods are called by name for what happens
 * once for many gradients, or seldom.
 *
 * No framework is looked into: a tensor is asked for its attributes, as Python would ask it.
 *
 * Threads: all of it runs under the GIL, but whatever is called may give that up. So what is changed together is
 * changed with no call in between, and read anew behind one. */
#pragma once
#include <Python.h>
#include <structmember.h>

enum {
  /* So many gradients go by one call. */
  MOST = 64,
  /* As long as others of the step are still to come, gradients smaller than this together wake nobody: what waking
   * takes is more than what enqueueing them takes, and their reduction would hardly be begun before the next comes. */
  ENOUGH_BYTES = 256 << 10
};

/* Parameters whose gradients are reduced together. */
typedef struct {
  PyObject ob_base;
  Py_ssize_t missing; /* of the members' gradients in this step */
} Group;

/* Gradients that wait for a call. */
typedef struct {
  PyObject ob_base;
  PyObject* session;
  PyObject* memory; /* a list of what keeps that of each gradient */
  PyObject* hooks;  /* theirs, in a list */
  uintptr_t requests[MOST];
  uintptr_t addresses[MOST];
} Batch;

/* One optimizer's step. */
typedef struct {
  PyObject ob_base;
  Py_ssize_t passes_per_step;
  Py_ssize_t left;   /* groups, and gradients in none, that are to be enqueued in this step */
  Py_ssize_t asleep; /* bytes held, or enqueued without waking anybody */
  Batch* held;       /* may be NULL */
} Step;

/* One parameter, and its hook. */
typedef struct {
  PyObject ob_base;
  Step* step;
  PyObject* parameter;
  Group* group; /* may be NULL */
  Py_ssize_t passes;
  PyObject* handle; /* what the gradient is waited for with; NULL: it is not enqueued */
  /* What the request is for: gradients like this one, in this session. NULL: there is none yet. */
  PyObject* session;
  PyObject* dtype;
  PyObject* layout;
  Py_ssize_t count;
  Py_ssize_t bytes;
  uintptr_t request;
} Hook;

/* What is looked up: attributes of tensors, and methods of Step's heirs. */
struct rueda_hook_names {
  PyObject *grad, *dtype, *layout, *is_cpu, *is_contiguous, *numel, *data_ptr, *untyped_storage, *detach;
  PyObject *begin, *send, *too_many, *enqueue_unusual, *enqueue_group;
};
extern struct rueda_hook_names rueda_hook_names;

/* Whose heirs are batches. */
extern PyTypeObject* rueda_batch_type;

/* Autograd's call: a backward pass has added to the gradient. What it is called with is not looked at. */
PyObject* rueda_hook_call(PyObject* hook, PyObject* arguments, PyObject* keywords);

/* Holds the hook's gradient, or has Python do what is to be done with it. -1: an exception. */
int rueda_step_enqueue(Step* step, Hook* hook);

/* Enqueues what is held; `more`: others follow at once. -1: an exception. */
int rueda_step_send(Step* step, int more);
