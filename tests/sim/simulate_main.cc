// Searches seeds for one that breaks a promise of agreement, or replays one. Usage: --help.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/sim/membership_simulation.h"
#include "tests/sim/scale.h"
#include "tests/sim/simulation.h"

namespace {

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

int replay(uint64_t seed, int ranks, const rueda::sim::Simulation::Trace& trace) {
  const std::string violation = rueda::sim::Simulation(seed, ranks, trace).run();
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
              violation.empty() ? "holds" : violation.c_str());
  return violation.empty() ? 0 : 1;
}

int search(uint64_t first, uint64_t seeds, int ranks) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t operations = 0;
  uint64_t early = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    rueda::sim::Simulation simulation(seed, ranks, {});
    const std::string violation = simulation.run();
    operations += simulation.operations();
    early += simulation.came_true();
    if (violation.empty()) continue;
    std::printf("seed %llu: %s\nreplay: rueda-simulate --seed %llu --ranks %d --trace\n",
                static_cast<unsigned long long>(seed), violation.c_str(), static_cast<unsigned long long>(seed), ranks);
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%llu seeds from %llu hold: %llu operations, %llu inputs shown early and taken, in %.1f s\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(operations), static_cast<unsigned long long>(early), took.count());
  return 0;
}

int replay_membership(uint64_t seed, const rueda::sim::MembershipSimulation::Trace& trace) {
  const std::string violation = rueda::sim::MembershipSimulation(seed, trace).run();
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
              violation.empty() ? "holds" : violation.c_str());
  return violation.empty() ? 0 : 1;
}

int search_membership(uint64_t first, uint64_t seeds) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t plans = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    rueda::sim::MembershipSimulation simulation(seed, {});
    const std::string violation = simulation.run();
    plans += simulation.plans();
    if (violation.empty()) continue;
    std::printf("seed %llu: %s\nreplay: rueda-simulate --membership --seed %llu --trace\n",
                static_cast<unsigned long long>(seed), violation.c_str(), static_cast<unsigned long long>(seed));
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%llu seeds from %llu hold: %llu plans in %.1f s\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(plans), took.count());
  return 0;
}

/// What docs and targets promise of a job of 4,096 ranks on 512 hosts.
bool within_limits(const rueda::sim::ScaleReport& report) {
  return report.violations.empty() && report.rank0_messages_per_round <= 8 && report.tree_depth <= 4 &&
         report.max_control_connections <= 16 && report.bytes_per_tensor_per_step <= 4.0;
}

int run_scale(const rueda::sim::ScaleJob& job, const std::string& json_file) {
  const rueda::sim::ScaleReport report = rueda::sim::simulate_scale(job);
  std::printf("%d ranks on %d hosts, %d steps of %d tensors, a mismatch, a join and a death\n", job.ranks, job.hosts,
              job.steps, job.tensors);
  std::printf("start-up: %zu control connections, at most %d of one process\n", report.control_connections,
              report.max_control_connections);
  std::printf("tree: %d levels above the host\n", report.tree_depth);
  std::printf("rank 0: at most %zu frames a round; %zu frames and %zu bytes a step\n", report.rank0_messages_per_round,
              report.rank0_messages_per_step, report.rank0_bytes_per_step);
  std::printf("upward on one edge: at most %.3f bytes a tensor and step\n", report.bytes_per_tensor_per_step);
  for (const std::string& violation : report.violations) std::printf("violation: %s\n", violation.c_str());
  if (!json_file.empty()) {
    const nlohmann::ordered_json json = {{"ranks", job.ranks},
                                         {"hosts", job.hosts},
                                         {"steps", job.steps},
                                         {"tensors", job.tensors},
                                         {"control_connections", report.control_connections},
                                         {"max_control_connections", report.max_control_connections},
                                         {"tree_depth", report.tree_depth},
                                         {"rank0_messages_per_round", report.rank0_messages_per_round},
                                         {"rank0_messages_per_step", report.rank0_messages_per_step},
                                         {"rank0_bytes_per_step", report.rank0_bytes_per_step},
                                         {"bytes_per_tensor_per_step", report.bytes_per_tensor_per_step},
                                         {"violations", report.violations.size()},
                                         {"first_violations", report.violations}};
    std::ofstream file(json_file);
    file << json.dump(2) << "\n";
    if (!file.flush()) {
      std::cerr << "rueda-simulate: " << json_file << " cannot be written: " << std::strerror(errno) << "\n";
      return 1;
    }
  }
  return within_limits(report) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulates agreement with seeded reordering, delay, mismatches, goodbyes and deaths.");
  uint64_t first = 1;
  uint64_t seeds = 1000;
  uint64_t seed = 0;
  int ranks = 0;
  bool trace = false;
  rueda::sim::ScaleJob scale;
  std::string json_file;
  app.add_option("--seeds", seeds, "how many seeds to try")->capture_default_str();
  app.add_option("--first", first, "the first of them")->capture_default_str();
  app.add_option("--ranks", ranks, "ranks of each job; 0: 1 to 6, by the seed")
      ->capture_default_str()
      ->check(CLI::Range(0, 65536));
  CLI::Option* hosts =
      app.add_option("--hosts", scale.hosts, "one large job on so many hosts, through the tree of relays")
          ->check(CLI::Range(2, 65536));
  app.add_option("--steps", scale.steps, "of the large job")->capture_default_str()->needs(hosts);
  app.add_option("--json", json_file, "where the large job's counts go")->needs(hosts);
  bool membership = false;
  app.add_flag("--membership", membership, "simulate the membership of elastic jobs instead")->excludes(hosts);
  CLI::Option* one = app.add_option("--seed", seed, "replay this seed only");
  app.add_flag("--trace", trace, "print every step of the replay")->needs(one);
  CLI11_PARSE(app, argc, argv);
  if (hosts->count() != 0) {
    if (ranks != 0) scale.ranks = ranks;
    if (scale.ranks < scale.hosts) {
      std::fprintf(stderr, "--hosts %d needs as many ranks, not %d\n", scale.hosts, scale.ranks);
      return 2;
    }
    if (one->count() != 0) scale.seed = seed;
    return run_scale(scale, json_file);
  }
  const auto print = trace ? rueda::sim::Simulation::Trace(print_line) : nullptr;
  if (membership) return one->count() == 0 ? search_membership(first, seeds) : replay_membership(seed, print);
  if (one->count() == 0) return search(first, seeds, ranks);
  return replay(seed, ranks, print);
}
