// Makes a job from a seed: ranks, hosts, sets, a program for each rank, and what goes wrong in it. All ranks get the
// same program first; then it is bent: other metadata, other groups, another order, sets that differ. Rare things are
// rare, or no operation would ever get as far as the interesting states.
#include "tests/sim/program.h"

#include <algorithm>
#include <string>

namespace rueda::sim {
namespace {

constexpr core::SetId kFirstAdded = 100;
constexpr int kInPlace = 2;

using core::AlgorithmChoice;
using core::BatchShape;
using core::CodecId;
using core::Dtype;
using core::Metadata;
using core::OpKind;
using core::ReduceOp;
using core::Request;
using core::Result;

const std::vector<OpKind> kOtherKinds = {OpKind::kBroadcast,     OpKind::kBroadcast, OpKind::kAllgather,
                                         OpKind::kReducescatter, OpKind::kAlltoall,  OpKind::kReduce,
                                         OpKind::kGather,        OpKind::kScatter};
constexpr OpKind kRooted[] = {OpKind::kBroadcast, OpKind::kReduce, OpKind::kGather, OpKind::kScatter};

Result<AlgorithmChoice> select_algorithm(const BatchShape& shape) {
  if (shape.dtype == Dtype::kU8 && shape.op == ReduceOp::kProduct) {
    return core::Status(core::Code::kInvalidArgument, "the forced algorithm cannot multiply u8");
  }
  const int algorithm = (shape.bytes > 256 ? 1 : 0) | (shape.shared ? kInPlace : 0);
  return AlgorithmChoice{static_cast<uint8_t>(algorithm), 128, 2 + shape.bytes / 128};
}

core::AgreementConfig make_config(Random& random, int ranks) {
  core::AgreementConfig config;
  config.epoch = random.below(1000);
  config.size = ranks != 0 ? ranks : random.between(1, 6);
  config.fusion_threshold_bytes = random.pick<uint64_t>({0, 64, 700, 1u << 20});
  config.cache_capacity = random.pick<uint64_t>({0, 1, 4, 1000});
  config.select = select_algorithm;
  const int per_host = random.between(1, 3);
  std::vector<int> all;
  for (int rank = 0; rank < config.size; ++rank) {
    config.names.hosts.push_back("host" + std::to_string(rank / per_host));
    all.push_back(rank);
  }
  config.sets.push_back({core::kGlobalSet, all, {config.size}, true});
  for (core::SetId id = 1; id <= random.below(4); ++id) {
    random.shuffle(all);
    const auto members = static_cast<std::ptrdiff_t>(1 + random.below(all.size()));
    config.sets.push_back({id, {all.begin(), all.begin() + members}, {static_cast<int>(members)}, true});
  }
  return config;
}

Metadata make_metadata(Random& random) {
  Metadata metadata;
  metadata.kind = random.once_in(3) ? random.pick(kOtherKinds) : OpKind::kAllreduce;
  metadata.dtype = random.pick<Dtype>({Dtype::kF32, Dtype::kF32, Dtype::kF32, Dtype::kBf16, Dtype::kU8});
  metadata.op = random.once_in(6) ? ReduceOp::kProduct : ReduceOp::kSum;
  metadata.codec = random.once_in(6) ? CodecId::kFp16 : CodecId::kNone;
  const bool rooted = std::find(std::begin(kRooted), std::end(kRooted), metadata.kind) != std::end(kRooted);
  metadata.root = rooted ? 0 : -1;
  if (random.once_in(6)) metadata.prescale = 0.5;
  if (metadata.kind == OpKind::kAllreduce && random.once_in(8)) metadata.over = core::AverageOver::kContributors;
  if (core::exchanges(metadata.kind)) metadata.shape.push_back(0);
  const size_t dimensions = random.below(3);
  for (size_t i = 0; i < dimensions; ++i) metadata.shape.push_back(random.between(0, 12));
  if (dimensions == 2 && random.once_in(4)) metadata.order = {1, 0};
  // How many rows a rank has is its own affair.
  if (!core::keeps_positions(metadata.kind)) metadata.order.clear();
  return metadata;
}

/// What all members of a set mean to submit in one round.
std::vector<Unit> make_round(Random& random, core::SetId set, std::vector<Metadata>& usual) {
  std::vector<Unit> round;
  std::vector<size_t> names(usual.size());
  for (size_t i = 0; i < names.size(); ++i) names[i] = i;
  random.shuffle(names);
  names.resize(random.below(names.size() + 1));
  while (!names.empty()) {
    Unit unit;
    const size_t members = random.once_in(3) ? 1 + random.below(names.size()) : 1;
    const bool grouped = members > 1 || random.once_in(8);
    for (size_t i = 0; i < members; ++i) {
      if (random.once_in(10)) usual[names.back()] = make_metadata(random);
      const auto number = names.back() % 2 == 0 ? static_cast<uint32_t>(names.back() + 1) : 0;
      unit.push_back({0, set, "t" + std::to_string(names.back()), usual[names.back()], grouped ? 1u : 0u, number});
      names.pop_back();
    }
    round.push_back(std::move(unit));
  }
  for (size_t i = random.below(4); i > 0; --i) {
    Request request{0, set, "", make_metadata(random), 0};
    if (random.once_in(3)) {
      request.metadata = {};
      request.metadata.kind = OpKind::kBarrier;
    }
    round.insert(round.begin() + static_cast<std::ptrdiff_t>(random.below(round.size() + 1)), Unit{request});
  }
  return round;
}

/// One rank's order of a round: anything goes but for the order of unnamed operations.
void reorder(Random& random, std::vector<Unit>& round) {
  std::vector<size_t> positions;
  std::vector<Unit> unnamed;
  for (const Unit& unit : round) {
    if (unit.front().name.empty()) unnamed.push_back(unit);
  }
  random.shuffle(round);
  auto next = unnamed.begin();
  for (Unit& unit : round) {
    if (unit.front().name.empty()) unit = *next++;
  }
}

/// What a wrong program does to one rank's unit: other metadata, a missing member, nothing at all, one by one.
void spoil(Random& random, Unit& unit) {
  switch (random.below(5)) {
    case 0: unit.clear(); break;
    case 1: unit.erase(unit.begin() + static_cast<std::ptrdiff_t>(random.below(unit.size()))); break;
    case 2:
      for (Request& request : unit) request.group = request.group == 0 && !request.name.empty() ? 1 : 0;
      break;
    default: unit[random.below(unit.size())].metadata = make_metadata(random); break;
  }
}

/// Sets that ranks add themselves; some have one list, so that only their order tells them apart, and some are those
/// in which one rank sends to another.
void make_added_sets(Random& random, Job& job, bool wrong) {
  std::vector<int> all(static_cast<size_t>(job.config.size));
  for (size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
  for (size_t i = random.below(4); i > 0; --i) {
    AddedSet set;
    random.shuffle(all);
    set.members.id = kFirstAdded + static_cast<core::SetId>(job.added.size());
    set.members.ranks.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(1 + random.below(all.size())));
    if (!job.added.empty() && random.once_in(3)) set.members.ranks = job.added.back().members.ranks;
    std::sort(set.members.ranks.begin(), set.members.ranks.end());
    if (random.once_in(2)) set.name = "set" + std::to_string(set.members.id);
    if (all.size() > 1 && random.once_in(4)) {
      set.name = core::pair_name(all[0], all[1]);
      set.members.ranks = {std::min(all[0], all[1]), std::max(all[0], all[1])};
      const auto same = [&set](const AddedSet& other) { return other.name == set.name; };
      if (std::any_of(job.added.begin(), job.added.end(), same)) continue;
    }
    // The wrong list must not be one that its only rank agrees on.
    set.spoiled = wrong && !set.name.empty() && set.members.ranks.size() > 2 && random.once_in(4);
    job.added.push_back(set);
  }
}

/// What ranks send to one of them, which receives most of it from any: so the same number of messages as all have sent
/// together, or some more or fewer.
void make_posts(Random& random, Job& job, std::vector<std::vector<std::vector<Step>>>& ranks) {
  const auto size = static_cast<size_t>(job.config.size);
  const size_t receiver = random.below(size);
  const std::string name = random.once_in(2) ? "m" : "";
  core::Request message{0, core::kGlobalSet, name, {}, 0};
  message.metadata.kind = OpKind::kSend;
  message.metadata.shape = {random.between(0, 9)};
  std::vector<Step> received;
  std::vector<Step> asked;
  for (size_t sender = 0; sender < size; ++sender) {
    AddedSet set;
    set.name = core::pair_name(static_cast<int>(sender), static_cast<int>(receiver));
    const auto same = [&set](const AddedSet& other) { return other.name == set.name; };
    if (sender == receiver || random.once_in(4) || std::any_of(job.added.begin(), job.added.end(), same)) continue;
    set.posts = true;
    set.members.id = kFirstAdded + static_cast<core::SetId>(job.added.size());
    set.members.ranks = {static_cast<int>(std::min(sender, receiver)), static_cast<int>(std::max(sender, receiver))};
    job.added.push_back(set);
    message.metadata.root = static_cast<int>(sender);
    message.set = set.members.id;
    const Step add{Step::Kind::kAddSet, set.members.id, {}, set.members.ranks};
    std::vector<Step> sent = {add};
    const bool knows = random.once_in(2);
    if (knows) asked.push_back(add);
    for (size_t i = 1 + random.below(4); i > 0; --i) {
      sent.push_back({Step::Kind::kSubmit, message.set, {message}, {}});
      core::Request own = message;
      if (!knows || random.once_in(2)) {
        own.set = core::kGlobalSet;
        own.metadata.root = -1;
      }
      received.push_back({Step::Kind::kSubmit, own.set, {own}, {}});
    }
    ranks[sender].push_back(std::move(sent));
  }
  random.shuffle(received);
  if (!received.empty() && random.once_in(4)) received.pop_back();
  if (!received.empty() && random.once_in(4)) received.push_back(received.front());
  received.insert(received.begin(), asked.begin(), asked.end());
  ranks[receiver].push_back(std::move(received));
}

/// A list without a name matches by order, so all ranks add those first; the others come as they come.
void add_sets(Random& random, Job& job, int rank, std::vector<std::vector<Step>>& threads) {
  std::vector<Step> first;
  for (const AddedSet& set : job.added) {
    if (set.posts) continue;
    std::vector<int> ranks = set.members.ranks;
    const bool member = std::binary_search(ranks.begin(), ranks.end(), rank);
    if (!member && (set.name.empty() || core::pair_of(set.name) || random.once_in(2))) continue;
    if (set.spoiled && ranks.front() == rank) ranks.pop_back();
    const Step add{Step::Kind::kAddSet, set.members.id, {}, ranks};
    auto& thread = threads[job.config.sets.size() + set.members.id - kFirstAdded];
    if (set.name.empty()) {
      first.push_back(add);
    } else {
      thread.insert(thread.begin(), add);
    }
    if (core::pair_of(set.name)) continue;
    if (random.once_in(2)) thread.push_back({Step::Kind::kRemoveSet, set.members.id, {}, {}});
  }
  job.steps[static_cast<size_t>(rank)] = first;
}

/// One rank's program: what it does in each set is in order; sets take turns as they like, or one after the other.
void merge(Random& random, std::vector<std::vector<Step>>& threads, bool interleave, std::vector<Step>& into) {
  std::vector<size_t> turns;
  for (size_t i = 0; i < threads.size(); ++i) turns.insert(turns.end(), threads[i].size(), i);
  if (interleave) random.shuffle(turns);
  std::vector<size_t> next(threads.size(), 0);
  for (const size_t i : turns) into.push_back(std::move(threads[i][next[i]++]));
}

/// Ends a segment: ranks leave out as many of its last units as they like and join.
void join_all(Random& random, const core::SetMembers& set, std::vector<std::vector<std::vector<Step>>>& ranks,
              size_t thread, const std::vector<size_t>& begin) {
  for (const int rank : set.ranks) {
    std::vector<Step>& steps = ranks[static_cast<size_t>(rank)][thread];
    const size_t units = steps.size() - begin[static_cast<size_t>(rank)];
    if (random.once_in(2)) steps.resize(steps.size() - random.below(units + 1));
    steps.push_back({Step::Kind::kJoin, set.id, {}, {}});
  }
}

/// What all ranks do in one set, as one thread of each.
void make_set(Random& random, const core::SetMembers& set, bool wrong, bool joins,
              std::vector<std::vector<std::vector<Step>>>& ranks, size_t thread) {
  std::vector<Metadata> usual(1 + random.below(8));
  for (Metadata& metadata : usual) metadata = make_metadata(random);
  std::vector<size_t> begin(ranks.size(), 0);
  for (int rounds = random.between(1, 6); rounds > 0; --rounds) {
    if (joins && random.once_in(2)) {
      join_all(random, set, ranks, thread, begin);
      for (size_t rank = 0; rank < ranks.size(); ++rank) begin[rank] = ranks[rank][thread].size();
    }
    const std::vector<Unit> round = make_round(random, set.id, usual);
    for (const int rank : set.ranks) {
      std::vector<Unit> own = round;
      if (!random.once_in(4)) reorder(random, own);
      for (Unit& unit : own) {
        if (wrong && random.once_in(12)) spoil(random, unit);
        if (unit.empty()) continue;
        ranks[static_cast<size_t>(rank)][thread].push_back({Step::Kind::kSubmit, set.id, std::move(unit), {}});
      }
    }
  }
}

/// Puts tensors into shared memory: of all ranks with few exceptions, or of each as it comes.
void share_tensors(Random& random, std::vector<std::vector<Step>>& ranks) {
  const bool nearly_all = random.once_in(2);
  for (std::vector<Step>& steps : ranks) {
    for (Step& step : steps) {
      for (Request& request : step.unit) {
        const bool shared = nearly_all ? !random.once_in(20) : random.once_in(2);
        request.metadata.memory = shared ? core::MemoryKind::kShared : core::MemoryKind::kPrivate;
      }
    }
  }
}

/// Hosts of any size, each below any that comes before it.
Tree make_tree(Random& random, int size) {
  Tree tree;
  const size_t most = 1 + random.below(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const bool joins = !tree.hosts.empty() && (tree.hosts.size() == most || random.once_in(2));
    if (joins) {
      tree.hosts[random.below(tree.hosts.size())].push_back(rank);
      continue;
    }
    tree.above.push_back(tree.hosts.empty() ? -1 : static_cast<int>(random.below(tree.hosts.size())));
    tree.hosts.push_back({rank});
  }
  return tree;
}

}  // namespace

Job make_job(uint64_t seed, int ranks) {
  Random random(seed);
  Job job;
  job.config = make_config(random, ranks);
  job.lanes = random.between(1, 4);
  job.window = random.pick<size_t>({1, 4, 1000});
  job.abandons = random.once_in(3);
  job.goodbyes = random.once_in(3);
  if (random.once_in(5)) job.dies = random.between(0, job.config.size - 1);
  const auto size = static_cast<size_t>(job.config.size);
  job.steps.resize(size);
  const bool wrong = random.once_in(2);
  make_added_sets(random, job, wrong);
  const size_t sets = job.config.sets.size() + job.added.size();
  std::vector<std::vector<std::vector<Step>>> threads(size, std::vector<std::vector<Step>>(sets));
  size_t thread = 0;
  // In one set only: ranks that wait in two joins, each in another first, wait for ever.
  const size_t joining = random.below(2 * sets);
  for (const core::SetMembers& set : job.config.sets) {
    make_set(random, set, wrong, thread == joining, threads, thread);
    ++thread;
  }
  for (const AddedSet& set : job.added) {
    // Who gives another list may wait in a join for members that know of no such set.
    make_set(random, set.members, wrong, thread == joining && !set.spoiled && !core::pair_of(set.name), threads,
             thread);
    ++thread;
  }
  if (random.once_in(3)) make_posts(random, job, threads);
  // Ranks that wait for each operation and take sets in different orders wait for each other.
  const bool interleave = job.window > 100 || random.once_in(4);
  for (size_t rank = 0; rank < size; ++rank) {
    add_sets(random, job, static_cast<int>(rank), threads[rank]);
    merge(random, threads[rank], interleave, job.steps[rank]);
  }
  if (random.once_in(2)) job.tree = make_tree(random, job.config.size);
  job.config.relayed = !job.tree.hosts.empty();
  if (random.once_in(2)) share_tensors(random, job.steps);
  return job;
}

bool runs_in_place(const AlgorithmChoice& choice) { return (choice.algorithm & kInPlace) != 0; }

const AddedSet* added_set(const Job& job, core::SetId set) {
  return set < kFirstAdded ? nullptr : &job.added[set - kFirstAdded];
}

const core::SetMembers& members_of(const Job& job, core::SetId set) {
  if (const AddedSet* added = added_set(job, set)) return added->members;
  return *std::find_if(job.config.sets.begin(), job.config.sets.end(), [set](const auto& s) { return s.id == set; });
}

}  // namespace rueda::sim
