// All-reduce in two levels, as a pipeline over chunks. hierarchical.h shows how the data moves; this is the order of
// the work:
//
//   step s:   pack     chunk s      own inputs ─▶ own shared input slot              waits until the slot is free
//             fold     chunk s-1    the host's inputs of an owned slice ─▶ host sum    ... all local inputs are posted
//                                   parts of the sum ─▶ owners on the other hosts
//             finish   chunk s-2    parts of all hosts ─kernel─▶ result part           ... the parts are here
//                                   result part ─▶ the same owners
//             publish  chunk s-3    tells the own host: the result slot is whole       ... all parts have come and left
//             unpack   chunk s-4    result slots of the host ─▶ tensors                ... the owners have published
//
// Every stage uses what another rank did one step earlier, so that the network and both cores of a pair have work at
// the same time. In fewer slots than four, stages share a step (stage_lags.h). A wait for shared memory moves channel
// bytes meanwhile: a peer on another host may need ours before its host, and then ours, can go on.
//
// Two sets of memory serve the three chunks between fold and publish. Chunk s-1 takes the set of chunk s-3 in the step
// in which that is published: its sums and incoming parts were used up when it was finished, and its gather marks stay.
//
// Cost for B bytes and H hosts: 2 B (H-1)/H out and in per host (Cho et al., BlueConnect, 2019).
#include "ops/cpu/hierarchical.h"

#include <array>
#include <set>
#include <utility>

#include "ops/chunks.h"
#include "ops/cpu/channel_team.h"
#include "ops/cpu/direct.h"
#include "ops/cpu/host_map.h"
#include "ops/cpu/host_sums.h"
#include "ops/cpu/lane_view.h"
#include "ops/cpu/partials.h"
#include "ops/cpu/shm_slots.h"
#include "ops/cpu/stage_lags.h"

namespace rueda::core {
namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;

/// The canonical bracket puts at most this many ranks of a host into one group; a larger host is several groups.
constexpr int kRanksInGroup = 16;

/// What a chunk waits for on the channels: members, and how far their streams must have moved.
using Marks = std::vector<std::pair<int, uint64_t>>;

/// One chunk between its fold and its end.
struct HostChunk {
  HostChunk(size_t owned, size_t slice_bytes, size_t part_bytes, int hosts)
      : sums(owned * slice_bytes), incoming(owned * part_bytes * static_cast<size_t>(hosts)) {}
  Scratch sums;      // this host's, of each owned slice
  Scratch incoming;  // the own part of other hosts' sums, by owned slice and host
  Marks scatter_sent, scattered, gather_sent, gathered;
};

class HierarchicalRun {
 public:
  HierarchicalRun(const Call& call, Mesh& mesh, Deadline deadline, HostSums::Width width)
      : mesh_(mesh),
        deadline_(deadline),
        packing_(call),
        element_(packing_.element_bytes()),
        chunks_(Chunks::of(call, element_)),
        map_(*call.team),
        owned_(map_.owned()),
        local_call_(on_host(call, map_.local())),
        view_(local_call_, mesh),
        sums_(call, packing_, width),
        team_(call, mesh, deadline),
        pack_(packing_.cursor()),
        unpack_(packing_.cursor()),
        hint_(store_hint(call.choice.stores, mesh)) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(mesh_.move_channels_while_waiting());
    RUEDA_RETURN_IF_ERROR(connect());
    const int64_t number = chunks_.number();
    const StageLags lags = stage_lags(view_.slots());
    for (int64_t step = 0; step < number + lags.unpack; ++step) {
      const auto due = [&](int64_t lag) { return step >= lag && step - lag < number; };
      if (due(0)) RUEDA_RETURN_IF_ERROR(pack(step));
      if (due(lags.fold)) RUEDA_RETURN_IF_ERROR(fold(step - lags.fold));
      if (due(lags.finish)) RUEDA_RETURN_IF_ERROR(finish(step - lags.finish));
      if (due(lags.publish)) RUEDA_RETURN_IF_ERROR(publish(step - lags.publish));
      if (due(lags.unpack)) RUEDA_RETURN_IF_ERROR(unpack(step - lags.unpack));
    }
    return {};
  }

