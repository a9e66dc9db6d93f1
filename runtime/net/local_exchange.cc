// Passes descriptors between the ranks of one host: one poll loop over the listening socket and all conversations.
//
//   each turn:  dial again those that are due ─▶ sleep ─▶ accept ─▶ step every conversation ─▶ drop what is over
//
// A pair may need several connections: a listener that many strangers crowd may drop a real peer before its proof, and
// the peer then dials again. Only a failed dial says that a peer is gone; silence says nothing until the deadline.
#include "runtime/net/local_exchange.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/base/shortage.h"
#include "runtime/net/local_conversation.h"
#include "runtime/net/unix_socket.h"

namespace rueda::core {
namespace {

using std::chrono::milliseconds;
using Conversation = std::unique_ptr<LocalConversation>;
using State = LocalConversation::State;

constexpr milliseconds kPatience{2000};  // with a connection that has proven nothing
constexpr size_t kMaxStrangers = 64;
constexpr milliseconds kFirstPause{10};  // before the second dial; doubles with each further one
constexpr milliseconds kLongestPause{500};
constexpr milliseconds kListenPause{250};  // between two checks that a peer which should dial still listens

/// One peer and what is known of it so far.
struct Candidate {
  int rank = 0;
  std::string name;
  bool settled = false;
  LocalOutcome outcome;
  Deadline next_try =
      Deadline::after(milliseconds(0));  ///< to dial (lower ranks), to see that it listens (higher ranks)
  milliseconds pause = kFirstPause;
  Status last_refusal;  ///< of a connection that claimed this rank: for the sentence at the deadline
};

/// One run of `exchange`: a poll loop over the listener and all conversations.
class Meeting {
 public:
  Meeting(int listener, const HelloScope& scope, const LocalOffer& offer, std::span<const LocalCandidate> peers,
          Deadline deadline, const Cutoff* cutoff)
      : listener_(listener),
        scope_(scope),
        pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))),
        context_{scope, offer, pidfd_.get()},
        deadline_(deadline),
        cutoff_(cutoff) {
    for (const auto& peer : peers) {
      Candidate candidate;
      candidate.rank = peer.rank;
      candidate.name = peer.unix_name;
      candidates_.push_back(std::move(candidate));
    }
  }

  Status run() {
    while (!all_settled() && !deadline_.passed()) {
      if (cutoff_ != nullptr) RUEDA_RETURN_IF_ERROR(cutoff_->abort().why());
      for (auto& candidate : candidates_) try_again(candidate);
      RUEDA_RETURN_IF_ERROR(own_);
      if (all_settled()) break;
      RUEDA_RETURN_IF_ERROR(sleep());
      RUEDA_RETURN_IF_ERROR(accept_all());
      for (auto& conversation : conversations_) attend(*conversation);
      std::erase_if(conversations_, [](const Conversation& conversation) {
        return conversation->over() || conversation->patience().passed();
      });
    }
    for (auto& candidate : candidates_) time_out(candidate);
    return {};
  }

  std::vector<LocalOutcome> outcomes() {
    std::vector<LocalOutcome> outcomes;
    for (auto& candidate : candidates_) outcomes.push_back(std::move(candidate.outcome));
    return outcomes;
  }

 private:
  bool all_settled() const {
    return std::all_of(candidates_.begin(), candidates_.end(), [](const Candidate& c) { return c.settled; });
  }
  bool dials(const Candidate& candidate) const { return candidate.rank < scope_.rank; }
  Candidate* find(int rank) {
    const auto it = std::find_if(candidates_.begin(), candidates_.end(),
                                 [&](const Candidate& candidate) { return candidate.rank == rank; });
    return it == candidates_.end() ? nullptr : &*it;
  }
  /// Returns true if a conversation with it is under way: we dialled it, or it has proven its rank. A mere claim does
  /// not count, or a stranger could keep us from dialling.
  bool talking(const Candidate& candidate) const {
    return std::any_of(conversations_.begin(), conversations_.end(), [&](const Conversation& conversation) {
      return conversation->rank() == candidate.rank && (conversation->dialled() || conversation->proven());
    });
  }

  void try_again(Candidate& candidate);
  Status sleep();
  Status accept_all();
  void drop_oldest_stranger();
  void attend(LocalConversation& conversation);
  void conclude(LocalConversation& conversation, Candidate& candidate);
  void settle(Candidate& candidate, Status status);
  void time_out(Candidate& candidate);

  int listener_;
  const HelloScope& scope_;
  UniqueFd pidfd_;
  LocalContext context_;
  Deadline deadline_;
  const Cutoff* cutoff_;
  std::vector<Candidate> candidates_;
  std::vector<Conversation> conversations_;  ///< oldest first
  Status own_;                               ///< why this process cannot go on
};

