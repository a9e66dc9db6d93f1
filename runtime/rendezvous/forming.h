#pragma once
#include <memory>
#include <optional>

#include "runtime/net/tcp_transport.h"
#include "runtime/rendezvous/form.h"
#include "runtime/rendezvous/roll_call.h"

namespace rueda::core {

/// One attempt of one rank to form an epoch among several: what `form_epoch` does, step by step. Everything it opens
/// goes with it unless it succeeds. Used by one thread; borrows what it is made from.
class Forming {
 public:
  Forming(const Identity& identity, Store& store, const Settings& settings, Deadline deadline,
          const FormOptions& options);
  Result<Formation> run();

 private:
  Status run_steps();
  /// Opens what the endpoint names, and leaves the wish.
  Status open_listeners();
  Result<Wish> make_wish() const;
  /// Rank 0: gathers the wishes, judges them, publishes world and answer.
  Status call_roll();
  Result<uint64_t> publish_world(const std::vector<Wish>& wishes);
  Status learn_world();
  /// Makes the segment and passes descriptors with the ranks of the same host; the report says with whom it worked.
  LocalReport meet_neighbours();
  Status exchange_with(const std::vector<int>& peers, LocalReport& report);
  /// Rank 0: reads all reports and publishes the partition, or why there is none.
  Status publish_hosts();
  Status first_failure(std::vector<LocalReport>& reports);
  Status learn_hosts();
  /// Those of `control_peers` that share no memory with this rank.
  std::vector<int> remote_control_peers() const;
  Status connect_others();

  const Identity& identity_;
  Store& store_;
  const Settings& settings_;
  Deadline deadline_;
  const FormOptions& options_;
  RollCall roll_call_;
  std::unique_ptr<TcpTransport> transport_;
  std::optional<LocalExchange> exchange_;
  std::string nonce_;
  int64_t wish_number_ = 0;  ///< 0: none left yet
  HelloScope scope_;
  Formation formation_;
};

}  // namespace rueda::core
