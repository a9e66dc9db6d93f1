// Searches seeds for one that breaks a promise of agreement, or replays one. Usage: --help.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>

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
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    rueda::sim::Simulation simulation(seed, ranks, {});
    const std::string violation = simulation.run();
    operations += simulation.operations();
    if (violation.empty()) continue;
    std::printf("seed %llu: %s\nreplay: rueda-simulate --seed %llu --ranks %d --trace\n",
                static_cast<unsigned long long>(seed), violation.c_str(), static_cast<unsigned long long>(seed), ranks);
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%llu seeds from %llu hold: %llu operations in %.1f s\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(operations), took.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulates agreement with seeded reordering, delay, mismatches, goodbyes and deaths.");
  uint64_t first = 1;
  uint64_t seeds = 1000;
  uint64_t seed = 0;
  int ranks = 0;
  bool trace = false;
  app.add_option("--seeds", seeds, "how many seeds to try")->capture_default_str();
  app.add_option("--first", first, "the first of them")->capture_default_str();
  app.add_option("--ranks", ranks, "ranks of each job; 0: 1 to 6, by the seed")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  CLI::Option* one = app.add_option("--seed", seed, "replay this seed only");
  app.add_flag("--trace", trace, "print every step of the replay")->needs(one);
  CLI11_PARSE(app, argc, argv);
  if (one->count() == 0) return search(first, seeds, ranks);
  return replay(seed, ranks, trace ? rueda::sim::Simulation::Trace(print_line) : nullptr);
}
