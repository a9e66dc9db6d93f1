// The C++ binding over the C API: tensors, options, handles, errors, stores.
#include <poll.h>

#include <array>
#include <catch2/catch.hpp>
#include <complex>
#include <cstdlib>
#include <future>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "rueda.hpp"
#include "tests/bindings/cpp_ranks.h"

namespace rueda::test {

static_assert(DtypeOf<long>::value == RUEDA_I64 && DtypeOf<unsigned long long>::value == RUEDA_U64);
static_assert(DtypeOf<char>::value == (std::is_signed_v<char> ? RUEDA_I8 : RUEDA_U8) &&
              DtypeOf<bool>::value == RUEDA_BOOL);
static_assert(DtypeOf<int16_t>::value == RUEDA_I16 && DtypeOf<uint16_t>::value == RUEDA_U16);
static_assert(DtypeOf<Float16>::value == RUEDA_F16 && DtypeOf<BFloat16>::value == RUEDA_BF16);
static_assert(!std::is_constructible_v<Tensor, const std::vector<float>&>, "an output of constants");
static_assert(!std::is_copy_constructible_v<Handle> && std::is_nothrow_move_constructible_v<Handle>);

TEST_CASE("vectors, arrays and shaped views are tensors") {
  cpp_ranks(2, [](Session& session) {
    const int rank = session.rank();
    std::vector<float> values(6, static_cast<float>(rank));
    session.allreduce(values, {.op = ReduceOp::kSum, .name = "vector"});
    std::array<int64_t, 2> pair = {rank, 10};
    session.allreduce(pair, {.op = ReduceOp::kMax, .name = "array"});
    const std::vector<double> constant = {4.0};
    std::vector<double> out(1);
    session.allreduce(constant, out, {.name = "out of place"});
    session.allreduce(shaped(values, {2, 3}), {.op = ReduceOp::kSum, .name = "shaped"});
    std::vector<std::complex<double>> complex = {{1.0 + rank, 2}};
    session.allreduce(complex, {.op = ReduceOp::kProduct, .name = "complex"});
    std::vector<uint8_t> bits = {static_cast<uint8_t>(rank == 0 ? 12 : 10)};
    session.allreduce(bits, {.op = ReduceOp::kBxor, .name = "bits"});
    expect(values == std::vector<float>(6, 2) && pair == std::array<int64_t, 2>{1, 10} && out[0] == 4,
           "a result is wrong");
    expect(complex[0] == std::complex<double>(-2, 6) && bits[0] == 6, "a complex or bitwise result is wrong");
  });
}

TEST_CASE("a vector in shared memory is a tensor that ranks reduce in place, and outlives its session") {
  cpp_ranks(2, [](Session& session) {
    const SharedAllocator<float> allocator(session);
    SharedVector<float> kept(1, allocator);
    {
      SharedVector<float> values(50'000, static_cast<float>(session.rank() + 1), allocator);
      session.allreduce(values, {.op = ReduceOp::kSum, .name = "shared"});
      expect(values == SharedVector<float>(50'000, 3, allocator), "a wrong sum");
      expect(session.stats().find("shm_shared") != std::string::npos, "not reduced in place");
      kept = std::move(values);
    }
    session.shutdown();
    expect(kept[49'999] == 3, "the memory went with the session");
  });
}

TEST_CASE("an event loop takes ends from a drain, and names go by number") {
  cpp_ranks(2, [](Session& session) {
    std::vector<float> values = {1};
    const NameId id = session.intern("w");
    const Handle handle =
        session.allreduce_async(values, {.op = ReduceOp::kSum, .name_id = id, .drain = Drain{&values}});
    pollfd source{session.completion_fd(), POLLIN, 0};
    expect(poll(&source, 1, 120'000) == 1, "nothing came for two minutes");
    std::array<rueda_completion, 4> room{};
    const std::span<const rueda_completion> ended = session.drain(room);
    expect(ended.size() == 1 && ended[0].handle == handle.id() && ended[0].context == &values, "another operation");
    expect(values[0] == 2, "the sum");
    expect(session.drain(room).empty(), "told twice");
  });
}

TEST_CASE("a shape that does not hold the elements is refused") {
  std::vector<float> values(6);
  CHECK_THROWS_AS(shaped(values, {2, 2}), InvalidArgument);
  CHECK_THROWS_AS(Tensor(values).elements<int32_t>(), InvalidArgument);
  CHECK(shaped(values, {2, 3}).elements<float>().size() == 6);
}

TEST_CASE("a reduce-scatter gives each rank its rows, where it says or in the library's memory") {
  cpp_ranks(2, [](Session& session) {
    const int rank = session.rank();
    const std::vector<float> values = {1, 2, 3};
    std::vector<float> own(rank == 0 ? 2 : 1);
    session.reducescatter(values, own, {.op = ReduceOp::kSum, .name = "w"});
    expect(own == (rank == 0 ? std::vector<float>{2, 4} : std::vector<float>{6}), "the rows");
    const Handle handle = session.reducescatter_async(values, {.op = ReduceOp::kSum, .name = "w"});
    handle.wait();
    const auto late = handle.output().elements<float>();
    expect(std::vector<float>(late.begin(), late.end()) == own, "the late rows");
  });
}

TEST_CASE("exchanges hand vectors round") {
  cpp_ranks(2, [](Session& session) {
    const int rank = session.rank();
    const std::vector<int32_t> own(static_cast<size_t>(rank) + 1, rank);
    expect(session.allgather(own, {.name = "a"}) == std::vector<int32_t>{0, 1, 1}, "the all-gather");
    const std::vector<int64_t> splits = rank == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{2, 0};
    const Handle handle = session.alltoall_async(own, splits, {.name = "b"});
    handle.wait();
    expect(handle.received_splits() == (rank == 0 ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{1, 0}),
           "the splits");
    expect(session.alltoall(std::vector<int32_t>{rank, rank + 10}) ==
               (rank == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{10, 11}),
           "the even all-to-all");
    expect(session.gather(own, 1) == (rank == 1 ? std::vector<int32_t>{0, 1, 1} : std::vector<int32_t>{}),
           "the gather");
    const std::vector<int32_t> source = {7, 8, 9};
    expect(session.scatter(source, 0) == (rank == 0 ? std::vector<int32_t>{7, 8} : std::vector<int32_t>{9}),
           "the scatter");
    std::vector<float> value = {static_cast<float>(rank + 1)};
    session.reduce(value, 1, {.op = ReduceOp::kSum});
    expect(value[0] == (rank == 1 ? 3 : 1), "the reduce");
    std::vector<float> passed = {static_cast<float>(rank)};
    if (rank == 0) session.send(passed, 1, {.name = "s"});
    if (rank == 1) {
      const Handle received = session.recv_async(passed, RUEDA_ANY_SOURCE, {.name = "s"});
      received.wait();
      expect(received.source() == 0, "the sender");
    }
    expect(passed[0] == 0, "the send");
    const std::vector<int64_t> one = {1};
    try {
      static_cast<void>(session.alltoall(own, one));
      expect(false, "one split for two ranks was taken");
    } catch (const InvalidArgument&) {
      session.barrier();
    }
  });
}

TEST_CASE("broadcast, barrier and groups have blocking and asynchronous forms") {
  cpp_ranks(3, [](Session& session) {
    std::vector<int32_t> values(10, session.rank());
    session.broadcast(values, {.root = 2, .name = "b"});
    expect(values == std::vector<int32_t>(10, 2), "the broadcast");
    struct Sample {
      char name[5];
      double weight;
    };
    std::vector<Sample> samples(3, Sample{"abc", session.rank() + 0.5});
    const Handle moved = session.broadcast_async(opaque(samples), {.root = 1});
    moved.wait();
    expect(samples[2].weight == 1.5 && moved.output().bytes() == 3 * sizeof(Sample), "the broadcast of a struct");
    session.barrier();
    std::vector<float> a(3, 1);
    std::vector<double> b(4, 1);
    std::vector<float> c(5, 2);
    const std::vector<Tensor> group = {a, c};
    session.grouped_allreduce(group, {.op = ReduceOp::kSum, .name = "g"});
    const std::vector<std::string> names = {"first", "second"};
    session.grouped_allreduce_async(group, {.op = ReduceOp::kSum, .name = "g"}, names).wait();
    session.allreduce(b, {.op = ReduceOp::kSum});
    expect(a == std::vector<float>(3, 9) && c == std::vector<float>(5, 18) && b == std::vector<double>(4, 3),
           "the group");
  });
}

TEST_CASE("groups of everything else hand vectors round together") {
  cpp_ranks(2, [](Session& session) {
    const int rank = session.rank();
    std::vector<int32_t> a = {rank, rank + 10};
    std::vector<double> b(4, rank + 1);
    const auto values = [](const Handle& handle, size_t index) {
      const auto arrived = handle.output(index).template elements<int32_t>();
      return std::vector<int32_t>(arrived.begin(), arrived.end());
    };
    const std::vector<ConstTensor> in = {a, b};
    const AllreduceOptions sum{.op = ReduceOp::kSum, .name = "g"};
    const Handle dealt = grouped_reducescatter_async(session, in, sum);
    dealt.wait();
    expect(values(dealt, 0) == std::vector<int32_t>{rank == 0 ? 1 : 21}, "the reduce-scatters");
    const Handle gathered = grouped_gather_async(session, in, 1, {.name = "g"});
    gathered.wait();
    if (rank == 1) expect(values(gathered, 0) == std::vector<int32_t>{0, 10, 1, 11}, "the gathers");
    const std::vector<std::vector<int64_t>> splits = {{2, 0}, {}};
    const Handle scattered = grouped_scatter_async(session, in, 1, splits, {.name = "g"});
    scattered.wait();
    expect(values(scattered, 0) == (rank == 0 ? std::vector<int32_t>{1, 11} : std::vector<int32_t>{}), "the scatters");
    const Handle exchanged = grouped_alltoall_async(session, in, {}, {.name = "g"});
    exchanged.wait();
    expect(values(exchanged, 0) == (rank == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{10, 11}),
           "the all-to-alls");
    const std::vector<Tensor> both = {a, b};
    grouped_reduce_async(session, both, 0, sum).wait();
    expect(a[1] == (rank == 0 ? 21 : 11) && b[3] == (rank == 0 ? 3 : 2), "the reduces");
    grouped_broadcast_async(session, both, {.root = 1, .name = "g"}).wait();
    expect(a[1] == 11 && b[3] == 2, "the broadcasts");
    if (rank == 0) grouped_send_async(session, in, 1, {.name = "g"}).wait();
    if (rank == 1) a = {0, 0};
    if (rank == 1) grouped_recv_async(session, both, 0, {.name = "g"}).wait();
    expect(a[1] == 11, "the sends");
    try {
      static_cast<void>(grouped_alltoall_async(session, in, std::vector<std::vector<int64_t>>{{1}, {}}));
      expect(false, "one split for two ranks was taken");
    } catch (const InvalidArgument&) {
      session.barrier();
    }
  });
}

TEST_CASE("errors come as the class of their remedy with the library's sentence") {
  cpp_ranks(2, [](Session& session) {
    std::vector<float> values(static_cast<size_t>(session.rank()) + 1);
    try {
      session.allreduce(values, {.name = "w"});
      expect(false, "a sum of [1] and [2] succeeded");
    } catch (const Mismatch& error) {
      expect(error.code() == RUEDA_MISMATCH && std::string(error.what()).find("[2]") != std::string::npos,
             error.what());
      expect(std::string(error.code_name()) == "MISMATCH", error.code_name());
    }
    Handle handle = session.allreduce_async(values, {.name = "w"});
    try {
      handle.wait();
      expect(false, "a sum of [1] and [2] succeeded");
    } catch (const Mismatch& error) {
      expect(handle.error() == error.what(), "the handle's sentence is another");
    }
    bool refused = false;
    try {
      session.broadcast(values, {.root = 9});
    } catch (const InvalidArgument&) {
      refused = true;
    }
    expect(refused, "root 9 of 2 was not refused");
  });
}

TEST_CASE("a session that was moved from or shut down says so") {
  cpp_ranks(1, [](Session& session) {
    Session moved(std::move(session));
    expect(moved.size() == 1, "the session did not move");
    bool refused = false;
    try {
      static_cast<void>(session.rank());  // NOLINT(bugprone-use-after-move): what is tested
    } catch (const NotInitialized&) {
      refused = true;
    }
    expect(refused, "a session moved from has a rank");
    moved.shutdown();
    moved.shutdown();
  });
}

TEST_CASE("waiting with a limit says whether the operation has finished") {
  cpp_ranks(2, [](Session& session) {
    std::vector<float> values = {1};
    if (session.rank() == 1) session.barrier();
    const Handle handle = session.allreduce_async(values, {.op = ReduceOp::kSum, .name = "w"});
    if (session.rank() == 0) {
      expect(!handle.wait_for(Seconds(0.01)) && !handle.poll(), "finished without rank 1");
      session.barrier();
    }
    while (!handle.wait_for(Seconds(100))) {
    }
    expect(handle.poll() && values[0] == 2, "the result");
  });
}

TEST_CASE("a handle that goes out of scope in flight takes its tensor back") {
  cpp_ranks(2, [](Session& session) {
    if (session.rank() == 0) {
      std::vector<float> values = {1};
      { const Handle dropped = session.allreduce_async(values, {.name = "w"}); }
      expect(values[0] == 1, "an abandoned tensor was written");
      session.barrier();
    } else {
      session.barrier();
      std::vector<float> values = {1};
      bool timed_out = false;
      try {
        session.allreduce(values, {.name = "w"});
      } catch (const Timeout&) {
        timed_out = true;
      }
      expect(timed_out, "the abandoned operation did not time out here");
    }
    std::vector<float> values = {1};
    session.allreduce(values, {.op = ReduceOp::kSum, .name = "w"});
    expect(values[0] == 2, "the name afterwards");
  });
}

TEST_CASE("callbacks are told how it ended, also in blocking calls, and may throw") {
  cpp_ranks(2, [](Session& session) {
    std::vector<float> values(static_cast<size_t>(session.rank()) + 1);
    std::promise<Completion> told;
    bool failed = false;
    try {
      session.allreduce(values, {.name = "w", .callback = [&](const Completion& completion) {
                                   told.set_value(completion);
                                   throw std::runtime_error("from a callback");
                                 }});
    } catch (const Mismatch&) {
      failed = true;
    }
    const Completion completion = told.get_future().get();
    expect(failed && completion.code == RUEDA_MISMATCH && !completion.ok(),
           "the callback was told " + std::to_string(completion.code));
    std::vector<float> one = {1};
    bool refused = false;
    try {
      session.allreduce(one, {.process_set = 77, .callback = [](const Completion&) {}});
    } catch (const InvalidArgument&) {
      refused = true;
    }
    expect(refused, "set 77 was not refused");
  });
}

TEST_CASE("a process set is an object that removes itself") {
  cpp_ranks(3, [](Session& session) {
    std::vector<float> all = {1};
    if (session.rank() != 1) {
      ProcessSet set(session, std::vector<int32_t>{2, 0}, "ends");
      expect(set.ranks() == std::vector<int32_t>{0, 2} && set.size() == 2, "the members");
      expect(set.included() && set.rank() == session.rank() / 2, "the place in the set");
      std::vector<float> one = {1};
      session.allreduce(one, {.op = ReduceOp::kSum, .process_set = set.number()});
      expect(one[0] == 2, "the sum in the set");
      const ProcessSet moved = std::move(set);
      bool refused = false;
      try {
        const ProcessSet again(session, std::vector<int32_t>{0, 2}, "ends");
      } catch (const InvalidArgument&) {
        refused = true;
      }
      expect(refused, "a name in use was not refused");
    }
    const ProcessSet own(session, std::vector<int32_t>{session.rank()});
    session.allreduce(all, {.op = ReduceOp::kSum, .process_set = own.number()});
    session.allreduce(all, {.op = ReduceOp::kSum});
    expect(all[0] == 3, "the sum of all");
  });
}

TEST_CASE("late outputs come from the library or from a function") {
  cpp_ranks(2, [](Session& session) {
    const std::vector<float> in(100, 1);
    const Handle owned = session.allreduce_async(in, late_output(in), {.op = ReduceOp::kSum, .name = "w"});
    owned.wait();
    expect(owned.output().elements<float>()[99] == 2, "the library's output");
    alignas(64) std::array<float, 112> memory{};
    const Handle given =
        session.allreduce_async(in, late_output(in), {.op = ReduceOp::kSum, .name = "w", .allocate = [&](size_t bytes) {
                                                        return bytes == 400 ? memory.data() : nullptr;
                                                      }});
    given.wait();
    expect(given.output().data() == memory.data() && memory[99] == 2, "the function's output");
  });
}

TEST_CASE("what a store throws comes out of the session's constructor") {
  struct Broken : Store {
    void set(std::string_view, std::string_view) override { throw std::logic_error("no such store"); }
    std::optional<std::string> get(std::string_view, Seconds) override { return {}; }
    int64_t add(std::string_view, int64_t) override { throw std::logic_error("no such store"); }
  } broken;
  const std::array<std::byte, 32> key{};
  const InitOptions options = {.place = Place{0, 2}, .store = &broken, .job_key = key, .timeout = Seconds(5)};
  CHECK_THROWS_WITH(Session(options), "no such store");
}

}  // namespace rueda::test
