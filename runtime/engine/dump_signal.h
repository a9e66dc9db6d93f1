#pragma once
#include <memory>

#include "runtime/base/status.h"

namespace rueda::core {

/// Tells the coordinator that the process got the signal which the user named in RUEDA_DUMP_SIGNAL.
///
/// It installs a handler, because the other ways ask too much of a process that is not ours: signalfd and sigwait need
/// the signal blocked in every thread, those of the user too, and child programs inherit what is blocked. The handler
/// does what POSIX allows there: lock-free atomics and a write to an eventfd. Dispositions belong to the process: all
/// its sessions share one handler, which goes when the last of them does. A handler that the program has installed
/// itself is left alone. The coordinator owns it.
class DumpSignal {
 public:
  /// `doorbell`: the coordinator's eventfd; it outlives this. Returns kInvalidArgument if the program handles the
  /// signal itself, if another session watches another signal, or if 16 sessions watch already. Any thread.
  static Result<std::unique_ptr<DumpSignal>> watch(int signal, int doorbell);
  ~DumpSignal();
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;
  /// Whether the signal has come since the last call. The coordinator thread.
  bool take();

 private:
  explicit DumpSignal(size_t slot) : slot_(slot) {}
  size_t slot_;
};

}  // namespace rueda::core
