// Turns evidence that a rank has died into the reason why this rank's epoch ends.
//
// Evidence waits before it counts. The same death is seen in many ways and on many ranks: a pidfd, the end of a stream,
// a data connection that broke because a survivor closed it. The judge (the launcher, or rank 0) sees the cause, so its
// verdict gets a head start, and evidence about a rank that turns out to have said goodbye is dropped.
#include "runtime/engine/faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {
namespace {

// decisions/0027-graces.md has what each grace was measured to be good for.

/// How long a survivor waits for the verdict of the judge, which knows the cause, before its own evidence counts. A
/// data connection also ends because another survivor has heard the verdict, on a crowded machine much sooner than this
/// one.
constexpr std::chrono::milliseconds kVerdictGrace{800};
/// The same for a rank on another host, under a launcher. The ranks of a host that is cut off may notice first, and
/// close what others then see end, while the launcher still counts the seconds in which it heard nothing from the host.
constexpr std::chrono::milliseconds kLostHostGrace = Faults::kLongestGrace;
/// If the evidence itself is the verdict: long enough to read a goodbye that is already on its way.
constexpr std::chrono::milliseconds kGoodbyeGrace{20};

}  // namespace

Faults::Faults(const EpochPlan& plan, JudgedBy judge)
    : plan_(plan), judge_(judge), linked_(static_cast<size_t>(plan.size)), left_(static_cast<size_t>(plan.size)) {
  if (plan.size == 1) return;
  for (const int peer : control_peers(plan)) linked_[static_cast<size_t>(peer)] = 1;
  if (const int upstream = control_upstream(plan); upstream > 0) upstream_ = upstream;
}

/// Whether this rank loses rank 0 with `rank`, before a goodbye of its own or of rank 0 makes that harmless.
bool Faults::cut_off_by(int rank) const { return rank == upstream_ && !has_left(plan_.rank) && !has_left(0); }

void Faults::observe(int rank, const std::string& how) {
  if (has_left(rank) && !cut_off_by(rank)) return;
  // Without a launcher, evidence about a rank that shares a control link with this one is first hand and soon counts.
  // Anything else waits for the judge.
  const auto host = [this](int of) { return plan_.host_of[static_cast<size_t>(of)]; };
  const bool direct = judge_ == JudgedBy::kRankZero && linked_[static_cast<size_t>(rank)] != 0;
  const bool elsewhere = judge_ == JudgedBy::kLauncher && host(rank) != host(plan_.rank);
  MutexLock lock(mutex_);
  if (!first_) first_ = SteadyClock::now();
  evidence_.push_back({rank,
                       Deadline::after(direct      ? kGoodbyeGrace
                                       : elsewhere ? kLostHostGrace
                                                   : kVerdictGrace),
                       how});
}

Deadline Faults::next() const {
  MutexLock lock(mutex_);
  Deadline first = Deadline::never();
  for (const Evidence& evidence : evidence_) first = first.earlier(evidence.grace_end);
  return first;
}

std::optional<Status> Faults::due() {
  MutexLock lock(mutex_);
  // A goodbye may have been read since the evidence was noted.
  std::erase_if(evidence_,
                [&](const Evidence& evidence) { return has_left(evidence.rank) && !cut_off_by(evidence.rank); });
  for (const Evidence& evidence : evidence_) {
    if (!evidence.grace_end.passed()) continue;
    const std::string rank = plan_.name_of(evidence.rank);
    if (has_left(evidence.rank)) {
      return Status(Code::kShutDown,
                    fmt::format("{} has shut down; {} needed it to reach rank 0", rank, plan_.name_of(plan_.rank)),
                    evidence.rank);
    }
    const bool whole = evidence.how.starts_with(rank);  // it is a sentence of its own already
    return Status(Code::kPeerLost, whole ? evidence.how : fmt::format("{} died: {}", rank, evidence.how),
                  evidence.rank);
  }
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> Faults::since_first() const {
  MutexLock lock(mutex_);
  return first_ ? std::optional<std::chrono::nanoseconds>(SteadyClock::now() - *first_) : std::nullopt;
}

void Faults::forget() {
  MutexLock lock(mutex_);
  evidence_.clear();
}

}  // namespace rueda::core
