// What horovodrun knows and hvdrun does not have: flags, further names of flags, and the sections of its config files.
// Scripts and files written for it must start, so a flag without a meaning is accepted and told. Only a flag whose loss
// would start another job than the one that was meant is refused.

#include "launcher/dialect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace rueda::core::launcher {
namespace {

using enum DialectUse;

constexpr const char* kNoCycle = "operations start at once, so there is no cycle";
constexpr const char* kOwnTuning = "tuning tries each choice as often as it needs; --no-autotune switches it off";
constexpr const char* kNoMpiThreads = "MPI is asked for the threads that it needs";
constexpr const char* kNoTorus = "all-reduces choose by hosts and size; --allreduce-algorithm names one";

constexpr DialectFlag kDialectFlags[] = {
    {"--gloo", kSwitchWithoutMeaning, "without --mpi ranks use TCP and shared memory anyway"},
    {"--disable-cache", kSwitchWithoutMeaning, "hosts are tried at each start, and nothing is kept"},
    {"--cycle-time-ms", kValueWithoutMeaning, kNoCycle},
    {"--autotune-warmup-samples", kValueWithoutMeaning, kOwnTuning},
    {"--autotune-steps-per-sample", kValueWithoutMeaning, kOwnTuning},
    {"--autotune-bayes-opt-max-samples", kValueWithoutMeaning, kOwnTuning},
    {"--autotune-gaussian-process-noise", kValueWithoutMeaning, kOwnTuning},
    {"--torus-allreduce", kSwitchWithoutMeaning, kNoTorus},
    {"--no-torus-allreduce", kSwitchWithoutMeaning, kNoTorus},
    {"--num-nccl-streams", kValueWithoutMeaning, "NCCL has no streams of its own here; --num-lanes sets data threads"},
    {"--mpi-threads-disable", kSwitchWithoutMeaning, kNoMpiThreads},
    {"--no-mpi-threads-disable", kSwitchWithoutMeaning, kNoMpiThreads},
    {"--jsrun", kRefusedSwitch,
     "hvdrun does not start ranks with jsrun; leave it out: hvdrun reads LSF's allocation and reaches its hosts by "
     "ssh"},
    {"-m", kRefusedSwitch, "hvdrun starts programs, not Python modules; write `hvdrun -np 2 python -m module`"},
};

const std::map<std::string, std::string> kFurtherNames = {
    {"np", ",--num-proc"},
    {"network-interfaces", ",--network-interface"},
    {"peer-timeout-seconds", ",--gloo-timeout-seconds"},
    {"log-hide-time", ",--log-hide-timestamp,--log-without-timestamp"},
    {"no-log-hide-time", ",--no-log-hide-timestamp,--log-with-timestamp"},
};

// What stands before the entries of a section.
const std::map<std::string, std::string> kConfigSections = {
    {"params", ""},      {"library-options", ""},         {"autotune", "autotune-"}, {"timeline", "timeline-"},
    {"logging", "log-"}, {"stall-check", "stall-check-"},
};

}  // namespace

std::span<const DialectFlag> dialect_flags() { return kDialectFlags; }

std::string dialect_names(const std::string& name) {
  const auto found = kFurtherNames.find(name);
  return found == kFurtherNames.end() ? "" : found->second;
}

std::string dialect_entry(const std::string& section, const std::string& entry) {
  const auto found = kConfigSections.find(section);
  if (found == kConfigSections.end()) return "";
  return entry == "enabled" ? section : found->second + entry;
}

std::string without_meaning(const std::vector<std::string>& reasons) {
  if (reasons.empty()) return "";
  return fmt::format("flags without a meaning here: {}", fmt::join(reasons, ", "));
}

}  // namespace rueda::core::launcher
