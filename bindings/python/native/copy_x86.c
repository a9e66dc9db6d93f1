/* Copies memory past the caches on x86-64, cache line by cache line: a line that is stored whole leaves at once, and is
 * not read before. */
#include <emmintrin.h>
#include <string.h>

#include "calls.h"

enum { LINE = 64 };

void rueda_py_copy(uintptr_t to, uintptr_t from, size_t bytes) {
  char* out = (char*)to;
  const char* in = (const char*)from;
  const size_t head = (size_t)(-to % LINE);
  if (bytes < head + LINE) {
    memcpy(out, in, bytes);
    return;
  }
  memcpy(out, in, head);
  for (out += head, in += head, bytes -= head; bytes >= LINE; out += LINE, in += LINE, bytes -= LINE) {
    for (int part = 0; part < LINE; part += (int)sizeof(__m128i)) {
      _mm_stream_si128((__m128i*)(out + part), _mm_loadu_si128((const __m128i*)(in + part)));
    }
  }
  memcpy(out, in, bytes);
  _mm_sfence();
}
