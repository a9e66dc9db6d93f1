#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/rendezvous/wish.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// How ranks come together without counting epochs: each leaves a wish in the store, and rank 0 takes from every rank
/// the latest it has not taken before.
///
///   rank r   n = add(wishes/r, 1); set(wish/r/n, wish); get(answer/nonce)             failed: set(wish/r/n, "")
///   rank 0   for each r: get(wish/r/n) for the latest n; looks again whether any was withdrawn or replaced meanwhile;
///            as it finds them fit, set(answer/nonce of each); then add(taken/r, n - taken)
///
/// What is marked as taken has its answer: whoever sees the mark at its deadline looks for the answer once more.
///
/// Numbers of wishes live in the store, so a process that was started anew, rank 0 included, goes on where the last one
/// was. Used by the one thread that forms the epoch; borrows the store.
class RollCall {
 public:
  RollCall(Store& store, std::string job, int size) : store_(store), job_(std::move(job)), size_(size) {}

  /// This rank's wish, and where it lies.
  Result<int64_t> leave_wish(const Wish& wish);
  /// After init has failed: nobody counts on this rank any more. Errors of the store are of no more interest.
  void withdraw(int rank, int64_t number, const std::string& nonce);
  /// Rank 0, after a failed init, where the store ends with its process: waits until the others to which it gave an
  /// answer have withdrawn, so that none of them loses the reason with the store.
  void await_withdrawals(const std::string& own_nonce, Deadline deadline);
  /// Rank 0's answer to this rank's wish: the epoch, or why there is none. kTimeout names the ranks that never came.
  Result<uint64_t> await_answer(const std::string& nonce, Deadline deadline);

  /// Rank 0: one wish of every rank, by rank. kTimeout names the ranks that never came, and those that
  /// several processes say they are; those that did have been told.
  Result<std::vector<Wish>> gather(Deadline deadline);
  /// Rank 0: tells all of them the epoch, or why there is none.
  Status answer(const std::vector<Wish>& wishes, const Status& status, uint64_t epoch);

 private:
  struct Taken {
    int64_t number = 0;  ///< 0: none
    std::string bytes;
  };
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
  std::vector<std::string> answered_;           ///< nonces
  std::vector<std::pair<int, int64_t>> taken_;  ///< rank and number of wishes without an answer yet
};

}  // namespace rueda::core
