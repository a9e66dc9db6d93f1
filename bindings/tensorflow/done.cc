// TensorFlow hands a kernel the address of a callback that lives in its caller's frame. An asynchronous kernel runs it
// after that frame has gone, so it needs a copy, for which the C API has no function. The callback is a
// std::function<void()> of libstdc++:
//
//   word 0, 1: the stored function object, or its address
//   word 2:    the function that copies and destroys it (the manager)
//   word 3:    the function that calls it (the invoker)
//
// Nothing promises this layout. So the first callback is examined before it is copied: both functions must lie in one
// library of the process. Data of any other layout point to the heap, to a stack, or nowhere, which dladdr() tells.
// If they do, kernels block until their operation has ended, and call the original.
#include "bindings/tensorflow/done.h"

#include <dlfcn.h>

#include <atomic>

namespace rueda::tensorflow {
namespace {

enum class Copies { kUnknown, kAllowed, kForbidden };
std::atomic<Copies> copies{Copies::kUnknown};

constexpr size_t kManager = 2;
constexpr size_t kInvoker = 3;
static_assert(sizeof(std::function<void()>) == (kInvoker + 1) * sizeof(void*));

Copies examine(TF_AsyncOpKernelDoneCallback* given) {
  const void* const* words = reinterpret_cast<const void* const*>(given);
  Dl_info manager{};
  Dl_info invoker{};
  const bool are_code = words[kManager] != nullptr && dladdr(words[kManager], &manager) != 0 &&
                        words[kInvoker] != nullptr && dladdr(words[kInvoker], &invoker) != 0;
  return are_code && manager.dli_fbase == invoker.dli_fbase ? Copies::kAllowed : Copies::kForbidden;
}

}  // namespace

bool is_copyable(TF_AsyncOpKernelDoneCallback* given) {
  Copies known = copies.load(std::memory_order_relaxed);
  if (known == Copies::kUnknown) {
    const Copies found = examine(given);
    if (copies.compare_exchange_strong(known, found, std::memory_order_relaxed)) known = found;
  }
  return known == Copies::kAllowed;
}

void forbid_copies() { copies.store(Copies::kForbidden, std::memory_order_relaxed); }

std::function<void()> copy_of(TF_AsyncOpKernelDoneCallback* given) {
  return *reinterpret_cast<const std::function<void()>*>(given);
}

}  // namespace rueda::tensorflow
