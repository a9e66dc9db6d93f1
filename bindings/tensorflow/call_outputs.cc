// What a call does once peers have answered. A single tensor's rows arrive in memory that TensorFlow allocates at the
// last moment, when their number is known. A group's outputs are the library's, and are copied: the library asks for
// memory by bytes alone, which does not say for which tensor of a group. The end of the loans comes last, because
// TensorFlow may free everything once its callback has run.
#include <cstring>

#include "bindings/tensorflow/call.h"
#include "bindings/tensorflow/failure.h"

namespace rueda::tensorflow {

void* Call::allocate_output(void* call, size_t bytes, int32_t, int32_t, void*) {
  return static_cast<Call*>(call)->allocate_arriving(bytes);
}

/// The library asks only for outputs that have bytes, so a row has some, too.
void* Call::allocate_arriving(size_t bytes) {
  const TfType type = inputs_[0].type();
  std::vector<int64_t> shape = shapes_[0];
  shape[0] = 1;
  shape[0] = static_cast<int64_t>(bytes / bytes_of(type, shape));
  outputs_[0] = allocate(0, type, shape);
  return outputs_[0] ? outputs_[0].data() : nullptr;
}

void Call::finish(rueda_handle handle, int32_t code) {
  if (code != RUEDA_OK) {
    fail(context_, code, rueda_handle_error(handle));
  } else if (kernel_.kind == Kind::kJoin) {
    answer_join(handle);
  } else if (kernel_.kind == Kind::kAllgather) {
    take_rows(handle);
  } else if (kernel_.kind == Kind::kAlltoall && take_rows(handle)) {
    answer_counts(handle);
  }
  outputs_.clear();
  inputs_.clear();
}

bool Call::take_rows(rueda_handle handle) {
  for (size_t index = 0; index < outputs_.size(); ++index) {
    if (!outputs_[index] && !copy_output(handle, index)) return false;
  }
  return true;
}

bool Call::copy_output(rueda_handle handle, size_t index) {
  rueda_tensor arrived{};
  arrived.struct_size = sizeof arrived;
  const int32_t code = rueda_output(handle, index, &arrived);
  if (code != RUEDA_OK) {
    fail(context_, code, rueda_last_error());
    return false;
  }
  const std::vector<int64_t> shape(arrived.shape, arrived.shape + arrived.dimensions);
  outputs_[index] = allocate(static_cast<int>(index), inputs_[index].type(), shape);
  if (!outputs_[index]) return false;
  const size_t bytes = outputs_[index].bytes();
  if (bytes > 0) std::memcpy(outputs_[index].data(), arrived.data, bytes);
  return true;
}

bool Call::answer_counts(rueda_handle handle) {
  size_t count = 0;
  int32_t code = rueda_received_splits(handle, nullptr, 0, &count);
  std::vector<int64_t> received(count);
  if (code == RUEDA_OK) code = rueda_received_splits(handle, received.data(), received.size(), &count);
  if (code != RUEDA_OK) {
    fail(context_, code, rueda_last_error());
    return false;
  }
  const Tensor output = allocate(1, TfType::kInt32, {static_cast<int64_t>(count)});
  if (!output) return false;
  auto* const out = static_cast<int32_t*>(output.data());
  for (size_t i = 0; i < received.size(); ++i) out[i] = static_cast<int32_t>(received[i]);
  return true;
}

bool Call::answer_join(rueda_handle handle) {
  int32_t last = -1;
  const int32_t code = rueda_last_joined(handle, &last);
  if (code != RUEDA_OK) {
    fail(context_, code, rueda_last_error());
    return false;
  }
  const Tensor output = allocate(0, TfType::kInt32, {});
  if (!output) return false;
  std::memcpy(output.data(), &last, sizeof last);
  return true;
}

}  // namespace rueda::tensorflow
