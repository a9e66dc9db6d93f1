#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/mesh.h"

namespace rueda::core {

/// Ranks as threads, each with the mesh of one lane. Ranks of one host share one mapping of each segment, so that race
/// detectors see ordered hand-overs as such. Built, asked and destroyed on the test's thread.
class LaneRanks {
 public:
  struct Options {
    /// The host of each rank; empty: all on one. Memory is shared inside a host only.
    std::vector<int> hosts;
    SegmentLayout layout = small_layout();
    /// Makes the channels of a rank's lane; empty: none.
    std::function<std::unique_ptr<ChannelSet>(int rank, const Abort& abort)> channels;
    /// Called after every rank's abort was raised, to wake those that wait in channels.
    std::function<void()> wake_channels;
    WaitStyle wait_style = WaitStyle::kYield;
  };
  /// One lane, one small control ring, slots as in a job.
  static SegmentLayout small_layout();

  explicit LaneRanks(int size) : LaneRanks(size, Options()) {}
  LaneRanks(int size, Options options);

  int size() const { return static_cast<int>(meshes_.size()); }
  Mesh& mesh(int rank) { return *meshes_[static_cast<size_t>(rank)]; }
  /// Ends the epoch on every rank and wakes all that wait. Any thread.
  void abort_all(const Status& why);

  using Body = std::function<Status(int rank, Mesh& mesh)>;
  /// Runs `body` for every rank, each on a thread of its own, and returns what each returned. The first failure ends
  /// the epoch for all, so that nobody waits for a rank that has left; later failures of other ranks are then its echo.
  std::vector<Status> run(const Body& body);
  /// The first failure of a run, "" if there is none: for `CHECK(first_failure(...) == "")`.
  std::string first_failure(const Body& body);

 private:
  Options options_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<std::shared_ptr<TensorArena>> arenas_;
  std::vector<std::unique_ptr<Abort>> aborts_;
  std::vector<std::unique_ptr<Mesh>> meshes_;
  Abort first_;
};

}  // namespace rueda::core
