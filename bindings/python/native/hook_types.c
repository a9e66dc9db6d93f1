/* The types of rueda._hooks: what Python sees of them, and what the garbage collector does. */

#include "hooks.h"

struct rueda_hook_names rueda_hook_names;
PyTypeObject* rueda_batch_type;
static PyTypeObject *group_type, *step_type, *hook_type;

static PyObject* none_unless(int failed) {
  if (failed) return NULL;
  Py_RETURN_NONE;
}

static PyObject* hook_expect(PyObject* self, PyObject* arguments) {
  PyObject *session, *dtype, *layout;
  Py_ssize_t count, bytes;
  unsigned long long request;
  if (!PyArg_ParseTuple(arguments, "OOOnnK", &session, &dtype, &layout, &count, &bytes, &request)) return NULL;
  Hook* hook = (Hook*)self;
  PyObject* before[] = {hook->session, hook->dtype, hook->layout};
  hook->session = Py_NewRef(session);
  hook->dtype = Py_NewRef(dtype);
  hook->layout = Py_NewRef(layout);
  hook->count = count;
  hook->bytes = bytes;
  hook->request = (uintptr_t)request;
  for (int i = 0; i < 3; ++i) Py_XDECREF(before[i]);
  Py_RETURN_NONE;
}

static int hook_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  Hook* hook = (Hook*)self;
  PyObject *step, *parameter;
  if (!PyArg_ParseTuple(arguments, "O!O", step_type, &step, &parameter)) return -1;
  if (hook->step != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "a gradient's hook is made once");
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

static int hook_set_group(PyObject* self, PyObject* group, void* closure) {
  (void)closure;
  if (group == NULL || !PyObject_TypeCheck(group, group_type)) {
    PyErr_SetString(PyExc_TypeError, "a hook's group is a Group");
    return -1;
  }
  Hook* hook = (Hook*)self;
  PyObject* before = (PyObject*)hook->group;
  hook->group = (Group*)Py_NewRef(group);
  Py_XDECREF(before);
  return 0;
}

static int hook_traverse(PyObject* self, visitproc visit, void* arg) {
  const Hook* hook = (Hook*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(hook->step);
  Py_VISIT(hook->parameter);
  Py_VISIT(hook->group);
  Py_VISIT(hook->handle);
  Py_VISIT(hook->session);
  Py_VISIT(hook->dtype);
  Py_VISIT(hook->layout);
  return 0;
}

static int hook_clear(PyObject* self) {
  Hook* hook = (Hook*)self;
  hook->request = 0;
  Py_CLEAR(hook->step);
  Py_CLEAR(hook->parameter);
  Py_CLEAR(hook->group);
  Py_CLEAR(hook->handle);
  Py_CLEAR(hook->session);
  Py_CLEAR(hook->dtype);
  Py_CLEAR(hook->layout);
  return 0;
}

static int batch_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  Batch* batch = (Batch*)self;
  PyObject* session;
  if (!PyArg_ParseTuple(arguments, "O", &session)) return -1;
  if (batch->session != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "a batch is made once");
    return -1;
  }
  batch->memory = PyList_New(0);
  batch->hooks = PyList_New(0);
  if (batch->memory == NULL || batch->hooks == NULL) return -1;
  batch->session = Py_NewRef(session);
  return 0;
}

static PyObject* batch_requests(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((Batch*)self)->requests);
}

static PyObject* batch_addresses(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr(((Batch*)self)->addresses);
}

static int batch_traverse(PyObject* self, visitproc visit, void* arg) {
  const Batch* batch = (Batch*)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(batch->session);
  Py_VISIT(batch->memory);
  Py_VISIT(batch->hooks);
  return 0;
}

static int batch_clear(PyObject* self) {
  Batch* batch = (Batch*)self;
  Py_CLEAR(batch->session);
  Py_CLEAR(batch->memory);
  Py_CLEAR(batch->hooks);
  return 0;
}

static PyObject* step_enqueue(PyObject* self, PyObject* hook) {
  if (!PyObject_TypeCheck(hook, hook_type) || ((Hook*)hook)->parameter == NULL) {
    PyErr_SetString(PyExc_TypeError, "a Hook of a parameter is to be enqueued");
    return NULL;
  }
  return none_unless(rueda_step_enqueue((Step*)self, (Hook*)hook) < 0);
}

static PyObject* step_send_held(PyObject* self, PyObject* unused) {
  (void)unused;
  return none_unless(rueda_step_send((Step*)self, 0) < 0);
}

static PyObject* step_restart(PyObject* self, PyObject* units) {
  Step* step = (Step*)self;
  const Py_ssize_t left = PyLong_AsSsize_t(units);
  if (left == -1 && PyErr_Occurred()) return NULL;
  step->left = left;
  step->asleep = 0;
  Py_CLEAR(step->held);
  Py_RETURN_NONE;
}

