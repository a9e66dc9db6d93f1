// What a leader's turn does for the ranks of its host and the hosts below. Its relay is child 0's way too: the leader's
// own participant speaks to it as the other ranks of the host do.
//
//     up      ranks' frames, relayed frames of hosts below
//               ─▶ relay ─▶ one relayed frame ─▶ the leader above, or the arbiter
//     down    an addressed frame from above, or the arbiter
//               ─▶ relay ─▶ verdicts to ranks, addressed frames to hosts below
//
// A relayed frame is acknowledged by kTakenFrame, and no second one leaves before that: what a slow leader above cannot
// take yet merges here meanwhile.
#include <algorithm>
#include <utility>

#include "runtime/engine/control_frames.h"
#include "runtime/engine/routed_frame.h"
#include "runtime/engine/turn.h"
#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {

/// The order of the children is the order of the relay's numbers for them: `Turn` maps ranks to it.
std::optional<RelayConfig> relay_config(const EpochPlan& plan, const std::vector<SetMembers>& sets) {
  if (!uses_control_tree(plan)) return std::nullopt;
  const ControlTree tree(plan.host_of);
  const int host = plan.host_of[static_cast<size_t>(plan.rank)];
  if (tree.local(host).front() != plan.rank) return std::nullopt;
  using Kind = RelayConfig::Child::Kind;
  RelayConfig config{plan.epoch, plan.size, {}, sets};
  for (const int local : tree.local(host)) config.children.push_back({Kind::kRank, {local}});
  for (const int child : tree.children(host)) config.children.push_back({Kind::kRelay, tree.subtree(child)});
  return config;
}

/// Up before down: on rank 0 what goes up is decided in `pass_up`, and comes down in the same turn.
bool Turn::exchange_as_leader(bool moved) {
  for (const int rank : parts_.peers) moved |= receive_all(rank);
  if (!moved) return false;
  urgent_ = false;
  Status status = pass_up();
  pass_down();
  // The others first: their frames have the longer way.
  flush();
  for (auto frame = relay_->take_down(0); status.ok() && !frame.empty(); frame = relay_->take_down(0)) {
    status = participant_.receive(frame);
  }
  urgent_ |= participant_.must_ring();
  if (arbiter_) note_credit_wanted();
  if (!status.ok()) parts_.observer.epoch_over(status);
  return true;
}

/// On rank 0 the arbiter is what is above: it takes the frame at once, so nothing waits for an acknowledgement.
Status Turn::pass_up() {
  for (auto frame = participant_.take_frame(); !frame.empty(); frame = participant_.take_frame()) {
    RUEDA_RETURN_IF_ERROR(relay_->from_below(0, frame));
  }
  for (auto frame = relay_->take_up(); !frame.empty(); frame = relay_->take_up()) {
    ++passed_up_;
    if (!arbiter_) {
      send(parts_.upstream, std::move(frame), kRelayedFrame, Urgency::kRing);
      continue;
    }
    RUEDA_RETURN_IF_ERROR(arbiter_->receive_relayed(frame));
    relay_->acknowledged();
  }
  if (!arbiter_) return {};
  arbiter_->plan();
  for (auto frame = arbiter_->take_addressed(); !frame.empty(); frame = arbiter_->take_addressed()) {
    RUEDA_RETURN_IF_ERROR(relay_->from_above(frame));
  }
  return {};
}

void Turn::pass_down() {
  const std::vector<RelayConfig::Child>& children = parts_.relay->children;
  // Child 0 is this rank: `exchange_as_leader` feeds its participant.
  for (size_t child = 1; child < children.size(); ++child) {
    const bool leads = children[child].kind == RelayConfig::Child::Kind::kRelay;
    for (auto frame = relay_->take_down(child); !frame.empty(); frame = relay_->take_down(child)) {
      send(children[child].ranks.front(), std::move(frame), leads ? kAddressedFrame : kAgreementFrame, Urgency::kRing);
    }
  }
}

