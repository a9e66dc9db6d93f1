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

constexpr char kColumns[] =
    "Columns: p50, p99 and max are microseconds of a step, each the maximum over the ranks' own; algbw is bytes / "
    "p50,\n"
    "busbw algbw * 2(N-1)/N (all-reduce; reducescatter, allgather, alltoall, gather, scatter: (N-1)/N, of the bytes "
    "of\n"
    "all ranks' parts; the others: algbw); GB are 1e9 bytes. 'algorithm' is what moved most of the bytes. 'line' is "
    "the round trip of a cache line between ranks 0\n"
    "and 1 before and after the row (0: not measurable): compare only rows where it is alike. 'futex' is the round "
    "trip\n"
    "of a sleeping hand-over between them, and the column after it p50 as a multiple of that. The same, with more\n"
    "fields, is in the JSON: limit_GBps and peer where asked for, and results.";

// An option whose values are those of `of`, by the names that the rest of Rueda gives them.
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
        throw CLI::ValidationError(flag, "there is no '" + text + "'; there are " + known);
      },
      help);
}

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

// An option whose value is bytes as RUEDA_FUSION_THRESHOLD takes them.
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

// Seconds of a time that ends.
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
  app.add_option("--iters", a.iterations, "timed steps of a row (as many as --seconds has room for, 5 to 10000)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--warmup", a.warm_up, "steps before those (by size)")->check(CLI::Range(1, 1000000));
  add_seconds(app, "--seconds", a.row_seconds, 0.001, "time of a row (0.5)");
}

void add_comparisons(CLI::App& app, Arguments& a) {
  app.add_flag(
      "--limit", a.limit,
      "measures the memory limit too: all ranks at once read and write memory of their own, B bytes a second in "
      "all; an all-reduce of N ranks cannot be faster than B/(2N) in place (limit_GBps) and B/(3N) out of place");
  app.add_option("--peer", a.peer,
                 "mpi: MPI_Allreduce of the same bytes in place, in runs of mpirun between our rows; of "
                 "mpi_yield_when_idle 0 and 1 the better is reported")
      ->check(CLI::IsMember({"mpi"}));
  add_seconds(app, "--idle", a.idle_seconds, 0.1,
              "instead of a sweep: how much of a core the idle process uses for this many seconds, its wake-ups, and "
              "how Pss grows by init and by an all-reduce of --max bytes (256M)");
  app.add_option("--json", a.json_path, "rank 0 writes the results to this file too");
}

// Input and output are of different sizes, or may not overlap.
bool has_parts(const Arguments& a) {
  return a.collective == core::OpKind::kReducescatter || a.collective == core::OpKind::kSend ||
         core::exchanges(a.collective);
}

// A sweep is of whole elements, and of what a tensor can have.
void check_sizes(const CLI::App& app, Arguments& a) {
  constexpr size_t kMostBytes = size_t{1} << 47;
  const char* flag = app.count("--bytes") > 0 ? "--bytes" : "--min";
  const size_t width = core::size_of(a.dtype);
  if (app.count("--min") == 0 && app.count("--bytes") == 0) a.min_bytes = std::max(a.min_bytes, width);
  if (a.min_bytes == 0) throw CLI::ValidationError(flag, "0 bytes; at least 1");
  if (a.min_bytes % width != 0) {
    throw CLI::ValidationError(flag, std::to_string(a.min_bytes) + " bytes are no whole number of " +
                                         core::name_of(a.dtype) + ", which has " + std::to_string(width));
  }
  if (a.max_bytes > kMostBytes / a.tensors) {
    throw CLI::ValidationError(
        app.count("--bytes") > 0 ? "--bytes" : "--max",
        std::to_string(a.tensors) + " of " + std::to_string(a.max_bytes) + " bytes; the limit is 2^47 in all");
  }
}

void check_together(const CLI::App& app, const Arguments& a) {
  if (a.max_bytes < a.min_bytes) {
    throw CLI::ValidationError("--max", std::to_string(a.max_bytes) + " is below --min " + std::to_string(a.min_bytes));
  }
  const bool reduces = a.collective == core::OpKind::kAllreduce;
  if (!a.set.empty() && (!reduces || app.count("--count") > 0 || a.buffers == Buffers::kCold)) {
    throw CLI::ValidationError("--set", "goes with allreduce, without --count and --cold");
  }
  if (has_parts(a) && app.count("--in-place") > 0) {
    throw CLI::ValidationError("--in-place", std::string("does not go with ") + core::name_of(a.collective));
  }
  if (!a.peer.empty() && !reduces) throw CLI::ValidationError("--peer", "mpi is compared in allreduce only");
  if (!a.peer.empty() && (core::size_of(a.dtype) == 2 && core::is_float(a.dtype))) {
    throw CLI::ValidationError("--peer", std::string("mpi has no ") + core::name_of(a.dtype));
  }
}

}  // namespace

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
