// A rank that runs out of memory in a call of the C API. Each case fails the first allocation of the caller's thread,
// then the second, and so on until none fails any more. The call returns a code, nobody hangs, and a session that
// still accepts operations has lost nothing. Under ASan nothing leaks either.
#include <catch2/catch.hpp>
#include <memory>

#include "tests/bindings/operations.h"
#include "tests/support/scarce_memory.h"

namespace rueda::test {
namespace {

constexpr int kPlenty = 1 << 30;  ///< allocations
constexpr int kWholeInTurn = 5;   ///< runs without a failure: other threads, which have memory, may run the turns

/// What a rank lends to a call, and a place for its answer. Made while there is memory.
struct Call {
  explicit Call(rueda_session* of)
      : session(of), rank(rueda_rank(of)), size(rueda_size(of)), splits(static_cast<size_t>(size), 2) {
    for (std::vector<float>* values : {&first, &second}) {
      values->assign(2 * splits.size(), 1);
      tensors.push_back(std::make_unique<CTensor>(*values, RUEDA_F32));
      members.push_back(*tensors.back()->get());
    }
  }
  const rueda_tensor* tensor() const { return members.data(); }
  int peer() const { return (rank + 1) % size; }

  rueda_session* session;
  int rank;
  int size;
  std::vector<const char*> names = {"first", "second"};
  std::vector<int64_t> splits;
  std::vector<float> first, second;
  std::vector<std::unique_ptr<CTensor>> tensors;
  std::vector<rueda_tensor> members;
  const CTensor nowhere{nullptr, RUEDA_F32, {2 * size}};  ///< the library's memory
  rueda_op_options options = named("call");
  rueda_handle handle = 0;
};

struct Kind {
  const char* name;
  int32_t (*start)(Call& call);
};

const Kind kKinds[] = {
    {"all-reduce",
     [](Call& c) {
       return rueda_allreduce_async(c.session, c.tensor(), c.tensor(), RUEDA_SUM, &c.options, &c.handle);
     }},
    {"all-reduce into memory of the library",
     [](Call& c) {
       return rueda_allreduce_async(c.session, c.tensor(), c.nowhere.get(), RUEDA_SUM, &c.options, &c.handle);
     }},
    {"all-reduce without a name",
     [](Call& c) { return rueda_allreduce_async(c.session, c.tensor(), c.tensor(), RUEDA_SUM, nullptr, &c.handle); }},
    {"all-reduce with a callback",
     [](Call& c) {
       c.options.callback = [](void*, rueda_handle, int32_t) {};
       return rueda_allreduce_async(c.session, c.tensor(), c.tensor(), RUEDA_SUM, &c.options, &c.handle);
     }},
    {"grouped all-reduce",
     [](Call& c) {
       return rueda_grouped_allreduce_async(c.session, 2, c.members.data(), c.members.data(), c.names.data(), RUEDA_SUM,
                                            &c.options, &c.handle);
     }},
    {"reduce-scatter",
     [](Call& c) {
       return rueda_reducescatter_async(c.session, c.tensor(), nullptr, RUEDA_SUM, &c.options, &c.handle);
     }},
    {"all-gather",
     [](Call& c) { return rueda_allgather_async(c.session, c.tensor(), nullptr, &c.options, &c.handle); }},
    {"all-to-all",
     [](Call& c) {
       return rueda_alltoall_async(c.session, c.tensor(), c.splits.data(), nullptr, &c.options, &c.handle);
     }},
    {"broadcast",
     [](Call& c) { return rueda_broadcast_async(c.session, c.tensor(), c.tensor(), 0, &c.options, &c.handle); }},
    {"barrier", [](Call& c) { return rueda_barrier_async(c.session, &c.options, &c.handle); }},
    {"all-reduce in a process set",
     [](Call& c) {
       int32_t all[] = {0, 1};
       if (c.options.process_set <= 0) {
         const int32_t added =
             rueda_process_set_add(c.session, static_cast<size_t>(c.size), all, "set", &c.options.process_set);
         if (added != RUEDA_OK) return added;
       }
       return rueda_allreduce_async(c.session, c.tensor(), c.tensor(), RUEDA_SUM, &c.options, &c.handle);
     }},
    {"message",
     [](Call& c) {
       if (c.size == 1) return rueda_barrier_async(c.session, &c.options, &c.handle);
       return c.rank == 0 ? rueda_send_async(c.session, c.tensor(), c.peer(), &c.options, &c.handle)
                          : rueda_recv_async(c.session, c.tensor(), c.peer(), &c.options, &c.handle);
     }},
};

/// Starts the call and waits for it, with room for so many allocations. Returns whether none was refused. What was not
/// taken is started again, since the other ranks wait for it.
bool run_call(const Kind& kind, Call& call, int room, Shortage shortage) {
  int32_t taken = RUEDA_OK;
  bool was_short = false;
  {
    const ScarceMemory scarce(room, shortage);
    taken = kind.start(call);
    if (taken == RUEDA_OK) static_cast<void>(rueda_wait(call.handle, -1));
    was_short = scarce.was_short();
  }
  if (taken != RUEDA_OK && rueda_session_status(call.session) == RUEDA_OK) {
    expect_code(taken, RUEDA_SYSTEM, std::string(kind.name) + " without memory");
    taken = kind.start(call);
    expect_code(taken, RUEDA_OK, std::string(kind.name) + " with memory again");
    // Only this thread has taken numbers if there is one rank. That of the refused operation, if it had one, is gone.
    if (call.size == 1) {
      expect_code(rueda_wait(call.handle - 1, 0), RUEDA_INVALID_ARGUMENT,
                  std::string("the handle before ") + kind.name);
    }
  }
  if (taken == RUEDA_OK) static_cast<void>(finish(call.handle));
  return !was_short;
}

}  // namespace

TEST_CASE("an operation that finds no memory leaves the session usable, or ends the job; nobody hangs") {
  const int size = GENERATE(1, 2);
  const Shortage shortage = GENERATE(Shortage::kOnce, Shortage::kLasting);
  for (const Kind& kind : kKinds) {
    INFO(kind.name);
    int room = 0;
    for (int in_turn = 0; in_turn < kWholeInTurn; ++room) {
      bool whole = false;
      run_ranks(size, [&](rueda_session* session, int rank) {
        Call call(session);
        const bool scarce = rank == size - 1;
        const bool ran = run_call(kind, call, scarce ? room : kPlenty, shortage);
        if (scarce) whole = ran;
        std::vector<float> value(1, 1);
        const int32_t after = sum(session, value, "after");
        if (rueda_session_status(session) == RUEDA_OK) expect_code(after, RUEDA_OK, std::string("behind ") + kind.name);
      });
      in_turn = whole ? in_turn + 1 : 0;
    }
    CHECK(room > kWholeInTurn);
  }
}

TEST_CASE("a rank that finds no memory while it joins, or leaves, gets a code") {
  const Shortage shortage = GENERATE(Shortage::kOnce, Shortage::kLasting);
  int room = 0;
  for (bool whole = false; !whole; ++room) {
    const CallbackStore store;
    const rueda_init_options options = join_options(store, 0, 1);
    rueda_session* session = nullptr;
    int32_t joined = RUEDA_OK, left = RUEDA_OK;
    {
      const ScarceMemory scarce(room, shortage);
      joined = rueda_init(&options, &session);
      if (joined == RUEDA_OK) left = rueda_shutdown(session);
      whole = !scarce.was_short();
    }
    CHECK((joined == RUEDA_OK) == (session != nullptr));
    if (whole) CHECK((joined == RUEDA_OK && left == RUEDA_OK));
  }
  CHECK(room > 10);
}

}  // namespace rueda::test