 private:
  ChunkCut cut(int64_t chunk) const { return {chunk, chunks_.length_of(chunk), element_, map_.slices()}; }
  size_t wire_bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_; }
  size_t sum_bytes(int64_t elements) const { return static_cast<size_t>(elements) * sums_.element_bytes(); }

  /// The part of a slice that a host's owner finishes, counted from the slice's begin.
  ElementRange part(ElementRange slice, int host) const {
    const int64_t line = std::max<int64_t>(1, 64 / static_cast<int64_t>(element_));
    const int64_t even = (slice.length() + map_.hosts() - 1) / map_.hosts();
    const int64_t each = (even + line - 1) / line * line;
    return {std::min(slice.length(), host * each), std::min(slice.length(), (host + 1) * each)};
  }
  HostChunk& in_flight(int64_t chunk) {
    auto& slot = in_flight_[static_cast<size_t>(chunk % 2)];
    if (slot == nullptr) {
      // A short last chunk has fewer owners, and its slices may be the longer ones.
      const int64_t slice = std::max(cut(0).slice(0).length(), cut(chunks_.number() - 1).slice(0).length());
      slot = std::make_unique<HostChunk>(owned_.size(), sum_bytes(slice), sum_bytes(part({0, slice}, 0).length()),
                                         map_.hosts());
      longest_slice_ = slice;
    }
    return *slot;
  }
  std::byte* sum_at(HostChunk& one, size_t owned) const { return one.sums.at(owned * sum_bytes(longest_slice_)); }
  std::byte* incoming_at(HostChunk& one, size_t owned, int host) const {
    const size_t index = owned * static_cast<size_t>(map_.hosts()) + static_cast<size_t>(host);
    return one.incoming.at(index * sum_bytes(part({0, longest_slice_}, 0).length()));
  }
  std::byte* result_at(int64_t chunk, ElementRange slice) const {
    return view_.result(view_.index(), chunk) + wire_bytes(slice.begin);
  }
  /// Calls `each` for every other host. Each host begins with its next neighbour, so that not all send to the first
  /// one.
  template <typename Each>
  void for_other_hosts(Each&& each) const {
    for (int step = 1; step < map_.hosts(); ++step) each((map_.own_host() + step) % map_.hosts());
  }
  Status until_sent(const Marks& marks) {
    return team_.until([&] {
      return std::all_of(marks.begin(), marks.end(), [&](const auto& m) { return team_.peer(m.first).sent(m.second); });
    });
  }
  Status until_received(const Marks& marks) {
    return team_.until([&] {
      return std::all_of(marks.begin(), marks.end(),
                         [&](const auto& m) { return team_.peer(m.first).received(m.second); });
    });
  }

  Status connect();
  Status pack(int64_t chunk);
  Status fold(int64_t chunk);
  Status finish(int64_t chunk);
  Status publish(int64_t chunk);
  Status unpack(int64_t chunk);

  Mesh& mesh_;
  Deadline deadline_;
  Packing packing_;
  size_t element_;
  Chunks chunks_;
  HostMap map_;
  std::vector<int> owned_;
  Call local_call_;
  LaneView view_;
  HostSums sums_;
  ChannelTeam team_;
  SliceCursor pack_, unpack_;
  StoreHint hint_;
  int64_t longest_slice_ = 0;
  std::array<std::unique_ptr<HostChunk>, 2> in_flight_;
};

/// Connects in ascending order of members. A member that waits for member p can only be kept waiting by p's connection
/// to a member lower than itself: waits lead downward and never in a circle.
Status HierarchicalRun::connect() {
  std::set<int> peers;
  for (const int slice : owned_) for_other_hosts([&](int host) { peers.insert(map_.owner(host, slice)); });
  for (const int member : peers) RUEDA_RETURN_IF_ERROR(team_.connect(member));
  return {};
}

/// All inputs of the chunk go through shared memory, the own slices too: with several ranks on a host each has few.
Status HierarchicalRun::pack(int64_t chunk) {
  const int slot = view_.slot(chunk);
  RUEDA_RETURN_IF_ERROR(view_.wait_free(Area::kInput, slot, deadline_));
  packing_.pack(pack_, chunks_.length_of(chunk), view_.input(view_.index(), chunk), hint_);
  view_.claim(Area::kInput, slot, view_.value(chunk));
  view_.publish(Word::kPosted, view_.value(chunk));
  return {};
}

Status HierarchicalRun::fold(int64_t chunk) {
  HostChunk& one = in_flight(chunk);
  RUEDA_RETURN_IF_ERROR(view_.wait_all(Word::kPosted, view_.value(chunk), deadline_));
  // The sums of chunk s-3 must have left before these are written over them.
  RUEDA_RETURN_IF_ERROR(until_sent(one.scatter_sent));
  one.scatter_sent.clear();
  one.scattered.clear();
  std::vector<const std::byte*> inputs(static_cast<size_t>(view_.size()));
  for (size_t i = 0; i < owned_.size(); ++i) {
    const ElementRange slice = cut(chunk).slice_of(owned_[i]);
    if (slice.length() == 0) continue;
    for (int local = 0; local < view_.size(); ++local) {
      inputs[static_cast<size_t>(local)] = view_.input(local, chunk) + wire_bytes(slice.begin);
    }
    std::byte* const sum = sum_at(one, i);
    sums_.of_host(inputs, sum, slice.length());
    for_other_hosts([&](int host) {
      const int peer = map_.owner(host, owned_[i]);
      const ElementRange theirs = part(slice, host);
      const size_t mine = sum_bytes(part(slice, map_.own_host()).length());
      one.scatter_sent.emplace_back(peer,
                                    team_.peer(peer).send({sum + sum_bytes(theirs.begin), sum_bytes(theirs.length())}));
      one.scattered.emplace_back(peer, team_.peer(peer).receive({incoming_at(one, i, host), mine}));
    });
  }
  return {};
}

