/* The types of rueda._hooks: their constructors, attributes and methods for Python, and their part in garbage
 * collection.
 *
 * The types are made at run time from specifications, since the limited API has no static types. Hooks, steps and
 * batches refer to each other in cycles (a hook to its step, a derived step to its hooks), so each type that holds
 * objects has the collector's functions. A setter that replaces a reference stores the new one first and releases the
 * old one last: a destructor may run Python, which must see a complete object. */

#include "hooks.h"

struct rueda_hook_names rueda_hook_names;
PyTypeObject* rueda_batch_type;
static PyTypeObject *group_type, *step_type, *hook_type;

/* The result of a method: None, or NULL if an exception is set. */
static PyObject* none_unless(int failed) {
  if (failed) return NULL;
  Py_RETURN_NONE;
}

/* Hook.expect(): stores which gradients the request fits. All fields change before a destructor can run. */
static PyObject* hook_expect(PyObject* self, PyObject* arguments) {
  PyObject *session, *place, *dtype, *layout;
  Py_ssize_t count, bytes;
  unsigned long long request;
  if (!PyArg_ParseTuple(arguments, "OOOOnnK", &session, &place, &dtype, &layout, &count, &bytes, &request)) return NULL;
  Hook* hook = (Hook*)self;
  PyObject* before[] = {hook->session, hook->place, hook->dtype, hook->layout};
  hook->session = Py_NewRef(session);
  hook->place = Py_NewRef(place);
  hook->dtype = Py_NewRef(dtype);
  hook->layout = Py_NewRef(layout);
  hook->count = count;
  hook->bytes = bytes;
  hook->request = (uintptr_t)request;
  for (int i = 0; i < 4; ++i) Py_XDECREF(before[i]);
  Py_RETURN_NONE;
}

/* Hook(step, parameter). A second call would leak the references of the first. */
static int hook_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  Hook* hook = (Hook*)self;
  PyObject *step, *parameter;
  if (!PyArg_ParseTuple(arguments, "O!O", step_type, &step, &parameter)) return -1;
  if (hook->step != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "a Hook is initialised only once");
    return -1;
  }
  hook->step = (Step*)Py_NewRef(step);
  hook->parameter = Py_NewRef(parameter);
  return 0;
}

static PyObject* hook_group(PyObject* self, void* closure) {
  (void)closure;
  PyObject* group = (PyObject*)((Hook*)self)->group;
  return Py_NewRef(group == NULL ? Py_None : group);
}

/* Deleting the attribute is an error: a hook leaves its group only with its life. */
static int hook_set_group(PyObject* self, PyObject* group, void* closure) {
  (void)closure;
  if (group == NULL || !PyObject_TypeCheck(group, group_type)) {
    PyErr_SetString(PyExc_TypeError, "the group of a Hook must be a Group");
    return -1;
  }
  Hook* hook = (Hook*)self;
  PyObject* before = (PyObject*)hook->group;
  hook->group = (Group*)Py_NewRef(group);
  Py_XDECREF(before);
  return 0;
}

/* Shows the collector all references, from Python 3.9 on also the one to the type. */
static int hook_traverse(PyObject* self, visitproc visit, void* arg) {
  const Hook* hook = (Hook*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(hook->step);
  Py_VISIT(hook->parameter);
  Py_VISIT(hook->group);
  Py_VISIT(hook->handle);
  Py_VISIT(hook->session);
  Py_VISIT(hook->place);
  Py_VISIT(hook->dtype);
  Py_VISIT(hook->layout);
  return 0;
}

static int hook_clear(PyObject* self) {
  Hook* hook = (Hook*)self;
  hook->request = 0; /* without a session and a dtype nothing fits it */
  Py_CLEAR(hook->step);
  Py_CLEAR(hook->parameter);
  Py_CLEAR(hook->group);
  Py_CLEAR(hook->handle);
  Py_CLEAR(hook->session);
  Py_CLEAR(hook->place);
  Py_CLEAR(hook->dtype);
  Py_CLEAR(hook->layout);
  return 0;
}

/* Batch(session, place, stream). Its arrays are part of the object, and hold MOST entries. */
static int batch_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  Batch* batch = (Batch*)self;
  PyObject *session, *place;
  unsigned long long stream;
  if (!PyArg_ParseTuple(arguments, "OOK", &session, &place, &stream)) return -1;
  if (batch->session != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "a Batch is initialised only once");
    return -1;
  }
  batch->memory = PyList_New(0);
  batch->hooks = PyList_New(0);
  if (batch->memory == NULL || batch->hooks == NULL) return -1;
  batch->session = Py_NewRef(session);
  batch->place = Py_NewRef(place);
  batch->stream = (uintptr_t)stream;
  return 0;
}

