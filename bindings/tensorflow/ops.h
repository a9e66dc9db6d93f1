#pragma once
#include <string>

namespace rueda::tensorflow {

/// Registers all ops and their kernels in the TensorFlow of this process. Once per process, after load_api(). Returns
/// an empty string, or TensorFlow's sentence.
std::string register_ops();

}  // namespace rueda::tensorflow
