// The way of an operation through the engine, from a caller's thread and back to it:
//
//     enter      every check that needs no other rank, in an order in which each failure undoes what came before
//     inbox      the next turn takes it; the caller may run that turn itself (submit_and_wait, wait)
//     lane       a batch runs it; engine_batches.cc hears of that
//     finish     the last tensor completes the operation, which wakes the caller
//
// Any thread that gets the baton runs turns. A small all-reduce therefore needs no other thread of its own process: its
// caller enqueues it, exchanges the frames, runs the batch and finds it done.
#include "runtime/engine/engine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/agreement/messages.h"
#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/base/usable_cores.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/drive.h"
#include "runtime/net/shm_control_link.h"
#include "runtime/net/transport.h"
#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {
namespace {

/// How long rank 0 may take to answer an abandon, at least: a busy rank 0 must not end the job.
constexpr std::chrono::seconds kVerdictLimit{5};

}  // namespace

/// Only within one host, and only if this rank reaches the arenas of all others there: else the members would choose
/// what this rank cannot run.
bool Engine::can_share(SetId set) const {
  if (!reaches_arenas_) return false;
  if (set == kGlobalSet) return one_host_;
  const Result<std::vector<int>> ranks = sets_.ranks(set);
  const int here = plan_.host_of[static_cast<size_t>(plan_.rank)];
  return ranks.ok() && std::all_of(ranks.value().begin(), ranks.value().end(),
                                   [&](int rank) { return plan_.host_of[static_cast<size_t>(rank)] == here; });
}

OperationHome Engine::operation_home(std::shared_ptr<Engine> engine) {
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(engine->plan_.settings.timeout);
  std::atomic<uint64_t>* const output_bytes = &engine->output_bytes_;
  return {std::move(engine), output_bytes, timeout};
}

Result<uint32_t> Engine::intern(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a name to intern has {} bytes; 1 to {} are allowed", name.size(), kMaxNameBytes));
  }
  return names_.intern(name);
}

/// False if nothing is in flight afterwards: refused (`entered` says why), or an empty group, which is complete at
/// once. The completer's thread must exist, the process set be held and the names reserved before the inbox has it:
/// from then on another thread may complete it at any moment.
bool Engine::enter(const std::shared_ptr<Operation>& operation, Status& entered) {
  entered = inbox_.closed();
  if (!entered.ok()) return false;
  if (operation->spec().callback) entered = completer_.prepare();
  if (!entered.ok()) return false;
  const OperationSpec& spec = operation->spec();
  if (spec.device->kind != cpu_device().kind) {
    entered = sets_.use_device(operation->set(), *spec.device, spec.device_index);
    if (!entered.ok()) return false;
  }
  entered = sets_.enter(operation->set(), operation->kind());
  if (!entered.ok()) return false;
  if (operation->tensors().empty()) {
    sets_.leave(operation->set(), operation->kind());
    operation->complete();
    if (operation->spec().callback) completer_.post(operation);
    return false;
  }
  try {
    entered = names_.reserve(*operation);
    if (entered.ok() && hand_in(operation, entered)) return true;
  } catch (...) {
    sets_.leave(operation->set(), operation->kind());
    throw;
  }
  sets_.leave(operation->set(), operation->kind());
  return false;
}

