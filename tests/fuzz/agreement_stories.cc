// The stories: each has other kinds of records in its frames. Two ranks, so that every one is short.
#include <array>
#include <chrono>
#include <utility>

#include "runtime/agreement/messages.h"
#include "tests/fuzz/agreement_job.h"
#include "tests/fuzz/targets.h"

namespace rueda::fuzz {
namespace {

using namespace rueda::core;

constexpr SetId kMade = 2;  ///< both ranks' number for the set that they ask for

/// A tensor of two ranks: they differ in nothing unless a story says so.
Request tensor(size_t phase, uint64_t ticket, std::string_view name, OpKind kind = OpKind::kAllreduce) {
  Request request;
  request.ticket = 100 * (phase + 1) + ticket;
  request.name = name;
  request.metadata.kind = kind;
  request.metadata.shape = {4, 2};
  return request;
}

void give(Participant& participant, const Request& request) { participant.submit({&request, 1}); }

void give_rooted(Participant& participant, Request request, int root) {
  request.metadata.root = root;
  give(participant, request);
}

/// By name, then by id, then a goodbye.
void repeat(size_t phase, int rank, Participant& participant) {
  give(participant, tensor(phase, 1, "w"));
  if (phase > 0) participant.started(kGlobalSet, phase - 1);
  if (rank == 0 && phase == 1) participant.timed(kGlobalSet, {7, std::chrono::microseconds(12), Distance::kNear});
  if (phase == 2) participant.goodbye();
}

void disagree(size_t phase, int rank, Participant& participant) {
  Request request = tensor(phase, 1, phase == 1 ? "v" : "w");
  if (phase == 0) request.metadata.shape = {4, 2 + rank};
  if (phase == 1) request.metadata.op = rank == 0 ? ReduceOp::kMin : ReduceOp::kMax;
  if (phase == 2) request.metadata.root = -1, request.metadata.dtype = Dtype::kF64;
  give(participant, request);
}

/// The groups of the last phase differ, so that one rank is told of a member that it does not have.
void group(size_t phase, int rank, Participant& participant) {
  std::vector<Request> members{tensor(phase, 1, "a"), tensor(phase, 2, phase == 2 && rank == 1 ? "c" : "b")};
  describe_group(members);
  for (Request& member : members) member.group = phase + 1;
  participant.submit(members);
}

void join(size_t phase, int rank, Participant& participant) {
  Request request = tensor(phase, 3, "", OpKind::kJoin);
  request.metadata.shape.clear();
  if (phase == 0 && rank == 0) give(participant, tensor(phase, 1, "w"));
  if (phase == static_cast<size_t>(1 - rank)) return give(participant, request);
  if (phase == 2) give(participant, tensor(phase, 2, "w"));
}

void sets(size_t phase, int, Participant& participant) {
  Request request = tensor(phase, 1, "w");
  request.set = phase == 1 ? SetId{1} : kMade;
  if (phase == 0) participant.add_set(kMade, {0, 1}, "pair");
  if (phase < 2) return give(participant, request);
  if (participant.pending_names(1).empty()) participant.remove_set(kMade);
}

/// The receiver names no sender at first.
void messages(size_t phase, int rank, Participant& participant) {
  give_rooted(participant, tensor(phase, 1, "m", OpKind::kSend), rank == 0 || phase == 1 ? 0 : -1);
}

/// More names than the cache has room for.
void many_names(size_t phase, int, Participant& participant) {
  uint64_t ticket = 0;
  for (const char* name : {"a", "b", "c", "d"}) give(participant, tensor(phase, ++ticket, name));
  if (phase > 0) participant.started(kGlobalSet, phase - 1);
}

void kinds(size_t phase, int rank, Participant& participant) {
  if (phase == 0) {
    Request whole = tensor(phase, 1, "", OpKind::kBarrier);
    whole.metadata.shape.clear();
    give(participant, whole);
    give_rooted(participant, tensor(phase, 2, "root", OpKind::kBroadcast), 1);
    give_rooted(participant, tensor(phase, 3, "sum", OpKind::kReduce), 0);
  } else if (phase == 1) {
    give(participant, tensor(phase, 1, "cut", OpKind::kReducescatter));
    Request rows = tensor(phase, 2, "rows", OpKind::kAllgather);
    rows.metadata.shape = {0, 2};
    give(participant, rows);
    rows.name = "each", rows.metadata.kind = OpKind::kAlltoall, ++rows.ticket;
    give(participant, rows);
  } else {
    Request average = tensor(phase, 1, "average");
    average.metadata.op = ReduceOp::kAverage;
    average.metadata.prescale = 0.5;
    average.metadata.memory = rank == 0 ? MemoryKind::kShared : MemoryKind::kPrivate;
    give(participant, average);
  }
}

/// Each rank waits in vain for the other.
void abandon(size_t phase, int rank, Participant& participant) {
  const Request request = tensor(0, 1, rank == 0 ? "w" : "v");
  if (phase == 0) give(participant, request);
  if (phase == 1) participant.abandon(request.ticket, "nobody came");
  if (phase == 2 && rank == 1) participant.goodbye();
}

/// Some of everything.
void mixture(size_t phase, int rank, Participant& participant) {
  give(participant, tensor(phase, 1, phase == 0 ? "w" : ""));
  if (phase == 0) participant.add_set(kMade, {0, 1}, "");
  if (phase == 1) group(phase, 0, participant);
  if (phase == 2) join(static_cast<size_t>(1 - rank), rank, participant);
}

constexpr std::array<void (*)(size_t phase, int rank, Participant& participant), kStories> kAll{
    repeat, disagree, group, join, sets, messages, many_names, kinds, abandon, mixture};

}  // namespace

AgreementConfig agreement_config() {
  AgreementConfig config;
  config.size = 2;
  config.cache_capacity = 2;
  config.names.hosts = {"a", "a"};
  config.sets = {{0, {0, 1}, {2}, true}, {1, {1, 0}, {2}, true}};
  config.select = [](const BatchShape& shape) -> Result<AlgorithmChoice> {
    AlgorithmChoice choice;
    choice.trial = shape.tensors == 1 ? 7 : 0;
    return choice;
  };
  config.timed = [](const TrialTime& time) {
    hold(time.took >= std::chrono::nanoseconds(0) && time.took <= kMaxTrialTime);
  };
  return config;
}

RelayConfig relay_at_top(const AgreementConfig& config) {
  using Kind = RelayConfig::Child::Kind;
  return {config.epoch, config.size, {{Kind::kRank, {0}}, {Kind::kRelay, {1}}}, config.sets};
}

void act(size_t story, size_t phase, int rank, Participant& participant) { kAll[story](phase, rank, participant); }

}  // namespace rueda::fuzz
