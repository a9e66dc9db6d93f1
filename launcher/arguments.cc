// Reads hvdrun's flags. CLI11 knows the flags and prints the help, but three habits of Horovod's users need work before
// it: long names with one dash (-np), a program's own flags right after the program, and a sentence with the nearest
// flag for a typing error. So `take_flags` first cuts the flags off the front and checks each one, and CLI11 then
// parses only those.
//
// A config file is turned into words too, which stand before those of the command line. The words are parsed twice:
// once to learn the file's name and which flags win, then all together into a fresh value.

#include "launcher/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "launcher/completion.h"
#include "launcher/config_file.h"
#include "launcher/dialect.h"
#include "launcher/elastic_flags.h"
#include "launcher/suggestion.h"
#include "launcher/text_file.h"
#include "runtime/base/settings.h"

namespace rueda::core::launcher {
namespace {

constexpr const char* kAbout = "hvdrun starts the ranks of a job, shows their output and leaves no process behind.";
constexpr const char* kUsage = "Usage: hvdrun [flags] program [arguments of the program]\n";
constexpr const char* kKnobs = "Settings (each sets the RUEDA_ variable of the same name for all ranks)";
constexpr const char* kHidden = "";  // CLI11 leaves a group without a name out of the help

constexpr int64_t kLargestPid = int64_t{1} << 40;

// Long names that Horovod's users write with one dash.
const std::set<std::string> kOneDash = {"np", "hosts", "hostfile", "cb", "prefix-timestamp"};

// A flag's long name as --help shows it.
std::string shown(const std::string& name) { return (kOneDash.count(name) > 0 ? "-" : "--") + name; }

/// Prints the help with -np for --np.
class Formatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return kUsage; }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const std::string usual = CLI::Formatter::make_option_name(option, positional);
    std::string names;
    for (const auto& name : CLI::detail::split(usual, ',')) {
      const bool one = name.starts_with("--") && kOneDash.count(name.substr(2)) > 0;
      names += (names.empty() ? "" : ",") + (one ? name.substr(1) : name);
    }
    return names;
  }
};

/// The flags, as CLI11 knows them; parsing writes to `arguments`, which must live as long.
class Flags {
 public:
  explicit Flags(Arguments& arguments) : app_(kAbout, "hvdrun"), arguments_(arguments) {
    app_.formatter(std::make_shared<Formatter>());
    app_.get_formatter()->column_width(44);
    app_.set_help_flag();
    app_.footer(
        "Signals: SIGTERM ends the job: all ranks get SIGTERM, and SIGKILL after --grace-seconds. hvdrun passes other\n"
        "signals on to the ranks, SIGINT (Ctrl-C) included; a second SIGINT ends the job at once.\n"
        "Examples: hvdrun -np 4 ./train --epochs 3\n"
        "          hvdrun -np 8 -H node1:4,node2:4 ./train --epochs 3");
    add_job();
    add_files();
    add_elastic_flags(app_, arguments_.elastic);
    add_mpi();
    add_output();
    add_about();
    for (const auto& knob : knobs()) add_knob(knob);
    for (const auto& flag : dialect_flags()) add_dialect(flag);
  }

