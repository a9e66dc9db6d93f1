// The table of settings: for each knob its variable, its flag of hvdrun, which ranks must agree on it, and how its
// value is read and printed. Everything else (reading the environment, the flags, the agreed part, the guide's table,
// the suggestion for a misspelt name) loops over this table, so a knob is one entry here and one member of Settings.
#include "runtime/base/knob_values.h"

namespace rueda::core {
namespace {

/// Parses `text` with `Parse` into the member of Settings.
template <auto Member, auto Parse>
Status set(const std::string& text, Settings& settings) {
  auto value = Parse(text);
  if (!value.ok()) return value.status();
  settings.*Member = std::move(value).value();
  return {};
}

template <auto Member, auto Print>
std::string get(const Settings& settings) {
  return Print(settings.*Member);
}

/// The part of an entry that depends on the value's type: which member it sets, and its text forms.
struct Value {
  Status (*parse)(const std::string&, Settings&);
  std::string (*print)(const Settings&);
  const char* choices;
};
template <auto Member, auto Parse, auto Print>
constexpr Value kAs{set<Member, Parse>, get<Member, Print>, ""};

constexpr Value one_of(const char* choices, Value value) { return {value.parse, value.print, choices}; }

template <auto Member>
constexpr Value kSwitchValue = kAs<Member, parse_switch, print_switch>;
template <auto Member>
constexpr Value kChoiceValue = kAs<Member, parse_choice, print_choice>;
template <auto Member>
constexpr Value kSecondsValue = kAs<Member, parse_seconds, print_seconds>;

/// Says that Horovod's variable has the same name as Rueda's, or another one.
enum Horovod { kOurs, kHorovod };

constexpr Knob knob(const char* variable, FlagKind kind, const char* flag, Agreed agreed, const char* horovod,
                    Value value, const char* help) {
  return {variable, kind, flag, help, value.choices, agreed, horovod, value.parse, value.print};
}

constexpr Knob knob(const char* variable, FlagKind kind, const char* flag, Agreed agreed, Horovod horovod, Value value,
                    const char* help) {
  return knob(variable, kind, flag, agreed, horovod == kHorovod ? variable : "", value, help);
}

using S = Settings;
using enum FlagKind;
using enum Agreed;

const Knob kKnobs[] = {
    knob("FUSION_THRESHOLD", kMiB, "fusion-threshold-mb", kRankZero, kHorovod,
         kAs<&S::fusion_threshold, parse_bytes, print_count>, "bytes per batch; 0: no fusion (64MiB)"),
    knob("CACHE_CAPACITY", kValue, "cache-capacity", kRankZero, kHorovod,
         kAs<&S::cache_capacity, parse_count, print_count>, "tensor ids kept at rest; 0: none (65536)"),
    knob("HIERARCHICAL_ALLREDUCE", kSwitch, "hierarchical-allreduce", kRankZero, kHorovod,
         kChoiceValue<&S::hierarchical_allreduce>, "1 forces, 0 forbids hierarchical all-reduce (auto)"),
    knob("HIERARCHICAL_ALLGATHER", kSwitch, "hierarchical-allgather", kRankZero, kHorovod,
         kChoiceValue<&S::hierarchical_allgather>,
         "0 forbids hierarchical all-gather (auto, and 1 means the same: on if a host has several ranks)"),
    knob("ALLREDUCE_ALGORITHM", kValue, "allreduce-algorithm", kRankZero, kOurs,
         kAs<&S::allreduce_algorithm, parse_algorithm, print_text>, "algorithm for every all-reduce (auto)"),
    knob("BROADCAST_ALGORITHM", kValue, "broadcast-algorithm", kRankZero, kOurs,
         kAs<&S::broadcast_algorithm, parse_algorithm, print_text>, "algorithm for every broadcast (auto)"),
    knob("AUTOTUNE", kSwitch, "autotune", kRankZero, kHorovod, kSwitchValue<&S::autotune>,
         "1: rank 0 tries choices that depend on the machine on the program's batches; 0: it does not (1)"),
    knob("AUTOTUNE_CHECK", kSwitch, "autotune-check", kRankZero, kOurs, kSwitchValue<&S::autotune_check>,
         "1: batches run in what is chosen and in another way in turn, and the log has the times: a check, for "
         "benchmarks (0)"),
    knob("AUTOTUNE_LOG", kValue, "autotune-log-file", kNo, kHorovod, kAs<&S::autotune_log, parse_file, print_text>,
         "CSV file in which rank 0 notes each trial and each choice (none)"),
    knob("TUNE_FILE", kValue, "tune-file", kNo, kOurs, kAs<&S::tune_file, parse_file, print_text>,
         "file in which rank 0 keeps what it has chosen, for the next start on this machine (none)"),
    knob("STORES", kValue, "stores", kRankZero, kOurs,
         one_of("auto plain non-temporal", kAs<&S::stores, parse_stores, print_stores>),
         "how ranks write shared memory: auto, plain (through the cache), non-temporal (past it) (auto)"),
    knob("CHUNK_BYTES", kValue, "chunk-bytes", kRankZero, kOurs, kAs<&S::chunk_bytes, parse_chunk, print_count>,
         "longest piece of shared memory that ranks hand over, 64KiB or more, rounded down to a power of two; 0: "
         "chosen (0)"),
    knob("WAITS", kValue, "waits", kRankZero, kOurs,
         one_of("auto spin sleep", kAs<&S::waits, parse_waits, print_waits>),
         "how ranks of a host wait for each other within a batch: auto, spin (50 us, then they sleep), sleep (at once) "
         "(auto)"),
    knob("LANE_SLOTS", kValue, "lane-slots", kRankZero, kOurs,
         one_of("auto 2 3 4", kAs<&S::lane_slots, parse_lane_slots, print_lane_slots>),
         "pieces of a batch that are in shared memory at a time: auto, 2, 3, 4 (auto)"),
    knob("CONTROLLER", kValue, "controller", kMustMatch, kHorovod,
         one_of("auto tcp mpi", kAs<&S::controller, parse_transport, print_text>),
         "what carries agreement between hosts: auto, tcp (or gloo), mpi (auto)"),
    knob("CONTROL_TREE", kSwitch, "control-tree", kRankZero, kOurs, kChoiceValue<&S::control_tree>,
         "1 forces, 0 forbids that leaders of hosts pass agreement on (auto: 1 above 17 ranks on several hosts)"),
    knob("CPU_OPERATIONS", kValue, "cpu-operations", kMustMatch, kHorovod,
         one_of("auto tcp mpi", kAs<&S::cpu_operations, parse_transport, print_text>),
         "what moves host tensors between hosts: auto, tcp (or gloo), mpi (auto)"),
    knob("COMPRESSION", kValue, "compression", kMustMatch, kOurs,
         one_of("none fp16 bf16", kAs<&S::compression, parse_codec, print_codec>),
         "codec for gradients: none, fp16, bf16 (none)"),
    knob("DETERMINISTIC", kSwitch, "deterministic", kMustMatch, kOurs, kSwitchValue<&S::deterministic>,
         "1: only algorithms that add in the canonical order (0)"),
    knob("TIMEOUT_SECONDS", kValue, "timeout-seconds", kRankZero, kOurs, kSecondsValue<&S::timeout>,
         "limit of an operation that has none of its own; 0: none (600)"),
    knob("INIT_TIMEOUT_SECONDS", kValue, "start-timeout", kNo, kOurs, kSecondsValue<&S::init_timeout>,
         "how long init waits for all ranks; 0: for ever (30)"),
    knob("PEER_TIMEOUT_SECONDS", kValue, "peer-timeout-seconds", kRankZero, "GLOO_TIMEOUT_SECONDS",
         kSecondsValue<&S::peer_timeout>, "silence after which a peer is dead; 0: never (5)"),
    knob("THREAD_AFFINITY", kValue, "thread-affinity", kNo, kHorovod,
         kAs<&S::thread_affinity, parse_cores, print_cores>,
         "cores for the library's threads, as in 0,2,8-11 (the library chooses)"),
    knob("NUM_LANES", kValue, "num-lanes", kRankZero, kOurs, kAs<&S::num_lanes, parse_lanes, print_lanes>,
         "data threads of a rank, 1 to 16 (4)"),
    knob("SOCKETS_PER_PEER", kValue, "sockets-per-peer", kRankZero, kOurs,
         kAs<&S::sockets_per_peer, parse_sockets, print_sockets>,
         "TCP connections of a data thread to a peer: auto, 1 to 16; auto: one, and for long batches more if trials "
         "find them faster (auto)"),
    knob("SHARED_TENSORS", kSwitch, "shared-tensors", kNo, kOurs, kSwitchValue<&S::shared_tensors>,
         "0: memory that the program asks for is private to its rank (1)"),
    knob("SHARED_TENSOR_BYTES", kMiB, "shared-tensor-mb", kNo, kOurs,
         kAs<&S::shared_tensor_bytes, parse_bytes, print_count>,
         "most memory for shared tensors of a rank; 0: half the machine's, divided by the host's ranks (0)"),
    knob("DYNAMIC_PROCESS_SETS", kSwitch, "dynamic-process-sets", kRankZero, kHorovod,
         kSwitchValue<&S::dynamic_process_sets>, "0: process sets are made at init only (1)"),
    knob("CALLER_PROGRESS", kSwitch, "caller-progress", kNo, kOurs, kSwitchValue<&S::caller_progress>,
         "1: a caller that waits may run the engine's turn (1)"),
    knob("SPREAD_RANKS", kSwitch, "spread-ranks", kNo, kOurs, kSwitchValue<&S::spread_ranks>,
         "1: if ranks outnumber cores, a rank that waits moves to a core with fewer ranks; 0 on one "
         "rank: none of its host does (1)"),
    knob("EARLY_INPUTS", kSwitch, "early-inputs", kNo, kOurs, kSwitchValue<&S::early_inputs>,
         "1: other ranks of the host see a tensor of up to 48 bytes before all have submitted it (1)"),
    knob("INSECURE", kNone, "", kMustMatch, kOurs, kSwitchValue<&S::insecure>,
         "1: no job key; any process that reaches the ports can join (0)"),
    knob("TLS", kValue, "tls", kMustMatch, kOurs, one_of("control all", kAs<&S::tls_all, parse_tls, print_tls>),
         "what is encrypted between hosts: control, all (control)"),
    knob("NETWORK_INTERFACES", kValue, "network-interfaces", kNo, kOurs,
         kAs<&S::network_interfaces, parse_interfaces, print_text>, "names, globs or CIDR, with commas (auto)"),
    knob("PLUGINS", kValue, "plugins", kNo, kOurs, kAs<&S::plugins, parse_paths, print_text>,
         "paths of further plug-ins, with colons; the same on all ranks (none)"),
    knob("MPI_PLUGIN", kValue, "mpi-plugin", kNo, kOurs, kAs<&S::mpi_plugin, parse_file, print_text>,
         "path of the MPI plug-in, as rueda-build-mpi makes one (the one beside librueda.so)"),
    knob("CUDA_LIBRARY", kValue, "cuda-library", kNo, kOurs, kAs<&S::cuda_library, parse_file, print_text>,
         "path of the CUDA driver's library (libcuda.so.1)"),
    knob("NCCL", kSwitch, "nccl", kNo, kOurs, kChoiceValue<&S::nccl>,
         "0: tensors on GPUs go through the host; 1: a set that cannot use NCCL fails (auto)"),
    knob("NCCL_LIBRARY", kValue, "nccl-library", kNo, kOurs, kAs<&S::nccl_library, parse_file, print_text>,
         "path of NCCL (the one that the process has loaded, else libnccl.so.2)"),
    knob("METRICS_PORT", kValue, "metrics-port", kNo, kOurs, kAs<&S::metrics_port, parse_port, print_port>,
         "Prometheus text at http://127.0.0.1:PORT/metrics; each local rank adds its number; 0: none (0)"),
    knob("METRICS_ADDRESS", kValue, "metrics-address", kNo, kOurs,
         kAs<&S::metrics_address, parse_interfaces, print_text>, "numeric address it listens on (127.0.0.1)"),
    knob("DUMP_FILE", kValue, "dump-file", kNo, kOurs, kAs<&S::dump_file, parse_file, print_text>,
         "flight record of a rank whose epoch ends with an error, with a {rank} in it (none)"),
    knob("DUMP_SIGNAL", kValue, "dump-signal", kNo, kOurs,
         one_of("SIGUSR1 SIGUSR2 SIGHUP SIGQUIT", kAs<&S::dump_signal, parse_signal, print_signal>),
         "signal on which a rank dumps its flight record, to RUEDA_DUMP_FILE or the log (none)"),
    knob("TIMELINE", kValue, "timeline-filename", kNo, kHorovod, kAs<&S::timeline, parse_file, print_text>,
         "timeline of all ranks, written by rank 0; with a {rank} in it, one file per rank; DYNAMIC: when started "
         "(none)"),
    knob("TIMELINE_MARK_CYCLES", kSwitch, "timeline-mark-cycles", kNo, kHorovod, kSwitchValue<&S::timeline_mark_cycles>,
         "1: the timeline shows each round of agreement that let a batch go (0)"),
    knob("STALL_CHECK_DISABLE", kUnless, "stall-check", kRankZero, kHorovod, kSwitchValue<&S::stall_check_disable>,
         "1: no report of operations that wait for some ranks (0)"),
    knob("STALL_CHECK_TIME_SECONDS", kValue, "stall-check-warning-time-seconds", kRankZero, kHorovod,
         kSecondsValue<&S::stall_check_time>, "how long until that report, then at doubling intervals (30)"),
    knob("STALL_SHUTDOWN_TIME_SECONDS", kValue, "stall-check-shutdown-time-seconds", kRankZero, kHorovod,
         kSecondsValue<&S::stall_shutdown_time>, "how long until such an operation ends the job; 0: never (0)"),
    knob("LOG_LEVEL", kValue, "log-level", kNo, kHorovod,
         one_of("trace debug info warning error fatal off", kAs<&S::log_level, parse_log_level, print_log_level>),
         "trace, debug, info, warning, error, fatal, off (warning)"),
    knob("LOG_HIDE_TIME", kSwitch, "log-hide-time", kNo, kHorovod, kSwitchValue<&S::log_hide_time>,
         "1: lines on stderr without the time (0)"),
};

}  // namespace

std::span<const Knob> knobs() { return kKnobs; }

}  // namespace rueda::core
