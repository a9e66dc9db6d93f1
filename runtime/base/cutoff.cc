// The reason first, then the bell: a loop that the bell wakes finds the reason.
#include "runtime/base/cutoff.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/shortage.h"

namespace rueda::core {

Result<std::shared_ptr<Cutoff>> Cutoff::make() {
  UniqueFd bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell.valid()) return Status(Code::kSystem, "eventfd: " + reason_of(errno));
  return std::shared_ptr<Cutoff>(new Cutoff(std::move(bell)));
}

bool Cutoff::raise(Status why, Ending ending) {
  MutexLock lock(mutex_);
  if (abort_.raised()) return false;
  ending_.store(ending);
  const uint64_t ring = 1;
  static_cast<void>(abort_.raise(std::move(why)));
  static_cast<void>(!::write(bell_.get(), &ring, sizeof ring));
  return true;
}

}  // namespace rueda::core