  /// Returns the flag that `word` names, or null. Rewrites a long name with one dash to two, as CLI11 wants it.
  CLI::Option* find(std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--")) return app_.get_option_no_throw(name);
    if (CLI::Option* known = kOneDash.count(name.substr(1)) > 0 ? app_.get_option_no_throw("-" + name) : nullptr) {
      word.insert(0, "-");
      return known;
    }
    return app_.get_option_no_throw(word.substr(0, 2));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const CLI::Option* option : app_.get_options()) {
      if (option->get_group() == kHidden) continue;
      for (const auto& name : option->get_snames()) all.push_back("-" + name);
      for (const auto& name : option->get_lnames()) all.push_back(shown(name));
    }
    return all;
  }

  /// The flags that a config file may give: all except those that start no job, and itself.
  ConfigVocabulary vocabulary() const {
    ConfigVocabulary all;
    const std::set<std::string> others = {"help",       "version",      "check-build",   "cb",
                                          "completion", "agent",        "check-here",    "config-file",
                                          "dump",       "signal-hosts", "signal-removal"};
    for (const CLI::Option* option : app_.get_options()) {
      for (const auto& name : option->get_lnames()) {
        if (others.count(name) > 0) continue;
        (option->get_items_expected_max() == 0 ? all.switches : all.values).push_back(name);
      }
    }
    return all;
  }

  CLI::App& app() { return app_; }
  const std::string& config_file() const { return config_file_; }
  const Settings& settings() const { return settings_; }

 private:
  void add_job() {
    app_.add_option("-n,--np" + dialect_names("np"), arguments_.processes,
                    "number of ranks (default: all slots of the hosts, or of the batch system's allocation)")
        ->check(CLI::Range(1, 65536));
    app_.add_option(
        "-H,--hosts", arguments_.hosts,
        "hosts and slots, as in node1:4,me@node2:4 (default: the batch system's allocation, else this host)");
    app_.add_option("--hostfile", arguments_.hostfile, "file with a line `host slots=n` for each host");
    app_.add_option_function<std::string>(
            "--launcher",
            [this](const std::string& name) { arguments_.launcher = name == "ssh" ? Launcher::kSsh : Launcher::kSrun; },
            "how agents start on other hosts: ssh or srun (default: srun if the hosts come from a Slurm allocation, "
            "else "
            "ssh)")
        ->check(CLI::IsMember({"ssh", "srun"}));
    app_.add_option("-p,--ssh-port", arguments_.ssh.port, "port of sshd on the hosts (default: as ssh is configured)")
        ->check(CLI::Range(1, 65535));
    app_.add_option("-i,--ssh-identity-file", arguments_.ssh.identity_file,
                    "key file for ssh (default: as ssh is configured)");
    app_.add_option_function<int>(
            "--grace-seconds", [this](int seconds) { arguments_.grace = std::chrono::seconds(seconds); },
            "seconds between SIGTERM and SIGKILL when a job ends early (default: 5)")
        ->check(CLI::Range(0, 86400));
  }

  void add_files() {
    app_.add_option("--config-file", config_file_,
                    "YAML file of flags and values, as in `np: 8`; flags of the command line win");
  }

  void add_mpi() {
    app_.add_flag("--mpi", arguments_.mpi, "start the ranks with Open MPI's mpirun and let them communicate over MPI");
    app_.add_option("--mpi-args", arguments_.mpi_args, "with --mpi: more arguments for mpirun, separated by blanks");
    app_.add_option("--binding-args", arguments_.binding_args,
                    "with --mpi: mpirun's arguments about binding (default: --bind-to none --map-by slot)");
    app_.add_flag("--tcp", arguments_.tcp,
                  "with --mpi: MPI uses only TCP between hosts, even if they share a faster network");
  }

  void add_output() {
    app_.add_option("--output-filename", arguments_.output_directory,
                    "also write each rank's output to DIR/rank.N/stdout and stderr");
    app_.add_flag("--prefix-output-with-timestamp,--prefix-timestamp", arguments_.timestamps,
                  "begin each line of output with the time");
    app_.add_flag("--verbose", arguments_.verbose, "print what hvdrun does");
  }

  void add_about() {
    const auto action = [this](Action what) { return [this, what] { arguments_.action = what; }; };
    app_.add_flag_callback("-h,--help", action(Action::kHelp), "print this text");
    app_.add_flag_callback("-v,--version", action(Action::kVersion), "print the version");
    app_.add_flag_callback(
        "--check-build,--cb", action(Action::kCheckBuild),
        "print what this build can do on this machine, or on each host of -H, --hostfile or the allocation");
    app_.add_option_function<std::string>(
            "--completion", [this](const std::string&) { arguments_.action = Action::kCompletion; },
            "print a script that completes these flags in a shell: bash")
        ->check(CLI::IsMember({"bash"}));
    const auto ask = [this](const char* name, Action what, const char* help) {
      const auto set = [this, what](int64_t pid) {
        arguments_.action = what;
        arguments_.asked = pid;
      };
      app_.add_option_function<int64_t>(name, set, help)->check(CLI::Range(int64_t{1}, kLargestPid));
    };
    ask("--dump", Action::kDump,
        "print which ranks wait for which, from the flight records of the running hvdrun with this pid; --dump-file "
        "gets all records as JSON");
    ask("--signal-hosts", Action::kSignalHosts,
        "have the running elastic job of the hvdrun with this pid run its host discovery script now");
    app_.add_option_function<std::vector<std::string>>(
            "--signal-removal",
            [this](const std::vector<std::string>& words) {
              arguments_.action = Action::kSignalRemoval;
              arguments_.removed_host = words.at(1);
              if (!CLI::detail::lexical_cast(words.at(0), arguments_.asked) || arguments_.asked < 1 ||
                  arguments_.asked > kLargestPid) {
                throw CLI::ValidationError(
                    "--signal-removal", fmt::format("\"{}\" is not the pid of a hvdrun; give PID HOST", words.at(0)));
              }
              if (words.at(1).empty()) throw CLI::ValidationError("--signal-removal", "HOST is empty; give PID HOST");
            },
            "PID HOST: tell the running elastic job of the hvdrun with this pid that HOST is about to go; its workers "
            "leave with the next plan")
        ->expected(2);
    app_.add_flag_callback("--agent", action(Action::kAgent))->group(kHidden);
    app_.add_flag_callback("--check-here", action(Action::kCheckHere))->group(kHidden);
  }

  void add_knob(const Knob& knob) {
    const std::string name = fmt::format("--{}", knob.flag), names = name + dialect_names(knob.flag);
    const auto set = [this, &knob, name](const std::string& value) {
      if (Status status = knob.parse(value, settings_); !status.ok())
        throw CLI::ValidationError(name, status.sentence());
      arguments_.variables[fmt::format("RUEDA_{}", knob.variable)] = value;
    };
    CLI::Option* option = nullptr;
    switch (knob.flag_kind) {
      case FlagKind::kNone: return;
      case FlagKind::kValue: option = app_.add_option_function<std::string>(names, set, knob.help); break;
      case FlagKind::kMiB:
        option = app_.add_option_function<std::string>(
            name,
            [set, name](const std::string& n) {
              if (n.find_first_not_of("0123456789.") == std::string::npos) return set(n + "MiB");
              throw CLI::ValidationError(name, fmt::format("\"{}\" is not a number of MiB", n));
            },
            knob.help);
        break;
      case FlagKind::kSwitch: option = add_switch(names, knob, set, "1", "0"); break;
      case FlagKind::kUnless: option = add_switch(names, knob, set, "0", "1"); break;
    }
    option->group(kKnobs);
  }

  template <typename Set>
  CLI::Option* add_switch(const std::string& names, const Knob& knob, const Set& set, const char* on, const char* off) {
    const std::string opposite = fmt::format("no-{}", knob.flag);
    app_.add_flag_callback(
            "--" + opposite + dialect_names(opposite), [set, off] { set(off); }, fmt::format("sets it to {}", off))
        ->group(kKnobs);
    return app_.add_flag_callback(
        names, [set, on] { set(on); }, knob.help);
  }

  // The help leaves these flags out, because it lists what a user may want to write.
  void add_dialect(const DialectFlag& flag) {
    const std::string name = flag.name;
    const auto note = [this, &flag] {
      arguments_.without_meaning.push_back(fmt::format("{} ({})", flag.name, flag.why));
    };
    const auto refuse = [&flag, name] { throw CLI::ValidationError(name, flag.why); };
    const auto value = [](const auto& then) { return [then](const std::string&) { then(); }; };
    CLI::Option* option = nullptr;
    switch (flag.use) {
      case DialectUse::kSwitchWithoutMeaning: option = app_.add_flag_callback(name, note); break;
      case DialectUse::kRefusedSwitch: option = app_.add_flag_callback(name, refuse); break;
      case DialectUse::kValueWithoutMeaning: option = app_.add_option_function<std::string>(name, value(note)); break;
    }
    option->group(kHidden);
  }

  CLI::App app_;
  std::string config_file_;
  Arguments& arguments_;
  Settings settings_;
};

