// The command line. Options are added in the order of --help: what is measured, which sizes, how, beside what. Each
// option checks its own value; what depends on two options is checked after all are read. Every rank parses the same
// line, and only rank 0 prints a complaint.
#include "benchmarks/rueda_perf/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "runtime/base/settings.h"

namespace rueda::perf {
namespace {

constexpr char kAbout[] =
    "Times collectives of this job's ranks, enqueue to done, and checks every result.\n"
    "  hvdrun -np 2 rueda-perf allreduce --min 8 --max 256M --dtype f32 --json result.json\n"
    "Without hvdrun it is a job of one rank.";

// In lines of at most 110 columns: CLI11 prints a footer as it is.
constexpr char kColumns[] =
    "Columns: p50, p99 and max are microseconds of a step, each the maximum over the ranks' own; algbw is bytes /\n"
    "p50, busbw algbw * 2(N-1)/N (all-reduce; reducescatter, allgather, alltoall, gather, scatter: (N-1)/N, of the\n"
    "bytes of all ranks' parts; the others: algbw); GB are 1e9 bytes. 'algorithm' is what moved most of the bytes.\n"
    "'line' is the round trip of a cache line between ranks 0 and 1 before and after the entry (0: not\n"
    "measurable): compare only entries where it is alike. 'futex' is the round trip of a sleeping hand-over\n"
    "between them, and the column after it p50 as a multiple of that. The same, with more fields, is in the JSON:\n"
    "limit_GBps and peer if asked for, and results.";

// Adds an option whose values are those of `of`, by the names that the rest of Rueda gives them.
template <typename Enum>
void add_choice(CLI::App& app, const std::string& flag, Enum& value, const std::vector<Enum>& of,
                const std::string& help) {
  app.add_option_function<std::string>(
      flag,
      [&value, of, flag](const std::string& text) {
        std::string known;
        for (const Enum choice : of) {
          if (text == core::name_of(choice)) {
            value = choice;
            return;
          }
          known += (known.empty() ? "" : ", ") + std::string(core::name_of(choice));
        }
        throw CLI::ValidationError(flag, "'" + text + "' is unknown; choose one of " + known);
      },
      help);
}

// All that have arithmetic: opaque, the last one, has none.
std::vector<core::Dtype> dtypes() {
  std::vector<core::Dtype> all;
  for (int i = 0; i < static_cast<int>(core::Dtype::kOpaque); ++i) all.push_back(static_cast<core::Dtype>(i));
  return all;
}

std::vector<core::OpKind> kinds() {
  std::vector<core::OpKind> all;
  for (const core::OpKindFacts& facts : core::kOpKinds) all.push_back(facts.kind);
  return all;
}

std::string kind_names() {
  std::string names;
  for (const core::OpKindFacts& facts : core::kOpKinds) names += (names.empty() ? "" : ", ") + std::string(facts.name);
  return names;
}

void add_what(CLI::App& app, Arguments& a) {
  using core::ReduceOp, core::CodecId;
  add_choice(app, "collective", a.collective, kinds(),
             kind_names() + " (allreduce); send: each rank to the next, at once");
  add_choice(app, "--dtype", a.dtype, dtypes(), "element type (f32)");
  add_choice(app, "--op", a.op,
             {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct, ReduceOp::kBand,
              ReduceOp::kBor, ReduceOp::kBxor},
             "sum, average, min, max, product, band, bor, bxor (sum)");
  add_choice(app, "--codec", a.codec, {CodecId::kNone, CodecId::kFp16, CodecId::kBf16},
             "what f32 and f64 travel as: none, fp16, bf16 (none)");
  app.add_option("--algorithm", a.algorithm, "algorithm for every operation: auto, shm_two_shot, ring, ... (auto)");
}

// Adds an option whose value is bytes, written as RUEDA_FUSION_THRESHOLD takes them: 4096, 4K, 1M.
void add_bytes(CLI::App& app, const std::string& flag, const std::vector<size_t*>& values, const std::string& help) {
  app.add_option_function<std::string>(
      flag,
      [flag, values](const std::string& text) {
        const auto bytes = core::parse_bytes(text);
        if (!bytes.ok()) throw CLI::ValidationError(flag, bytes.status().sentence());
        for (size_t* value : values) *value = bytes.value();
      },
      help);
}

// Adds an option of seconds. The limit of an hour also refuses `inf` and `nan`, which would parse.
void add_seconds(CLI::App& app, const std::string& flag, double& seconds, double least, const std::string& help) {
  static constexpr double kMost = 3600;
  app.add_option_function<std::string>(
      flag,
      [flag, &seconds, least](const std::string& text) {
        const bool number = CLI::detail::lexical_cast(text, seconds);
        if (number && seconds >= least && seconds <= kMost) return;
        throw CLI::ValidationError(flag, "'" + text + "' is not a number of seconds from " +
                                             CLI::detail::to_string(least) + " to " + CLI::detail::to_string(kMost));
      },
      help);
}

void add_sizes(CLI::App& app, Arguments& a) {
  add_bytes(app, "--min", {&a.min_bytes}, "bytes of the smallest tensor, also as 4K, 1M (8)");
  add_bytes(app, "--max", {&a.max_bytes}, "bytes of the largest (64M)");
  app.add_option("--step-factor", a.step_factor, "from one size to the next (2)")->check(CLI::Range(2, 1 << 20));
  add_bytes(app, "--bytes", {&a.min_bytes, &a.max_bytes}, "one size: --min and --max");
  app.add_option("--count", a.tensors, "tensors of that size enqueued at once (1)")->check(CLI::Range(1, 65536));
  app.add_option("--set", a.set, "resnet50: its 161 gradients (102 MB as f32) in one step, enqueued last layer first")
      ->check(CLI::IsMember({"resnet50"}));
}

void add_how(CLI::App& app, Arguments& a) {
  auto* in_place = app.add_flag_callback(
      "--in-place", [&a] { a.forms = {Form::kInPlace}; }, "only in place (both)");
  app.add_flag_callback(
         "--out-of-place", [&a] { a.forms = {Form::kOutOfPlace}; }, "only out of place (both)")
      ->excludes(in_place);
  app.add_flag_callback(
      "--cold", [&a] { a.buffers = Buffers::kCold; },
      "each step on other buffers, rotating beyond 4x the last-level cache");
  app.add_option("--memory", a.memory,
                 "private: tensors in the process's own memory; shared: in memory of rueda_memory_allocate (private)")
      ->check(CLI::IsMember({"private", "shared"}));
  app.add_option("--iters", a.iterations, "timed steps of an entry (as many as --seconds has room for, 5 to 1000000)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--warmup", a.warm_up, "steps before those (by size)")->check(CLI::Range(1, 1000000));
  add_seconds(app, "--seconds", a.entry_seconds, 0.001, "time of an entry (0.5)");
}

void add_comparisons(CLI::App& app, Arguments& a) {
  app.add_flag(
      "--limit", a.limit,
      "measures the memory limit too: all ranks at once read and write memory of their own, B bytes a second in "
      "all; an all-reduce of N ranks cannot be faster than B/(2N) in place (limit_GBps) and B/(3N) out of place");
  app.add_option("--peer", a.peer,
                 "mpi: MPI_Allreduce of the same bytes in place, in runs of mpirun between our entries; of "
                 "mpi_yield_when_idle 0 and 1 the better is reported")
      ->check(CLI::IsMember({"mpi"}));
  add_seconds(app, "--idle", a.idle_seconds, 0.1,
              "instead of a sweep: how much of a core the idle process uses for this many seconds, its wake-ups, and "
              "how Pss grows by init and by an all-reduce of --max bytes (256M)");
  app.add_option("--json", a.json_path, "rank 0 writes the results to this file too");
}

// Whether input and output have different sizes or must not overlap: then there is no form in place.
bool has_parts(const Arguments& a) {
  return a.collective == core::OpKind::kReducescatter || a.collective == core::OpKind::kSend ||
         core::exchanges(a.collective);
}

// A size is a whole number of elements, and all tensors of a step together keep the limit of one tensor.
void check_sizes(const CLI::App& app, Arguments& a) {
  constexpr size_t kMostBytes = size_t{1} << 47;
  const char* flag = app.count("--bytes") > 0 ? "--bytes" : "--min";
  const size_t width = core::size_of(a.dtype);
  if (app.count("--min") == 0 && app.count("--bytes") == 0) a.min_bytes = std::max(a.min_bytes, width);
  if (a.min_bytes == 0) throw CLI::ValidationError(flag, "0 bytes; give at least 1");
  if (a.min_bytes % width != 0) {
    throw CLI::ValidationError(flag, std::to_string(a.min_bytes) + " bytes are not a multiple of the size of " +
                                         core::name_of(a.dtype) + ", " + std::to_string(width));
  }
  if (a.max_bytes > kMostBytes / a.tensors) {
    throw CLI::ValidationError(app.count("--bytes") > 0 ? "--bytes" : "--max",
                               std::to_string(a.tensors) + " of " + std::to_string(a.max_bytes) +
                                   " bytes are too many; the limit is 2^47 bytes in all");
  }
}

// What is wrong only beside another option.
void check_together(const CLI::App& app, const Arguments& a) {
  if (a.max_bytes < a.min_bytes) {
    throw CLI::ValidationError("--max", std::to_string(a.max_bytes) + " is below --min " + std::to_string(a.min_bytes));
  }
  const bool reduces = a.collective == core::OpKind::kAllreduce;
  if (!a.set.empty() && (!reduces || app.count("--count") > 0 || a.buffers == Buffers::kCold)) {
    throw CLI::ValidationError("--set", "works with allreduce only, without --count and --cold");
  }
  if (has_parts(a) && app.count("--in-place") > 0) {
    throw CLI::ValidationError("--in-place", std::string("does not work with ") + core::name_of(a.collective));
  }
  if (!a.peer.empty() && !reduces) throw CLI::ValidationError("--peer", "mpi works with allreduce only");
  if (!a.peer.empty() && (core::size_of(a.dtype) == 2 && core::is_float(a.dtype))) {
    throw CLI::ValidationError("--peer", std::string("mpi does not know ") + core::name_of(a.dtype));
  }
}

}  // namespace

// As hvdrun sets it; without hvdrun there is one rank. The session is not there yet when flags are parsed.
bool is_rank_zero() {
  const char* const rank = std::getenv("RUEDA_RANK");
  return rank == nullptr || std::string(rank) == "0";
}

std::vector<size_t> sweep_sizes(const Arguments& arguments) {
  if (arguments.collective == core::OpKind::kBarrier) return {0};
  std::vector<size_t> sizes;
  for (size_t bytes = arguments.min_bytes; bytes <= arguments.max_bytes; bytes *= arguments.step_factor) {
    sizes.push_back(bytes);  // at most 2^47, times at most 2^20: no overflow
  }
  return sizes;
}

std::optional<Arguments> parse_arguments(int argc, char** argv, int* exit_code) {
  Arguments arguments;
  CLI::App app(kAbout, "rueda-perf");
  app.footer(kColumns);
  add_what(app, arguments);
  add_sizes(app, arguments);
  add_how(app, arguments);
  add_comparisons(app, arguments);
  try {
    app.parse(argc, argv);
    if (arguments.idle_seconds > 0 && app.count("--max") == 0) arguments.max_bytes = size_t{256} << 20;
    check_sizes(app, arguments);
    check_together(app, arguments);
    // After the checks: an explicit --in-place is refused there.
    if (has_parts(arguments)) arguments.forms = {Form::kOutOfPlace};
    return arguments;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, complaint;
    const int code = app.exit(error, out, complaint);
    if (is_rank_zero()) std::cout << out.str() << std::flush;
    if (is_rank_zero()) std::cerr << complaint.str() << std::flush;
    *exit_code = code == 0 ? 0 : 2;
    return std::nullopt;
  }
}

}  // namespace rueda::perf
