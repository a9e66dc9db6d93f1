/* What a hook does when autograd calls it: it counts the pass, and after the last pass of a step adds the gradient to
 * the step's batch.
 *
 * A gradient goes into the batch if it looks like the last one of its parameter, for which a request was prepared. All
 * others, such as sparse ones, go to Python. The batch is enqueued once it is full, holds enough bytes to be worth a
 * waking of the engine, or has the last gradient of the step. Functions return 1 for yes, 0 for no, and -1 with an
 * exception set. */
#include "hooks.h"

/* Returns whether the attribute `what` of the object is `expected` itself. */
static int attribute_is(PyObject* object, PyObject* what, const PyObject* expected) {
  PyObject* value = PyObject_GetAttr(object, what);
  if (value == NULL) return -1;
  Py_DECREF(value);
  return value == expected;
}

/* Calls a method without arguments that returns a number; -1 with an exception set if it fails. */
static long long ask_number(PyObject* object, PyObject* method) {
  PyObject* value = PyObject_CallMethodObjArgs(object, method, NULL);
  if (value == NULL) return -1;
  const long long number = PyLong_AsLongLong(value);
  Py_DECREF(value);
  return number;
}

/* ask_number() for an address, which may use the top bit. */
static uintptr_t ask_address(PyObject* object, PyObject* method) {
  PyObject* value = PyObject_CallMethodObjArgs(object, method, NULL);
  if (value == NULL) return (uintptr_t)-1;
  const uintptr_t address = (uintptr_t)PyLong_AsUnsignedLongLong(value);
  Py_DECREF(value);
  return address;
}

/* Returns whether the gradient lies where the hook's request says. */
static int is_at_place(const Hook* hook, PyObject* gradient) {
  if (hook->place == Py_None) return attribute_is(gradient, rueda_hook_names.is_cpu, Py_True);
  PyObject* device = PyObject_GetAttr(gradient, rueda_hook_names.device);
  PyObject* wanted = PyObject_GetAttr(hook->place, rueda_hook_names.device);
  const int same = device == NULL || wanted == NULL ? -1 : PyObject_RichCompareBool(device, wanted, Py_EQ);
  Py_XDECREF(device);
  Py_XDECREF(wanted);
  return same;
}

/* Returns whether the hook's request fits this gradient. The program may have changed each of these since the last
 * step. The count stands for the shape, which autograd keeps equal to the parameter's. */
static int is_usual(const Hook* hook, PyObject* gradient) {
  if (hook->request == 0) return 0;
  int same = attribute_is(gradient, rueda_hook_names.dtype, hook->dtype);
  if (same > 0) same = attribute_is(gradient, rueda_hook_names.layout, hook->layout);
  if (same > 0) same = is_at_place(hook, gradient);
  if (same <= 0) return same;
  const long long contiguous = ask_number(gradient, rueda_hook_names.is_contiguous);
  if (contiguous <= 0) return (int)contiguous;
  const long long count = ask_number(gradient, rueda_hook_names.numel);
  return count < 0 ? -1 : count == hook->count;
}

/* Calls a method of the step, and drops its result. */
static int call_step(Step* step, PyObject* method, PyObject* first, PyObject* second) {
  PyObject* result = PyObject_CallMethodObjArgs((PyObject*)step, method, first, second, NULL);
  Py_XDECREF(result);
  return result == NULL ? -1 : 0;
}

int rueda_step_send(Step* step, int more) {
  if (!more) step->asleep = 0;
  Batch* held = step->held;
  if (held == NULL) return 0;
  step->held = NULL; /* before Python runs: no other thread may add to it then */
  const int result = call_step(step, rueda_hook_names.send, (PyObject*)held, more ? Py_True : Py_False);
  Py_DECREF(held);
  return result;
}

/* Returns whether gradients of the hook that are ready behind this stream go into the batch. */
static int goes_into(const Batch* batch, const Hook* hook, uintptr_t stream) {
  return batch != NULL && batch->session == hook->session && batch->place == hook->place && batch->stream == stream;
}

/* A new batch of Python's, or what Python returned in its place. */
static PyObject* begin_batch(Step* step, const Hook* hook, uintptr_t stream) {
  PyObject* number = PyLong_FromUnsignedLongLong(stream);
  if (number == NULL) return NULL;
  PyObject* batch =
      PyObject_CallMethodObjArgs((PyObject*)step, rueda_hook_names.begin, hook->session, hook->place, number, NULL);
  Py_DECREF(number);
  return batch;
}

/* Makes sure that the step has a batch for the hook's session, place and stream. Returns 0 if that session has ended.
 * Both calls may run other threads, which may change `held`; so the loop looks at it again after each. */
