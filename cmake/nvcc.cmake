# rueda_pack_image: the kernels of ops/cuda as bytes, if there is an nvcc: a toolkit's, or what scripts/setup --nvcc has
# brought. Sets RUEDA_GPU_KERNELS to whether there are kernels. No other part of the build needs nvcc, and a build for sanitizers
# has no such part.
find_program(RUEDA_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} PATHS $ENV{CUDA_HOME}/bin ${PROJECT_SOURCE_DIR}/build/cuda/bin)
set(RUEDA_GPU_KERNELS OFF CACHE INTERNAL "whether the CUDA plug-in has kernels")
if(RUEDA_NVCC AND NOT RUEDA_SANITIZE)
  # An old nvcc, or a compiler for the host that does not suit it, is found out here and not in the middle of the build.
  set(trial ${CMAKE_CURRENT_BINARY_DIR}/nvcc_trial.cu)
  file(WRITE ${trial} "template <typename T> concept Small = sizeof(T) < 8;\n"
    "struct Task { __int128 value; };\n__global__ void run(const __grid_constant__ Task task, int* out) { *out = int(task.value); }\n")
  execute_process(COMMAND ${RUEDA_NVCC} --fatbin -std=c++20 -gencode arch=compute_75,code=sm_75 -o ${trial}.fatbin ${trial} RESULT_VARIABLE failed ERROR_VARIABLE why OUTPUT_QUIET)
  execute_process(COMMAND ${RUEDA_NVCC} --list-gpu-code OUTPUT_VARIABLE gpus ERROR_QUIET)
  if(failed OR NOT gpus MATCHES "sm_90[^0-9]")
    message(WARNING "${RUEDA_NVCC} cannot compile the kernels, which need nvcc 12 or newer; the CUDA plug-in is built without them: ${why}")
  else()
    set(RUEDA_GPU_KERNELS ON CACHE INTERNAL "whether the CUDA plug-in has kernels")
  endif()
endif()
set(sources pack_image_none.cc)
set(image ${CMAKE_CURRENT_BINARY_DIR}/pack.fatbin)
if(RUEDA_SANITIZE)
  # The tests run the kernels on the host. The driver that they bring looks only at how an image of nvcc's begins.
  set(RUEDA_GPU_KERNELS ON CACHE INTERNAL "whether the CUDA plug-in has kernels")
  set(bytes ".long 0xba55ed50")
  set(gpus "sm_90, but for tests on the host, and later ones")
elseif(RUEDA_GPU_KERNELS)
  set(codes)
  set(known)
  foreach(generation 75 80 86 89 90 100)
    if(gpus MATCHES "sm_${generation}[^0-9]")
      list(APPEND codes -gencode arch=compute_${generation},code=sm_${generation})
      string(APPEND known "sm_${generation}, ")
      set(newest ${generation})
    endif()
  endforeach()
  list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})  # later ones compile it when they load it
  set(gpus "${known}and later ones")
  set(bytes ".incbin \"${image}\"")
  add_custom_command(OUTPUT ${image}
    COMMAND ${RUEDA_NVCC} --fatbin -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -I${PROJECT_SOURCE_DIR} ${codes}
      -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/all_kernels.cu
    DEPENDS all_kernels.cu fold.cu pack.cu elements.cuh fold_task.h pack_tiles.h ${PROJECT_SOURCE_DIR}/compression/held_integer.h ${PROJECT_SOURCE_DIR}/runtime/base/half.h
      ${PROJECT_SOURCE_DIR}/runtime/base/dtype.h
    COMMENT "Compiling the kernels for GPUs" VERBATIM)
endif()
if(RUEDA_GPU_KERNELS)
  set(sources ${CMAKE_CURRENT_BINARY_DIR}/pack_image.cc)
  configure_file(pack_image.cc.in ${sources} @ONLY)
  if(NOT RUEDA_SANITIZE)
    set_source_files_properties(${sources} PROPERTIES OBJECT_DEPENDS ${image})
  endif()
endif()
add_library(rueda_pack_image OBJECT ${sources})
target_link_libraries(rueda_pack_image PRIVATE rueda_flags)
# A batch of sources would not depend on the image, and ccache would not see that it has changed.
set_target_properties(rueda_pack_image PROPERTIES UNITY_BUILD OFF CXX_COMPILER_LAUNCHER "")
