// Which of TensorFlow's exceptions stands for which of Rueda's errors. A wrong call is InvalidArgumentError. What this
// rank or all ranks must change before they go on is FailedPreconditionError. What ends the job for this rank is
// AbortedError, from which scripts restart.
#include "bindings/tensorflow/failure.h"

#include "bindings/c/rueda.h"

namespace rueda::tensorflow {
namespace {

TfCode code_for(int32_t code) {
  switch (code) {
    case RUEDA_INVALID_ARGUMENT: return TfCode::kInvalidArgument;
    case RUEDA_NOT_INITIALIZED:
    case RUEDA_MISMATCH: return TfCode::kFailedPrecondition;
    case RUEDA_PEER_LOST:
    case RUEDA_SHUT_DOWN: return TfCode::kAborted;
    case RUEDA_TIMEOUT: return TfCode::kDeadlineExceeded;
    case RUEDA_UNSUPPORTED: return TfCode::kUnimplemented;
    default: return TfCode::kInternal;
  }
}

}  // namespace

void fail(TF_OpKernelContext* context, int32_t code, const std::string& sentence) {
  const ScopedStatus status;
  api().SetStatus(status.get(), code_for(code), sentence.c_str());
  api().OpKernelContext_Failure(context, status.get());
}

void fail(TF_OpKernelContext* context, const ScopedStatus& status) {
  api().OpKernelContext_Failure(context, status.get());
}

}  // namespace rueda::tensorflow
