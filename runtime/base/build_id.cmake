# Writes OUT, the definition of build_id(), from the sources below ROOT; runs at every build and leaves an equal file alone.
# Usage: cmake -DROOT=... -DVERSION=... -DOUT=... -P build_id.cmake
file(GLOB_RECURSE sources RELATIVE ${ROOT}
  ${ROOT}/runtime/*.cc ${ROOT}/runtime/*.h ${ROOT}/compression/*.cc ${ROOT}/compression/*.h
  ${ROOT}/ops/*.cc ${ROOT}/ops/*.h ${ROOT}/bindings/c/*.cc ${ROOT}/bindings/c/*.h)
list(SORT sources)
set(digests "")
foreach(source IN LISTS sources)
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND digests "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "runtime/base/build_id.h"

namespace rueda::core {

const char* build_id() { return "@VERSION@-@digest@"; }

}  // namespace rueda::core
]] @ONLY)
