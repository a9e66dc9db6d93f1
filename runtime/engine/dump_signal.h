#pragma once
#include <memory>

#include "runtime/base/status.h"

namespace rueda::core {

/// Tells the coordinator that the process got the signal which the user named in RUEDA_DUMP_SIGNAL.
///
/// A handler, because the other ways ask too much of a process that is not ours: signalfd and sigwait need the signal
/// blocked in every thread, those of the user too, and programs inherit what is blocked. It does what POSIX allows
/// there: lock-free atomics and a write to an eventfd. Dispositions belong to the process: all sessions in it share one
/// handler, which goes when the last of them does, and one that the program has installed itself is left alone.
class DumpSignal {
 public:
  /// `doorbell`: the coordinator's eventfd; outlives this. kInvalidArgument: the program handles the signal itself,
  /// another session has named another one, or there are 16 sessions already.
  static Result<std::unique_ptr<DumpSignal>> watch(int signal, int doorbell);
  ~DumpSignal();
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;
  /// Whether the signal has come since the last call.
  bool take();

 private:
  explicit DumpSignal(size_t place) : place_(place) {}
  size_t place_;
};

}  // namespace rueda::core
