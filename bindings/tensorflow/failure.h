#pragma once
#include <cstdint>
#include <string>

#include "bindings/tensorflow/tensorflow_api.h"

namespace rueda::tensorflow {

/// A TF_Status of its own, deleted at the end of the scope.
class ScopedStatus {
 public:
  ScopedStatus() : status_(api().NewStatus()) {}
  ~ScopedStatus() { api().DeleteStatus(status_); }
  ScopedStatus(const ScopedStatus&) = delete;
  ScopedStatus& operator=(const ScopedStatus&) = delete;

  TF_Status* get() const { return status_; }
  bool ok() const { return api().GetCode(status_) == TfCode::kOk; }
  const char* message() const { return api().Message(status_); }

 private:
  TF_Status* status_;
};

/// Makes the op fail with the error that Python shows for `code`, a code of rueda.h, and with `sentence`.
void fail(TF_OpKernelContext* context, int32_t code, const std::string& sentence);

/// Makes the op fail with TensorFlow's own error.
void fail(TF_OpKernelContext* context, const ScopedStatus& status);

}  // namespace rueda::tensorflow
