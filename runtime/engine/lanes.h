#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/engine/lane.h"

namespace rueda::core {

/// The lanes of an engine, made at first use: a set is bound to lane (set id mod number of lanes). The engine owns
/// them.
class Lanes {
 public:
  /// `make` builds a lane; the baton's holder calls it.
  Lanes(int count, std::function<std::unique_ptr<Lane>(int lane)> make);

  /// The set's lane, which lives until `clear`.
  Lane& of(SetId set) RUEDA_ON(baton_holder);
  /// Moves every inline batch on; true if one finished.
  bool step_inline() RUEDA_ON(baton_holder);
  bool has_inline() const RUEDA_ON(baton_holder);
  /// See `Lane::hand_over`.
  void hand_over() RUEDA_ON(baton_holder);
  /// See `Lane::runs`.
  bool runs(SetId set, uint64_t number) const RUEDA_ON(baton_holder);
  /// See `Lane::awaited`, of the set's lane. Any thread.
  int awaited(SetId set) const;
  /// See `Lane::wake`. Any thread.
  void wake_all();
  /// Whether nothing is queued and nothing runs, in any lane. Any thread.
  bool idle() const;
  /// Waits until every lane is idle; false at the deadline. Any thread.
  bool drain(Deadline deadline);
  /// Runs what is queued and ends the threads. The engine's owner, with the baton taken for good.
  void stop() RUEDA_ON(baton_holder);
  /// Frees stopped lanes. The engine's owner, when no other thread uses them any more.
  void clear() RUEDA_ON(baton_holder);

 private:
  std::function<std::unique_ptr<Lane>(int)> make_;
  std::vector<std::unique_ptr<Lane>> owned_ RUEDA_GUARDED_BY(baton_holder);
  std::vector<std::atomic<Lane*>> lanes_;  ///< null until made; any thread
};

}  // namespace rueda::core
