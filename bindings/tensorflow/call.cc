// One run of an op, in the order in which it happens: inputs, outputs of known shape, enqueue. What comes after the
// operation is in call_outputs.cc.
#include "bindings/tensorflow/call.h"

#include "bindings/tensorflow/failure.h"

namespace rueda::tensorflow {

bool Call::prepare(rueda_session* session) {
  if (kernel_.kind == Kind::kJoin) return true;
  if (!take_inputs()) return false;
  switch (kernel_.kind) {
    case Kind::kAllreduce:
    case Kind::kBroadcast: return allocate_like_inputs();
    case Kind::kReducescatter: return allocate_rows(session);
    case Kind::kAlltoall: return take_splits(session);
    default: break;
  }
  outputs_.resize(inputs_.size());
  return true;
}

/// The last input is the epoch; an all-to-all has its splits before that.
bool Call::take_inputs() {
  const int count = api().NumInputs(context_) - (kernel_.kind == Kind::kAlltoall ? 2 : 1);
  for (int index = 0; index < count; ++index) {
    const ScopedStatus status;
    TF_Tensor* tensor = nullptr;
    api().GetInput(context_, index, &tensor, status.get());
    if (!status.ok()) {
      fail(context_, status);
      return false;
    }
    inputs_.emplace_back(tensor);
    shapes_.push_back(inputs_.back().shape());
  }
  return true;
}

/// The library reads one split for each rank of the set, so their number is compared here. None means equal parts.
bool Call::take_splits(const rueda_session* session) {
  outputs_.resize(1);
  const ScopedStatus status;
  TF_Tensor* tensor = nullptr;
  api().GetInput(context_, 1, &tensor, status.get());
  if (!status.ok()) {
    fail(context_, status);
    return false;
  }
  const Tensor splits(tensor);
  const auto* first = static_cast<const int64_t*>(splits.data());
  const size_t count = splits.bytes() / sizeof(int64_t);
  splits_.assign(first, first + count);
  const int32_t ranks = rueda_process_set_size(session, kernel_.process_set);
  if (splits_.empty() || ranks < 0 || splits_.size() == static_cast<size_t>(ranks)) return true;  // < 0: refused later
  const std::string sentence = "alltoall: there are " + std::to_string(splits_.size()) +
                               " splits; give one for each of the " + std::to_string(ranks) +
                               " ranks of the process set";
  fail(context_, RUEDA_INVALID_ARGUMENT, sentence.c_str());
  return false;
}

Tensor Call::allocate(int index, TfType type, const std::vector<int64_t>& shape) {
  const ScopedStatus status;
  TF_Tensor* const made = api().AllocateOutput(context_, index, type, shape.data(), static_cast<int>(shape.size()),
                                               bytes_of(type, shape), status.get());
  if (status.ok()) return Tensor(made);
  fail(context_, status);
  return {};
}

/// Lets the output take the input's memory if nothing else refers to the memory. Our own reference would, so it is
/// dropped before the question and taken again behind it.
bool Call::forward(size_t index) {
  const ScopedStatus status;
  const int number = static_cast<int>(index);
  int forwarded = -1;
  inputs_[index].reset();
  TF_Tensor* output =
      api().ForwardInputOrAllocateOutput(context_, &number, 1, number, shapes_[index].data(),
                                         static_cast<int>(shapes_[index].size()), &forwarded, status.get());
  TF_Tensor* input = nullptr;
  if (status.ok()) {
    outputs_.emplace_back(output);
    api().GetInput(context_, number, &input, status.get());
  }
  if (!status.ok()) {
    fail(context_, status);
    return false;
  }
  inputs_[index] = Tensor(input);
  return true;
}

bool Call::allocate_like_inputs() {
  for (size_t index = 0; index < inputs_.size(); ++index) {
    if (!forward(index)) return false;
  }
  output_shapes_ = shapes_;
  return true;
}

/// This rank's rows of a reduce-scatter: the first ranks get one more if they cannot be divided evenly.
bool Call::allocate_rows(rueda_session* session) {
  const int64_t ranks = rueda_process_set_size(session, kernel_.process_set);
  const int64_t rank = rueda_process_set_rank(session, kernel_.process_set);
  if (ranks <= 0 || rank < 0) {
    fail(context_, rueda_last_error_code(), rueda_last_error());
    return false;
  }
  for (size_t index = 0; index < inputs_.size(); ++index) {
    std::vector<int64_t> shape = shapes_[index];
    if (!shape.empty()) shape[0] = shape[0] / ranks + (rank < shape[0] % ranks ? 1 : 0);
    outputs_.push_back(allocate(static_cast<int>(index), inputs_[index].type(), shape));
    if (!outputs_.back()) return false;
    output_shapes_.push_back(std::move(shape));
  }
  return true;
}

void Call::describe_tensors() {
  for (size_t index = 0; index < inputs_.size(); ++index) {
    in_.push_back(describe(inputs_[index].data(), inputs_[index].type(), shapes_[index]));
    if (output_shapes_.empty()) continue;
    out_.push_back(describe(outputs_[index].data(), inputs_[index].type(), output_shapes_[index]));
  }
}

rueda_op_options Call::options(rueda_callback callback) {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  options.process_set = kernel_.process_set;
  options.codec = kernel_.codec == RUEDA_CODEC_DEFAULT ? RUEDA_CODEC_NONE : kernel_.codec;
  options.has_scale = kernel_.prescale != 1 || kernel_.postscale != 1 ? 1 : 0;
  options.prescale = kernel_.prescale;
  options.postscale = kernel_.postscale;
  options.callback = callback;
  options.callback_context = this;
  const bool has_name = !kernel_.names.empty() && !kernel_.names[0].empty();
  options.name = has_name ? kernel_.names[0].c_str() : nullptr;
  return options;
}

int32_t Call::submit(rueda_session* session, rueda_callback callback, rueda_handle* handle) {
  rueda_op_options given = options(callback);
  if (kernel_.kind == Kind::kJoin) return rueda_join_async(session, &given, handle);
  describe_tensors();
  if (inputs_.size() != 1) return submit_group(session, given, handle);
  const rueda_tensor* const output = out_.empty() ? nullptr : out_.data();
  switch (kernel_.kind) {
    case Kind::kAllreduce: return rueda_allreduce_async(session, in_.data(), output, kernel_.reduce_op, &given, handle);
    case Kind::kBroadcast: return rueda_broadcast_async(session, in_.data(), output, kernel_.root, &given, handle);
    case Kind::kReducescatter:
      return rueda_reducescatter_async(session, in_.data(), output, kernel_.reduce_op, &given, handle);
    default: break;
  }
  given.allocate = allocate_output;
  given.allocate_context = this;
  if (kernel_.kind == Kind::kAllgather) return rueda_allgather_async(session, in_.data(), nullptr, &given, handle);
  return rueda_alltoall_async(session, in_.data(), splits_.empty() ? nullptr : splits_.data(), nullptr, &given, handle);
}

int32_t Call::submit_group(rueda_session* session, const rueda_op_options& options, rueda_handle* handle) {
  std::vector<const char*> names;
  for (const std::string& name : kernel_.names) names.push_back(name.c_str());
  const char* const* const each = options.name != nullptr && names.size() == in_.size() ? names.data() : nullptr;
  switch (kernel_.kind) {
    case Kind::kAllreduce:
      return rueda_grouped_allreduce_async(session, in_.size(), in_.data(), out_.data(), each, kernel_.reduce_op,
                                           &options, handle);
    case Kind::kBroadcast:
      return rueda_grouped_broadcast_async(session, in_.size(), in_.data(), out_.data(), each, kernel_.root, &options,
                                           handle);
    case Kind::kReducescatter:
      return rueda_grouped_reducescatter_async(session, in_.size(), in_.data(), out_.data(), each, kernel_.reduce_op,
                                               &options, handle);
    default: return rueda_grouped_allgather_async(session, in_.size(), in_.data(), nullptr, each, &options, handle);
  }
}

}  // namespace rueda::tensorflow
