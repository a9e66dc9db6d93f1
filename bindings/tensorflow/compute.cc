// Runs ops. The local ones answer at once. The others enqueue and return, so that any number of them is in flight while
// TensorFlow's threads go on; the completer's thread ends them. If TensorFlow's callback cannot be copied, the thread
// waits instead.
#include <memory>

#include "bindings/tensorflow/call.h"
#include "bindings/tensorflow/done.h"
#include "bindings/tensorflow/failure.h"
#include "bindings/tensorflow/kernel.h"
#include "bindings/tensorflow/session_in_use.h"

namespace rueda::tensorflow {
namespace {

template <typename Number>
void answer(TF_OpKernelContext* context, TfType type, Number number) {
  const ScopedStatus status;
  const Tensor output(api().AllocateOutput(context, 0, type, nullptr, 0, sizeof number, status.get()));
  if (!status.ok()) return fail(context, status);
  *static_cast<Number*>(output.data()) = number;
}

int32_t query(const Kernel& kernel, rueda_session* session) {
  switch (static_cast<Question>(kernel.question)) {
    case Question::kRank: return rueda_rank(session);
    case Question::kSize: return rueda_size(session);
    case Question::kLocalRank: return rueda_local_rank(session);
    case Question::kLocalSize: return rueda_local_size(session);
    case Question::kSetSize: return rueda_process_set_size(session, kernel.process_set);
    case Question::kSetRank: return rueda_process_set_rank(session, kernel.process_set);
    case Question::kIncluded: break;
  }
  size_t members = 0;
  if (rueda_process_set_ranks(session, kernel.process_set, nullptr, 0, &members) != RUEDA_OK) return -1;
  return rueda_process_set_rank(session, kernel.process_set) < 0 ? 0 : 1;
}

void run_query(const Kernel& kernel, rueda_session* session, TF_OpKernelContext* context) {
  const int32_t found = query(kernel, session);
  if (found < 0) return fail(context, rueda_last_error_code(), rueda_last_error());
  answer(context, TfType::kInt32, found);
}

void on_completion(void* context, rueda_handle handle, int32_t code) {
  const std::unique_ptr<Call> call(static_cast<Call*>(context));
  call->finish(handle, code);
  rueda_release(handle);
  call->done();
}

/// Enqueues, and leaves the rest to on_completion(). Returns false if nothing was enqueued; TensorFlow then knows why.
bool start(std::unique_ptr<Call> call, rueda_session* session, TF_OpKernelContext* context,
           TF_AsyncOpKernelDoneCallback* done) {
  call->done = copy_of(done);
  Call* const lent = call.release();  // before the enqueue: the operation may end before that returns
  rueda_handle handle = 0;
  const int32_t code = lent->submit(session, on_completion, &handle);
  if (code == RUEDA_OK) return true;
  call.reset(lent);
  fail(context, code, rueda_last_error());
  return false;
}

void run_blocking(Call& call, rueda_session* session, TF_OpKernelContext* context) {
  rueda_handle handle = 0;
  int32_t code = call.submit(session, nullptr, &handle);
  if (code != RUEDA_OK) return fail(context, code, rueda_last_error());
  do code = rueda_wait(handle, -1);
  while (code == RUEDA_INTERRUPTED);
  call.finish(handle, code);
  rueda_release(handle);
}

}  // namespace

void compute(void* given, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const Kernel& kernel = *static_cast<const Kernel*>(given);
  if (kernel.kind == Kind::kEpoch) {
    answer(context, TfType::kInt64, int64_t{0});
    return api().RunAsyncOpKernelDoneCallback(done);
  }
  std::string why;
  rueda_session* const session = session_in_use(why);
  if (session == nullptr) {
    fail(context, RUEDA_NOT_INITIALIZED, why);
  } else if (kernel.kind == Kind::kQuery) {
    run_query(kernel, session, context);
  } else if (auto call = std::make_unique<Call>(kernel, context); call->prepare(session)) {
    if (!is_copyable(done)) {
      run_blocking(*call, session, context);
    } else if (start(std::move(call), session, context, done)) {
      return;
    }
  }
  api().RunAsyncOpKernelDoneCallback(done);
}

}  // namespace rueda::tensorflow
