// Chooses the signals that hvdrun handles. A signal that was ignored when hvdrun started stays ignored: `nohup hvdrun`
// must outlive its terminal, and Ctrl-C must not end a job in the background of an old shell.

#include "launcher/forwarded_signals.h"

#include <signal.h>

namespace rueda::core::launcher {

std::vector<int> forwarded_signals() {
  std::vector<int> signals;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) signals.push_back(number);
  }
  return signals;
}

}  // namespace rueda::core::launcher
