// Reads the settings, and carries the agreed ones from rank 0 to the others as lines "VARIABLE=value". Text rather than
// a struct, because an error must quote what differs, and because a build with one knob more then fails with its name.
#include "runtime/base/settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>

namespace rueda::core {
namespace {

Status read_knob(const Environment& environment, const Knob& knob, Settings& settings) {
  std::string name = std::string(kOurPrefix) + knob.variable;
  auto text = environment(name);
  // Our own name wins, so that a job script for Horovod can be tuned without editing it.
  if (!text && *knob.horovod != 0) {
    name = std::string(kHorovodPrefix) + knob.horovod;
    text = environment(name);
  }
  if (!text) return {};
  const Status parsed = knob.parse(*text, settings);
  if (parsed.ok()) return {};
  return {parsed.code(), name + ": " + parsed.sentence()};
}

}  // namespace

const Knob* find_knob(std::string_view variable) {
  for (const Knob& knob : knobs()) {
    if (knob.variable == variable) return &knob;
  }
  return nullptr;
}

Result<Settings> read_settings(const Environment& environment) {
  Settings settings;
  for (const Knob& knob : knobs()) RUEDA_RETURN_IF_ERROR(read_knob(environment, knob, settings));
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
  // Each value is parsed here already, so that `apply_agreed` changes all or nothing.
  Settings scratch;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(line.find('='), line.size());
    const Knob* knob = find_knob(line.substr(0, equals));
    // The text comes from another process.
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
