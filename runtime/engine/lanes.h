#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/engine/lane.h"

namespace rueda::core {

/// The lanes of an engine, made at first use: a set is bound to lane (set id mod number of lanes).
class Lanes {
 public:
  /// `make` builds a lane; it runs on the baton's holder.
  Lanes(int count, std::function<std::unique_ptr<Lane>(int lane)> make);

  /// The baton's holder.
  Lane& of(SetId set);
  /// Moves every inline batch on; true if one finished. The baton's holder.
  bool step_inline();
  bool has_inline() const;
  void hand_over();

  /// See `Lane::runs`. The baton's holder.
  bool runs(SetId set, uint64_t number) const;
  /// See `Lane::awaited`, of the set's lane. Any thread.
  int awaited(SetId set) const;
  /// Any thread.
  void wake_all();
  bool idle() const;
  /// Waits until every lane is idle; false at the deadline. Any thread.
  bool drain(Deadline deadline);
  /// The engine's owner.
  void stop();
  /// Frees stopped lanes.
  void clear();

 private:
  std::function<std::unique_ptr<Lane>(int)> make_;
  std::vector<std::unique_ptr<Lane>> owned_;  ///< the baton's holder
  std::vector<std::atomic<Lane*>> lanes_;     ///< null until made
};

}  // namespace rueda::core
