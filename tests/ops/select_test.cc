#include "ops/select.h"

#include <catch2/catch.hpp>

#include "ops/data_plane.h"

using namespace rueda::core;
using Catch::Matchers::Contains;

namespace {

BatchShape allreduce_of(uint64_t bytes, int ranks) {
  BatchShape shape;
  shape.bytes = bytes;
  shape.ranks = ranks;
  return shape;
}

std::string chosen(const BatchShape& shape, const Settings& settings = Settings()) {
  const auto choice = select_algorithm(algorithms(), settings, shape);
  return choice.ok() ? algorithms()[choice.value().algorithm].name : choice.status().sentence();
}

Settings forced(const std::string& algorithm) {
  Settings settings;
  settings.allreduce_algorithm = algorithm;
  return settings;
}

/// A table of one algorithm that adds in an order of its own.
const Algorithm kPartialSums = {"partial",
                                OpKind::kAllreduce,
                                false,
                                [](const BatchShape&) { return true; },
                                [](const BatchShape&) { return AlgorithmChoice(); },
                                [](const Call&, Mesh&, Deadline) { return Status(); },
                                nullptr};

std::string refusal(const BatchShape& shape, const Settings& settings = Settings()) {
  return obstacle(kPartialSums, shape, settings);
}

}  // namespace

TEST_CASE("On one host small batches go in one shot and large ones in two") {
  CHECK(chosen(allreduce_of(4, 2)) == "shm_one_shot");
  CHECK(chosen(allreduce_of(0, 4)) == "shm_one_shot");
  CHECK(chosen(allreduce_of(64u << 20, 2)) == "shm_two_shot");
}

TEST_CASE("A set of one rank stays local even if an algorithm is forced") {
  CHECK(chosen(allreduce_of(4, 1)) == "local");
  CHECK(chosen(allreduce_of(4, 1), forced("shm_two_shot")) == "local");
}

TEST_CASE("A forced algorithm is taken where it can serve") {
  CHECK(chosen(allreduce_of(4, 2), forced("shm_two_shot")) == "shm_two_shot");
  CHECK(chosen(allreduce_of(100000, 4), forced("shm_one_shot")) == "shm_one_shot");
}

TEST_CASE("A forced algorithm that cannot serve is refused with its name and the reason") {
  const auto choice = select_algorithm(algorithms(), forced("shm_one_shot"), allreduce_of(64u << 20, 2));
  REQUIRE_FALSE(choice.ok());
  CHECK(choice.status().code() == Code::kInvalidArgument);
  CHECK_THAT(choice.status().sentence(), Contains("shm_one_shot") && Contains("67108864 bytes"));
}

TEST_CASE("A forced algorithm that does not exist is refused with the algorithms there are") {
  const Status status = check_forced_algorithms(algorithms(), forced("circle"));
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK_THAT(status.sentence(), Contains("circle") && Contains("shm_one_shot, ") && Contains("shm_two_shot"));
  CHECK(select_algorithm(algorithms(), forced("circle"), allreduce_of(4, 2)).status().code() == Code::kInvalidArgument);
  CHECK(check_forced_algorithms(algorithms(), forced("shm_two_shot")).ok());
  CHECK(check_forced_algorithms(algorithms(), Settings()).ok());
}

TEST_CASE("Deterministic mode allows only algorithms in canonical order") {
  BatchShape shape = allreduce_of(4, 2);
  CHECK(refusal(shape) == "");
  shape.deterministic = true;
  CHECK_THAT(refusal(shape), Contains("deterministic"));
  Settings settings;
  settings.deterministic = true;
  CHECK_THAT(refusal(allreduce_of(4, 2), settings), Contains("deterministic"));
}

TEST_CASE("Algorithms that move partial sums refuse an average of integers") {
  BatchShape shape = allreduce_of(4, 2);
  shape.op = ReduceOp::kAverage;
  CHECK(refusal(shape) == "");
  shape.dtype = Dtype::kI32;
  CHECK_THAT(refusal(shape), Contains("i32"));
}

TEST_CASE("What a dtype or a kind does not define is invalid on every algorithm") {
  BatchShape shape = allreduce_of(4, 2);
  shape.op = ReduceOp::kAdasum;
  CHECK(select_algorithm(algorithms(), Settings(), shape).ok());
  shape.kind = OpKind::kReducescatter;
  CHECK(select_algorithm(algorithms(), Settings(), shape).status().code() == Code::kInvalidArgument);
  shape.kind = OpKind::kAllreduce;
  shape.dtype = Dtype::kI32;
  CHECK(select_algorithm(algorithms(), Settings(), shape).status().code() == Code::kInvalidArgument);
  shape.op = ReduceOp::kAverage;
  shape.dtype = Dtype::kBool;
  CHECK(select_algorithm(algorithms(), Settings(), shape).status().code() == Code::kInvalidArgument);
  shape.op = ReduceOp::kMin;
  shape.dtype = Dtype::kC64;
  CHECK_THAT(select_algorithm(algorithms(), Settings(), shape).status().sentence(), Contains("no order"));
}

