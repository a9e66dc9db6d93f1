#pragma once
#include "ops/cuda/nccl_library.h"
#include "tests/bindings/shared_floats.h"
#include "tests/ops/cuda/gpu.h"
#include "tests/support/cuda/nccl_standin.h"

namespace rueda::test {

/// The stand-in for NCCL, over the stand-in for the driver.
inline StandinNccl& standin_nccl() {
  static StandinNccl* const one = [] {
    gpu();
    void* const library = ::dlopen(RUEDA_TEST_NCCL, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    return reinterpret_cast<StandinNccl* (*)()>(::dlsym(library, "rueda_standin_nccl"))();
  }();
  return *one;
}

/// Lets the plug-in of this process use it. Before the first session.
inline StandinNccl& use_nccl() {
  ::setenv("RUEDA_NCCL_LIBRARY", RUEDA_TEST_NCCL, 1);
  return standin_nccl();
}

/// How many batches NCCL has run for the session.
inline long batches_by_nccl(rueda_session* session) { return batches_of(session, "nccl"); }

/// Its functions as the plug-in finds them.
inline const cuda::Nccl& nccl() {
  static const cuda::Nccl one = [] {
    standin_nccl();
    return cuda::open_nccl(RUEDA_TEST_NCCL).value();
  }();
  return one;
}

}  // namespace rueda::test
