#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/hello.h"
#include "runtime/net/local_exchange.h"
#include "runtime/net/unix_socket.h"

namespace rueda::core {

/// What every conversation of one exchange gives and checks. The exchange lends it.
struct LocalContext {
  const HelloScope& scope;
  const LocalOffer& offer;
  int pidfd;  ///< of this process, or -1
};

/// One connection of a `LocalExchange`, from its first packet to the exchanged descriptors.
///
///   dialler   ── first ──▶   ◀── second ──   ── third ──▶   ── pass: descriptors ──▶   ── verdict ──▶
///   listener                                                ◀── pass: descriptors ──   ◀── verdict ──
///
/// Never blocks. Used by the thread of the exchange.
class LocalConversation {
 public:
  enum class State {
    kAwaitsFirst,
    kAwaitsSecond,
    kAwaitsThird,
    kAwaitsPass,
    kAwaitsVerdict,
    kDone,     ///< both sides have mapped
    kRefused,  ///< the peer sent something wrong, or one side could not map
    kLost      ///< the peer hung up
  };

  /// The dialling side: sends `first` at once.
  LocalConversation(const LocalContext& context, UniqueFd socket, int listener);
  /// The listening side. It waits until `patience` for the peer's proof.
  LocalConversation(const LocalContext& context, UniqueFd socket, Deadline patience);

  /// Takes one packet if one has come, and answers it.
  void step();

  int socket() const { return socket_.get(); }
  State state() const { return state_; }
  bool over() const { return state_ == State::kDone || state_ == State::kRefused || state_ == State::kLost; }
  /// Returns true once the peer has proven its rank.
  bool proven() const { return proven_; }
  /// Returns true once the peer's descriptors have come. A peer that hangs up after that is not dialled again.
  bool passed() const { return passed_; }
  bool dialled() const { return dialler_.has_value(); }
  /// Returns the other rank: claimed, or once `proven()`, certain. -1 before the claim.
  int rank() const;
  Deadline patience() const { return patience_; }
  /// Why the conversation was refused.
  const Status& status() const { return status_; }
  /// Gives away what came. Call it once, in state kDone.
  LocalPeer take_peer();

 private:
  void handle(Packet packet);
  void on_first(std::span<const std::byte> bytes);
  void on_second(std::span<const std::byte> bytes);
  void on_third(std::span<const std::byte> bytes);
  void on_pass(Packet packet);
  void on_verdict(std::span<const std::byte> bytes);
  void pass_descriptors();
  void map_arena(int fd);
  void refuse(Status status);

  const LocalContext& context_;
  UniqueFd socket_;
  State state_;
  std::optional<HelloDialler> dialler_;
  std::optional<HelloListener> listener_;
  Deadline patience_;
  bool proven_ = false;
  bool passed_ = false;
  Status status_;
  LocalPeer peer_;
};

}  // namespace rueda::core
