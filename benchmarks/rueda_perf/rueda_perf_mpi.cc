// MPI_Allreduce in place, for `rueda-perf --peer mpi`: rank 0 prints one JSON object.
//   mpirun -np 2 rueda-perf-mpi --bytes 64M --dtype f32 --op sum
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/buffers.h"
#include "benchmarks/rueda_perf/meeting.h"
#include "benchmarks/rueda_perf/pattern.h"
#include "benchmarks/rueda_perf/timing.h"

namespace {

using namespace rueda::perf;  // the program's own names
using rueda::core::Dtype;
using rueda::core::ReduceOp;

struct Flags {
  size_t bytes = 8;
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  size_t iterations = 0;
  size_t warm_up = 0;
  double seconds = 0.5;
  Buffers buffers = Buffers::kHot;
};

// MPI knows no 16-bit floats; rueda-perf refuses them before it starts this program.
MPI_Datatype mpi_type(Dtype dtype) {
  const std::map<Dtype, MPI_Datatype> types = {
      {Dtype::kU8, MPI_UINT8_T},           {Dtype::kI8, MPI_INT8_T},    {Dtype::kU16, MPI_UINT16_T},
      {Dtype::kI16, MPI_INT16_T},          {Dtype::kU32, MPI_UINT32_T}, {Dtype::kI32, MPI_INT32_T},
      {Dtype::kU64, MPI_UINT64_T},         {Dtype::kI64, MPI_INT64_T},  {Dtype::kF32, MPI_FLOAT},
      {Dtype::kF64, MPI_DOUBLE},           {Dtype::kBool, MPI_UINT8_T}, {Dtype::kC64, MPI_C_FLOAT_COMPLEX},
      {Dtype::kC128, MPI_C_DOUBLE_COMPLEX}};
  return types.at(dtype);
}

// MPI has no average: it is compared as a sum. A sum of bools is "or".
MPI_Op mpi_op(const Flags& flags) {
  switch (flags.op) {
    case ReduceOp::kMin: return MPI_MIN;
    case ReduceOp::kMax: return MPI_MAX;
    case ReduceOp::kProduct: return MPI_PROD;
    case ReduceOp::kBand: return MPI_BAND;
    case ReduceOp::kBor: return MPI_BOR;
    case ReduceOp::kBxor: return MPI_BXOR;
    default: return flags.dtype == Dtype::kBool ? MPI_MAX : MPI_SUM;
  }
}

double max_over_ranks(double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value;
}

/// The page that ranks 0 and 1 meet in: a shared window.
class Window {
 public:
  explicit Window(int rank) {
    void* own = nullptr;
    MPI_Win_allocate_shared(rank == 0 ? sizeof(MeetingPage) + kAlignment : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own,
                            &window_);
    MPI_Aint bytes = 0;
    int unit = 0;
    void* base = nullptr;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
    // MPI promises no alignment for the window; the page's words need a cache line each.
    auto space = static_cast<size_t>(bytes);
    page_ = static_cast<MeetingPage*>(std::align(kAlignment, sizeof(MeetingPage), base, space));
    if (rank == 0) new (page_) MeetingPage{};
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~Window() { MPI_Win_free(&window_); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  MeetingPage& page() { return *page_; }

 private:
  static constexpr size_t kAlignment = alignof(MeetingPage);
  MPI_Win window_ = MPI_WIN_NULL;
  MeetingPage* page_ = nullptr;
};

// The same steps as rueda-perf takes, with the same parts: pattern, rotation, quantiles, round trips.
class Bench {
 public:
  Bench(const Flags& flags, int rank, int ranks)
      : flags_(flags),
        count_(static_cast<int>(flags.bytes / rueda::core::size_of(flags.dtype))),
        type_(mpi_type(flags.dtype)),
        op_(mpi_op(flags)),
        rank_(rank),
        ranks_(ranks),
        pattern_(flags.dtype, flags.op == ReduceOp::kAverage ? ReduceOp::kSum : flags.op, rank, ranks),
        rotation_(rotation_of(flags.bytes, flags.buffers)),
        memory_(rotation_.bytes()),
        window_(rank),
        meeting_(window_.page(), rank == 0 ? 0 : 1) {}

  /// All ranks together; rank 0's is complete.
  nlohmann::ordered_json run() {
    bool correct = step_is_correct();
    std::vector<double> warm = time(flags_.warm_up > 0 ? flags_.warm_up : usual_warm_up(flags_.bytes));
    const double step_us = max_over_ranks(quantiles(warm).p50);
    const size_t steps = flags_.iterations > 0 ? flags_.iterations : steps_within(flags_.seconds, step_us);
    const double before = line_ns();
    std::vector<double> times = time(steps);
    const double after = line_ns();
    correct = step_is_correct() && correct;
    const Quantiles own = quantiles(times);
    const double p50 = max_over_ranks(own.p50), p99 = max_over_ranks(own.p99), max = max_over_ranks(own.max);
    // Every rank checks its own result; one wrong rank makes the entry wrong.
    const bool wrong_somewhere = max_over_ranks(correct ? 0 : 1) > 0;
    return {{"p50_us", p50},
            {"p99_us", p99},
            {"max_us", max},
            {"iterations", steps},
            {"correct", !wrong_somewhere},
            {"line_ns", {before, after}}};
  }

 private:
  std::byte* at(size_t turn) { return memory_.data() + rotation_.offset(turn); }
  void step(size_t turn) { MPI_Allreduce(MPI_IN_PLACE, at(turn), count_, type_, op_, MPI_COMM_WORLD); }
  std::vector<double> time(size_t steps) {
    return time_steps(steps, [this](size_t turn) { step(turn); });
  }
  bool step_is_correct() {
    const std::span<std::byte> tensor(at(0), flags_.bytes);
    pattern_.fill(tensor, 0);
    step(0);
    return pattern_.holds(tensor, 0);
  }
  // Ranks beyond the first two wait in the second barrier.
  double line_ns() {
    MPI_Barrier(MPI_COMM_WORLD);
    const double own = ranks_ > 1 && rank_ < 2 ? meeting_.line_ns() : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    return own;
  }

  const Flags flags_;
  const int count_;
  const MPI_Datatype type_;
  const MPI_Op op_;
  const int rank_;
  const int ranks_;
  const Pattern pattern_;
  const Rotation rotation_;
  const Memory memory_;
  Window window_;
  Meeting meeting_;
};

Flags parse(CLI::App& app, int argc, char** argv) {
  Flags flags;
  std::string dtype = "f32", op = "sum";
  app.add_option("--bytes", flags.bytes)
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(size_t{1}, size_t{1} << 33));
  app.add_option("--dtype", dtype);
  app.add_option("--op", op);
  app.add_option("--iters", flags.iterations);
  app.add_option("--warmup", flags.warm_up);
  app.add_option("--seconds", flags.seconds);
  app.add_flag_callback("--cold", [&flags] { flags.buffers = Buffers::kCold; });
  app.parse(argc, argv);
  for (int i = 0; i < rueda::core::kDtypeCount; ++i) {
    if (dtype == rueda::core::name_of(static_cast<Dtype>(i))) flags.dtype = static_cast<Dtype>(i);
  }
  for (const ReduceOp known : {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct,
                               ReduceOp::kBand, ReduceOp::kBor, ReduceOp::kBxor}) {
    if (op == rueda::core::name_of(known)) flags.op = known;
  }
  return flags;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("MPI_Allreduce in place, the peer of rueda-perf", "rueda-perf-mpi");
  Flags flags;
  try {
    flags = parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1, length = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {  // the window goes before MPI does
    nlohmann::ordered_json result = Bench(flags, rank, ranks).run();
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(library, &length);
    const std::string name(library, static_cast<size_t>(length));
    result["library"] = name.substr(0, name.find(','));
    if (rank == 0) std::printf("%s\n", result.dump().c_str());
  }
  MPI_Finalize();
  return 0;
}
