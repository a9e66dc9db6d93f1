/* Copies memory on machines without a way past the caches that every one of their kind has. */
#include <string.h>

#include "calls.h"

void rueda_py_copy(uintptr_t to, uintptr_t from, size_t bytes) { memcpy((void*)to, (const void*)from, bytes); }
