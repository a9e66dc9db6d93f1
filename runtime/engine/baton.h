#pragma once
#include <atomic>
#include <cstdint>

#include "runtime/base/thread_role.h"
#include "runtime/net/segment.h"

namespace rueda::core {

/// The role of the thread that holds the baton of its engine. It owns the engine's agreement state: see `Turn`.
inline constexpr ThreadRole baton_holder;

/// Which frames must wake this rank while no thread looks at its inputs. If rank 0 is a member of a set, no proposal
/// for that set can be agreed before rank 0's own. So while rank 0 has nothing in agreement, proposals wait for its
/// next turn, and a fast rank costs a slow one no wake-up.
enum class Rest {
  kNone,
  kIdle,       ///< ring for anything but proposals and batches
  kExpecting,  ///< operations are in agreement: ring for everything
};

/// Decides which thread may run the engine's turn. Its holder owns the engine's state, whichever thread that is. No
/// thread waits for the baton, and none sleeps while it holds it: a thread that cannot take it queues its input and
/// goes on.
///
/// `asleep` (in the rank's shared segment, so that peers see it) is not 0 while no thread looks, except during a nap
/// of the coordinator. `expecting`, beside it, is not 0 while none looks and something is expected (`ControlWords`).
/// Only the holder writes them.
///
///     to put down: announce (asleep != 0), look at every input once more, and then either
///                  keep (asleep = 0) because something came, or release
///
/// A ring that arrives between the announcement and the release wakes the coordinator while the baton is still held. So
/// the coordinator, failing to take it, leaves a wish and tries again, and the holder looks for a wish after the
/// release: by Dekker's argument one of the two sees the other. Hence everything is sequentially consistent. `Atomic`
/// is std::atomic; a test runs this very code in every interleaving over words whose operations are steps of a model.
template <template <typename> class Atomic>
class BasicBaton {
 public:
  /// Both words outlive the baton's use. `expecting` is 0; `asleep` is 1 from here on.
  BasicBaton(Atomic<uint32_t>& asleep, Atomic<uint32_t>& expecting) : asleep_(&asleep), expecting_(expecting) {
    rest(Rest::kIdle);
  }

  /// Any thread; never blocks. True if the caller holds the baton from now on.
  bool try_take() RUEDA_ATTRIBUTE(try_acquire_capability(true, baton_holder)) {
    if (held_.load() || held_.exchange(true)) return false;
    rest(Rest::kNone);
    return true;
  }
  /// The coordinator's `try_take`. If it fails, the holder has been told to look again.
  bool try_take_or_wish() RUEDA_ATTRIBUTE(try_acquire_capability(true, baton_holder)) {
    if (try_take()) return true;
    wished_.store(true);
    return try_take();
  }
  /// Puts the baton down and loses no input that came meanwhile. `rest_ahead()` tells how to announce,
  /// `input_waiting()` looks, `turn()` takes what came.
  template <typename RestAhead, typename InputWaiting, typename Turn>
  void put_down(RestAhead&& rest_ahead, InputWaiting&& input_waiting, Turn&& turn)
      RUEDA_ATTRIBUTE(release_capability(baton_holder)) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
    for (;;) {
      rest(rest_ahead());
      if (input_waiting()) {
        rest(Rest::kNone);
      } else if (!release() || !try_take()) {
        return;
      }
      turn();
    }
  }
  /// The coordinator's other way to put the baton down, before it takes a short nap: nobody rings it meanwhile, unless
  /// another thread takes the baton and puts it down. It looks at the inputs after the nap by itself.
  void put_down_awake() RUEDA_ATTRIBUTE(release_capability(baton_holder)) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
    held_.store(false);
  }
  /// Ends the baton's use: no thread takes it again, and the shared words may go.
  void retire() RUEDA_ATTRIBUTE(release_capability(baton_holder)) RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
    asleep_.store(&own_);
  }
  /// Any thread: whether a producer of input has to ring the coordinator.
  bool nobody_looks() const { return asleep_.load()->load() != 0; }

 private:
  /// Returns true if the coordinator wished for a look in the meantime: take the baton again, unless another thread
  /// has.
  bool release() {
    held_.store(false);
    return wished_.exchange(false);
  }
  /// `expecting` is stored only if that changes it, so that it stays in the caches of peers.
  void rest(Rest how) {
    const uint32_t expects = how == Rest::kExpecting ? 1 : 0;
    if (expecting_.load() != expects) expecting_.store(expects);
    asleep_.load()->store(how == Rest::kNone ? 0 : 1);
  }

  Atomic<bool> held_{false};
  Atomic<bool> wished_{false};
  Atomic<uint32_t> own_{0};
  std::atomic<Atomic<uint32_t>*> asleep_;
  Atomic<uint32_t>& expecting_;
};

using Baton = BasicBaton<std::atomic>;

}  // namespace rueda::core
