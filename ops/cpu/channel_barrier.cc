// Barrier by dissemination (Hensgen, Finkel, Manber, 1988): what each member knows doubles with every round.
//
//   5 members       tells      hears from     then knows that these have come
//   round 0         m + 1      m - 1          m-1, m
//   round 1         m + 2      m - 2          m-3 ... m
//   round 2         m + 4      m - 4          m-7 ... m: all
//
// A message of round k stands for all that its sender has heard, so a member must not send it before it has heard the
// message of round k-1: each round waits for its receive. The byte itself means nothing. ceil(log2(N)) latencies.
#include "ops/cpu/channel_barrier.h"

#include "ops/cpu/channel_team.h"

namespace rueda::core {

bool channel_barrier_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice channel_barrier_plan(const BatchShape&) {
  AlgorithmChoice choice;
  choice.stamps = 3;
  return choice;
}

Status channel_barrier(const Call& call, Mesh& mesh, Deadline deadline) {
  ChannelTeam team(call, mesh, deadline);
  for (int distance = 1; distance < team.size(); distance *= 2) {
    const int told = team.neighbour(distance);
    const int heard = team.neighbour(-distance);
    RUEDA_RETURN_IF_ERROR(team.connect(told));
    if (heard != told) RUEDA_RETURN_IF_ERROR(team.connect(heard));
    const std::byte word{1};
    std::byte answer{};
    team.peer(told).send(std::span(&word, 1));
    const uint64_t mark = team.peer(heard).receive(std::span(&answer, 1));
    // Wait for the send as well: the channel borrows `word` and `answer` from this frame.
    RUEDA_RETURN_IF_ERROR(team.until([&] { return team.peer(told).idle() && team.peer(heard).received(mark); }));
  }
  return {};
}

}  // namespace rueda::core
