// Warns of variables that have no effect. A misspelt RUEDA_ name would silently leave the default, so it is a warning
// with the closest known name. HOROVOD_ names without a meaning here are normal in scripts written for Horovod: one
// line at info for all of them.
#include "runtime/base/unread_variables.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/settings.h"

namespace rueda::core {
namespace {

/// RUEDA_ names that are no knobs: they tell a process its rank and its job (`rendezvous/identity.h`), or that it is a
/// worker of an elastic one.
constexpr std::string_view kOtherNames[] = {
    "RANK",       "SIZE", "LOCAL_RANK", "LOCAL_SIZE",   "CROSS_RANK", "CROSS_SIZE", "HOSTNAME",       "STORE",
    "STORE_ADDR", "JOB",  "JOB_KEY_FD", "JOB_KEY_FILE", "ELASTIC",    "WORKER_ID",  "REJOIN_TIMEOUT", "ADMIT",
};

bool any_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Levenshtein's distance, one line of its table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// The known name closest to `name`, if one is close enough to be meant.
std::optional<std::string_view> closest_name(std::string_view name) {
  std::vector<std::string_view> names(std::begin(kOtherNames), std::end(kOtherNames));
  for (const Knob& knob : knobs()) names.emplace_back(knob.variable);
  const auto nearer = [name](auto a, auto b) { return edit_distance(name, a) < edit_distance(name, b); };
  const std::string_view best = *std::min_element(names.begin(), names.end(), nearer);
  // A third of the letters may differ, and two in a short name; beyond that a suggestion would be a guess.
  if (edit_distance(name, best) > std::max<size_t>(2, name.size() / 3)) return std::nullopt;
  return best;
}

void report_ours(std::string_view name) {
  if (find_knob(name) != nullptr || any_of(kOtherNames, name)) return;
  if (const auto meant = closest_name(name)) {
    log(LogLevel::kWarning, "RUEDA_{} is set, but there is no such variable; did you mean RUEDA_{}?", name, *meant);
  } else {
    log(LogLevel::kWarning, "RUEDA_{} is set, but there is no such variable", name);
  }
}

}  // namespace

void report_unread(const Environment& environment) {
  std::string ignored;
  for (const auto& [variable, value] : environment.all()) {
    const std::string_view name = variable;
    if (name.starts_with(kOurPrefix)) report_ours(name.substr(kOurPrefix.size()));
    if (!name.starts_with(kHorovodPrefix)) continue;
    const std::string_view rest = name.substr(kHorovodPrefix.size());
    const auto reads = [rest](const Knob& knob) { return knob.horovod == rest; };
    if (std::any_of(knobs().begin(), knobs().end(), reads) || any_of(kOtherNames, rest)) continue;
    ignored += (ignored.empty() ? "" : ", ") + variable;
  }
  if (!ignored.empty()) log(LogLevel::kInfo, "set, but without a meaning here: {}", ignored);
}

}  // namespace rueda::core
