#pragma once
#include <atomic>
#include <cstdint>

#include "runtime/base/thread_annotations.h"
#include "runtime/net/segment.h"

namespace rueda::core {

/// What lies ahead while nobody looks. A proposal for a set cannot be agreed before rank 0's own, if rank 0 is a
/// member: so while rank 0 expects nothing such frames wait for its next turn, and a fast rank costs a slow one no
/// wake-up.
enum class Rest : uint32_t {
  kNone = kLooking,
  kIdle = kRestingIdle,            ///< ring for anything but proposals
  kExpecting = kRestingExpecting,  ///< operations are in agreement: ring for everything
};

/// Who may run the engine's turn. Whoever holds it owns the engine's state, whichever thread that is; it is never slept
/// on, and nobody sleeps holding it: who cannot take it queues its input and goes.
///
/// `asleep` (in the rank's shared segment, so that peers see it) means "nobody is looking"; only the holder writes it.
/// It also says how much noise a peer should make: see `Rest`.
///
///     to put down: announce (asleep != 0), look at every input once more, and then either
///                  keep (asleep = 0) because something came, or release
///
/// A ring that arrives between the announcement and the release wakes the coordinator while the baton is still held. So
/// the coordinator, failing to take it, leaves a wish, tries again, and the holder looks for a wish after the release:
/// by Dekker's argument one of the two sees the other. Hence everything is sequentially consistent. `Atomic` is
/// std::atomic; a test runs this very code in every interleaving over words whose operations are steps of a model.
template <template <typename> class Atomic>
class RUEDA_CAPABILITY("baton") BasicBaton {
 public:
  /// `asleep` outlives the baton's use; it starts as 1.
  explicit BasicBaton(Atomic<uint32_t>& asleep) : asleep_(&asleep) { rest(Rest::kIdle); }

  bool try_take() RUEDA_ATTRIBUTE(try_acquire_capability(true)) {
    if (held_.load() || held_.exchange(true)) return false;
    rest(Rest::kNone);
    return true;
  }
  /// The coordinator's: on failure the holder has been told to look again.
  bool try_take_or_wish() RUEDA_ATTRIBUTE(try_acquire_capability(true)) {
    if (try_take()) return true;
    wished_.store(true);
    return try_take();
  }
  /// Puts the baton down: whoever comes next, or nobody, looks at the inputs; nothing that came meanwhile is lost.
  /// `rest_ahead()` tells how to announce, `input_waiting()` looks, `turn()` takes what came.
  template <typename RestAhead, typename InputWaiting, typename Turn>
  void put_down(RestAhead&& rest_ahead, InputWaiting&& input_waiting, Turn&& turn) RUEDA_ATTRIBUTE(release_capability())
      RUEDA_ATTRIBUTE(no_thread_safety_analysis) {
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
  /// The holder is the last: nobody takes it again, and the shared word is let go of.
  void retire() RUEDA_ATTRIBUTE(release_capability()) { asleep_.store(&own_); }
  /// Any thread: whether a producer of input has to ring the coordinator.
  bool nobody_looks() const { return asleep_.load()->load() != 0; }

 private:
  /// True if the coordinator wished for a look in the meantime: take again, or somebody else has.
  bool release() RUEDA_ATTRIBUTE(release_capability()) {
    held_.store(false);
    return wished_.exchange(false);
  }
  void rest(Rest how) { asleep_.load()->store(static_cast<uint32_t>(how)); }

  Atomic<bool> held_{false};
  Atomic<bool> wished_{false};
  Atomic<uint32_t> own_{0};
  std::atomic<Atomic<uint32_t>*> asleep_;
};

using Baton = BasicBaton<std::atomic>;

}  // namespace rueda::core
