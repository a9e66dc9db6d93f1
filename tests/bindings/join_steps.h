#pragma once
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/rendezvous/wish.h"
#include "runtime/store/store_keys.h"
#include "tests/support/elastic_launcher.h"

namespace rueda::test {

constexpr std::chrono::seconds kPatience{120};

/// Where a worker is on its way into a plan.
struct JoinPoint {
  std::string job;     ///< of all plans
  uint64_t plan = 0;   ///< the one it joins
  uint64_t epoch = 0;  ///< that forms
  int worker = 0;      ///< its number
  int rank = 0;        ///< in that plan
  std::string nonce;   ///< of the wish that `answered_rank` has left, for a step that needs it
  int newcomer = -1;   ///< the rank of the newcomer in that plan; -1: none
  std::string planned() const { return core::planned_job(job, plan); }
  /// Rank 0 answers the others after itself.
  int answered_rank() const { return rank == 0 ? 1 : rank; }
};

/// A step of joining a plan, and the key that is set then, by the worker or about it.
struct JoinStep {
  const char* name;
  std::string (*key)(const JoinPoint& at);
  bool needs_nonce = false;
  bool newcomer_formed = false;  ///< the newcomer's call returns with this plan, whatever becomes of it
};

inline const JoinStep kJoinSteps[] = {
    {"it asks for the plan", [](const JoinPoint& at) { return core::reset_key(at.job, at.worker); }},
    {"it begins", [](const JoinPoint& at) { return core::wishes_key(at.planned(), at.rank); }},
    {"its wish is there", [](const JoinPoint& at) { return core::wish_key(at.planned(), at.rank, 1); }},
    {"rank 0 has seen its wish", [](const JoinPoint& at) { return core::taken_key(at.planned(), at.rank); }},
    {"rank 0 has told who is in the epoch",
     [](const JoinPoint& at) { return core::world_key(at.planned(), at.epoch); }},
    {"rank 0 has answered it, or is rank 0 and has answered rank 1",
     [](const JoinPoint& at) { return core::answer_key(at.planned(), at.nonce); }, true},
    {"it has told with whom it shares memory",
     [](const JoinPoint& at) { return core::local_key(at.planned(), at.epoch, at.rank); }},
    {"the hosts are known", [](const JoinPoint& at) { return core::hosts_key(at.planned(), at.epoch); }},
};

/// Waits until the rank that `at` needs the nonce of has left its wish, and sets the nonce. Some other rank must not
/// have left its own yet, or rank 0 may have answered before the caller can use it.
inline void await_nonce(ElasticLauncher& launcher, JoinPoint& at) {
  const auto wish =
      launcher.store().get(core::wish_key(at.planned(), at.answered_rank(), 1), core::Deadline::after(kPatience));
  at.nonce = core::decode_wish(wish.value()).value().nonce;
}

/// Kills a worker at that step: the store's thread does so in the middle of the step's request, so the key is there and
/// nobody has had an answer yet. For the next time that the key is set.
class Failpoint {
 public:
  Failpoint(ElasticLauncher& launcher, const std::string& key, pid_t worker) : dead_(struck_->get_future()) {
    launcher.store().each_time(key, [worker, struck = struck_, once = std::make_shared<std::once_flag>()] {
      std::call_once(*once, [&] {
        ::kill(worker, SIGKILL);
        struck->set_value();
      });
    });
  }
  /// Waits until it has struck. Returns whether it has.
  bool await() { return dead_.wait_for(kPatience) == std::future_status::ready; }

 private:
  const std::shared_ptr<std::promise<void>> struck_ = std::make_shared<std::promise<void>>();
  std::future<void> dead_;
};

}  // namespace rueda::test
