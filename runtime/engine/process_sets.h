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

namespace rueda::core {

/// The process sets as this rank's callers know them: numbers of its own, given at once, while agreement makes the sets
/// behind them. Set 0 is that of all ranks. Any thread.
class ProcessSets {
 public:
  ProcessSets(int rank, int size) : rank_(rank), size_(size) {}

  /// The new set's number; `ranks` in any order. kInvalidArgument: no ranks, a rank twice or not of this job, a name
  /// over the wire's limit, a name that a set of this rank has.
  Result<SetId> add(std::vector<int>& ranks, const std::string& name) RUEDA_EXCLUDES(mutex_);
  /// The number of the set in which `sender`, or this rank, sends to the other; and whether it was not asked for yet.
  std::pair<SetId, bool> add_pair(int sender, int receiver) RUEDA_EXCLUDES(mutex_);
  /// It could not be asked for.
  void drop_pair(SetId number) RUEDA_EXCLUDES(mutex_);
  /// kInvalidArgument: unknown, the set of all ranks, or operations of this rank are in flight in it.
  Status remove(SetId number) RUEDA_EXCLUDES(mutex_);
  /// kInvalidArgument: unknown, or this rank is no member.
  Status check_member(SetId number) const RUEDA_EXCLUDES(mutex_);
  /// An operation enters: until it leaves, the set stays; and until a join leaves, nothing enters. kInvalidArgument:
  /// unknown, this rank is no member, it has joined, or it is a pair's and this is no send.
  Status enter(SetId number, OpKind kind) RUEDA_EXCLUDES(mutex_);
  void leave(SetId number, OpKind kind) RUEDA_EXCLUDES(mutex_);
  /// Ascending. kInvalidArgument: unknown.
  Result<std::vector<int>> ranks(SetId number) const RUEDA_EXCLUDES(mutex_);
  /// ` of process set "trio" (ranks 0-2)`, for sentences; empty for that of all ranks, or one that does not exist.
  std::string of_set(SetId number) const RUEDA_EXCLUDES(mutex_);
  /// All but that of all ranks, by number; pairs as well.
  std::vector<DumpedSet> list() const RUEDA_EXCLUDES(mutex_);
  /// What is said of a number that stands for no set.
  static Status unknown(SetId number);
  /// Whether the set has this member; false where there is no such set.
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
  Status no_member(SetId number) const;
  Status has_joined(SetId number) const;

  const int rank_;
  const int size_;
  std::atomic<bool> all_joined_{false};  ///< the set of all ranks: most operations look at nothing else
  mutable Mutex mutex_;
  std::map<SetId, Entry> sets_ RUEDA_GUARDED_BY(mutex_);
  SetId next_ RUEDA_GUARDED_BY(mutex_) = 1;
};

}  // namespace rueda::core