static int open_batch(Step* step, const Hook* hook, uintptr_t stream) {
  while (!goes_into(step->held, hook, stream)) {
    if (step->held != NULL) {
      if (rueda_step_send(step, 0) < 0) return -1;
      continue;
    }
    PyObject* batch = begin_batch(step, hook, stream);
    if (batch == NULL) return -1;
    if (!PyObject_TypeCheck(batch, rueda_batch_type)) {
      Py_DECREF(batch);
      return 0;
    }
    if (step->held == NULL) {
      step->held = (Batch*)batch;
    } else {
      Py_DECREF(batch);
    }
  }
  return 1;
}

/* An object that keeps the gradient's memory alive even if the tensor gets other memory: its storage, or before PyTorch
 * 2.0, which has no such method, another tensor. */
static PyObject* memory_of(PyObject* gradient) {
  PyObject* memory = PyObject_CallMethodObjArgs(gradient, rueda_hook_names.untyped_storage, NULL);
  if (memory != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return memory;
  PyErr_Clear();
  return PyObject_CallMethodObjArgs(gradient, rueda_hook_names.detach, NULL);
}

/* Adds a gradient to the batch. No Python runs between open_batch() and the last field, so that no other thread adds to
 * the batch meanwhile. */
static int hold_memory(Step* step, Hook* hook, PyObject* memory, uintptr_t address, uintptr_t stream) {
  const int open = open_batch(step, hook, stream);
  if (open <= 0) return open;
  Batch* held = step->held;
  const Py_ssize_t number = PyList_Size(held->memory);
  if (PyList_Append(held->hooks, (PyObject*)hook) < 0) return -1;
  if (PyList_Append(held->memory, memory) < 0) {
    PyList_SetSlice(held->hooks, number, number + 1, NULL);
    return -1;
  }
  held->requests[number] = hook->request;
  held->addresses[number] = address;
  step->asleep += hook->bytes;
  PyObject* before = hook->handle; /* released at the end, since its destructor may run Python */
  hook->handle = Py_NewRef((PyObject*)held);
  int result = 0;
  if (step->asleep >= (held->place == Py_None ? ENOUGH_BYTES : ENOUGH_ON_DEVICE)) {
    result = rueda_step_send(step, 0);
  } else if (number == MOST - 1) {
    result = rueda_step_send(step, step->left > 0);
  }
  Py_XDECREF(before);
  return result < 0 ? -1 : 1;
}

/* Adds a gradient that the request fits to the batch. Returns 0 if the request's session has ended. */
static int hold(Step* step, Hook* hook, PyObject* gradient) {
  const uintptr_t address = ask_address(gradient, rueda_hook_names.data_ptr);
  if (address == (uintptr_t)-1 && PyErr_Occurred()) return -1;
  const uintptr_t stream = hook->place == Py_None ? 0 : ask_address(hook->place, rueda_hook_names.stream);
  if (stream == (uintptr_t)-1 && PyErr_Occurred()) return -1;
  PyObject* memory = memory_of(gradient);
  if (memory == NULL) return -1;
  const int result = hold_memory(step, hook, memory, address, stream);
  Py_DECREF(memory);
  return result;
}

int rueda_step_enqueue(Step* step, Hook* hook) {
  PyObject* gradient = PyObject_GetAttr(hook->parameter, rueda_hook_names.grad);
  if (gradient == NULL) return -1;
  int result = is_usual(hook, gradient);
  if (result > 0) result = hold(step, hook, gradient);
  if (result == 0) result = call_step(step, rueda_hook_names.enqueue_unusual, (PyObject*)hook, gradient);
  Py_DECREF(gradient);
  return result < 0 ? -1 : 0;
}

/* Called after the last backward pass of the step. A group waits for its last gradient. */
static int ready(Step* step, Hook* hook) {
  Group* group = hook->group;
  if (group != NULL && --group->missing > 0) return 0;
  --step->left;
  const int result = group == NULL ? rueda_step_enqueue(step, hook)
                                   : call_step(step, rueda_hook_names.enqueue_group, (PyObject*)group, NULL);
  if (result < 0) return -1;
  return step->left <= 0 ? rueda_step_send(step, 0) : 0;
}

/* Tells Python of the first gradient of a step, before it counts. Another thread may come meanwhile, and goes on. */
static int announce(Step* step) {
  if (step->announces == 0) return 0;
  step->announces = 0;
  return call_step(step, rueda_hook_names.first, NULL, NULL);
}

PyObject* rueda_hook_call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)arguments, (void)keywords;
  Hook* hook = (Hook*)self;
  Step* step = hook->step;
  if (step == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "the hook of a gradient was called, but belongs to no optimizer any more");
    return NULL;
  }
  if (step->alone > 0) Py_RETURN_NONE;
  if (hook->passes >= step->passes_per_step) {
    return PyObject_CallMethodObjArgs((PyObject*)step, rueda_hook_names.too_many, self, NULL);
  }
  Py_INCREF((PyObject*)step); /* Python in announce() and ready() may drop the hook's reference */
  int result = announce(step);
  if (result >= 0 && ++hook->passes == step->passes_per_step) result = ready(step, hook);
  Py_DECREF((PyObject*)step);
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}
