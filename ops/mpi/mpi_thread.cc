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

/// After something moved more is likely to; then a thread that only asks must not keep others from their work: pauses
/// are a part of the time since, so that asking costs as little as waiting for long.
constexpr std::chrono::microseconds kBusyLook{500};
constexpr std::chrono::microseconds kListeningLook{200};
constexpr int kPauseShare = 16;
constexpr std::chrono::nanoseconds kLongestBusyPause{100'000};
constexpr std::chrono::nanoseconds kLongestListeningPause{4'000'000};
constexpr std::chrono::milliseconds kJoinPause{1};
constexpr std::chrono::hours kNoWork{1};
/// What MPI_Finalize may take: it waits for the other processes of the job.
constexpr std::chrono::seconds kFinalizeLimit{10};
/// A wait looks as often; a machine that stood still for a while has used up one look.
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

/// At the beginning of the application's MPI_Finalize, on its thread: ours must be out of MPI by then.
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
    auto* made = new MpiThread(host);
    the_thread.store(made);
    std::thread([made] { made->loop(); }).detach();
    return made;
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
  const auto outcome = std::make_shared<Outcome>();
  post([work = std::move(work), outcome] {
    const Status status = work();
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
  ours_ = true;
  std::atexit([] {
    if (MpiThread* thread = the_thread.load()) thread->finish();
  });
  if (level >= MPI_THREAD_FUNNELED) return {};
  return {Code::kUnsupported,
          "this MPI gives no more than " + name_of_level(level) + "; MPI_THREAD_FUNNELED is needed"};
}

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
