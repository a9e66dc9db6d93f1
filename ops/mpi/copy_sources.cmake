# Copies the MPI plug-in's sources and the headers they include to TO, and rueda-build-mpi to BIN; equal files stay.
# Usage: cmake -DFROM=... -DBUILD_ID=... -DTO=... -DBIN=... -P copy_sources.cmake
file(GLOB files RELATIVE ${FROM} ${FROM}/ops/mpi/*.cc ${FROM}/ops/mpi/*.h ${FROM}/runtime/base/*.h ${FROM}/runtime/net/*.h)
foreach(file IN LISTS files ITEMS ops/algorithm.h runtime/agreement/batch_shape.h runtime/agreement/request.h
    runtime/agreement/tensor_name.h runtime/engine/executor.h)
  configure_file(${FROM}/${file} ${TO}/${file} COPYONLY)
endforeach()
configure_file(${BUILD_ID} ${TO}/build_id.cc COPYONLY)
configure_file(${FROM}/ops/mpi/rueda-build-mpi ${BIN}/rueda-build-mpi COPYONLY)
