#pragma once
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/diagnosis/dump.h"
#include "runtime/engine/device.h"

namespace rueda::core {

/// The process sets as this rank's callers know them: numbers of its own, given at once, while agreement makes the sets
/// behind them. Set 0 holds all ranks. The engine owns it. Any thread.
class ProcessSets {
 public:
  ProcessSets(int rank, int size) : rank_(rank), size_(size) {}

  /// Returns the new set's number. `ranks` come in any order and are sorted. Returns kInvalidArgument if there are no
  /// ranks, a rank comes twice or is not in this job, the name is over the wire's limit, or a set of this rank has it.
  Result<SetId> add(std::vector<int>& ranks, const std::string& name) RUEDA_EXCLUDES(mutex_);
  /// Gives a number to a set that can no longer be: `why` is the error of whatever asks for it.
  SetId add_lost(std::string why) RUEDA_EXCLUDES(mutex_);
  /// The number of the set in which `sender` sends to `receiver`, and whether this call made it.
  std::pair<SetId, bool> add_pair(int sender, int receiver) RUEDA_EXCLUDES(mutex_);
  /// Takes back an `add` or `add_pair` that agreement could not be asked for.
  void take_back(SetId number) RUEDA_EXCLUDES(mutex_);
  /// Returns kInvalidArgument if the set is unknown, holds all ranks, or has operations of this rank in flight.
  Status remove(SetId number) RUEDA_EXCLUDES(mutex_);
  /// Returns kInvalidArgument if the set is unknown, or lost, or this rank is not a member.
  Status check_member(SetId number) const RUEDA_EXCLUDES(mutex_);
  /// An operation enters. Until it leaves, the set stays; until a join leaves, nothing but sends enters. Returns
  /// kInvalidArgument if the set is unknown, this rank is not a member, it has joined, or the set is a pair's and this
  /// is not a send.
  Status enter(SetId number, OpKind kind) RUEDA_EXCLUDES(mutex_);
  void leave(SetId number, OpKind kind) RUEDA_EXCLUDES(mutex_);
  /// An operation on a device of the kind `device`, number `index`, is about to enter. The first one declares the
  /// device that this rank uses in the set. Returns kInvalidArgument if it declared another.
  Status use_device(SetId number, const DeviceFunctions& device, int32_t index) RUEDA_EXCLUDES(mutex_);
  /// The members, ascending. Returns kInvalidArgument if the set is unknown.
  Result<std::vector<int>> ranks(SetId number) const RUEDA_EXCLUDES(mutex_);
  /// ` of process set "trio" (ranks 0-2)`, for sentences; empty for the set of all ranks and for an unknown one.
  std::string of_set(SetId number) const RUEDA_EXCLUDES(mutex_);
  /// All sets but number 0, by number; pairs as well.
  std::vector<DumpedSet> list() const RUEDA_EXCLUDES(mutex_);
  /// The error for a number that stands for no set.
  static Status unknown(SetId number);
  /// Returns whether the set has this member; false if there is no such set.
  bool contains(SetId number, int rank) const RUEDA_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::vector<int> ranks;
    std::string name;
    bool member = false;
    bool joined = false;
    uint64_t in_flight = 0;
  };
  Status check(std::vector<int>& ranks, const std::string& name) const RUEDA_REQUIRES(mutex_);
  /// Why `sets_` does not have the set.
  Status absent(SetId number) const RUEDA_REQUIRES(mutex_);
  Status no_member(SetId number) const;
  Status has_joined(SetId number) const;

  const int rank_;
  const int size_;
  std::atomic<bool> all_joined_{false};  ///< this rank has joined set 0; most operations read nothing else
  mutable Mutex mutex_;
  std::map<SetId, Entry> sets_ RUEDA_GUARDED_BY(mutex_);
  std::map<SetId, std::string> lost_ RUEDA_GUARDED_BY(mutex_);  ///< why
  /// By set and kind of device; a set's numbers are never used again, so these need not be taken back.
  std::map<std::pair<SetId, int32_t>, int32_t> device_indices_ RUEDA_GUARDED_BY(mutex_);
  SetId next_ RUEDA_GUARDED_BY(mutex_) = 1;
};

}  // namespace rueda::core
