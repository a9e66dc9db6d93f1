// The flags of elastic jobs, with horovodrun's names for them. Each checks its own value; what several flags mean
// together is for elastic_plan.cc.

#include "launcher/elastic_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

namespace rueda::core::launcher {
namespace {

constexpr const char* kHeading = "Elastic jobs (--min-np or --host-discovery-script makes a job elastic)";
constexpr int kMostWorkers = 65536;
constexpr double kLongest = 1e6;
constexpr double kShortestInterval = 0.01;
constexpr int kLongestCooldown = 3600;

template <typename Value, typename Check>
void add(CLI::App& app, const std::string& names, std::optional<Value>& into, const Check& check,
         const std::string& help) {
  app.add_option_function<Value>(
         names, [&into](const Value& value) { into = value; }, help)
      ->check(check)
      ->group(kHeading);
}

std::optional<int> whole_number(const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

void add_cooldown(CLI::App& app, ElasticArguments& arguments) {
  const std::string name = "--blacklist-cooldown-range";
  const auto set = [&arguments, name](const std::vector<std::string>& range) {
    const auto least = whole_number(range.at(0)), most = whole_number(range.at(1));
    if (!least || !most || *least < 1 || *most > kLongestCooldown || *least > *most) {
      throw CLI::ValidationError(name, "the range is " + range[0] + " to " + range[1] +
                                           " s; it must be MIN MAX, whole seconds with 1 <= MIN <= MAX <= 3600");
    }
    arguments.cooldown_seconds = {*least, *most};
  };
  app.add_option_function<std::vector<std::string>>(
         name, set,
         "MIN MAX: seconds for which a blacklisted host rests; the n-th time MIN*2^n, at most MAX (default: for ever)")
      ->expected(2)
      ->delimiter(',')  // a config file gives a list
      ->group(kHeading);
}

}  // namespace

void add_elastic_flags(CLI::App& app, ElasticArguments& arguments) {
  add(app, "--min-np,--min-num-proc", arguments.least, CLI::Range(1, kMostWorkers),
      "the job goes on as long as so many workers are left (default: -np)");
  add(app, "--max-np,--max-num-proc", arguments.most, CLI::Range(1, kMostWorkers),
      "never more workers than this (default: all slots)");
  app.add_option("--host-discovery-script", arguments.script,
                 "program that prints the hosts of the moment, a line `host` or `host:slots` for each; it is run "
                 "again and again, and workers come and go with its hosts")
      ->group(kHeading);
  add(app, "--slots-per-host,--slots", arguments.slots_per_host, CLI::Range(1, kMostWorkers),
      "slots of hosts for which the script prints none (default: 1)");
  add(app, "--discovery-interval", arguments.discovery_interval_seconds, CLI::Range(kShortestInterval, kLongest),
      "seconds from the start of a run of the script to the next one (default: 1)");
  add(app, "--discovery-timeout", arguments.discovery_timeout_seconds, CLI::Range(0.1, kLongest),
      "seconds after which a run of the script is ended, with all that it started (default: 10)");
  add(app, "--elastic-timeout", arguments.timeout_seconds, CLI::Range(0.0, kLongest),
      "seconds to wait for more slots while there are too few (default: HOROVOD_ELASTIC_TIMEOUT, else 600)");
  add(app, "--rejoin-timeout", arguments.rejoin_timeout_seconds, CLI::Range(0.1, kLongest),
      "seconds in which a worker must join the next plan; after them it is ended (default: 30)");
  add(app, "--removal-timeout", arguments.removal_timeout_seconds, CLI::Range(0.1, kLongest),
      "seconds in which the workers of a host that is about to go must leave; after them they are ended (default: 25)");
  add(app, "--reset-limit", arguments.reset_limit, CLI::Range(0, kMostWorkers),
      "resets after which the job ends with an error (default: no limit)");
  add_cooldown(app, arguments);
  add(app, "--blacklist-after", arguments.blacklist_after, CLI::Range(1, kMostWorkers),
      "workers that fail on a host within 60 s before the job leaves it; never the last host (default: 2)");
  app.add_option_function<std::string>(
         "--admit",
         [&arguments](const std::string& when) {
           arguments.admission = when == "ready" ? Admission::kReady : Admission::kDiscovered;
         },
         "when others are interrupted for a new worker: `ready`, when it can join, or `discovered`, when it was "
         "started (default: ready)")
      ->check(CLI::IsMember({"ready", "discovered"}))
      ->group(kHeading);
  app.add_flag("--horovod-defaults", arguments.horovod_defaults,
               "as horovodrun: --blacklist-after 1 and --admit discovered, unless they are given, and its text if the "
               "job fails")
      ->group(kHeading);
}

}  // namespace rueda::core::launcher