/// Dials a lower rank. A higher rank will dial us; here we only connect and close, to see that it still listens.
void Meeting::try_again(Candidate& candidate) {
  if (candidate.settled || !candidate.next_try.passed() || talking(candidate)) return;
  DialledSocket dialled = dial_abstract(candidate.name);
  if (dialled.error == EMFILE || dialled.error == ENFILE) {  // this process is at fault, not the peer
    own_ = Status(Code::kSystem, "local socket: " + reason_of(dialled.error));
    return;
  }
  if (dialled.error != 0 && dialled.error != EAGAIN) {
    return settle(candidate, Status(Code::kSystem,
                                    "local socket: rank " + std::to_string(candidate.rank) +
                                        " is gone or in another network namespace: " + reason_of(dialled.error),
                                    candidate.rank));
  }
  candidate.next_try = Deadline::after(dials(candidate) ? candidate.pause : kListenPause);
  candidate.pause = std::min(2 * candidate.pause, kLongestPause);
  if (dials(candidate) && dialled.fd.valid()) {
    conversations_.push_back(std::make_unique<LocalConversation>(context_, std::move(dialled.fd), candidate.rank));
  }
}

Status Meeting::sleep() {
  // Wakes for the earliest of: a packet, a dial that is due, a stranger's end of patience, the deadline, the cutoff.
  std::vector<pollfd> watched{{listener_, POLLIN, 0}, {cutoff_ != nullptr ? cutoff_->fd() : -1, POLLIN, 0}};
  Deadline until = deadline_;
  for (const auto& conversation : conversations_) {
    if (conversation->over()) until = Deadline::after(milliseconds(0));
    watched.push_back({conversation->socket(), POLLIN, 0});
    until = until.earlier(conversation->patience());
  }
  for (const auto& candidate : candidates_) {
    if (!candidate.settled && !talking(candidate)) until = until.earlier(candidate.next_try);
  }
  const auto left = std::chrono::ceil<milliseconds>(until.left(kListenPause));
  if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) >= 0 || errno == EINTR) return {};
  return Status(Code::kSystem, std::string("local socket: poll: ") + reason_of(errno));
}

Status Meeting::accept_all() {
  for (;;) {
    AcceptedSocket accepted = accept_one(listener_);
    if (accepted.error == EAGAIN) return {};
    if (accepted.error != 0) {
      return Status(Code::kSystem, "local socket: accept: " + reason_of(accepted.error));
    }
    drop_oldest_stranger();
    conversations_.push_back(
        std::make_unique<LocalConversation>(context_, std::move(accepted.fd), Deadline::after(kPatience)));
  }
}

void Meeting::drop_oldest_stranger() {
  const auto stranger = [](const Conversation& conversation) {
    return !conversation->dialled() && !conversation->proven();
  };
  const auto strangers = std::count_if(conversations_.begin(), conversations_.end(), stranger);
  if (static_cast<size_t>(strangers) < kMaxStrangers) return;
  conversations_.erase(std::find_if(conversations_.begin(), conversations_.end(), stranger));
}

void Meeting::attend(LocalConversation& conversation) {
  if (!conversation.over()) conversation.step();
  Candidate* const candidate = find(conversation.rank());
  if (conversation.over() && candidate != nullptr && !candidate->settled) conclude(conversation, *candidate);
}

/// Settles the peer of a conversation that is over, if the end says something certain about it.
void Meeting::conclude(LocalConversation& conversation, Candidate& candidate) {
  const bool certain = conversation.dialled() || conversation.proven();
  if (conversation.state() == State::kDone) {
    candidate.outcome.peer = conversation.take_peer();
    return settle(candidate, {});
  }
  if (conversation.state() == State::kRefused) {
    if (certain) return settle(candidate, conversation.status());
    // A connection that only claims the rank settles nothing: any process of this user could make one.
    candidate.last_refusal = conversation.status();
    return;
  }
  // The peer may have dropped us among strangers; then we dial again. If it is gone, the next dial fails and says so.
  if (!conversation.passed()) return;
  settle(candidate, Status(Code::kSystem,
                           "local socket: rank " + std::to_string(candidate.rank) + " hung up after passing its memory",
                           candidate.rank));
}

void Meeting::settle(Candidate& candidate, Status status) {
  candidate.settled = true;
  candidate.outcome.rank = candidate.rank;
  candidate.outcome.status = std::move(status);
}

void Meeting::time_out(Candidate& candidate) {
  if (candidate.settled) return;
  std::string sentence =
      "local socket: rank " + std::to_string(candidate.rank) + " did not exchange descriptors before the deadline";
  if (!candidate.last_refusal.ok()) sentence += "; last refused: " + candidate.last_refusal.sentence();
  settle(candidate, Status(Code::kTimeout, sentence, candidate.rank));
}

}  // namespace

Result<LocalExchange> LocalExchange::listen() {
  auto name = random_socket_name();
  if (!name.ok()) return name.status();
  auto listener = listen_abstract(name.value());
  if (!listener.ok()) return listener.status();
  return LocalExchange(std::move(listener).value(), std::move(name).value());
}

Result<std::vector<LocalOutcome>> LocalExchange::exchange(const HelloScope& scope, const LocalOffer& offer,
                                                          std::span<const LocalCandidate> peers, Deadline deadline,
                                                          const Cutoff* cutoff) {
  Meeting meeting(listener_.get(), scope, offer, peers, deadline, cutoff);
  RUEDA_RETURN_IF_ERROR(meeting.run());
  return meeting.outcomes();
}

}  // namespace rueda::core
