// The one thread that calls MPI. Its loop does posted work, moves every mover, and rests.
//
//   work posted? ─▶ do it ─▶ move(), mover after mover ─▶ most that any has to do:
//       moved      look again at once
//       busy       look again at once for 500 us after the last move, then pause for 1/16 of that time, 100 us at most
//       listening  the same from 200 us on, 4 ms at most
//       idle       sleep until work comes or a lane wakes it
//
// MPI wakes no one when a message comes, so asking is the only way; pauses that grow with the silence bound what it
// costs. With one thread for all calls MPI_THREAD_FUNNELED is enough for a process whose MPI is ours alone.
//
// MPI may end in three ways: at exit, by `finish`, if this thread initialised it; at the application's MPI_Finalize,
// which the attribute on MPI_COMM_SELF tells in time; or never, after a failure that left a transfer under way.
#include "ops/mpi/mpi_thread.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "ops/mpi/calls.h"

namespace rueda::mpi {
namespace {

using std::chrono::steady_clock;

/// After a move more moves are likely, so the thread asks without a pause for so long. Then its pauses are a share of
/// the time since, so that it takes little from other threads, and a message that comes late is late by a share only.
constexpr std::chrono::microseconds kBusyLook{500};
constexpr std::chrono::microseconds kListeningLook{200};
constexpr int kPauseShare = 16;
constexpr std::chrono::nanoseconds kLongestBusyPause{100'000};
constexpr std::chrono::nanoseconds kLongestListeningPause{4'000'000};
constexpr std::chrono::milliseconds kJoinPause{1};
constexpr std::chrono::hours kNoWork{1};
/// The time that MPI_Finalize may take: it waits for the other processes of the job.
constexpr std::chrono::seconds kFinalizeLimit{10};
/// How often a wait looks at the clock. A machine that stood still for a while has used up one look, not the whole
/// limit.
constexpr std::chrono::seconds kLook{1};
/// Work that only puts things aside is through as soon as the thread comes back from MPI.
constexpr std::chrono::seconds kShort{10};

std::atomic<MpiThread*> the_thread{nullptr};

std::string name_of_level(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    default: return "MPI_THREAD_MULTIPLE";
  }
}

/// The parts of an MPI library that it loads itself look for its symbols among the global ones, and a plug-in is loaded
/// without showing its own.
void show_symbols() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) == 0 || info.dli_fname == nullptr) return;
  static_cast<void>(::dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD));
}

}  // namespace

/// MPI calls it at the beginning of the application's MPI_Finalize, on the application's thread. Ours must be out of
/// MPI when it returns.
int MpiThread::on_finalize(MPI_Comm, int, void*, void*) {
  if (MpiThread* thread = the_thread.load()) {
    const bool whole = thread->status().ok();
    thread->fail(Status(Code::kShutDown, "the application has called MPI_Finalize"));
    const auto end = [thread, whole] {
      for (const auto& work : std::exchange(thread->at_end_, {})) {
        if (whole) work();
      }
      return Status();
    };
    static_cast<void>(thread->run(end, Deadline::after(kShort)));
  }
  return MPI_SUCCESS;
}

MpiThread& MpiThread::of_process(const rueda_host* host) {
  static MpiThread* const thread = [host] {
    // Never freed: a detached thread, atexit and MPI's callback may use it until the process ends.
    auto made = std::unique_ptr<MpiThread>(new MpiThread(host));
    std::thread([raw = made.get()] {  // throws if the system gives no thread
      try {
        raw->loop();
      } catch (const std::exception& error) {
        raw->fail(Status(core::Code::kSystem, std::string("MPI's thread has ended: ") + error.what()));
      }
    })
        .detach();
    the_thread.store(made.get());
    return made.release();
  }();
  return *thread;
}

MpiThread::MpiThread(const rueda_host* host) : host_(host), moved_(steady_clock::now()) {}

void MpiThread::post(Work work) {
  core::MutexLock lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
}

Status MpiThread::run(std::function<Status()> work, Deadline deadline, int least_looks) {
  struct Outcome {
    core::Mutex mutex;
    core::Condition changed;
    bool done RUEDA_GUARDED_BY(mutex) = false;
    Status status RUEDA_GUARDED_BY(mutex);
  };
  // Shared: work that outlives the deadline still reports somewhere.
  const auto outcome = std::make_shared<Outcome>();
  post([work = std::move(work), outcome] {
    Status status;
    try {
      status = work();
    } catch (const std::exception& error) {
      status = Status(core::Code::kSystem, std::string("MPI's thread: ") + error.what());
    }
    core::MutexLock lock(outcome->mutex);
    outcome->status = status;
    outcome->done = true;
    outcome->changed.notify_all();
  });
  core::MutexLock lock(outcome->mutex);
  for (int looks = 0; !outcome->done; ++looks) {
    if (looks >= least_looks && deadline.passed()) return {Code::kTimeout, "MPI did not come back in time"};
    outcome->changed.wait_for(outcome->mutex, looks < least_looks ? kLook : deadline.left(kLook));
  }
  return outcome->status;
}

