// A rank that runs algorithms over MPI and checks every result: mpirun -np 4 mpi_algorithms_rank PLUGIN
#include <cstdio>
#include <string>

#include "ops/algorithm.h"
#include "ops/plugin_host.h"
#include "ops/select.h"
#include "runtime/base/plugin.h"
#include "runtime/base/reduction.h"
#include "runtime/net/fabric.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

/// This rank's mesh: memory of its own, MPI to all other ranks.
class Rank {
 public:
  explicit Rank(Fabric& fabric) : fabric_(fabric), segment_(Segment::create(layout(fabric.size()), 1, 0).value()) {
    std::vector<std::shared_ptr<Segment>> segments(static_cast<size_t>(fabric.size()));
    segments[static_cast<size_t>(fabric.rank())] = segment_;
    mesh_ =
        std::make_unique<Mesh>(fabric.rank(), 0, segments, fabric.channel_set(0, abort_), abort_, WaitStyle::kYield);
  }
  Status run(const Algorithm& algorithm, const CollectiveCase& test, uint32_t chunk_bytes = 0) {
    const Team team = team_of(fabric_.size(), fabric_.rank());
    if (!obstacle(algorithm, test.shape(fabric_.size()), Settings()).empty()) return {};
    ++cases;
    return run_case(algorithm, test, team, *mesh_, stamp_, chunk_bytes);
  }
  int cases = 0;

 private:
  static SegmentLayout layout(int size) {
    SegmentLayout layout;
    layout.lanes = 1;
    layout.rings = 1;
    layout.ring_bytes = 4096;
    layout.local_size = size;
    return layout;
  }
  Fabric& fabric_;
  Abort abort_;
  std::shared_ptr<Segment> segment_;
  std::unique_ptr<Mesh> mesh_;
  uint64_t stamp_ = 0;
};

Status run_shapes(Rank& rank, const Algorithm& algorithm, int size) {
  CollectiveCase test;
  test.kind = algorithm.kind;
  test.root = has_root(algorithm.kind) ? size - 1 : 0;
  if (algorithm.kind == OpKind::kSend && size != 2) return {};
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{1}, {0}, {1000, 3}, {200'003}, {3'000'000}}) {
    test.counts = algorithm.kind == OpKind::kBarrier ? std::vector<int64_t>{} : counts;
    RUEDA_RETURN_IF_ERROR(rank.run(algorithm, test));
    RUEDA_RETURN_IF_ERROR(rank.run(algorithm, test, 65'536));
  }
  return {};
}

Status run_types(Rank& rank, const Algorithm& algorithm) {
  if (algorithm.kind != OpKind::kAllreduce) return {};
  CollectiveCase test;
  test.counts = {1, 70'001};
  for (const Dtype dtype : kAllDtypes) {
    for (const ReduceOp op : kAllOps) {
      if (!why_undefined(op, dtype).empty()) continue;
      test.dtype = dtype;
      test.op = op;
      RUEDA_RETURN_IF_ERROR(rank.run(algorithm, test));
    }
  }
  test = CollectiveCase();
  test.counts = {100'000};
  for (const CodecId codec : {CodecId::kFp16, CodecId::kBf16}) {
    test.codec = codec;
    RUEDA_RETURN_IF_ERROR(rank.run(algorithm, test));
  }
  test.codec = CodecId::kNone;
  test.prescale = 2;
  test.postscale = 0.5;
  return rank.run(algorithm, test);
}

int fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.sentence().c_str());
  return 1;
}

}  // namespace

int main(int, char** argv) {
  const Plugin plugin = look_at_plugin(argv[1], plugin_host());
  if (!plugin.status.ok()) return fail(plugin.status);
  auto fabric = plugin.table->fabric->join({nullptr, {}, "here", ""}, Deadline::after(std::chrono::minutes(2)));
  if (!fabric.ok()) return fail(fabric.status());
  Rank rank(*fabric.value());
  const int size = fabric.value()->size();
  std::vector<Algorithm> tested;
  for (const Algorithm* algorithm : channel_algorithms()) tested.push_back(*algorithm);
  tested.insert(tested.end(), plugin.table->algorithms, plugin.table->algorithms + plugin.table->algorithm_count);
  for (const Algorithm& algorithm : tested) {
    Status status = run_shapes(rank, algorithm, size);
    if (status.ok()) status = run_types(rank, algorithm);
    if (!status.ok()) return fail(Status(status.code(), std::string(algorithm.name) + ": " + status.sentence()));
  }
  std::string names;
  for (const Algorithm& algorithm : tested) names += std::string(" ") + algorithm.name;
  std::printf("rank %d of %d ran%s, %d cases\n", fabric.value()->rank(), size, names.c_str(), rank.cases);
  return 0;
}
