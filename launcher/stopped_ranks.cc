// Counts ticks and reads no clock: a tick comes only while hvdrun runs, and once for a pause of any length. The timer
// starts with the first stop, so that a single stopped rank is overdue right at the limit.

#include "launcher/stopped_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/wait_status.h"

namespace rueda::core::launcher {
namespace {

constexpr int kTicks = 10;

}  // namespace

StoppedRanks::StoppedRanks(EventLoop& loop, std::chrono::milliseconds timeout, Events events)
    : timeout_(timeout), events_(std::move(events)), timer_(loop) {}

void StoppedRanks::changed(int rank, int signal) {
  if (signal == 0) {
    stops_.erase(rank);
    return;
  }
  const bool watching = !stops_.empty();
  stops_[rank].signal = signal;
  if (!watching) watch();
}

bool StoppedRanks::all_of(const std::vector<int>& ranks) const {
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [this](int rank) { return stops_.contains(rank); });
}

void StoppedRanks::watch() {
  if (timeout_.count() == 0) return;
  timer_.start(std::max(timeout_ * 3 / 5 / kTicks, std::chrono::milliseconds(1)), [this] { tick(); });
}

void StoppedRanks::tick() {
  const std::vector<int> running = events_.running();
  std::erase_if(
      stops_, [&](const auto& stop) { return std::find(running.begin(), running.end(), stop.first) == running.end(); });
  if (stops_.empty()) return;
  watch();
  if (all_of(running)) return;
  for (auto& entry : stops_) ++entry.second.ticks;
  const auto seconds = [](std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); };
  for (const auto& [rank, stop] : std::map(stops_)) {
    if (stop.ticks < kTicks) continue;
    events_.overdue(rank, fmt::format("it has been stopped by {} for {} s; if that was meant, raise "
                                      "RUEDA_PEER_TIMEOUT_SECONDS ({} s; 0: never dead)",
                                      describe_signal(stop.signal), seconds(timeout_ * 3 / 5), seconds(timeout_)));
  }
}

}  // namespace rueda::core::launcher