void MpiThread::add(std::shared_ptr<Mover> mover) {
  post([this, mover = std::move(mover)] { movers_.push_back(mover); });
}

void MpiThread::drop(const Mover* mover) {
  const auto erase = [this, mover] {
    std::erase_if(movers_, [mover](const auto& one) { return one.get() == mover; });
    return Status();
  };
  static_cast<void>(run(erase, Deadline::after(kShort)));
}

void MpiThread::wake() {
  core::MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void MpiThread::fail(const Status& why) {
  core::MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = why;
  failed_.store(true);
  changed_.notify_all();
}

Status MpiThread::status() const {
  if (!failed_.load()) return {};
  core::MutexLock lock(mutex_);
  return failure_;
}

bool MpiThread::do_work() {
  std::deque<Work> work;
  {
    core::MutexLock lock(mutex_);
    work.swap(work_);
    woken_ = false;
  }
  for (const Work& one : work) one();
  return !work.empty();
}

void MpiThread::loop() {
  while (!ended_) {
    if (do_work()) moved_ = steady_clock::now();
    Mover::State most = Mover::State::kIdle;
    if (!failed_.load()) {
      for (const auto& mover : movers_) most = std::max(most, mover->move());
    }
    rest(most);
  }
}

void MpiThread::rest(Mover::State state) {
  const auto now = steady_clock::now();
  if (state == Mover::State::kMoved) moved_ = now;
  const std::chrono::nanoseconds still = now - moved_;
  switch (state) {
    case Mover::State::kMoved: return;
    case Mover::State::kBusy:
      if (still > kBusyLook) return sleep(std::min(still / kPauseShare, kLongestBusyPause));
      break;
    case Mover::State::kListening:
      if (still > kListeningLook) return sleep(std::min(still / kPauseShare, kLongestListeningPause));
      break;
    case Mover::State::kIdle: return sleep(kNoWork);
  }
  ::sched_yield();
}

void MpiThread::sleep(std::chrono::nanoseconds limit) {
  core::MutexLock lock(mutex_);
  if (work_.empty() && !woken_) changed_.wait_for(mutex_, limit);
}

void MpiThread::pause(steady_clock::time_point since) {
  if (steady_clock::now() - since < kBusyLook) {
    ::sched_yield();
    return;
  }
  core::MutexLock lock(mutex_);
  changed_.wait_for(mutex_, kJoinPause);
}

Status MpiThread::start() {
  RUEDA_RETURN_IF_ERROR(status());
  if (started_) return {};
  int finalized = 0, initialised = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return {Code::kUnsupported, "MPI was finalised before rueda_init, and cannot be started again"};
  MPI_Initialized(&initialised);
  RUEDA_RETURN_IF_ERROR(initialised != 0 ? adopt() : initialise());
  started_ = true;
  return {};
}

Status MpiThread::initialise() {
  show_symbols();
  int level = MPI_THREAD_SINGLE;
  // More than this thread needs: for an application that finds MPI initialised and uses it as well.
  RUEDA_RETURN_IF_ERROR(checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread"));
  ours_ = true;  // even if the level is too low, MPI is there and has to be finalised
  std::atexit([] {
    if (MpiThread* thread = the_thread.load()) thread->finish();
  });
  if (level >= MPI_THREAD_FUNNELED) return {};
  return {Code::kUnsupported,
          "this MPI gives no more than " + name_of_level(level) + "; MPI_THREAD_FUNNELED is needed"};
}

/// The application's MPI needs MPI_THREAD_MULTIPLE: its threads and this one call it at the same time.
Status MpiThread::adopt() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) {
    return {Code::kUnsupported, "the application has initialised MPI with " + name_of_level(level) +
                                    "; MPI_THREAD_MULTIPLE is needed, because Rueda calls it from a thread of its own: "
                                    "MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided)"};
  }
  watch_finalize();
  return {};
}

void MpiThread::watch_finalize() {
  int key = MPI_KEYVAL_INVALID;
  if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, nullptr) != MPI_SUCCESS) return;
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

void MpiThread::finish() {
  const auto finalise = [this] {
    int finalized = 0;
    MPI_Finalized(&finalized);
    // A mover that is left is a session that was not shut down; finalising under it could hang.
    if (finalized == 0 && ours_ && status().ok() && movers_.empty()) {
      for (const auto& work : std::exchange(at_end_, {})) work();
      MPI_Finalize();
    }
    ended_ = true;
    return Status();
  };
  if (const Status done = run(finalise, Deadline::after(kFinalizeLimit), static_cast<int>(kFinalizeLimit / kLook));
      !done.ok()) {
    host_->log(3, "MPI_Finalize did not come back; the process ends without it");
  }
}

}  // namespace rueda::mpi
