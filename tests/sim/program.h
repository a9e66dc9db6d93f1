#pragma once
#include <cstdint>
#include <vector>

#include "runtime/engine/agreement.h"
#include "tests/sim/random.h"

namespace rueda::sim {

/// What a rank submits in one call: a tensor, or a group.
using Unit = std::vector<core::Request>;

/// One simulated job: the shape of the world and what each rank will do in it. Made from a seed alone.
struct Job {
  core::AgreementConfig config;  ///< of rank 0; `select` refuses u8 products
  int lanes = 1;
  size_t window = 1;                     ///< operations a rank has in flight at most
  std::vector<std::vector<Unit>> units;  ///< by rank
  bool abandons = false;
  bool goodbyes = false;  ///< at random moments, besides those at the end
  int dies = -1;          ///< a rank, at a random moment
};

/// `ranks` 0: from the seed.
Job make_job(uint64_t seed, int ranks);

/// The members of one of the job's sets.
const core::SetMembers& members_of(const Job& job, core::SetId set);

}  // namespace rueda::sim