Status unknown(const std::string& word, const Flags& flags) {
  const std::string name = word.substr(0, word.find('='));
  const std::string near = nearest_name(name, flags.names());
  const std::string hint = near.empty() ? "hvdrun --help lists them" : fmt::format("did you mean {}?", near);
  return {Code::kInvalidArgument, fmt::format("there is no flag {}; {}", name, hint)};
}

// The values of settings that have few of them, for the completion script.
std::map<std::string, std::string> choices_of_knobs() {
  std::map<std::string, std::string> choices;
  for (const auto& knob : knobs()) {
    if (knob.flag_kind == FlagKind::kValue && *knob.choices != 0)
      choices[fmt::format("--{}", knob.flag)] = knob.choices;
  }
  return choices;
}

/// The flags of a command line as words, and their long names.
struct Given {
  std::vector<std::string> words;
  std::set<std::string> names;
};

// Moves the flags from the front of `words` to the result; what stays is the program and its arguments.
Result<Given> take_flags(std::vector<std::string>& words, Flags& flags) {
  Given given;
  auto& taken = given.words;
  size_t next = 0;
  while (next < words.size() && words[next].size() > 1 && words[next][0] == '-' && words[next] != "--") {
    const std::string typed = words[next].substr(0, words[next].find('='));
    std::string word = words[next++];
    const CLI::Option* option = flags.find(word);
    if (option == nullptr) return unknown(word, flags);
    // A switch may be repeated, a value may not: two different values cannot both be meant.
    if (option->get_items_expected_max() > 0 && given.names.count(option->get_lnames().front()) > 0)
      return Status(Code::kInvalidArgument, fmt::format("{} is given twice", typed));
    if (word.ends_with('=')) return Status(Code::kInvalidArgument, fmt::format("{} has an empty value", typed));
    given.names.insert(option->get_lnames().begin(), option->get_lnames().end());
    // The value is part of the word in --np=4 and -n4.
    const bool attached = word.find('=') != std::string::npos || (word[1] != '-' && word.size() > 2);
    taken.push_back(word);
    if (option->get_items_expected_max() == 0 || attached) continue;
    if (next == words.size()) return Status(Code::kInvalidArgument, fmt::format("{} needs a value after it", typed));
    if (words[next].empty()) return Status(Code::kInvalidArgument, fmt::format("{} has an empty value", typed));
    taken.push_back(words[next++]);
    for (int more = 1; more < option->get_items_expected_max() && next < words.size(); ++more)
      taken.push_back(words[next++]);
  }
  if (next < words.size() && words[next] == "--") ++next;  // `--` ends the flags; a program may begin with a dash
  words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(next));
  return given;
}

