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
    // Both are waited for: the bytes are borrowed from this frame.
    RUEDA_RETURN_IF_ERROR(team.until([&] { return team.peer(told).idle() && team.peer(heard).received(mark); }));
  }
  return {};
}

}  // namespace rueda::core
