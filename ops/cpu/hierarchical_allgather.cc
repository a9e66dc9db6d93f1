// All-gather in two levels. Rows cross to each other host once, to one rank there, the carrier, which shows them to its
// host.
//
//   host a: ranks 0 1 | host b: ranks 2 3 4
//
//   send        2, 4 ─▶ 0    3 ─▶ 1    0 ─▶ 2    1 ─▶ 3       counts first, then rows
//   counts      each rank posts its own counts and those it carries; all read all        shared memory
//   place       now every rank knows all counts: it asks for memory, and where each rank's rows belong in it
//   post        own rows, then carried ones as they come  ─▶ own input slots             chunk j
//   collect     chunk j-1 of every rank of the host       ─▶ its final memory
//
// The counts have chunks of their own in front: until all of them are known, no row has a destination. Carried rows are
// received where this rank wants them itself, and copied from there into the slots for its host.
// B (H-1) bytes out of a rank with B bytes on H hosts; `direct_exchange` sends B to every rank of the other hosts.
#include "ops/cpu/hierarchical_allgather.h"

#include <cstring>
#include <memory>
#include <set>

#include "ops/cpu/channel_team.h"
#include "ops/cpu/host_map.h"
#include "ops/cpu/lane_view.h"
#include "ops/cpu/shm_slots.h"
#include "ops/cpu/stretch_cursor.h"

namespace rueda::core {

namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;
using Counts = std::vector<int64_t>;

/// A rank of the own host as a source of chunks.
struct LocalSender {
  int local = 0;  ///< its index on the host
  Counts counts;  ///< of all tensors, for each of those whose rows it posts
  StretchCursor to = {};
  size_t bytes = 0;  ///< of the rows it posts
};

/// Rows that this rank carries.
struct Carried {
  int from = 0;
  Counts counts;
  uint64_t mark = 0;  ///< of its channel, before its rows
  size_t begin = 0;   ///< of its rows in what this rank posts
  size_t bytes = 0;
};

class HierarchicalAllgather {
 public:
  HierarchicalAllgather(const Call& call, Mesh& mesh, Deadline deadline)
      : mesh_(mesh),
        deadline_(deadline),
        phases_(call.phases),
        exchange_(call),
        map_(*call.team),
        local_call_(on_host(call, map_.local())),
        view_(local_call_, mesh),
        team_(call, mesh, deadline),
        chunk_bytes_(call.choice.chunk_bytes) {
    for (const int member : members_of(view_.index())) {
      if (member != exchange_.index()) carried_.push_back({member, Counts(exchange_.tensors())});
    }
    for (int local = 0; local < view_.size(); ++local) {
      if (local != view_.index()) senders_.push_back({local, Counts(members_of(local).size() * exchange_.tensors())});
      count_chunks_ = std::max(count_chunks_, chunks_of(members_of(local).size() * exchange_.tensors() * kCountBytes));
    }
  }

  Status run() {
    RUEDA_RETURN_IF_ERROR(mesh_.move_channels_while_waiting());
    RUEDA_RETURN_IF_ERROR(connect());
    own_counts_ = exchange_.counts_to(exchange_.index());
    send_to_carriers();
    RUEDA_RETURN_IF_ERROR(hear_counts());
    RUEDA_RETURN_IF_ERROR(share_counts());
    exchange_.place();
    lay_out();
    // Streams of a host have different lengths: a rank posts as long as it has chunks, and reads as long as any peer
    // has.
    size_t reading = 0;
    for (const LocalSender& sender : senders_) reading = std::max(reading, chunks_of(sender.bytes));
    const size_t posting = chunks_of(posted_bytes_);
    for (size_t step = 0; step < posting || step < reading + 1; ++step) {
      if (step < posting) RUEDA_RETURN_IF_ERROR(post(step));
      if (step > 0 && step <= reading) RUEDA_RETURN_IF_ERROR(collect(step - 1));
    }
    return team_.until([&] {
      return std::all_of(peers_.begin(), peers_.end(), [&](int member) { return team_.peer(member).idle(); });
    });
  }

 private:
  static constexpr size_t kCountBytes = sizeof(int64_t);

  size_t chunks_of(size_t bytes) const { return (bytes + chunk_bytes_ - 1) / chunk_bytes_; }
  /// Whose rows a rank of this host posts: its own, then those it carries.
  std::vector<int> members_of(int local) const {
    std::vector<int> members = {map_.owner(map_.own_host(), local)};
    for (int host = 0; host < map_.hosts(); ++host) {
      if (host == map_.own_host()) continue;
      for (int there = local; there < map_.size(host); there += view_.size()) {
        members.push_back(map_.owner(host, there));
      }
    }
    return members;
  }

