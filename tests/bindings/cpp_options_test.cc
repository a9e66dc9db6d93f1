// What the C++ binding hands on besides tensors: options of init and of each operation, functions of the caller's.
#include <poll.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rueda.hpp"
#include "tests/bindings/cpp_ranks.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

/// This rank's flight record, with what the activity callback says.
std::string dump_of(const Session& session) {
  const TemporaryFolder folder;
  const std::string path = folder.file("dump-{rank}.json");
  session.dump(path);
  return text_of(folder.file("dump-" + std::to_string(session.rank()) + ".json"));
}

bool says(const Session& session, const std::string& text) { return dump_of(session).find(text) != std::string::npos; }

std::string sentence_of_init(const InitOptions& options) {
  try {
    const Session session(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every operation says that others follow, and goes off with the first that does not") {
  cpp_ranks(2, [](Session& session) {
    std::vector<int32_t> values = {session.rank()};
    std::vector<int32_t> sum = {1};
    const Handle broadcast = session.broadcast_async(values, {.root = 1, .name = "b", .more = true});
    const Handle barrier = session.barrier_async({.more = true});
    const Handle gathered = session.allgather_async(sum, {.name = "g", .more = true});
    session.allreduce(sum, {.op = ReduceOp::kSum, .name = "s"});
    broadcast.wait();
    barrier.wait();
    gathered.wait();
    expect(values[0] == 1 && sum[0] == 2 && gathered.output().count() == 2, "a result");
  });
}

TEST_CASE("an operation's timeout is its own, and others go on") {
  cpp_ranks(2, [](Session& session) {
    std::vector<int32_t> values = {1};
    if (session.rank() == 0) {
      try {
        session.allreduce(values, {.name = "late", .timeout = Seconds(0.01)});
        expect(false, "nobody else submits it");
      } catch (const Error& error) {
        expect(contains(error.what(), "within its timeout (0.01 s)"), error.what());
      }
    }
    session.barrier({.timeout = Seconds(std::numeric_limits<double>::infinity())});
    std::vector<int32_t> root = {session.rank()};
    session.broadcast(root, {.root = 1, .name = "b", .timeout = Seconds(300)});
    expect(root[0] == 1, "the root's value");
  });
}

TEST_CASE("a join is drained like any operation") {
  cpp_ranks(2, [](Session& session) {
    int mark = 0;
    const Handle join = session.join_async({.drain = Drain{&mark}});
    join.wait();
    pollfd source{session.completion_fd(), POLLIN, 0};
    expect(poll(&source, 1, 120'000) == 1, "nothing came for two minutes");
    std::array<rueda_completion, 2> room{};
    const std::span<const rueda_completion> ended = session.drain(room);
    expect(ended.size() == 1 && ended[0].handle == join.id() && ended[0].context == &mark, "the join's end");
  });
}

TEST_CASE("exchanges write where they are told to") {
  cpp_ranks(2, [](Session& session) {
    const int32_t rank = session.rank();
    const std::vector<int32_t> own = {rank, rank + 10};
    std::vector<int32_t> two(2);
    std::vector<int32_t> four(4);
    session.alltoall_async(own, {}, two, {.name = "a"}).wait();
    expect(two == (rank == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{10, 11}), "the all-to-all");
    session.gather_async(own, four, 1, {.name = "g"}).wait();
    if (rank == 1) expect(four == std::vector<int32_t>{0, 10, 1, 11}, "the gather");
    std::vector<int64_t> splits = {2, 0};
    std::vector<int32_t> rows(rank == 0 ? 2 : 0);
    session.scatter_async(own, 1, splits, rows, {.name = "s"}).wait();
    if (rank == 0) expect(rows == std::vector<int32_t>{1, 11}, "the scatter");
  });
}

TEST_CASE("tensors say where they live, and so do outputs and requests for memory") {
  std::vector<float> values(4);
  const Tensor there = Tensor(values).on({3, 1});
  CHECK(there.c_tensor().device == 3);
  CHECK(there.c_tensor().device_index == 1);
  CHECK(late_output(there).device().kind == 3);
  CHECK(Tensor(values).c_tensor().device == RUEDA_DEVICE_CPU);
  cpp_ranks(1, [&](Session& session) {
    alignas(64) std::array<float, 16> memory{};
    int stream = 0;
    MemoryRequest asked;
    const Allocate allocate = [&](const MemoryRequest& request) {
      asked = request;
      return memory.data();
    };
    const Handle handle =
        session.allreduce_async(values, late_output(values), {.stream = &stream, .allocate = allocate});
    handle.wait();
    expect(asked.bytes == 16 && asked.device.kind == RUEDA_DEVICE_CPU && asked.stream == &stream, "the request");
    expect(handle.output().device().kind == RUEDA_DEVICE_CPU && handle.output().data() == memory.data(), "the output");
    bool refused = false;
    try {
      session.allreduce(there);
    } catch (const InvalidArgument&) {
      refused = true;
    }
    expect(refused, "a tensor on a device that nobody has was taken");
  });
}

TEST_CASE("members of groups have names and places of their own") {
  cpp_ranks(2, [](Session& session) {
    const int32_t rank = session.rank();
    const std::vector<int32_t> a = {rank, 5};
    const std::vector<int32_t> b = {rank + 1, 6};
    const std::vector<ConstTensor> in = {a, b};
    std::vector<int32_t> first(4), second(4);
    const std::vector<Tensor> rows = {first, second};
    const std::vector<std::string> names = {"x", "y"};
    grouped_allgather_async(session, in, {}, names, rows).wait();
    expect(first == std::vector<int32_t>{0, 5, 1, 5} && second == std::vector<int32_t>{1, 6, 2, 6}, "the all-gathers");
    std::vector<int32_t> c(2), d(2);
    const std::vector<Tensor> places = {c, d};
    grouped_allreduce_async(session, in, places, {.op = ReduceOp::kSum}, std::vector<std::string>{"p", "q"}).wait();
    expect(c == std::vector<int32_t>{1, 10} && d == std::vector<int32_t>{3, 12}, "the all-reduces");
    grouped_broadcast_async(session, in, places, {.root = 1, .name = "b"}).wait();
    expect(c[0] == 1 && d[0] == 2, "the broadcasts");
    grouped_reduce_async(session, in, places, 0, {.op = ReduceOp::kMax, .name = "r"}).wait();
    if (rank == 0) expect(c[0] == 1 && d[0] == 2, "the reduces");
    grouped_alltoall_async(session, in, {}, {.name = "t"}, {}, places).wait();
    expect(c == (rank == 1 ? std::vector<int32_t>{5, 5} : std::vector<int32_t>{0, 1}), "the all-to-alls");
    const std::vector<std::string> other = {"x", rank == 0 ? "y" : "z"};
    try {
      grouped_gather_async(session, in, 0, {}, other).wait();
      expect(false, "groups of other names met");
    } catch (const Mismatch& error) {
      expect(contains(error.what(), "\"x\""), error.what());
    }
    bool refused = false;
    try {
      static_cast<void>(grouped_gather_async(session, in, 0, {}, std::vector<std::string>{"alone"}));
    } catch (const InvalidArgument&) {
      refused = true;
    }
    expect(refused, "one name for two members was taken");
  });
}

TEST_CASE("a session says what its program is doing, by the function that it was given last") {
  cpp_ranks(2, [](Session& session) {
    session.set_activity_callback([] { return std::string("loading ") + std::string(5000, 'x'); });
    expect(says(session, "loading xxx"), "the first function is not asked");
    session.set_activity_callback([]() -> std::string { throw std::runtime_error("no idea"); });
    expect(says(session, "threw: no idea"), "what the function throws is not told");
    const auto kept = std::make_shared<int>(7);
    session.set_activity_callback([kept] { return "training " + std::to_string(*kept); });
    Session moved(std::move(session));
    expect(says(moved, "training 7"), "the function did not move with its session");
    moved.set_activity_callback({});
    expect(kept.use_count() == 1, "a function that was taken back is kept");
    expect(!says(moved, "training"), "a function that was taken back is asked");
    moved.set_activity_callback([kept] { return std::string("leaving"); });
    moved.shutdown();
    bool refused = false;
    try {
      moved.set_activity_callback([] { return std::string(); });
    } catch (const NotInitialized&) {
      refused = true;
    }
    expect(refused, "a session that was shut down took a function");
    refused = false;
    try {
      // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
      session.set_activity_callback([] { return std::string(); });
    } catch (const NotInitialized&) {
      refused = true;
    }
    expect(refused, "a session that was moved from took a function");
  });
}

TEST_CASE("log lines go to the function that was given last, and what it throws goes no further") {
  const auto throws = [](const Completion&) { throw std::runtime_error("of a callback"); };
  const auto warn = [&](Session& session) {
    std::vector<float> values = {1};
    session.allreduce(values, {.name = "w", .callback = throws});  // is logged, at the latest by the shutdown
    session.shutdown();
  };
  auto lines = std::make_shared<std::vector<std::string>>();
  set_log_callback([lines](LogLevel level, std::string_view line) {
    if (level >= LogLevel::kWarning) lines->emplace_back(line);
  });
  cpp_ranks(1, warn);
  auto thrown = std::make_shared<std::atomic<int>>(0);
  set_log_callback([thrown](LogLevel, std::string_view) {
    ++*thrown;
    throw std::runtime_error("of the log");
  });
  CHECK(lines.use_count() == 1);  // the first one is gone
  REQUIRE_FALSE(lines->empty());
  CHECK(contains(lines->front(), "of a callback"));
  cpp_ranks(1, warn);
  set_log_callback({});
  CHECK(thrown.use_count() == 1);
  CHECK(*thrown > 0);
}

TEST_CASE("who names ranks or a communicator asks for MPI, where no store is to be given") {
  core::MemoryStore memory;
  ThreadStore store(memory);
  CHECK_THAT(sentence_of_init({.store = &store, .ranks = {1, 0}}),
             Catch::Matchers::Contains("mpi", Catch::CaseSensitive::No));
  const int communicator = 0;
  CHECK_THAT(sentence_of_init({.store = &store, .mpi_comm = &communicator}),
             Catch::Matchers::Contains("mpi", Catch::CaseSensitive::No));
}

}  // namespace rueda::test
