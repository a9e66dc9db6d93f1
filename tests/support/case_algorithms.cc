// Which algorithms a case is run with, in what memory, and by which team.
#include <algorithm>
#include <stdexcept>

#include "tests/support/collective_case.h"

namespace rueda::core {

const Algorithm& algorithm_named(std::string_view name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name == name) return algorithm;
  }
  throw std::runtime_error("no algorithm " + std::string(name));
}

std::vector<const Algorithm*> channel_algorithms() {
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : algorithms()) {
    BatchShape shape;
    shape.kind = algorithm.kind;
    shape.bytes = 1024;
    shape.ranks = shape.hosts = 2;
    shape.one_host = false;
    if (algorithm.fits(shape)) found.push_back(&algorithm);
  }
  return found;
}

Team team_of(int size, int index, int group) {
  Team team;
  for (int rank = 0; rank < size; ++rank) team.ranks.push_back(rank);
  team.index = index;
  for (int left = size; left > 0; left -= group) team.groups.push_back(std::min(left, group));
  return team;
}

Team team_of(std::vector<int> ranks, int rank) {
  Team team;
  team.ranks = std::move(ranks);
  team.index = static_cast<int>(std::find(team.ranks.begin(), team.ranks.end(), rank) - team.ranks.begin());
  team.groups = {team.size()};
  return team;
}

BatchShape shape_for(const Algorithm& algorithm, const CollectiveCase& test, int ranks) {
  BatchShape shape = test.shape(ranks);
  shape.shared = !algorithm.fits(shape);
  return shape;
}

TensorArena* arena_for(const Algorithm& algorithm, const CollectiveCase& test, int ranks, const Mesh& mesh) {
  return shape_for(algorithm, test, ranks).shared ? mesh.arena(mesh.rank()) : nullptr;
}

}  // namespace rueda::core