/// Agreement's frames by where they come from: from above for all below, or from a child. Anything else is a report.
Status Turn::dispatch_in_tree(int rank, std::byte kind, std::span<const std::byte> body) {
  if (rank == parts_.upstream) {
    if (kind == kAddressedFrame) return relay_->from_above(body);
    if (kind != kTakenFrame) return dispatch_report(rank, kind, body);
    relay_->acknowledged();
    return {};
  }
  const auto child = static_cast<size_t>(child_of_[static_cast<size_t>(rank)]);
  const bool leads = parts_.relay->children[child].kind == RelayConfig::Child::Kind::kRelay;
  if (kind != (leads ? kRelayedFrame : kAgreementFrame)) return dispatch_report(rank, kind, body);
  if (leads) send(rank, {}, kTakenFrame, Urgency::kRing);  // its next one may come
  return relay_->from_below(child, body);
}

/// The rank that a frame for `rank` goes to next: the child that it is behind, else the rank above; -1 on rank 0 if no
/// child has it.
int Turn::next_hop(int rank) const {
  if (relay_) {
    for (const RelayConfig::Child& child : parts_.relay->children) {
      if (std::binary_search(child.ranks.begin(), child.ranks.end(), rank)) return child.ranks.front();
    }
  }
  return parts_.upstream;
}

/// Sends to a rank with which this one has no link.
void Turn::route(int rank, std::span<const std::byte> frame, std::byte kind) {
  const int hop = parts_.config.relayed ? next_hop(rank) : -1;
  if (hop < 0 || hop == parts_.config.rank) return;
  send(hop, encode_routed({parts_.config.rank, rank, kind, frame}), kRoutedFrame, Urgency::kRing);
}

/// Here, it is dispatched as if it had come from its origin. Else it goes on, but never back to where it came from: two
/// ranks that disagree about the tree must not send it to and fro.
Status Turn::dispatch_routed(int rank, std::span<const std::byte> body) {
  const std::optional<RoutedFrame> frame = decode_routed(body, parts_.config.size);
  const bool here = frame && frame->destination == parts_.config.rank;
  const int hop = here || !frame ? -1 : next_hop(frame->destination);
  if (!frame || !parts_.config.relayed || (!here && (hop < 0 || hop == rank))) {
    return {Code::kPeerLost, "rank " + std::to_string(rank) + " sent a routed frame that leads nowhere", rank};
  }
  if (here) return dispatch_report(frame->origin, frame->kind, frame->body);
  send(hop, {body.begin(), body.end()}, kRoutedFrame, Urgency::kRing);
  return {};
}

/// Whether others are reached through this rank, which therefore listens after its goodbye.
bool Turn::passes_on(int rank) const {
  if (rank == 0) return false;
  if (rank == parts_.upstream) return true;
  const int child = child_of_[static_cast<size_t>(rank)];
  return child >= 0 && parts_.relay->children[static_cast<size_t>(child)].kind == RelayConfig::Child::Kind::kRelay;
}

/// A leader below that has said goodbye and then closes leaves the ranks behind it without a way. Its relay says
/// goodbye for them.
void Turn::link_lost(int rank, const Status& how) {
  parts_.heartbeats.forget(rank);
  if (left_[static_cast<size_t>(rank)] != 0 && rank != parts_.upstream && passes_on(rank)) {
    relay_->dismiss(static_cast<size_t>(child_of_[static_cast<size_t>(rank)]));
    urgent_ = true;
  }
  parts_.observer.link_lost(rank, how);
}

std::vector<int> Turn::look_for_silence(SteadyClock::time_point now) {
  if (!parts_.heartbeats.watching() || parts_.abort.raised()) return {};
  if (parts_.heartbeats.due(now)) {
    for (const int rank : parts_.heartbeats.watched()) send(rank, {}, kAliveFrame, Urgency::kRing);
  }
  return parts_.heartbeats.silent(now);
}

/// Once is enough: a dismissed child stays dismissed.
void Turn::dismiss_below() {
  if (!relay_ || std::exchange(dismissed_, true)) return;
  for (size_t child = 0; child < parts_.relay->children.size(); ++child) relay_->dismiss(child);
  urgent_ = true;
}

/// A proposal is held until all below have made it. If nothing has gone up since the last call, a rank below is
/// probably missing, and rank 0 can only say which one if it sees the others' proposals.
void Turn::release_held() {
  if (!relay_) return;
  const bool stands = passed_up_ == passed_before_ && relay_->held() != 0;
  passed_before_ = passed_up_;
  if (!stands) return;
  relay_->release();
  urgent_ = true;
}

}  // namespace rueda::core