/// If it fails, also for want of memory, the operation is free of the engine: its names are views of its own texts.
bool Engine::hand_in(const std::shared_ptr<Operation>& operation, Status& entered) {
  const auto let_go = [&] {
    TensorPart* const any = operation->tensors().data();
    names_.release({&any, 1});
  };
  try {
    recorder_.enqueued(*operation);  // stamps `submitted`, which turns read
    entered = inbox_.push({InboxItem::Kind::kSubmit, operation});
    if (entered.ok()) return true;
    recorder_.refused(*operation, entered);
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
  return false;
}

/// Asks agreement for a set that has a number here. The number is taken back if the inbox is closed, or if there is no
/// memory for the wish.
template <typename MakeChange>
Status Engine::ask_for_set(SetId number, MakeChange&& change) {
  Status entered;
  try {
    entered = inbox_.push({InboxItem::Kind::kAddSet, nullptr, std::make_unique<SetChange>(change())});
  } catch (...) {
    sets_.take_back(number);
    throw;
  }
  if (!entered.ok()) sets_.take_back(number);
  return entered;
}

/// The number comes first, because the wish carries it.
Result<SetId> Engine::add_process_set(std::vector<int> ranks, const std::string& name) {
  Result<SetId> number = sets_.add(ranks, name);
  if (!number.ok()) return number;
  RUEDA_RETURN_IF_ERROR(ask_for_set(number.value(), [&] { return SetChange{number.value(), std::move(ranks), name}; }));
  if (baton_.nobody_looks()) ring_coordinator();
  return number;
}

Result<SetId> Engine::pair_set(int sender, int receiver) {
  // Under the mutex no other thread can use the new set before agreement has been asked for it.
  MutexLock lock(pairs_mutex_);
  const auto [number, fresh] = sets_.add_pair(sender, receiver);
  if (!fresh) return number;
  RUEDA_RETURN_IF_ERROR(ask_for_set(number, [number = number, sender, receiver] {
    return SetChange{number, {std::min(sender, receiver), std::max(sender, receiver)}, pair_name(sender, receiver)};
  }));
  if (baton_.nobody_looks()) ring_coordinator();
  return number;
}

/// Local first: once the number is gone here, no caller can submit to it, and agreement finds no operation of this
/// rank.
Status Engine::remove_process_set(SetId number) {
  RUEDA_RETURN_IF_ERROR(sets_.remove(number));
  try {
    // If the epoch has ended, no rank is left to be told: that is no error.
    const Status entered =
        inbox_.push({InboxItem::Kind::kRemoveSet, nullptr, std::make_unique<SetChange>(SetChange{number, {}, {}})});
    if (entered.ok() && baton_.nobody_looks()) ring_coordinator();
  } catch (const std::exception& error) {  // the other members would wait for this rank
    epoch_over(own_failure(error));
    throw;
  }
  return {};
}

/// Rings only if no thread looks: a holder of the baton looks at the inbox once more before it lets go, and a
/// coordinator that naps looks after its nap.
Status Engine::submit(const std::shared_ptr<Operation>& operation) {
  Status entered;
  if (!enter(operation, entered) || operation->spec().more) return entered;
  if (may_nap_) note_core();
  if (baton_.nobody_looks()) ring_coordinator();
  return entered;
}

/// Notes where a coordinator that naps should wake. A thread seldom moves, so the word stays in the caches of both.
void Engine::note_core() {
  const int core = ::sched_getcpu();
  if (caller_core_.load(std::memory_order_relaxed) != core) caller_core_.store(core, std::memory_order_relaxed);
}

/// With the baton in hand before the operation enters, the first turn carries it: no doorbell rings, no thread wakes.
/// The baton goes down also if there is no memory for the operation: without it nothing moves any more.
Status Engine::submit_and_wait(const std::shared_ptr<Operation>& operation, Status& entered) {
  if (plan_.settings.caller_progress && baton_.try_take()) {
    try {
      if (enter(operation, entered)) {
        drive([&] { return operation->done(); }, [&] { return worth_spinning(*operation); });
        if (operation->done()) recorder_.waited(operation->submitted);
      }
    } catch (...) {
      settle();
      throw;
    }
    settle();
  } else {
    entered = submit(operation);
  }
  if (!entered.ok()) return entered;
  for (;;) {
    Status status = wait(*operation, Deadline::never());
    if (operation->done()) return operation->status();
    if (status.code() != Code::kInterrupted) return status;  // a signal handler ran: this call waits on
  }
}

/// A lane's thread needs the core that its caller would spin on. Measured with 2 ranks on two cores and the caller
/// spinning, 256 KiB took 96 us and 1 MiB 179 us.
bool Engine::worth_spinning(const Operation& operation) const { return cores_to_spare_ || !operation.on_lane(); }

/// Spins first, because a small operation takes less time than a sleep and a wake-up. Of several callers one runs
/// turns and the others spin on their own operations. Whatever is left after the budget sleeps on a futex.
Status Engine::wait(Operation& operation, Deadline deadline, Stage stage) {
  const auto reached = [&] { return operation.reached(stage); };
  // The status of an operation that is launched and not done belongs to other threads.
  const auto status = [&] { return operation.done() ? operation.status() : Status(); };
  if (reached()) {
    look();
    return status();
  }
  const auto begin = SteadyClock::now();
  const auto spin_end = begin + kSpinBudget;
  while (!reached() && SteadyClock::now() < spin_end && !deadline.passed() && worth_spinning(operation)) {
    if (plan_.settings.caller_progress && baton_.try_take()) {
      drive(
          reached, [&] { return worth_spinning(operation); }, deadline);
      settle();
      break;
    }
    relax(style_);
  }
  look();  // before it sleeps: what was submitted with `more` has rung no thread
  Status slept;
  if (!reached()) {
    const int core = lane_cores_ != nullptr && operation.on_lane() ? ::sched_getcpu() : -1;
    slept = operation.sleep(deadline, stage);
    // Published before the sleep, it would reach some ranks in time for the batch that is about to run, and not others.
    if (core >= 0) lane_cores_->caller_slept(core);
  }
  recorder_.waited(begin);
  return slept.ok() ? status() : slept;
}

Status Engine::wait_stream(Operation& operation, void* stream, Deadline deadline) {
  RUEDA_RETURN_IF_ERROR(wait(operation, deadline, Stage::kLaunched));
  return operation.order(stream);
}

/// A join cannot be abandoned: the other ranks count on this one's absence already.
Status Engine::abandon(const std::shared_ptr<Operation>& operation, Deadline deadline) {
  if (operation->kind() == OpKind::kJoin && !operation->done()) {
    return Status(Code::kTimeout, "a join cannot be abandoned; it ends when all members have joined");
  }
  // A closed inbox takes an abandonment too, and after the end of the epoch it changes nothing.
  if (!operation->done()) {
    static_cast<void>(inbox_.push({InboxItem::Kind::kAbandon, operation}));
    ring_coordinator();
  }
  // Until it is in a batch only rank 0 can answer, so the caller's deadline does not apply. Once it is in one, its
  // memory may be written at any moment until the batch ends, so only the end of the epoch makes the memory free.
  const Deadline verdict = deadline.later(Deadline::after(kVerdictLimit));
  Status status;
  while (!operation->done() && status.code() != Code::kTimeout) {
    status = operation->in_batch() ? operation->sleep(deadline) : operation->sleep_until_decided(verdict);
  }
  if (!operation->done()) {
    const char* state =
        operation->in_batch() ? "was still running at the timeout" : "had no answer from rank 0 in time";
    epoch_over(Status(Code::kPeerLost,
                      fmt::format("{} ended the job: it abandoned {}, which {}", plan_.name_of(plan_.rank),
                                  describe(operation->tensors().front()), state),
                      plan_.rank));
  }
  // The abort wakes the lane or the turn that still has it; this wait is short.
  while (!operation->done()) static_cast<void>(operation->sleep(Deadline::never()));
  return operation->status();
}

}  // namespace rueda::core
