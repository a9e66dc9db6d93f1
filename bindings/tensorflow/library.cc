// What the dynamic loader and the Python package see of this library. tf.load_op_library() opens it and expects that
// its ops exist as soon as that returns, so they are registered while it is loaded; the Python package then asks
// whether that worked, because nothing can be returned from there.
#include <string>

#include "bindings/tensorflow/done.h"
#include "bindings/tensorflow/ops.h"
#include "bindings/tensorflow/session_in_use.h"
#include "bindings/tensorflow/tensorflow_api.h"

namespace rueda::tensorflow {
namespace {

std::string& load_failure() {
  static std::string sentence;
  return sentence;
}

__attribute__((constructor)) void load() {
  load_failure() = load_api();
  if (load_failure().empty()) load_failure() = register_ops();
}

}  // namespace
}  // namespace rueda::tensorflow

extern "C" {

/// The reason that there are no ops; empty if there are.
RUEDA_API const char* rueda_tensorflow_failure() { return rueda::tensorflow::load_failure().c_str(); }

/// Ops enqueue in this session from here on.
RUEDA_API void rueda_tensorflow_use(rueda_session* session) { rueda::tensorflow::use_session(session); }

/// Ops fail with this sentence from here on, because the process takes part in no operation yet.
RUEDA_API void rueda_tensorflow_refuse(const char* why) { rueda::tensorflow::refuse_sessions(why); }

/// Makes kernels block from here on, as they do if TensorFlow's callbacks cannot be copied. For tests.
RUEDA_API void rueda_tensorflow_block() { rueda::tensorflow::forbid_copies(); }
}