static int step_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(((Step*)self)->held);
  return 0;
}

static int step_clear(PyObject* self) {
  Py_CLEAR(((Step*)self)->held);
  return 0;
}

/* The end of an object whose references are given up. */
static void release(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

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

static PyMemberDef group_members[] = {
    {"missing", T_PYSSIZET, offsetof(Group, missing), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot group_slots[] = {{Py_tp_members, group_members}, {0, NULL}};

static PyMemberDef batch_members[] = {
    {"session", T_OBJECT, offsetof(Batch, session), READONLY, NULL},
    {"memory", T_OBJECT, offsetof(Batch, memory), READONLY, NULL},
    {"hooks", T_OBJECT, offsetof(Batch, hooks), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef batch_places[] = {
    {"requests", batch_requests, NULL, "The address of an array of the gradients' requests.", NULL},
    {"addresses", batch_addresses, NULL, "The address of an array of theirs.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_init, batch_init},
    {Py_tp_traverse, batch_traverse},
    {Py_tp_clear, batch_clear},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_members, batch_members},
    {Py_tp_getset, batch_places},
    {0, NULL},
};

static PyMemberDef step_members[] = {
    {"passes_per_step", T_PYSSIZET, offsetof(Step, passes_per_step), 0, NULL},
    {"left", T_PYSSIZET, offsetof(Step, left), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef step_methods[] = {
    {"enqueue", step_enqueue, METH_O, "Enqueues the gradient of a Hook, or holds it."},
    {"send_held", step_send_held, METH_NOARGS, "Enqueues what is held."},
    {"restart", step_restart, METH_O, "A new step begins, of so many groups and gradients in none. Nothing is held."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot step_slots[] = {
    {Py_tp_traverse, step_traverse}, {Py_tp_clear, step_clear},     {Py_tp_dealloc, step_dealloc},
    {Py_tp_members, step_members},   {Py_tp_methods, step_methods}, {0, NULL},
};

static PyMemberDef hook_members[] = {
    {"parameter", T_OBJECT, offsetof(Hook, parameter), READONLY, NULL},
    {"passes", T_PYSSIZET, offsetof(Hook, passes), 0, NULL},
    {"handle", T_OBJECT, offsetof(Hook, handle), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef hook_methods[] = {
    {"expect", hook_expect, METH_VARARGS,
     "expect(session, dtype, layout, count, bytes, request): what the request at this address is for."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef hook_places[] = {
    {"group", hook_group, hook_set_group, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot hook_slots[] = {
    {Py_tp_call, rueda_hook_call}, {Py_tp_init, hook_init},       {Py_tp_traverse, hook_traverse},
    {Py_tp_clear, hook_clear},     {Py_tp_dealloc, hook_dealloc}, {Py_tp_members, hook_members},
    {Py_tp_methods, hook_methods}, {Py_tp_getset, hook_places},   {0, NULL},
};

/* Makes the type and gives it to the module. -1: an exception. */
static int add_type(PyObject* module, PyTypeObject** type, const char* name, size_t bytes, unsigned int more_flags,
                    PyType_Slot* slots) {
  PyType_Spec spec = {.name = name,
                      .basicsize = (int)bytes,
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | more_flags,
                      .slots = slots};
  *type = (PyTypeObject*)PyType_FromSpec(&spec);
  return *type == NULL ? -1 : PyModule_AddType(module, *type);
}

static int add_types(PyObject* module) {
  const unsigned int collected = Py_TPFLAGS_HAVE_GC;
  if (add_type(module, &group_type, "rueda._hooks.Group", sizeof(Group), 0, group_slots) < 0) return -1;
  if (add_type(module, &rueda_batch_type, "rueda._hooks.Batch", sizeof(Batch), collected, batch_slots) < 0) return -1;
  if (add_type(module, &step_type, "rueda._hooks.Step", sizeof(Step), collected, step_slots) < 0) return -1;
  return add_type(module, &hook_type, "rueda._hooks.Hook", sizeof(Hook), collected, hook_slots);
}

/* Makes the names. -1: an exception. */
static int intern_names(void) {
  const struct {
    PyObject** place;
    const char* text;
  } all[] = {
      {&rueda_hook_names.grad, "grad"},
      {&rueda_hook_names.dtype, "dtype"},
      {&rueda_hook_names.layout, "layout"},
      {&rueda_hook_names.is_cpu, "is_cpu"},
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
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    *all[i].place = PyUnicode_InternFromString(all[i].text);
    if (*all[i].place == NULL) return -1;
  }
  return 0;
}

static PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                        "rueda._hooks",
                                        "What the hooks of gradients do as a rule.",
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
