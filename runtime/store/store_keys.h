#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rueda::core {

/// Every key of the store. All begin with the job; the keys of one epoch begin with job and epoch. On the right is the
/// writer.
///
///   JOB/wishes/RANK      counter: how often this rank has begun `init`                    (the rank adds 1)
///   JOB/wish/RANK/N      its N-th wish: nonce, endpoint, settings; empty if withdrawn     (the rank)
///   JOB/void/RANK        counter: those of its removed wishes that came to nothing        (the rank adds 1)
///   JOB/taken/RANK       counter: the last of its wishes that rank 0 has answered         (rank 0)
///   JOB/answer/NONCE     epoch number, or the error that init fails with                  (rank 0)
///   JOB/gone/RANK/N      set when the rank has read why the init of its N-th wish failed  (the rank)
///   JOB/epochs           counter: the last epoch's number                                 (rank 0)
///   JOB/EPOCH/world      all endpoints and what was agreed: a long value                  (rank 0)
///   JOB/EPOCH/local/RANK which ranks it shares no memory with, and why                    (the rank)
///   JOB/EPOCH/hosts      the partition into hosts, or the error                           (rank 0)
///   JOB/leaving/RANK     counter: how often its `shutdown` has begun without a failure    (the rank adds 1)
///   JOB/goodbyes/RANK    counter: how often its `shutdown` has ended well                 (the rank adds 1)
///   JOB/evidence         a DeathVerdict without host and pid, for what hvdrun cannot see  (any rank)
///   JOB/failed/RANK/N    why the epoch of its N-th wish had failed before its `shutdown`  (the rank)
///   JOB/death            a DeathVerdict                                                   (hvdrun)
///   JOB/dump/N           asks all ranks for their flight record, for the N-th time        (hvdrun)
///   JOB/dumped/N/RANK    the rank's flight record as JSON                                 (the rank)
///
/// `end_key` gives the key whose verdict ends every wait for a key of the same job: JOB/death.
///
/// In an elastic job hvdrun publishes numbered plans (`plan.h`), and each plan N is a job of its own with the name
/// JOB.N: all keys above begin with it, so JOB.N/death ends plan N alone. A plan has these keys more:
///
///   JOB.N/sets           the process sets of `rueda_init`, by worker, for newcomers       (rank 0)
///   JOB.N/formed/R       counter: raised by a newcomer when its `init` or `reset` returns (rank R)
///
/// These keys begin with JOB alone. JOB/death then ends the whole job. ID is the number of a worker; JOB/dumped/N/ID
/// has it instead of the rank.
///
///   JOB/plans            counter: the number of the last plan, raised once it is there    (hvdrun adds 1)
///   JOB/plan/N           plan N                                                           (hvdrun)
///   JOB/reset/ID         N: the worker has left plan N and asks for the next one          (the worker)
///   JOB/removed/ID       set, before a plan without it, once no plan will have the worker (hvdrun)
///   JOB/change/K         the K-th notice that a plan is coming, K from 1                  (hvdrun)
///   JOB/changes          counter: the number of the last notice, raised once it is there  (hvdrun adds 1)
///   JOB/epochs           as above, for the epochs of all plans together                   (rank 0 of a plan)
///
/// A job may form epochs for weeks, so these are removed: an answer by its reader; of each rank's wishes all but the
/// last eight, with their `gone` and `failed`, by the rank; the keys of an epoch by their writers once the next one is
/// agreed, because by then every rank has left it. hvdrun removes a plan and its keys once two later plans are there,
/// and a notice once a hundred later ones are there. Once a hundred later plans are there, it removes the verdict about
/// a plan, and the keys of that plan that a late worker has written since. It removes a worker's request once its
/// process has ended.
inline std::string wishes_key(const std::string& job, int rank) { return job + "/wishes/" + std::to_string(rank); }
inline std::string formed_key(const std::string& job, int rank) { return job + "/formed/" + std::to_string(rank); }
inline std::string wish_key(const std::string& job, int rank, int64_t number) {
  return job + "/wish/" + std::to_string(rank) + "/" + std::to_string(number);
}
inline std::string void_key(const std::string& job, int rank) { return job + "/void/" + std::to_string(rank); }
inline std::string taken_key(const std::string& job, int rank) { return job + "/taken/" + std::to_string(rank); }
inline std::string answer_key(const std::string& job, const std::string& nonce) { return job + "/answer/" + nonce; }
inline std::string gone_key(const std::string& job, int rank, int64_t number) {
  return job + "/gone/" + std::to_string(rank) + "/" + std::to_string(number);
}
inline std::string epochs_key(const std::string& job) { return job + "/epochs"; }
inline std::string world_key(const std::string& job, uint64_t epoch) {
  return job + "/" + std::to_string(epoch) + "/world";
}
inline std::string local_key(const std::string& job, uint64_t epoch, int rank) {
  return job + "/" + std::to_string(epoch) + "/local/" + std::to_string(rank);
}
inline std::string hosts_key(const std::string& job, uint64_t epoch) {
  return job + "/" + std::to_string(epoch) + "/hosts";
}
inline std::string leaving_key(const std::string& job, int rank) { return job + "/leaving/" + std::to_string(rank); }
inline std::string goodbyes_key(const std::string& job, int rank) { return job + "/goodbyes/" + std::to_string(rank); }
inline std::string evidence_key(const std::string& job) { return job + "/evidence"; }
inline std::string failed_key(const std::string& job, int rank, int64_t number) {
  return job + "/failed/" + std::to_string(rank) + "/" + std::to_string(number);
}
inline std::string death_key(const std::string& job) { return job + "/death"; }
/// Empty if the key belongs to no job.
inline std::string end_key(std::string_view key) {
  const size_t slash = key.find('/');
  return slash == std::string_view::npos ? std::string() : death_key(std::string(key.substr(0, slash)));
}
inline std::string dump_key(const std::string& job, int64_t number) { return job + "/dump/" + std::to_string(number); }
inline std::string dumped_key(const std::string& job, int64_t number, int64_t rank) {
  return job + "/dumped/" + std::to_string(number) + "/" + std::to_string(rank);
}
/// The name of a plan's own job.
inline std::string planned_job(const std::string& job, uint64_t plan) { return job + "." + std::to_string(plan); }
inline std::string plans_key(const std::string& job) { return job + "/plans"; }
inline std::string plan_key(const std::string& job, uint64_t plan) { return job + "/plan/" + std::to_string(plan); }
inline std::string reset_key(const std::string& job, int64_t worker) {
  return job + "/reset/" + std::to_string(worker);
}
inline std::string removed_key(const std::string& job, int64_t worker) {
  return job + "/removed/" + std::to_string(worker);
}
inline std::string change_key(const std::string& job, int64_t number) {
  return job + "/change/" + std::to_string(number);
}
inline std::string changes_key(const std::string& job) { return job + "/changes"; }
inline std::string sets_key(const std::string& job) { return job + "/sets"; }

}  // namespace rueda::core