/* The arrays go to cffi as addresses, without a copy; they are valid as long as the batch lives. */
static PyObject* batch_requests(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((Batch*)self)->requests);
}

static PyObject* batch_addresses(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((Batch*)self)->addresses);
}

static PyObject* batch_stream(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(((Batch*)self)->stream);
}

/* Requests and addresses are numbers, so the collector has four references to follow. */
static int batch_traverse(PyObject* self, visitproc visit, void* arg) {
  const Batch* batch = (Batch*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(batch->session);
  Py_VISIT(batch->place);
  Py_VISIT(batch->memory);
  Py_VISIT(batch->hooks);
  return 0;
}

static int batch_clear(PyObject* self) {
  Batch* batch = (Batch*)self;
  Py_CLEAR(batch->session);
  Py_CLEAR(batch->place);
  Py_CLEAR(batch->memory);
  Py_CLEAR(batch->hooks);
  return 0;
}

/* Step.enqueue(): for Python code that has made a gradient usual, or reduces it without autograd's call. */
static PyObject* step_enqueue(PyObject* self, PyObject* hook) {
  if (!PyObject_TypeCheck(hook, hook_type) || ((Hook*)hook)->parameter == NULL) {
    PyErr_SetString(PyExc_TypeError, "Step.enqueue() needs a Hook of a parameter");
    return NULL;
  }
  return none_unless(rueda_step_enqueue((Step*)self, (Hook*)hook) < 0);
}

/* Step.send_held(): wakes the engine in any case, since Python calls it when the step has no more gradients. */
static PyObject* step_send_held(PyObject* self, PyObject* unused) {
  (void)unused;
  return none_unless(rueda_step_send((Step*)self, 0) < 0);
}

/* Step.restart(): drops a batch that was never enqueued; its gradients belong to the step before. */
static PyObject* step_restart(PyObject* self, PyObject* units) {
  Step* step = (Step*)self;
  const Py_ssize_t left = PyLong_AsSsize_t(units);
  if (left == -1 && PyErr_Occurred()) return NULL;
  step->left = left;
  step->asleep = 0;
  Py_CLEAR(step->held);
  Py_RETURN_NONE;
}

/* The hooks of a step belong to the dictionary of the class in Python, which the collector visits by itself. */
static int step_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Step*)self)->held);
  return 0;
}

static int step_clear(PyObject* self) {
  Py_CLEAR(((Step*)self)->held);
  return 0;
}

/* Frees an object after its references are cleared. An object of a type made at run time also holds that type. */
static void release(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/* The collector must not visit an object while it is being cleared, so each of these takes it out first. */
static void hook_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  hook_clear(self);
  release(self);
}

static void batch_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  batch_clear(self);
  release(self);
}

static void step_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  step_clear(self);
  release(self);
}