  Status connect();
  void send_to_carriers();
  Status hear_counts();
  Status share_counts();
  void lay_out();
  Exchange::Stretches receive(Carried& one);
  bool arrived(size_t end);
  Status post_bytes(size_t chunk, size_t bytes, StretchCursor& from);
  Status post(size_t chunk);
  Status collect(size_t chunk);

  Mesh& mesh_;
  Deadline deadline_;
  PhaseLog* phases_;
  Exchange exchange_;
  HostMap map_;
  Call local_call_;
  LaneView view_;
  ChannelTeam team_;
  size_t chunk_bytes_;
  std::set<int> peers_;  // members on other hosts that this one sends to or receives from
  Counts own_counts_;
  std::vector<Carried> carried_;
  std::vector<LocalSender> senders_;  // the other ranks of this host
  size_t count_chunks_ = 0;           // of the longest counts on this host; rows begin behind them
  size_t posted_bytes_ = 0;
  StretchCursor posted_;
  std::vector<std::unique_ptr<Scratch>> dropped_;  // rows that are carried, and wanted by others only
};

/// Connects in ascending order of members. A member that waits for member p can only be kept waiting by p's connection
/// to a member lower than itself: waits lead downward and never in a circle.
Status HierarchicalAllgather::connect() {
  for (int host = 0; host < map_.hosts(); ++host) {
    if (host != map_.own_host()) peers_.insert(map_.owner(host, view_.index()));
  }
  for (const Carried& one : carried_) peers_.insert(one.from);
  for (const int member : peers_) RUEDA_RETURN_IF_ERROR(team_.connect(member));
  return {};
}

void HierarchicalAllgather::send_to_carriers() {
  // Each host begins with its next neighbour, so that not all send to the first one at once.
  for (int step = 1; step < map_.hosts(); ++step) {
    PeerStream& carrier = team_.peer(map_.owner((map_.own_host() + step) % map_.hosts(), view_.index()));
    carrier.send(std::as_bytes(std::span(own_counts_)));
    for (const auto& stretch : exchange_.outgoing(exchange_.index())) carrier.send({stretch.data, stretch.bytes});
  }
}

/// The counts of those whose rows this rank carries. Their rows follow in the same streams, and wait there until
/// `lay_out` gives them a destination.
Status HierarchicalAllgather::hear_counts() {
  for (Carried& one : carried_) {
    one.mark = team_.peer(one.from).receive(std::as_writable_bytes(std::span(one.counts)));
  }
  return team_.until([&] {
    return std::all_of(carried_.begin(), carried_.end(),
                       [&](const Carried& one) { return team_.peer(one.from).received(one.mark); });
  });
}

/// Each rank of the host posts its own counts and those it carries, in chunks that hold nothing else; ranks carry
/// different numbers of members, so a short one posts empty chunks to keep step.
Status HierarchicalAllgather::share_counts() {
  Counts all = own_counts_;
  for (const Carried& one : carried_) all.insert(all.end(), one.counts.begin(), one.counts.end());
  StretchCursor shown({{reinterpret_cast<std::byte*>(all.data()), all.size() * kCountBytes}});
  for (size_t chunk = 0; chunk < count_chunks_; ++chunk) {
    const size_t begin = std::min(chunk * chunk_bytes_, all.size() * kCountBytes);
    RUEDA_RETURN_IF_ERROR(post_bytes(chunk, std::min(chunk_bytes_, all.size() * kCountBytes - begin), shown));
    for (LocalSender& sender : senders_) {
      RUEDA_RETURN_IF_ERROR(
          view_.wait(sender.local, Word::kPosted, view_.value(static_cast<int64_t>(chunk)), deadline_));
      const size_t whole = sender.counts.size() * kCountBytes;
      const size_t from = std::min(chunk * chunk_bytes_, whole);
      std::memcpy(reinterpret_cast<std::byte*>(sender.counts.data()) + from,
                  view_.input(sender.local, static_cast<int64_t>(chunk)), std::min(chunk_bytes_, whole - from));
    }
    view_.publish(Word::kDone, view_.value(static_cast<int64_t>(chunk)));
  }
  for (const Carried& one : carried_) RUEDA_RETURN_IF_ERROR(exchange_.learn(one.from, one.counts));
  for (const LocalSender& sender : senders_) {
    size_t at = 0;
    for (const int member : members_of(sender.local)) {
      RUEDA_RETURN_IF_ERROR(exchange_.learn(member, std::span(sender.counts).subspan(at, exchange_.tensors())));
      at += exchange_.tensors();
    }
  }
  return {};
}

/// Lays out, once destinations are known, where this rank's stream comes from and where those of the others go.
void HierarchicalAllgather::lay_out() {
  // In the order of `members_of`, which readers derive for themselves.
  Exchange::Stretches posted = exchange_.outgoing(exchange_.index());
  posted_bytes_ = exchange_.bytes_of(own_counts_);
  for (Carried& one : carried_) {
    one.begin = posted_bytes_;
    one.bytes = exchange_.bytes_of(one.counts);
    posted_bytes_ += one.bytes;
    for (const Exchange::Stretch& stretch : receive(one)) posted.push_back(stretch);
  }
  posted_ = StretchCursor(std::move(posted));
  for (LocalSender& sender : senders_) {
    Exchange::Stretches stretches;
    for (const int member : members_of(sender.local)) {
      for (const Exchange::Stretch& stretch : exchange_.incoming(member)) stretches.push_back(stretch);
    }
    for (const Exchange::Stretch& stretch : stretches) sender.bytes += stretch.bytes;
    sender.to = StretchCursor(std::move(stretches));
  }
}

/// Queues the receives of one member's rows. Rows that this rank drops still have to be shown to its host: they get
/// memory for the length of the run.
Exchange::Stretches HierarchicalAllgather::receive(Carried& one) {
  Exchange::Stretches stretches = exchange_.incoming(one.from);
  for (Exchange::Stretch& stretch : stretches) {
    if (stretch.data == nullptr) {
      dropped_.push_back(std::make_unique<Scratch>(stretch.bytes));
      stretch.data = dropped_.back()->at(0);
    }
    team_.peer(one.from).receive({stretch.data, stretch.bytes});
  }
  return stretches;
}

/// Whether the carried rows before byte `end` of what is posted are here.
bool HierarchicalAllgather::arrived(size_t end) {
  return std::all_of(carried_.begin(), carried_.end(), [&](const Carried& one) {
    return end <= one.begin || team_.peer(one.from).received(one.mark + std::min(end - one.begin, one.bytes));
  });
}

Status HierarchicalAllgather::post_bytes(size_t chunk, size_t bytes, StretchCursor& from) {
  const auto number = static_cast<int64_t>(chunk);
  RUEDA_RETURN_IF_ERROR(view_.wait_free(Area::kInput, view_.slot(number), deadline_));
  {
    const PhaseScope packing(phases_, WorkPhase::kPack);
    from.read(bytes, view_.input(view_.index(), number), store_hint(local_call_.choice.stores, mesh_));
  }
  view_.claim(Area::kInput, view_.slot(number), view_.value(number));
  view_.publish(Word::kPosted, view_.value(number));
  return {};
}

Status HierarchicalAllgather::post(size_t chunk) {
  const size_t begin = chunk * chunk_bytes_;
  const size_t end = std::min(begin + chunk_bytes_, posted_bytes_);
  // Carried rows are the tail of the stream; own rows are posted without waiting for the network.
  if (!arrived(end)) RUEDA_RETURN_IF_ERROR(team_.until([&] { return arrived(end); }));
  return post_bytes(count_chunks_ + chunk, end - begin, posted_);
}

Status HierarchicalAllgather::collect(size_t chunk) {
  const auto number = static_cast<int64_t>(count_chunks_ + chunk);
  const size_t begin = chunk * chunk_bytes_;
  for (LocalSender& sender : senders_) {
    if (begin >= sender.bytes) continue;
    RUEDA_RETURN_IF_ERROR(view_.wait(sender.local, Word::kPosted, view_.value(number), deadline_));
    const PhaseScope unpacking(phases_, WorkPhase::kUnpack);
    sender.to.write(std::min(chunk_bytes_, sender.bytes - begin), view_.input(sender.local, number));
  }
  view_.publish(Word::kDone, view_.value(number));
  return {};
}

}  // namespace

bool hierarchical_allgather_fits(const BatchShape& shape) {
  return shape.device < 0 && shape.hosts > 1 && shape.largest_host > 1;
}

Status hierarchical_allgather(const Call& call, Mesh& mesh, Deadline deadline) {
  if (!mesh.has_channels()) return Status(Code::kUnsupported, "this lane has no channels to other ranks");
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  return HierarchicalAllgather(call, mesh, deadline).run();
}

}  // namespace rueda::core
