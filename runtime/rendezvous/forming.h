#pragma once
#include <memory>
#include <optional>

#include "runtime/base/memory_limits.h"
#include "runtime/net/tcp_transport.h"
#include "runtime/rendezvous/form.h"
#include "runtime/rendezvous/roll_call.h"

namespace rueda::core {

/// One attempt of one rank to form an epoch of several ranks: the steps of `form_epoch`. Closes everything it has
/// opened unless it succeeds. One thread uses it; it borrows its constructor's arguments.
class Forming {
 public:
  Forming(const Identity& identity, Store& store, const Settings& settings, Deadline deadline,
          const FormOptions& options);
  Result<Formation> run();

 private:
  Status run_steps();
  /// Opens the listeners that the endpoint names.
  Status open_listeners();
  /// Leaves the wish; it says why this rank is unfit if `fit` is not ok.
  Status leave_wish(const Status& fit);
  Result<Wish> make_wish() const;
  std::string own_name() const;
  /// On rank 0: gathers the wishes, admits or refuses them, publishes world and answer.
  Status call_roll(const Status& fit);
  Result<uint64_t> publish_world(const std::vector<Wish>& wishes);
  Status learn_world();
  /// Removes what this rank has left in the store for the epoch before. Ignores the store's errors.
  void forget_last_epoch();
  /// Makes the segment and exchanges descriptors with the ranks of the same host. The report names those that failed.
  Status meet_neighbours(LocalReport& report);
  Status make_segment(const std::vector<int>& peers);
  void make_arena(const std::vector<int>& peers);
  Status exchange_with(const std::vector<int>& peers, LocalReport& report);
  /// On rank 0: reads all reports and publishes the partition, or why there is none.
  Status publish_hosts();
  Status first_failure(std::vector<LocalReport>& reports);
  Status learn_hosts();
  Status check_sharing() const;
  /// Those of `control_peers` that share no memory with this rank.
  std::vector<int> remote_control_peers() const;
  Status connect_others();
  /// Why `rank`, which has shared memory, has given up since; ok if it has not.
  Status given_up(int rank);

  const Identity& identity_;
  Store& store_;
  const Settings& settings_;
  Deadline deadline_;
  const FormOptions& options_;
  RollCall roll_call_;
  std::unique_ptr<TcpTransport> transport_;
  std::optional<LocalExchange> exchange_;
  std::vector<MemoryLimit> memory_limits_;
  Status unshared_;  ///< why this rank can share memory with no other, or ok
  std::string nonce_;
  int64_t wish_number_ = 0;  ///< 0 before the wish is left
  HelloScope scope_;
  Formation formation_;
};

}  // namespace rueda::core
