#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/agreement/agreement.h"
#include "tests/sim/random.h"

namespace rueda::sim {

/// What a rank submits in one call: a tensor, or a group.
using Unit = std::vector<core::Request>;

/// What a rank does next.
struct Step {
  enum class Kind { kSubmit, kJoin, kAddSet, kRemoveSet } kind = Kind::kSubmit;
  core::SetId set = core::kGlobalSet;  ///< the number that all ranks use; rank 0's id for an added set is another
  Unit unit = {};                      ///< kSubmit
  std::vector<int> ranks = {};         ///< kAddSet
};

/// A set that ranks add while they run.
struct AddedSet {
  core::SetMembers members;  ///< `id` is the number
  std::string name;
  bool spoiled = false;  ///< some rank gives another list
  bool posts = false;    ///< messages only; the receiver may take some of them from any rank
};

/// The tree that frames travel in. Hosts are numbered by their lowest rank, which leads them.
struct Tree {
  std::vector<std::vector<int>> hosts;  ///< ranks, ascending
  std::vector<int> above;               ///< by host: the host above it; -1 for host 0
};

/// One simulated job: the shape of the world and what each rank will do in it. Made from a seed alone.
struct Job {
  core::AgreementConfig config;  ///< of rank 0; `select` refuses u8 products
  std::vector<AddedSet> added;
  int lanes = 1;
  size_t window = 1;                     ///< operations a rank has in flight at most
  std::vector<std::vector<Step>> steps;  ///< by rank
  bool abandons = false;
  bool goodbyes = false;  ///< at random moments, besides those at the end
  int dies = -1;          ///< a rank, at a random moment
  Tree tree;              ///< no hosts: rank 0 hears every rank itself
};

/// The seed chooses the number of ranks if `ranks` is 0.
Job make_job(uint64_t seed, int ranks);

/// Whether the job's `select` was told that all tensors of the batch are shared.
bool runs_in_place(const core::AlgorithmChoice& choice);

/// The members of one of the job's sets, by number.
const core::SetMembers& members_of(const Job& job, core::SetId set);
/// Null for the sets that are there from the start.
const AddedSet* added_set(const Job& job, core::SetId set);

}  // namespace rueda::sim