// The words of the config file, without flags that the command line gives.
Result<std::vector<std::string>> read_config(const Flags& flags, const std::set<std::string>& given) {
  const std::string& path = flags.config_file();
  const auto text = read_text_file("config file", path);
  if (!text.ok()) return text.status();
  auto words = config_words(text.value(), flags.vocabulary(), given);
  if (words.ok()) return words;
  return Status(Code::kInvalidArgument, fmt::format("config file {}, {}", path, words.status().sentence()));
}

Status parse(const std::vector<std::string>& words, Flags& flags) try {
  flags.app().parse(std::vector<std::string>(words.rbegin(), words.rend()));  // the reverse order that CLI11 asks for
  for (const CLI::Option* option : flags.app().get_options()) {
    const bool empty = option->get_items_expected_max() > 0 && option->count() > 0 && option->results().front().empty();
    if (empty)
      return {Code::kInvalidArgument, fmt::format("{} has an empty value", shown(option->get_lnames().front()))};
  }
  return {};
} catch (const CLI::Error& error) {
  const std::string sentence = error.what();  // "--np: Value x ...", which must read as the user wrote it: -np
  const size_t end = sentence.find(':');
  const bool names_flag = sentence.starts_with("--") && end != std::string::npos;
  return {Code::kInvalidArgument, names_flag ? shown(sentence.substr(2, end - 2)) + sentence.substr(end) : sentence};
}

// Fills in what several flags decide together.
void complete(Arguments& arguments, Flags& flags) {
  if (arguments.variables.count("RUEDA_INIT_TIMEOUT_SECONDS") > 0)
    arguments.start_timeout = flags.settings().init_timeout;
  if (const auto limit = std::chrono::ceil<std::chrono::seconds>(arguments.start_timeout); limit.count() > 0)
    arguments.ssh.connect_timeout = limit;
  if (arguments.action == Action::kHelp) arguments.text = flags.app().help();
  if (arguments.action == Action::kCompletion) arguments.text = bash_completion(flags.names(), choices_of_knobs());
}

}  // namespace

Result<Arguments> parse_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  Flags flags(arguments);
  arguments.command = words;
  const auto given = take_flags(arguments.command, flags);
  if (!given.ok()) return given.status();
  RUEDA_RETURN_IF_ERROR(parse(given.value().words, flags));
  if (flags.config_file().empty()) {
    complete(arguments, flags);
    return arguments;
  }
  auto all = read_config(flags, given.value().names);
  if (!all.ok()) return all.status();
  all.value().insert(all.value().end(), given.value().words.begin(), given.value().words.end());
  Arguments with_file;
  // The file's words come first, and `config_words` has left out what the command line gives, so none comes twice.
  Flags both(with_file);
  with_file.command = arguments.command;
  if (const Status read = parse(all.value(), both);
      !read.ok()) {  // the command line alone has passed, so the file is wrong
    return Status(read.code(), fmt::format("config file {}: {}", flags.config_file(), read.sentence()));
  }
  complete(with_file, both);
  return with_file;
}

}  // namespace rueda::core::launcher
