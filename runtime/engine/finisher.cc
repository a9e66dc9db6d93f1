// Waits for devices so that no lane has to. The device calls back when a mark has been passed; a failed device does
// not, and the end of the epoch is not a mark. So the thread also looks once a second, and `wake` makes it look at
// once. It asks the device's library then, too: a kernel that waits for a broken link passes no mark.
//
// After the end of the epoch a batch is not failed at once: the device may still write to its tensors, which the caller
// would take back. Work that is staged through the host ends by itself. A device that does not end it within
// `kLastWork` is given up, and the sentence says so.
#include "runtime/engine/finisher.h"

#include <fmt/format.h>

#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/engine/core_claim.h"

namespace rueda::core {
namespace {

constexpr std::chrono::seconds kMarkLook{1};
constexpr std::chrono::seconds kLastWork{2};

Status given_up(const Batch& batch, const Status& why) {
  return {why.code(),
          fmt::format("{}; device {} number {} has not finished the work that was launched there within {} s and may "
                      "still write to the tensors",
                      why.sentence(), batch.device->functions->name, batch.device->index, kLastWork.count()),
          why.rank()};
}

}  // namespace

void Finisher::add(std::unique_ptr<Batch> batch) {
  Status why;
  {
    MutexLock lock(mutex_);
    if (!thread_.joinable()) why = start_thread(thread_, "that waits for devices", [this] { run(); });
    try {
      if (why.ok()) {
        launched_.push_back(std::move(batch));
        changed_.notify_all();
        return;
      }
    } catch (const std::exception& error) {  // `batch` is where it was: its operations have waiters
      why = failure_of(error);
    }
  }
  finish_(*batch, why);
}

bool Finisher::has(SetId set, uint64_t number) const {
  MutexLock lock(mutex_);
  for (const auto& batch : launched_) {
    if (batch->set == set && batch->number == number) return true;
  }
  return false;
}

bool Finisher::idle() const {
  MutexLock lock(mutex_);
  return launched_.empty();
}

bool Finisher::drain(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!launched_.empty()) {
    if (deadline.passed()) return false;
    changed_.wait_for(mutex_, deadline.left(kMarkLook));
  }
  return true;
}

void Finisher::wake() {
  MutexLock lock(mutex_);
  ++news_;
  changed_.notify_all();
}

/// The destructor calls this too; a second call finds no thread to join.
void Finisher::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

/// The head leaves the list when its waiters have been told, so that `drain` means that.
void Finisher::run() {
  place_thread("rueda-finisher", {});
  for (;;) {
    Batch* head = nullptr;
    {
      MutexLock lock(mutex_);
      while (launched_.empty() && !stopping_) changed_.wait(mutex_);
      if (launched_.empty()) return;
      head = launched_.front().get();
    }
    const Status result = await_safely(*head);
    finish_(*head, result);
    std::unique_ptr<Batch> finished;
    MutexLock lock(mutex_);
    finished = std::move(launched_.front());
    launched_.pop_front();
    changed_.notify_all();
  }
}

/// Returns when there is news, or at `until`.
void Finisher::doze(Deadline until) {
  MutexLock lock(mutex_);
  if (news_ == 0) changed_.wait_for(mutex_, until.left(kMarkLook));
  news_ = 0;
}

/// Without memory for a sentence it looks again a second later: the loan of the tensors must not end before the mark.
Status Finisher::await_safely(const Batch& batch) {
  for (;;) {
    try {
      return await(batch);
    } catch (const std::exception&) {
      doze(Deadline::after(kMarkLook));
    }
  }
}

/// Without memory for the notice, which is a record of its own, nothing is lost: the thread looks by itself, too.
Status Finisher::await(const Batch& batch) {
  const DeviceMark& mark = *batch.device->finished;
  std::optional<MarkNotice> notice;
  try {
    notice.emplace([this] { wake(); });
  } catch (const std::exception&) {
  }
  if (notice) RUEDA_RETURN_IF_ERROR(notice->ask(mark, MarkAsker::kFinisher));
  const Deadline limit = batch.limit.time.count() > 0
                             ? Deadline::after(batch.limit.time - (SteadyClock::now() - batch.begun))
                             : Deadline::never();
  for (;;) {
    const Result<bool> passed = mark.passed();
    if (!passed.ok()) return passed.status();
    if (passed.value()) return !batch.failure.ok() ? batch.failure : abort_.raised() ? abort_.why() : Status();
    if (abort_.raised() && !last_) last_ = Deadline::after(kLastWork);
    if (last_ && last_->passed()) return given_up(batch, abort_.why());
    if (limit.passed()) return {Code::kTimeout, "the device has not finished the batch"};
    doze(last_ ? *last_ : limit);
    look_(batch);
  }
}

}  // namespace rueda::core
