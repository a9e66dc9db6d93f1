// Frames as MPI messages: one message a frame, its port is the tag.
//
//   send      any thread ─▶ queue_ ─ MPI thread ─▶ MPI_Isend ─▶ leaving_ ─MPI_Test─▶ unsent_ counts down
//   receive   MPI_Improbe on the ports that are listened to ─▶ MPI_Imrecv ─▶ arriving_ ─MPI_Test, in order─▶ handler
//
// A matched probe (Improbe) takes a message out of the queue before its memory is made: frames may have any length, and
// no other receive can take the message in between. Messages of one sender are handed over in the order in which they
// were sent. A port without a listener is not probed: its frames wait in MPI until it has one.
#include "ops/mpi/ports.h"

namespace rueda::mpi {

Ports::Ports(MpiThread& thread, MPI_Comm comm, int size)
    : thread_(thread),
      comm_(comm),
      unsent_(std::make_unique<std::atomic<size_t>[]>(static_cast<size_t>(size) * core::kFabricPorts)) {}

void Ports::listen(FabricPort port, core::Fabric::Handler handler) {
  {
    core::MutexLock lock(handlers_mutex_);
    handlers_[static_cast<size_t>(port)] = std::move(handler);
    listening_[static_cast<size_t>(port)].store(true);
  }
  thread_.wake();
}

/// Waits for a handler that runs: it holds the same mutex.
void Ports::stop_listening(FabricPort port) {
  core::MutexLock lock(handlers_mutex_);
  listening_[static_cast<size_t>(port)].store(false);
  handlers_[static_cast<size_t>(port)] = nullptr;
}

void Ports::send(int rank, FabricPort port, std::vector<std::byte> frame) {
  // Counted before it is queued, so that `all_sent` is never true between the two.
  unsent_[index(rank, port)].fetch_add(1);
  {
    core::MutexLock lock(mutex_);
    queue_.push_back({rank, port, std::move(frame)});
  }
  thread_.wake();
}

bool Ports::failed(int code, const char* function) {
  if (code == MPI_SUCCESS) return false;
  thread_.fail(checked(code, function));
  return true;
}

Mover::State Ports::move() {
  bool moved = send_queued();
  moved |= end_sends();
  bool listens = false;
  for (const FabricPort port : {FabricPort::kStore, FabricPort::kControl}) {
    if (!listening_[static_cast<size_t>(port)].load()) continue;
    listens = true;
    moved |= take(port);
    moved |= hand_over(port);
  }
  if (moved) return State::kMoved;
  if (!quiet()) return State::kBusy;
  return listens ? State::kListening : State::kIdle;
}

bool Ports::send_queued() {
  std::deque<Outgoing> queue;
  {
    core::MutexLock lock(mutex_);
    queue.swap(queue_);
  }
  // MPI borrows the frame's bytes, which stay where they are however the deque moves its elements.
  for (Outgoing& one : queue) {
    leaving_.push_back(std::move(one));
    Outgoing& out = leaving_.back();
    const int code = MPI_Isend(out.frame.data(), static_cast<int>(out.frame.size()), MPI_BYTE, out.rank,
                               static_cast<int>(out.port), comm_, &out.request);
    if (failed(code, "MPI_Isend")) return false;
  }
  return !queue.empty();
}

bool Ports::end_sends() {
  bool moved = false;
  for (auto out = leaving_.begin(); out != leaving_.end();) {
    int done = 0;
    if (failed(MPI_Test(&out->request, &done, MPI_STATUS_IGNORE), "MPI_Test")) return false;
    if (done == 0) {
      ++out;
      continue;
    }
    unsent_[index(out->rank, out->port)].fetch_sub(1);
    out = leaving_.erase(out);
    moved = true;
  }
  return moved;
}

bool Ports::take(FabricPort port) {
  bool moved = false;
  for (;;) {
    int there = 0, bytes = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    const int code = MPI_Improbe(MPI_ANY_SOURCE, static_cast<int>(port), comm_, &there, &message, &status);
    if (failed(code, "MPI_Improbe") || there == 0) return moved;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    auto& arriving = arriving_[static_cast<size_t>(port)];
    arriving.push_back({status.MPI_SOURCE, std::vector<std::byte>(static_cast<size_t>(bytes))});
    Incoming& in = arriving.back();
    if (failed(MPI_Imrecv(in.frame.data(), bytes, MPI_BYTE, &message, &in.request), "MPI_Imrecv")) return false;
    moved = true;
  }
}

/// Front first: a later, shorter frame may be whole earlier.
bool Ports::hand_over(FabricPort port) {
  auto& arriving = arriving_[static_cast<size_t>(port)];
  bool moved = false;
  while (!arriving.empty()) {
    int done = 0;
    if (failed(MPI_Test(&arriving.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test") || done == 0) return moved;
    Incoming in = std::move(arriving.front());
    arriving.pop_front();
    moved = true;
    core::MutexLock lock(handlers_mutex_);
    if (const auto& handler = handlers_[static_cast<size_t>(port)]) handler(in.rank, std::move(in.frame));
  }
  return moved;
}

}  // namespace rueda::mpi
