#include "launcher/elastic_report.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace rueda::core::launcher {
namespace {

using Lines = std::vector<std::string>;

Lines report(const ElasticOutcome& outcome) {
  return describe_outcome(outcome, [](int64_t worker) { return "worker " + std::to_string(worker); });
}

TEST_CASE("a worker that has finished is in the report if another one has begun a later plan") {
  ElasticOutcome outcome;
  outcome.finished = {{0, 1}, {1, 2}, {2, 0}};
  outcome.plans = 3;
  outcome.last_begun = 1;
  CHECK(report(outcome).empty());
  outcome.last_begun = 2;
  CHECK(report(outcome) == Lines{"worker 0 ended with code 0 in plan 1, and the others went on without it"});
  outcome.last_begun = 3;
  CHECK(report(outcome) == Lines{"worker 0 ended with code 0 in plan 1, and the others went on without it",
                                 "worker 1 ended with code 0 in plan 2, and the others went on without it"});
}

TEST_CASE("the report ends with what became of the job, behind its deaths") {
  ElasticOutcome outcome;
  outcome.plans = 2;
  outcome.deaths = {{1, "a", 1, "killed by signal 9 (Killed)", 137}, {2, "a", 0, "exited with code 3", 3}};
  Lines lines{"worker 1 failed: killed by signal 9 (Killed), in plan 1",
              "worker 2 failed: exited with code 3, before it was in a plan"};
  lines.emplace_back("the job succeeded in plan 2 without these workers");
  CHECK(report(outcome) == lines);
  outcome.exit_code = 3;
  outcome.sentence = "too few workers";
  lines.back() = "the job failed: too few workers";
  CHECK(report(outcome) == lines);
}

}  // namespace
}  // namespace rueda::core::launcher