/* Python sets `missing` at the start of a step; hooks count it down. */
static PyMemberDef group_members[] = {
    {"missing", T_PYSSIZET, offsetof(Group, missing), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot group_slots[] = {{Py_tp_members, group_members}, {0, NULL}};

/* The lists are read-only as attributes, but Python shortens them after an enqueue that stopped halfway. */
static PyMemberDef batch_members[] = {
    {"session", T_OBJECT, offsetof(Batch, session), READONLY, NULL},
    {"place", T_OBJECT, offsetof(Batch, place), READONLY, NULL},
    {"memory", T_OBJECT, offsetof(Batch, memory), READONLY, NULL},
    {"hooks", T_OBJECT, offsetof(Batch, hooks), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef batch_properties[] = {
    {"requests", batch_requests, NULL, "The address of the array of requests.", NULL},
    {"addresses", batch_addresses, NULL, "The address of the array of the gradients' addresses.", NULL},
    {"stream", batch_stream, NULL, "The number of the stream behind which the gradients are ready.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_init, batch_init},
    {Py_tp_traverse, batch_traverse},
    {Py_tp_clear, batch_clear},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_members, batch_members},
    {Py_tp_getset, batch_properties},
    {0, NULL},
};

/* `held` and `asleep` are not visible: only hooks may change the current batch. */
static PyMemberDef step_members[] = {
    {"passes_per_step", T_PYSSIZET, offsetof(Step, passes_per_step), 0, NULL},
    {"announces", T_PYSSIZET, offsetof(Step, announces), 0, NULL},
    {"alone", T_PYSSIZET, offsetof(Step, alone), 0, NULL},
    {"left", T_PYSSIZET, offsetof(Step, left), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef step_methods[] = {
    {"enqueue", step_enqueue, METH_O, "Adds the gradient of a Hook to the current batch, or enqueues it."},
    {"send_held", step_send_held, METH_NOARGS, "Enqueues the current batch, if there is one."},
    {"restart", step_restart, METH_O,
     "Begins a step with this number of groups and gradients in no group, and an empty batch."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot step_slots[] = {
    {Py_tp_traverse, step_traverse}, {Py_tp_clear, step_clear},     {Py_tp_dealloc, step_dealloc},
    {Py_tp_members, step_members},   {Py_tp_methods, step_methods}, {0, NULL},
};

/* Python sets `handle` for gradients that it enqueues itself, and resets it and `passes` after a step. */
static PyMemberDef hook_members[] = {
    {"parameter", T_OBJECT, offsetof(Hook, parameter), READONLY, NULL},
    {"passes", T_PYSSIZET, offsetof(Hook, passes), 0, NULL},
    {"handle", T_OBJECT, offsetof(Hook, handle), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef hook_methods[] = {
    {"expect", hook_expect, METH_VARARGS,
     "expect(session, place, dtype, layout, count, bytes, request): sets the request and the gradients that it fits."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef hook_properties[] = {
    {"group", hook_group, hook_set_group, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot hook_slots[] = {
    {Py_tp_call, rueda_hook_call}, {Py_tp_init, hook_init},         {Py_tp_traverse, hook_traverse},
    {Py_tp_clear, hook_clear},     {Py_tp_dealloc, hook_dealloc},   {Py_tp_members, hook_members},
    {Py_tp_methods, hook_methods}, {Py_tp_getset, hook_properties}, {0, NULL},
};

/* Makes a type and adds it to the module. Python may derive from each of them. Returns -1 with an exception set. */
static int add_type(PyObject* module, PyTypeObject** type, const char* name, size_t bytes, unsigned int more_flags,
                    PyType_Slot* slots) {
  PyType_Spec spec = {.name = name,
                      .basicsize = (int)bytes,
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | more_flags,
                      .slots = slots};
  *type = (PyTypeObject*)PyType_FromSpec(&spec);
  return *type == NULL ? -1 : PyModule_AddType(module, *type);
}

/* A Group holds no objects, so the collector need not know it. */
static int add_types(PyObject* module) {
  const unsigned int collected = Py_TPFLAGS_HAVE_GC;
  if (add_type(module, &group_type, "rueda._hooks.Group", sizeof(Group), 0, group_slots) < 0) return -1;
  if (add_type(module, &rueda_batch_type, "rueda._hooks.Batch", sizeof(Batch), collected, batch_slots) < 0) return -1;
  if (add_type(module, &step_type, "rueda._hooks.Step", sizeof(Step), collected, step_slots) < 0) return -1;
  return add_type(module, &hook_type, "rueda._hooks.Hook", sizeof(Hook), collected, hook_slots);
}

/* Makes the names once, for the whole process: a look-up by an interned string compares addresses. */
static int intern_names(void) {
  const struct {
    PyObject** slot;
    const char* text;
  } all[] = {
      {&rueda_hook_names.grad, "grad"},
      {&rueda_hook_names.dtype, "dtype"},
      {&rueda_hook_names.layout, "layout"},
      {&rueda_hook_names.is_cpu, "is_cpu"},
      {&rueda_hook_names.device, "device"},
      {&rueda_hook_names.stream, "stream"},
      {&rueda_hook_names.numel, "numel"},
      {&rueda_hook_names.is_contiguous, "is_contiguous"},
      {&rueda_hook_names.data_ptr, "data_ptr"},
      {&rueda_hook_names.untyped_storage, "untyped_storage"},
      {&rueda_hook_names.detach, "detach"},
      {&rueda_hook_names.begin, "_begin"},
      {&rueda_hook_names.send, "_send"},
      {&rueda_hook_names.too_many, "_too_many"},
      {&rueda_hook_names.enqueue_unusual, "_enqueue_unusual"},
      {&rueda_hook_names.enqueue_group, "_enqueue_group"},
      {&rueda_hook_names.first, "_first"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    *all[i].slot = PyUnicode_InternFromString(all[i].text);
    if (*all[i].slot == NULL) return -1;
  }
  return 0;
}

/* A module without state of its own: the types and names above are of the process (-1). */
static PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                        "rueda._hooks",
                                        "The hooks of gradients: the usual path, in C.",
                                        -1,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__hooks(void);
PyMODINIT_FUNC PyInit__hooks(void) {
  PyObject* module = PyModule_Create(&module_definition);
  if (module == NULL) return NULL;
  if (intern_names() < 0 || add_types(module) < 0) {
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
