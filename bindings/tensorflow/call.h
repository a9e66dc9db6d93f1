#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bindings/c/rueda.h"
#include "bindings/tensorflow/kernel.h"
#include "bindings/tensorflow/tensors.h"

namespace rueda::tensorflow {

/// One run of one op: the loan of its inputs and outputs from the enqueue to the end of the operation.
///
/// prepare() and submit() run on TensorFlow's thread, finish() on the completer's; allocate() on a lane's, in between.
/// They never overlap. TensorFlow keeps the kernel and the context until `done` has been called.
class Call {
 public:
  Call(const Kernel& kernel, TF_OpKernelContext* context) : kernel_(kernel), context_(context) {}

  /// Takes the inputs and allocates the outputs of known shape. Returns false if that failed; TensorFlow then knows
  /// why.
  bool prepare(rueda_session* session);

  /// Enqueues. With `callback`, on_completion() ends the call, perhaps before this returns; without it the caller waits
  /// for the handle and calls finish(). Returns a code of rueda.h; if it is not RUEDA_OK, nothing was enqueued.
  int32_t submit(rueda_session* session, rueda_callback callback, rueda_handle* handle);

  /// Makes the remaining outputs, or tells TensorFlow of the failure, and returns all loans. `handle` has ended with
  /// `code` and is still live.
  void finish(rueda_handle handle, int32_t code);

  /// TensorFlow's callback, if the operation has one of ours.
  std::function<void()> done;

 private:
  bool take_inputs();
  bool take_splits(const rueda_session* session);
  bool allocate_like_inputs();
  bool allocate_rows(rueda_session* session);
  bool forward(size_t index);
  Tensor allocate(int index, TfType type, const std::vector<int64_t>& shape);
  void describe_tensors();
  rueda_op_options options(rueda_callback callback);
  int32_t submit_group(rueda_session* session, const rueda_op_options& options, rueda_handle* handle);
  bool take_rows(rueda_handle handle);
  bool copy_output(rueda_handle handle, size_t index);
  bool answer_counts(rueda_handle handle);
  bool answer_join(rueda_handle handle);
  void* allocate_arriving(size_t bytes);
  static void* allocate_output(void* call, size_t bytes, int32_t device, int32_t device_index, void* stream);

  const Kernel& kernel_;
  TF_OpKernelContext* context_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<int64_t>> shapes_;  // of the inputs
  std::vector<Tensor> outputs_;
  std::vector<std::vector<int64_t>> output_shapes_;
  std::vector<int64_t> splits_;
  std::vector<rueda_tensor> in_;
  std::vector<rueda_tensor> out_;
};

}  // namespace rueda::tensorflow
