#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "bindings/c/rueda.h"
#include "tests/support/elastic_launcher.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {

/// Workers of an elastic job as processes that do what the test tells them. One thread uses it.
///
///   sum      a sum over all workers of their ids, by one float and by 100,000 of them
///   reset    rueda_reset; then where it is
///   ...      see elastic_workers.cc
class ElasticWorkers {
 public:
  /// Starts `count` workers with the ids 0, 1, ...; there is no plan yet.
  explicit ElasticWorkers(int count, RankProcesses::Variables variables = {});
  ElasticLauncher& launcher() { return launcher_; }
  /// Starts one more worker, with the next id.
  int start_newcomer();

  /// Waits until its program has begun; it has not called rueda_init yet.
  void await_begun(int id) { static_cast<void>(processes_.await(id, "begun")); }
  /// Waits until these have joined their first plan.
  void await_joined(const std::vector<int>& ids);
  /// Has these do something at the same time. Returns their answers in this order.
  std::vector<std::string> all(const std::vector<int>& ids, const std::string& what);
  std::string one(int id, const std::string& what) { return all({id}, what).front(); }
  /// The same without waiting: the number of the answer, for `answer`.
  int begin(int id, const std::string& what);
  std::string answer(int id, int number);
  void kill(int id);
  pid_t pid(int id) const { return processes_.pid(id); }
  /// Whether all of these find the right sum; fails with what they say otherwise.
  void expect_sums(const std::vector<int>& ids);
  /// Has these, which are all that live, shut down, and expects that they exit with 0. `killed` have been killed.
  void expect_good_end(const std::vector<int>& ids, const std::vector<int>& killed);

 private:
  RankProcesses::Options options(int id, int size) const;
  ElasticLauncher launcher_;
  RankProcesses::Variables variables_;
  int count_;
  int asked_ = 0;
  RankProcesses processes_;
};

}  // namespace rueda::test