TEST_CASE("Device memory has no algorithm in a table of host algorithms") {
  BatchShape shape = allreduce_of(4, 2);
  shape.device = 1;
  const auto choice = select_algorithm(algorithms(), Settings(), shape);
  CHECK(choice.status().code() == Code::kUnsupported);
  CHECK_THAT(choice.status().sentence(), Contains("device memory"));
}

TEST_CASE("Every plan fits the slots and has stamps for its chunks, whatever the size") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const CodecId codec : {CodecId::kNone, CodecId::kFp16}) {
      for (uint64_t bytes = 0; bytes <= (1u << 30); bytes = bytes * 3 + 4) {
        BatchShape shape = allreduce_of(bytes / 4 * 4, 4);
        shape.slot_bytes = bytes % 2 == 0 ? 256 * 1024 : 128 * 1024;
        shape.kind = algorithm.kind;
        shape.codec = codec;
        if (!algorithm.fits(shape)) continue;
        const AlgorithmChoice choice = algorithm.plan(shape);
        INFO(algorithm.name << " " << shape.bytes);
        CHECK(choice.stamps >= 2);
        if (std::string(algorithm.name).rfind("shm_", 0) == 0) CHECK(choice.chunk_bytes <= shape.slot_bytes);
      }
    }
  }
}

TEST_CASE("Stores and the longest chunk are those that the settings name") {
  Settings settings;
  CHECK(select_algorithm(algorithms(), settings, allreduce_of(64u << 20, 2)).value().stores == Stores::kByDistance);
  settings.stores = Stores::kPlain;
  settings.chunk_bytes = 100'000;  // rounded down to a power of two
  const AlgorithmChoice choice = select_algorithm(algorithms(), settings, allreduce_of(64u << 20, 2)).value();
  CHECK(choice.stores == Stores::kPlain);
  CHECK(choice.chunk_bytes == 64u << 10);
  CHECK(choice.stamps == 1024 + 2);
  settings.chunk_bytes = 1u << 30;  // a slot holds no more than it does
  CHECK(select_algorithm(algorithms(), settings, allreduce_of(64u << 20, 2)).value().chunk_bytes == 256u << 10);
}

TEST_CASE("A data plane takes a plug-in's algorithms behind its own and refuses a name that is taken") {
  DataPlane plane{Settings()};
  const size_t own = plane.table().size();
  CHECK(plane.add_algorithms({&kPartialSums, 1}).ok());
  CHECK(plane.algorithm_name(static_cast<uint8_t>(own)) == std::string("partial"));
  CHECK(plane.add_algorithms({&kPartialSums, 1}).code() == Code::kInvalidArgument);
}

TEST_CASE("Only single chunks of algorithms with a step run inline") {
  const auto plane = make_executor(Settings());
  const auto small = plane->select(allreduce_of(4, 2));
  const auto large = plane->select(allreduce_of(64u << 20, 2));
  REQUIRE((small.ok() && large.ok()));
  CHECK(plane->runs_inline(small.value()));
  CHECK_FALSE(plane->runs_inline(large.value()));
  BatchShape broadcast = allreduce_of(4, 2);
  broadcast.kind = OpKind::kBroadcast;
  CHECK(plane->runs_inline(plane->select(broadcast).value()));
  broadcast.bytes = 64u << 20;
  CHECK_FALSE(plane->runs_inline(plane->select(broadcast).value()));
}

TEST_CASE("A batch that names an algorithm which is not in the table is refused, not run") {
  const auto plane = make_executor(Settings());
  AlgorithmChoice choice;
  choice.algorithm = 250;
  CHECK_FALSE(plane->runs_inline(choice));
  CHECK(plane->algorithm_name(250) == std::string("unknown"));
}

TEST_CASE("Tensors in shared memory are used where they lie if they are long or exchanged, and nothing forbids it") {
  BatchShape shape = allreduce_of(1 << 20, 2);
  shape.shared = true;
  CHECK(chosen(shape) == "shm_shared");
  CHECK(chosen(shape, forced("shm_two_shot")) == "shm_two_shot");
  shape.deterministic = true;
  CHECK(chosen(shape) == "shm_shared");
  shape.tensors = 100'000;  // more than a slot has addresses for
  CHECK(chosen(shape) == "shm_two_shot");
  shape.tensors = 1;
  shape.op = ReduceOp::kAdasum;
  CHECK(chosen(shape) == "shm_adasum");
  shape.op = ReduceOp::kSum;
  shape.bytes = 4;
  CHECK(chosen(shape) == "shm_one_shot");
  for (const OpKind kind : {OpKind::kReducescatter, OpKind::kReduce, OpKind::kBroadcast}) {
    shape.kind = kind;
    shape.bytes = 1 << 20;
    CHECK(chosen(shape) == "shm_shared");
    shape.bytes = 4;
    CHECK(chosen(shape) != "shm_shared");
  }
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kGather, OpKind::kScatter}) {
    shape.kind = kind;
    CHECK(chosen(shape) == "shm_shared");
  }
  BatchShape small = allreduce_of(4, 2);
  CHECK(chosen(small, forced("shm_shared")) == "shm_one_shot");  // private tensors go their usual way
  small.shared = true;
  CHECK(chosen(small, forced("shm_shared")) == "shm_shared");
  small.tensors = 100'000;
  CHECK_THAT(chosen(small, forced("shm_shared")), Contains("cannot serve") && Contains("shared memory"));
}