/// Adds the own part of all hosts' sums in the order of hosts, straight into the result slot that the own host reads,
/// and expects the other parts of the slice there: one slot is assembled by this rank and the channels together.
Status HierarchicalRun::finish(int64_t chunk) {
  HostChunk& one = in_flight(chunk);
  RUEDA_RETURN_IF_ERROR(until_received(one.scattered));
  RUEDA_RETURN_IF_ERROR(view_.wait_free(Area::kResult, view_.slot(chunk), deadline_));
  one.gather_sent.clear();
  one.gathered.clear();
  std::vector<const std::byte*> sums(static_cast<size_t>(map_.hosts()));
  for (size_t i = 0; i < owned_.size(); ++i) {
    const ElementRange slice = cut(chunk).slice_of(owned_[i]);
    if (slice.length() == 0) continue;
    const ElementRange mine = part(slice, map_.own_host());
    for (int host = 0; host < map_.hosts(); ++host) {
      sums[static_cast<size_t>(host)] =
          host == map_.own_host() ? sum_at(one, i) + sum_bytes(mine.begin) : incoming_at(one, i, host);
    }
    std::byte* const result = result_at(chunk, slice);
    if (mine.length() > 0) sums_.of_all(sums, result + wire_bytes(mine.begin), mine.length());
    for_other_hosts([&](int host) {
      const int peer = map_.owner(host, owned_[i]);
      const ElementRange theirs = part(slice, host);
      one.gather_sent.emplace_back(peer,
                                   team_.peer(peer).send({result + wire_bytes(mine.begin), wire_bytes(mine.length())}));
      one.gathered.emplace_back(
          peer, team_.peer(peer).receive({result + wire_bytes(theirs.begin), wire_bytes(theirs.length())}));
    });
  }
  return {};
}

/// Until all parts have come and the own one has left, the channels use the result slot; only then may readers.
Status HierarchicalRun::publish(int64_t chunk) {
  const HostChunk& one = in_flight(chunk);
  RUEDA_RETURN_IF_ERROR(until_received(one.gathered));
  RUEDA_RETURN_IF_ERROR(until_sent(one.gather_sent));
  view_.claim(Area::kResult, view_.slot(chunk), view_.value(chunk));
  view_.publish(Word::kReduced, view_.value(chunk));
  return {};
}

Status HierarchicalRun::unpack(int64_t chunk) {
  // Slices in their order, since the cursor walks the tensors forward only.
  const ChunkCut slices = cut(chunk);
  for (int i = 0; i < slices.owners(); ++i) {
    const int owner = map_.local_owner(slices.member(i));
    if (owner != view_.index()) RUEDA_RETURN_IF_ERROR(view_.wait(owner, Word::kReduced, view_.value(chunk), deadline_));
    packing_.unpack(unpack_, slices.slice(i).length(), view_.result(owner, chunk) + wire_bytes(slices.slice(i).begin));
  }
  view_.publish(Word::kDone, view_.value(chunk));
  return {};
}

/// A call whose partial sums would not be exact runs `direct`: all ranks decide alike, from the same call.
Status run_by_host(const Call& call, Mesh& mesh, Deadline deadline, HostSums::Width width) {
  if (!partials_serve(call)) return direct(call, mesh, deadline);
  if (!mesh.has_channels()) return Status(Code::kUnsupported, "this lane has no channels to other ranks");
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  return HierarchicalRun(call, mesh, deadline, width).run();
}

}  // namespace

bool hierarchical_fits(const BatchShape& shape) {
  // A host's sum is a partial sum: it cannot carry an exact average of integers, and on a host of several groups it is
  // not the bracket's.
  const bool exact_average = shape.op == ReduceOp::kAverage && !is_float(part_of(shape.dtype));
  const bool own_order = shape.largest_host > kRanksInGroup && shape.deterministic;
  return shape.device < 0 && shape.hosts > 1 && shape.largest_host > 1 && !exact_average && !own_order;
}

bool hierarchical_narrow_fits(const BatchShape& shape) {
  const bool sums = shape.op == ReduceOp::kSum || shape.op == ReduceOp::kAverage;
  return hierarchical_fits(shape) && sums && is_float(shape.dtype) && wire_element_bytes(shape) == 2;
}

/// A chunk fills a slot: a short one would cost the network a latency for few bytes.
AlgorithmChoice hierarchical_plan(const BatchShape& shape) {
  return plan_chunks(wire_bytes(shape), static_cast<uint32_t>(shape.slot_bytes));
}

Status hierarchical(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_by_host(call, mesh, deadline, HostSums::Width::kExact);
}

Status hierarchical_narrow(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_by_host(call, mesh, deadline, HostSums::Width::kNarrow);
}

}  // namespace rueda::core
