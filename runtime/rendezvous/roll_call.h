#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/rank_ranges.h"
#include "runtime/rendezvous/wish.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// How ranks come together without a common count of epochs: each leaves a wish in the store, and rank 0 takes from
/// every rank the latest wish it has not taken before.
///
///   rank r   n = add(wishes/r, 1); set(wish/r/n, wish); get(answer/nonce)             failed: set(wish/r/n, "")
///            removes what its wish n-8 has left, and the answer once it is read
///   rank 0   for each r: get(wish/r/n) for the latest n; looks again for wishes withdrawn or replaced meanwhile;
///            set(answer/nonce of each) with the epoch or the refusal; then add(taken/r, n - taken)
///
/// A wish that is marked as taken has its answer: a rank that sees the mark at its deadline looks for the answer once
/// more.
///
/// The numbers of wishes are in the store, so a restarted process, rank 0 included, continues where the last one was.
/// The thread that forms the epoch uses it; it borrows the store.
class RollCall {
 public:
  /// `workers`: in an elastic job their numbers, by rank, for sentences.
  RollCall(Store& store, std::string job, int size, std::vector<int64_t> workers = {})
      : store_(store), job_(std::move(job)), size_(size), names_{{}, std::move(workers)} {}

  /// Leaves this rank's wish. Returns its number. A rank that is unfit leaves its reason so, and waits for
  /// no answer.
  Result<int64_t> leave_wish(const Wish& wish);
  /// Takes the wish back after init has failed, so that rank 0 no longer counts on this rank, and removes its answer if
  /// there is one. Ignores the store's errors.
  void withdraw(int rank, int64_t number, const std::string& nonce);
  /// On rank 0, after a failed init, if the store ends with its process: waits until every rank that got an answer has
  /// withdrawn, so that none of them loses the reason with the store.
  void await_withdrawals(Deadline deadline);
  /// Waits for rank 0's answer to this rank's wish. Returns the epoch, or why there is none; kTimeout with the ranks
  /// that never came.
  Result<uint64_t> await_answer(const std::string& nonce, Deadline deadline);

  /// On rank 0: returns one wish of every rank, by rank. Returns kTimeout with the ranks that never came and those that
  /// several processes claim, after it has given the ranks that came the same answer.
  /// Returns `own` if that is not ok, in the same way.
  Result<std::vector<Wish>> gather(Deadline deadline, const Status& own = {});
  /// On rank 0: answers all of them that wait for an answer with the epoch, or with why there is none.
  Status answer(const std::vector<Wish>& wishes, const Status& status, uint64_t epoch);

 private:
  struct Taken {
    int64_t number = 0;  ///< 0 if there is none
    std::string bytes;
  };
  /// Removes what a wish has left, and counts it if it came to nothing.
  Status forget_wish(int rank, int64_t number);
  Result<Taken> take_latest(int rank, Deadline deadline);
  Result<bool> still_latest(int rank, const Taken& taken);
  Status mark_taken(int rank, int64_t number);
  Result<std::vector<Taken>> take_all(Deadline deadline);
  Status who_is_absent();
  Status missing(const std::vector<int>& ranks);
  std::vector<Endpoint> claimants(int rank);
  std::string came_twice();
  std::string other_sizes();

  Store& store_;
  std::string job_;
  int size_;
  const RankNames names_;
  using Numbered = std::vector<std::pair<int, int64_t>>;  ///< rank and number of wishes
  Numbered answered_;                                     ///< the readable ones, which rank 0 answers
  Numbered taken_;                                        ///< those without a mark yet
};

}  // namespace rueda::core
