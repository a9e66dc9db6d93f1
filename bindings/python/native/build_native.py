"""Writes the C source of rueda._native, through which the package calls the library. Usage: build_native.py CALLS_H
RUEDA_H OUTPUT

The source uses cffi's API mode and Python's limited API, so that one binary serves every Python from 3.11 on. It links
librueda and no framework.
"""

import re
import sys

import cffi


def declarations(path):
    """The text of a header in the form that cffi parses: without comments, preprocessor lines and the braces for C++.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'#ifdef __cplusplus\nextern "C" \{\n#endif|#ifdef __cplusplus\n\}\n#endif', "", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    return text.replace("RUEDA_API ", "")


# Functions in Python that the library calls: the methods of a store (rueda/store.py), the description of what the program
# is doing (rueda/activity.py), and the allocation of outputs on devices (rueda/torch/placed.py).
CALLBACKS = """
extern "Python" int32_t rueda_py_store_set(void*, const char*, const void*, size_t);
extern "Python" int32_t rueda_py_store_get(void*, const char*, void*, size_t, size_t*, double);
extern "Python" int32_t rueda_py_store_add(void*, const char*, int64_t, int64_t*);
extern "Python" int32_t rueda_py_store_remove(void*, const char*);
extern "Python" void rueda_py_activity(void*, char*, size_t);
extern "Python" void* rueda_py_allocate(void*, size_t, int32_t, int32_t, void*);
"""


def main(calls, rueda, output):
    """Writes the source for the declarations of both headers to the file `output`."""
    ffi = cffi.FFI()
    ffi.cdef(declarations(rueda) + declarations(calls) + CALLBACKS)
    ffi.set_source("rueda._native", '#include "calls.h"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
