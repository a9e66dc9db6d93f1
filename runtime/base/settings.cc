#include "runtime/base/settings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include "runtime/base/log.h"

namespace rueda::core {
namespace {

constexpr std::string_view kPrefix = "RUEDA_";
constexpr std::string_view kHorovodPrefix = "HOROVOD_";

/// RUEDA_ names that are read elsewhere: who this process is (`rendezvous/identity.h`), and where plug-ins lie.
constexpr std::string_view kOtherNames[] = {
    "RANK",  "SIZE",       "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK",   "CROSS_SIZE",  "HOSTNAME",
    "STORE", "STORE_ADDR", "JOB",        "JOB_KEY_FD", "JOB_KEY_FILE", "PLUGIN_PATH", "AGENT_FD",
};
/// Names that belong to parts which this version does not have.
constexpr std::string_view kLaterNames[] = {"TIMELINE",
                                            "TIMELINE_MARK_CYCLES",
                                            "STALL_CHECK_DISABLE",
                                            "STALL_CHECK_TIME_SECONDS",
                                            "STALL_SHUTDOWN_TIME_SECONDS",
                                            "DYNAMIC_PROCESS_SETS"};

bool any_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Knob* find_knob(std::string_view variable) {
  for (const Knob& knob : knobs()) {
    if (knob.variable == variable) return &knob;
  }
  return nullptr;
}

/// Levenshtein's distance, one row at a time.
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
  if (edit_distance(name, best) > std::max<size_t>(2, name.size() / 3)) return std::nullopt;
  return best;
}

void report_ours(std::string_view name) {
  if (find_knob(name) != nullptr || any_of(kOtherNames, name)) return;
  if (any_of(kLaterNames, name)) {
    log(LogLevel::kWarning, "RUEDA_{} is set, but this version has nothing that it would change", name);
  } else if (const auto meant = closest_name(name)) {
    log(LogLevel::kWarning, "RUEDA_{} is set, but there is no such variable; did you mean RUEDA_{}?", name, *meant);
  } else {
    log(LogLevel::kWarning, "RUEDA_{} is set, but there is no such variable", name);
  }
}

/// Says which variables have no effect.
void report_unread(const Environment& environment) {
  std::string ignored;
  for (const auto& [variable, value] : environment.all()) {
    const std::string_view name = variable;
    if (name.starts_with(kPrefix)) report_ours(name.substr(kPrefix.size()));
    if (!name.starts_with(kHorovodPrefix)) continue;
    const std::string_view rest = name.substr(kHorovodPrefix.size());
    const Knob* knob = find_knob(rest);
    if ((knob != nullptr && knob->horovod) || any_of(kOtherNames, rest)) continue;
    ignored += (ignored.empty() ? "" : ", ") + variable;
  }
  if (!ignored.empty()) log(LogLevel::kInfo, "set, but without a meaning here: {}", ignored);
}

Status read_knob(const Environment& environment, const Knob& knob, Settings& settings) {
  std::string name = std::string(kPrefix) + knob.variable;
  auto text = environment(name);
  if (!text && knob.horovod) {
    name = std::string(kHorovodPrefix) + knob.variable;
    text = environment(name);
  }
  if (!text) return {};
  const Status parsed = knob.parse(*text, settings);
  if (parsed.ok()) return {};
  return {parsed.code(), name + ": " + parsed.sentence()};
}

}  // namespace

Result<Settings> read_settings(const Environment& environment) {
  Settings settings;
  for (const Knob& knob : knobs()) RUEDA_RETURN_IF_ERROR(read_knob(environment, knob, settings));
  report_unread(environment);
  return settings;
}

std::string print_agreed(const Settings& settings) {
  std::string text;
  for (const Knob& knob : knobs()) {
    if (knob.agreed == Agreed::kNo) continue;
    text.append(knob.variable).append("=").append(knob.print(settings)).append("\n");
  }
  return text;
}

Result<std::vector<AgreedValue>> parse_agreed(const std::string& text) {
  std::vector<AgreedValue> values;
  Settings scratch;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(line.find('='), line.size());
    const Knob* knob = find_knob(line.substr(0, equals));
    if (knob == nullptr || knob->agreed == Agreed::kNo || equals == line.size()) {
      return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a line of agreed settings", line.substr(0, 80)));
    }
    values.push_back({knob, std::string(line.substr(equals + 1))});
    RUEDA_RETURN_IF_ERROR(knob->parse(values.back().value, scratch));
  }
  return values;
}

Status apply_agreed(const std::string& text, Settings& settings) {
  const auto values = parse_agreed(text);
  if (!values.ok()) return values.status();
  for (const AgreedValue& agreed : values.value()) RUEDA_RETURN_IF_ERROR(agreed.knob->parse(agreed.value, settings));
  return {};
}

}  // namespace rueda::core
