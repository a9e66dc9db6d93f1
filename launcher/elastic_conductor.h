#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/arguments.h"
#include "launcher/dump_desk.h"
#include "launcher/elastic_report.h"
#include "launcher/elastic_store.h"
#include "launcher/host_discovery.h"
#include "launcher/host_keeper.h"
#include "launcher/job_hosts.h"
#include "launcher/job_limits.h"
#include "launcher/job_plan.h"
#include "launcher/job_store.h"
#include "launcher/membership.h"
#include "launcher/notice_desk.h"
#include "launcher/rank_output.h"
#include "launcher/stopped_ranks.h"
#include "launcher/terminal_input.h"

namespace rueda::core::launcher {

/// The conductor of an elastic job, see elastic_job.cc; elastic_orders.cc has what membership_ orders, elastic_hosts.cc
/// hosts that a script lists. Belongs to the loop's thread, and so to the process's main one.
class ElasticJob {
 public:
  /// Borrows both for its life.
  ElasticJob(const Arguments& arguments, const JobPlan& plan);
  /// Starts agents on all hosts. Returns kSystem if that is impossible; the destructor ends those that run.
  Status prepare();
  /// Runs the prepared job and returns hvdrun's exit code.
  int run();

 private:
  struct WorkerRecord {
    size_t host = 0;
    std::string host_name;
    int64_t pid = 0;
  };
  void watch_start();
  Status begin();
  Status order_host(size_t host);
  Status discover();
  void hosts_listed(const std::vector<HostSlots>& hosts);
  void host_answered(size_t host);
  void preempted(size_t host);
  Result<std::string> signal_removal(const std::string& host);
  Result<std::string> signal_hosts();
  void let_go_of_hosts();
  HostKeeper::Events keeper_events();
  Status open_store();
  void note_request(int64_t worker, const PlanRequest& request);
  /// Lets membership_ take an event at the present time, and obeys.
  void tell(const std::function<void()>& event);
  void obey();
  void obey(const VoidPlan& order);
  void obey(const PublishPlan& order);
  void obey(const StartWorker& order);
  void obey(const StopWorker& order);
  void obey(const RemoveWorker& order);
  void obey(const NotifyMembers& order);
  void obey(const Tell& order);
  void obey(const EndJob& order);
  void complain(const Status& status);
  void fail(std::string sentence, int exit_code = kIncomplete);
  void receive(size_t host, const Message& message);
  void started(const Message& message);
  void exited(int64_t worker, int wait_status);
  void forget_errors(int64_t worker);
  void host_lost(size_t host, const std::string& why);
  void lose(const std::string& host, const std::string& why);
  void reported(uint64_t plan);
  void end_hosts(std::chrono::milliseconds grace);
  void end_workers();
  void end_if_raised();
  void signalled(int signal);
  void settle_output();
  void finish_when_over();
  void finish();
  void report();
  bool knows(int64_t worker) const { return records_.contains(worker); }
  std::vector<int> running() const;
  std::string name_of(int64_t worker) const;
  Placement placement_of(const StartWorker& order) const;
  std::string master_for(const StartWorker& order) const;

  const Arguments& arguments_;
  const JobPlan& plan_;
  const SteadyClock::time_point began_ = SteadyClock::now();
  EventLoop loop_;
  RankOutput output_;
  Membership membership_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<ElasticStore> plans_;
  std::unique_ptr<DumpDesk> dump_desk_;
  std::unique_ptr<NoticeDesk> notice_desk_;
  StoreRoutes routes_;
  JobHosts hosts_;
  TerminalInput input_;
  StoppedRanks stops_;
  std::unique_ptr<HostDiscovery> discovery_;  // of a job whose hosts a script lists; else null, as is the next
  std::unique_ptr<HostKeeper> keeper_;
  std::unique_ptr<SignalWatch> signals_;
  Timer start_timer_, end_timer_, tick_timer_;
  std::map<int64_t, WorkerRecord> records_;
  std::set<int64_t> stopped_too_long_;
  std::set<size_t> lost_hosts_;
  std::set<size_t> preempted_;  // hosts of the command line that are about to go
  int64_t last_failed_ = -1;    // when a worker last ended
  size_t first_ = 0;            // workers of the first plan
  size_t started_ = 0;
  int interrupts_ = 0;  // SIGINTs since the workers were ordered
  bool begun_ = false;
  bool hosts_over_ = false;
  bool ended_ = false;    // EndJob has come
  bool raising_ = false;  // workers have been told of it and may still end by themselves
  bool reported_ = false;
  std::vector<std::string> faults_;  // what went wrong and is not a worker's failure
  ElasticOutcome outcome_;
  int user_signal_ = 0;
  bool code_is_final_ = false;
};

}  // namespace rueda::core::launcher
