#include "hooks.h"

/* 1: `what` of the object is the one expected. 0: it is not. -1: an exception. */
static int attribute_is(PyObject* object, PyObject* what, const PyObject* expected) {
  PyObject* value = PyObject_GetAttr(object, what);
  if (value == NULL) return -1;
  Py_DECREF(value);
  return value == expected;
}

/* The number that a method without arguments returns; -1 with an exception set if it does not. */
static long long ask_number(PyObject* object, PyObject* method) {
  PyObject* value = PyObject_CallMethodObjArgs(object, method, NULL);
  if (value == NULL) return -1;
  const long long number = PyLong_AsLongLong(value);
  Py_DECREF(value);
  return number;
}

/* The same of an address. */
static uintptr_t ask_address(PyObject* object, PyObject* method) {
  PyObject* value = PyObject_CallMethodObjArgs(object, method, NULL);
  if (value == NULL) return (uintptr_t)-1;
  const uintptr_t address = (uintptr_t)PyLong_AsUnsignedLongLong(value);
  Py_DECREF(value);
  return address;
}

/* Whether the request fits this gradient: 1 or 0; -1: an exception. */
static int is_usual(const Hook* hook, PyObject* gradient) {
  if (hook->request == 0) return 0;
  int same = attribute_is(gradient, rueda_hook_names.dtype, hook->dtype);
  if (same > 0) same = attribute_is(gradient, rueda_hook_names.layout, hook->layout);
  if (same > 0) same = attribute_is(gradient, rueda_hook_names.is_cpu, Py_True);
  if (same <= 0) return same;
  const long long contiguous = ask_number(gradient, rueda_hook_names.is_contiguous);
  if (contiguous <= 0) return (int)contiguous;
  const long long count = ask_number(gradient, rueda_hook_names.numel);
  return count < 0 ? -1 : count == hook->count;
}

/* Calls the step's method of this name for what it does; -1: an exception. */
static int call_step(Step* step, PyObject* method, PyObject* first, PyObject* second) {
  PyObject* result = PyObject_CallMethodObjArgs((PyObject*)step, method, first, second, NULL);
  Py_XDECREF(result);
  return result == NULL ? -1 : 0;
}

int rueda_step_send(Step* step, int more) {
  if (!more) step->asleep = 0;
  Batch* held = step->held;
  if (held == NULL) return 0;
  step->held = NULL; /* so that nobody adds to it while Python runs */
  const int result = call_step(step, rueda_hook_names.send, (PyObject*)held, more ? Py_True : Py_False);
  Py_DECREF(held);
  return result;
}

/* Has the step hold a batch for the hook's session: 1. 0: that session is over. -1: an exception. */
static int open_batch(Step* step, const Hook* hook) {
  while (step->held == NULL || step->held->session != hook->session) {
    if (step->held != NULL) {
      if (rueda_step_send(step, 0) < 0) return -1;
      continue;
    }
    PyObject* batch = PyObject_CallMethodObjArgs((PyObject*)step, rueda_hook_names.begin, hook->session, NULL);
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

/* What keeps the gradient's memory, also where the tensor is given another one: its storage, or before PyTorch 2.0
 * another tensor. */
static PyObject* memory_of(PyObject* gradient) {
  PyObject* memory = PyObject_CallMethodObjArgs(gradient, rueda_hook_names.untyped_storage, NULL);
  if (memory != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return memory;
  PyErr_Clear();
  return PyObject_CallMethodObjArgs(gradient, rueda_hook_names.detach, NULL);
}

/* Adds a gradient to what is held, by what keeps the gradient's memory and where it lies. From the batch's opening to
 * the end no Python runs, so that no other thread adds to it meanwhile. */
static int hold_memory(Step* step, Hook* hook, PyObject* memory, uintptr_t address) {
  const int open = open_batch(step, hook);
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
  PyObject* before = hook->handle;
  hook->handle = Py_NewRef((PyObject*)held);
  int result = 0;
  if (step->asleep >= ENOUGH_BYTES) {
    result = rueda_step_send(step, 0);
  } else if (number == MOST - 1) {
    result = rueda_step_send(step, step->left > 0);
  }
  Py_XDECREF(before);
  return result < 0 ? -1 : 1;
}

/* Adds the gradient, which the request fits, to what is held: 1. 0: its session is over. -1: an exception. */
static int hold(Step* step, Hook* hook, PyObject* gradient) {
  const uintptr_t address = ask_address(gradient, rueda_hook_names.data_ptr);
  if (address == (uintptr_t)-1 && PyErr_Occurred()) return -1;
  PyObject* memory = memory_of(gradient);
  if (memory == NULL) return -1;
  const int result = hold_memory(step, hook, memory, address);
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

/* The last backward pass of the step has added to the gradient. */
static int ready(Step* step, Hook* hook) {
  Group* group = hook->group;
  if (group != NULL && --group->missing > 0) return 0;
  --step->left;
  const int result = group == NULL ? rueda_step_enqueue(step, hook)
                                   : call_step(step, rueda_hook_names.enqueue_group, (PyObject*)group, NULL);
  if (result < 0) return -1;
  return step->left <= 0 ? rueda_step_send(step, 0) : 0;
}

PyObject* rueda_hook_call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)arguments, (void)keywords;
  Hook* hook = (Hook*)self;
  Step* step = hook->step;
  if (step == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "a gradient's hook is called that belongs to no optimizer");
    return NULL;
  }
  if (hook->passes >= step->passes_per_step) {
    return PyObject_CallMethodObjArgs((PyObject*)step, rueda_hook_names.too_many, self, NULL);
  }
  int result = 0;
  if (++hook->passes == step->passes_per_step) {
    Py_INCREF((PyObject*)step);
    result = ready(step, hook);
    Py_DECREF((PyObject*)step);
  }
  if (result < 0) return NULL;
  Py_RETURN_NONE;
}
