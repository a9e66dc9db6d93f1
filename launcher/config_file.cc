// Turns a config file into words of a command line, so that one parser checks values from both and names them alike.
// Every entry is checked, even one that the command line overrides: a typing error shows at the first run with the
// file.

#include "launcher/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "launcher/dialect.h"
#include "launcher/suggestion.h"

namespace rueda::core::launcher {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The opposite switch: "no-x" for "x" and "x" for "no-x".
std::string contrary(const std::string& name) { return name.starts_with("no-") ? name.substr(3) : "no-" + name; }

/// Whether the command line gives this flag or another form of it.
bool is_given(const std::string& name, const std::set<std::string>& given) {
  const bool hosts = name == "hosts" || name == "hostfile";
  if (hosts && (given.count("hosts") > 0 || given.count("hostfile") > 0)) return true;
  return given.count(name) > 0 || given.count(contrary(name)) > 0;
}

Status wrong(const YAML::Node& at, const std::string& what) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", at.Mark().line + 1, what)};
}

Status unknown(const YAML::Node& at, const std::string& name, const ConfigVocabulary& vocabulary) {
  std::vector<std::string> all = vocabulary.values;
  all.insert(all.end(), vocabulary.switches.begin(), vocabulary.switches.end());
  const std::string near = nearest_name(name, all);
  const std::string hint = near.empty() ? "hvdrun --help lists the flags" : fmt::format("did you mean {}?", near);
  return wrong(at, fmt::format("there is no flag \"{}\"; {}", name, hint));
}

/// The text of a scalar, or of a list of scalars with commas between.
Result<std::string> text_of(const std::string& name, const YAML::Node& key, const YAML::Node& node) {
  if (node.IsScalar()) return node.as<std::string>();
  if (!node.IsSequence()) return wrong(key, fmt::format("{} needs a value or a list of values", name));
  std::string text;
  for (const auto& item : node) {
    if (!item.IsScalar())
      return wrong(node, fmt::format("{} needs a list of plain values, but an item is a list or a map", name));
    text += (text.empty() ? "" : ",") + item.as<std::string>();
  }
  return text;
}

Result<std::vector<std::string>> switch_words(const std::string& name, const YAML::Node& node,
                                              const ConfigVocabulary& vocabulary) {
  bool on = false;
  if (!node.IsScalar() || !YAML::convert<bool>::decode(node, on))
    return wrong(node, fmt::format("{} must be true or false", name));
  if (on) return std::vector<std::string>{"--" + name};
  if (!contains(vocabulary.switches, contrary(name))) return std::vector<std::string>{};
  return std::vector<std::string>{"--" + contrary(name)};
}

Result<std::vector<std::string>> entry_words(const std::string& name, const YAML::Node& key, const YAML::Node& value,
                                             const ConfigVocabulary& vocabulary) {
  if (contains(vocabulary.switches, name)) return switch_words(name, value, vocabulary);
  if (!contains(vocabulary.values, name)) return unknown(key, name, vocabulary);
  auto text = text_of(name, key, value);
  if (!text.ok()) return text.status();
  return std::vector<std::string>{"--" + name, std::move(text).value()};
}

/// Notes where the first value of a document is.
class FirstValue : public YAML::EventHandler {
 public:
  std::optional<YAML::Mark> at() const { return at_; }
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { note(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override { note(mark); }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    note(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    note(mark);
  }
  void OnMapEnd() override {}

 private:
  void note(const YAML::Mark& mark) {
    if (!at_) at_ = mark;
  }
  std::optional<YAML::Mark> at_;
};

/// Looks for a second document. YAML::LoadAll would load all of them, and yaml-cpp 0.7 finds a new one for ever in some
/// files that are no YAML, such as a single comma.
Status check_single(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  FirstValue first, second;
  if (!parser.HandleNextDocument(first) || !parser.HandleNextDocument(second) || !second.at()) return {};
  return {Code::kInvalidArgument,
          fmt::format("line {}: a second YAML document starts here; only one is allowed", second.at()->line + 1)};
}

/// YAML forbids control characters. yaml-cpp does not refuse them all.
Status check_characters(const std::string& yaml) {
  size_t line = 1;
  for (const char character : yaml) {
    const auto code = static_cast<unsigned char>(character);
    if (code == '\n') ++line;
    const bool allowed = code >= 0x20 || code == '\n' || code == '\r' || code == '\t';
    if (allowed && code != 0x7f) continue;
    return {Code::kInvalidArgument,
            fmt::format("line {}: the control character 0x{:02x} is not allowed in YAML; is this a text file?", line,
                        code)};
  }
  return {};
}

/// An entry of the file, and the flag that it means.
struct Entry {
  std::string name;
  YAML::Node key;
  YAML::Node value;
};

/// The name of a key with dashes: horovodrun's config files have underscores.
std::string flag_name(const YAML::Node& key) {
  auto name = key.as<std::string>();
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// The entries of the file and of horovodrun's sections in it, in their order.
std::vector<Entry> all_entries(const YAML::Node& root) {
  std::vector<Entry> entries;
  for (const auto& entry : root) {
    const std::string name = flag_name(entry.first);
    if (!entry.second.IsMap() || dialect_entry(name, "enabled").empty()) {
      entries.push_back({name, entry.first, entry.second});
      continue;
    }
    for (const auto& inner : entry.second)
      entries.push_back({dialect_entry(name, flag_name(inner.first)), inner.first, inner.second});
  }
  return entries;
}

}  // namespace

Result<std::vector<std::string>> config_words(const std::string& yaml, const ConfigVocabulary& vocabulary,
                                              const std::set<std::string>& given) try {
  RUEDA_RETURN_IF_ERROR(check_characters(yaml));
  RUEDA_RETURN_IF_ERROR(check_single(yaml));
  std::vector<std::string> words;
  const YAML::Node root = YAML::Load(yaml);
  if (root.IsNull()) return words;
  if (!root.IsMap()) return wrong(root, "the file must be a map of flags and values, as in `np: 8`");
  std::set<std::string> seen;
  for (const auto& [name, key, value] : all_entries(root)) {
    if (!seen.insert(name).second) return wrong(key, fmt::format("{} is given twice", name));
    if (seen.count(contrary(name)) > 0)
      return wrong(key, fmt::format("{} contradicts {} above it", name, contrary(name)));
    const auto these = entry_words(name, key, value, vocabulary);
    if (!these.ok()) return these.status();
    if (is_given(name, given)) continue;
    words.insert(words.end(), these.value().begin(), these.value().end());
  }
  return words;
} catch (const YAML::Exception& error) {
  return Status(Code::kInvalidArgument, fmt::format("line {}: {}", error.mark.line + 1, error.msg));
}

}  // namespace rueda::core::launcher
