// Named send and receive between two ranks.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

rueda_handle send(rueda_session* session, std::vector<float>& values, int peer, const char* name) {
  const CTensor tensor(values, RUEDA_F32);
  const rueda_op_options options = named(name);
  rueda_handle handle = 0;
  expect_code(rueda_send_async(session, tensor.get(), peer, &options, &handle), RUEDA_OK, "send");
  return handle;
}

rueda_handle recv(rueda_session* session, std::vector<float>& values, int peer, const char* name) {
  const CTensor tensor(values, RUEDA_F32);
  const rueda_op_options options = named(name);
  rueda_handle handle = 0;
  expect_code(rueda_recv_async(session, tensor.get(), peer, &options, &handle), RUEDA_OK, "receive");
  return handle;
}

void expect_finished(rueda_handle handle) {
  const Ending ending = finish(handle);
  expect(ending.code == RUEDA_OK, ending.sentence);
}

}  // namespace

TEST_CASE("a send meets the receive of its name, whatever else is under way and in whichever order") {
  run_ranks(3, [](rueda_session* session, int rank) {
    for (int step = 0; step < 5; ++step) {
      const auto count = static_cast<size_t>(step == 4 ? 300'000 : step);
      std::vector<float> a(count, static_cast<float>(10 + step));
      std::vector<float> b(count, static_cast<float>(20 + step));
      if (rank == 0) {
        const rueda_handle first = send(session, a, 2, "a");
        const rueda_handle second = send(session, b, 2, "b");
        expect_finished(first);
        expect_finished(second);
      } else if (rank == 2) {
        std::vector<float> got_a(count), got_b(count);
        const rueda_handle second = recv(session, got_b, 0, "b");
        const rueda_handle first = recv(session, got_a, 0, "a");
        expect_finished(first);
        expect_finished(second);
        expect(got_a == a && got_b == b, "the values of step " + std::to_string(step));
      }
    }
    expect_usable(session, "all of them");
  });
}

TEST_CASE("two ranks send to each other at once, with and without names") {
  run_ranks(2, [](rueda_session* session, int rank) {
    for (int step = 0; step < 10; ++step) {
      const char* const name = step % 2 == 0 ? "w" : nullptr;
      std::vector<float> out(1000, static_cast<float>(rank + step));
      std::vector<float> in(1000);
      const rueda_handle sent = send(session, out, 1 - rank, name);
      const rueda_handle received = recv(session, in, 1 - rank, name);
      expect_finished(sent);
      expect_finished(received);
      expect(in == std::vector<float>(1000, static_cast<float>(1 - rank + step)), "the values");
    }
  });
}

TEST_CASE("a send whose receive is of another shape or dtype is a mismatch on both, and on nobody else") {
  std::vector<std::string> sentences(3);
  run_ranks(3, [&](rueda_session* session, int rank) {
    for (int step = 0; step < 3; ++step) {
      std::vector<float> values(8, 1);
      const CTensor sent(values, RUEDA_F32);
      const CTensor shorter(values.data(), RUEDA_F32, {4});
      const CTensor other(values.data(), RUEDA_I32, {8});
      const rueda_op_options options = named("w");
      const rueda_tensor* const received = step == 0 ? sent.get() : step == 1 ? shorter.get() : other.get();
      int32_t code = RUEDA_OK;
      if (rank == 1) code = rueda_send(session, sent.get(), 2, &options);
      if (rank == 2) code = rueda_recv(session, received, 1, &options);
      if (rank == 0) continue;
      expect_code(code, step == 0 ? RUEDA_OK : RUEDA_MISMATCH, "step " + std::to_string(step));
      if (step == 2) sentences[static_cast<size_t>(rank)] = rueda_last_error();
    }
    expect_usable(session, "afterwards");
  });
  CHECK(sentences[1] == sentences[2]);
  INFO(sentences[1]);
  CHECK(sentences[1].find("send \"w\"") != std::string::npos);
  CHECK(sentences[1].find("i32") != std::string::npos);
}

TEST_CASE("a received tensor may lie in the library's memory") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {1, 2, 3};
    if (rank == 0) return expect_finished(send(session, values, 1, "w"));
    const CTensor nowhere(nullptr, RUEDA_F32, {3});
    const rueda_op_options options = named("w");
    rueda_handle handle = 0;
    expect_code(rueda_recv_async(session, nowhere.get(), 0, &options, &handle), RUEDA_OK, "receive");
    expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
    rueda_tensor output{};
    output.struct_size = sizeof output;
    expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
    expect(static_cast<const float*>(output.data)[2] == 3, "the values");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE("what is received into the library's memory is told with the order of its dimensions") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {1, 2, 3, 4, 5, 6};
    const std::vector<int64_t> by_columns = {1, 0};
    CTensor tensor(rank == 0 ? values.data() : nullptr, RUEDA_F32, {2, 3});
    tensor->order = by_columns.data();
    const rueda_op_options options = named("w");
    rueda_handle handle = 0;
    const int32_t code = rank == 0 ? rueda_send_async(session, tensor.get(), 1, &options, &handle)
                                   : rueda_recv_async(session, tensor.get(), 0, &options, &handle);
    expect_code(code, RUEDA_OK, "enqueue");
    expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
    rueda_tensor output{};
    output.struct_size = sizeof output;
    expect_code(rueda_output(handle, 0, &output), RUEDA_OK, "output");
    expect(output.order != nullptr && output.order[0] == 1 && output.order[1] == 0, "the order");
    expect(static_cast<const float*>(output.data)[5] == 6, "the values");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE("nobody sends to itself or beyond the ranks") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(3);
    const CTensor tensor(values, RUEDA_F32);
    for (const int peer : {rank, 2, -1, -2}) {
      rueda_handle handle = 1;
      expect_code(rueda_send_async(session, tensor.get(), peer, nullptr, &handle), RUEDA_INVALID_ARGUMENT, "send");
      if (peer == RUEDA_ANY_SOURCE) continue;
      expect_code(rueda_recv_async(session, tensor.get(), peer, nullptr, &handle), RUEDA_INVALID_ARGUMENT, "receive");
      expect(handle == 0, "a handle was given out");
    }
    expect_usable(session, "afterwards");
  });
}

TEST_CASE("several messages of one name are in flight, and arrive in their order") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<std::vector<float>> values(20, std::vector<float>(100));
    std::vector<rueda_handle> handles;
    for (size_t i = 0; i < values.size(); ++i) {
      if (rank == 0) values[i].assign(100, static_cast<float>(i));
      handles.push_back(rank == 0 ? send(session, values[i], 1, "w") : recv(session, values[i], 0, "w"));
    }
    for (const rueda_handle handle : handles) expect_finished(handle);
    for (size_t i = 0; i < values.size(); ++i)
      expect(values[i][99] == static_cast<float>(i), "message " + std::to_string(i));
  });
}

TEST_CASE("a rank receives from whoever sends, and is told who it was") {
  run_ranks(4, [](rueda_session* session, int rank) {
    constexpr int kMessages = 10;
    std::vector<float> values(50, static_cast<float>(rank));
    if (rank != 2) {
      for (int i = 0; i < kMessages; ++i) expect_finished(send(session, values, 2, i % 2 == 0 ? "m" : nullptr));
    } else {
      std::vector<int> heard(4);
      std::vector<std::vector<float>> got(3 * kMessages, std::vector<float>(50));
      std::vector<rueda_handle> handles;
      for (size_t i = 0; i < got.size(); ++i) {
        handles.push_back(recv(session, got[i], RUEDA_ANY_SOURCE, i % 2 == 0 ? "m" : nullptr));
      }
      int32_t source = -1;
      for (size_t i = 0; i < got.size(); ++i) {
        expect_code(rueda_wait(handles[i], -1), RUEDA_OK, "wait");
        expect_code(rueda_source(handles[i], &source), RUEDA_OK, "source");
        ++heard.at(static_cast<size_t>(source));
        expect(got[i] == std::vector<float>(50, static_cast<float>(source)), "a message of another rank than is said");
        rueda_release(handles[i]);
      }
      expect(heard == std::vector<int>{kMessages, kMessages, 0, kMessages}, "how many each has sent");
    }
    expect_usable(session, "all of them");
  });
}

TEST_CASE("a receive from any rank ends with its timeout, with the others' goodbye, and not as a group or alone") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(4, 1), got(4);
    const CTensor tensor(got, RUEDA_F32);
    rueda_handle handle = 0;
    int32_t source = -1;
    if (rank == 0) {
      rueda_op_options hasty = named("hasty");
      hasty.timeout_seconds = 0.01;
      expect_code(rueda_recv(session, tensor.get(), RUEDA_ANY_SOURCE, &hasty), RUEDA_TIMEOUT, "nobody sends");
      const std::string why = rueda_last_error();
      expect(why.find("within its timeout (0.01 s): no rank has sent it") != std::string::npos, why);
      expect_code(rueda_grouped_recv_async(session, 1, tensor.get(), nullptr, RUEDA_ANY_SOURCE, nullptr, &handle),
                  RUEDA_INVALID_ARGUMENT, "a group");
      const int32_t self = 0;
      rueda_op_options alone = named("alone");
      expect_code(rueda_process_set_add(session, 1, &self, nullptr, &alone.process_set), RUEDA_OK, "a set");
      expect_code(rueda_recv_async(session, tensor.get(), RUEDA_ANY_SOURCE, &alone, &handle), RUEDA_INVALID_ARGUMENT,
                  "in a set of one");
    }
    expect_finished(rank == 0 ? recv(session, got, RUEDA_ANY_SOURCE, "next") : send(session, values, 0, "next"));
    expect(rank == 1 || got == values, "the values");
    if (rank == 1) return;
    const rueda_handle endless = recv(session, got, RUEDA_ANY_SOURCE, "never");
    expect_code(rueda_source(endless, &source), RUEDA_INVALID_ARGUMENT, "the source of what is in flight");
    expect_code(rueda_wait(endless, -1), RUEDA_SHUT_DOWN, "rank 1 has left");
    expect_code(rueda_source(endless, &source), RUEDA_INVALID_ARGUMENT, "the source of what never came");
    rueda_release(endless);
  });
}

TEST_CASE("a first send that nobody receives in time is one error, and the next one is received") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(4, 1), got(4);
    if (rank == 0) {
      const rueda_handle lonely = send(session, values, 1, "lonely");
      expect_code(rueda_abandon(lonely, 10), RUEDA_TIMEOUT, "abandon");
      const std::string why = rueda_handle_error(lonely);
      expect(why.find("not by rank 1") != std::string::npos, why);
      rueda_release(lonely);
    }
    expect_usable(session, "given up");
    expect_finished(rank == 0 ? send(session, values, 1, "next") : recv(session, got, 0, "next"));
    expect(rank == 0 || got == values, "the values");
    expect_usable(session, "received");
  });
}

TEST_CASE("sends use up no numbers of process sets, and no set can be named as theirs are") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(4, 1);
    const std::vector<int32_t> both{0, 1};
    int32_t before = -1, after = -1, other = -1;
    expect_code(rueda_process_set_add(session, 2, both.data(), "before", &before), RUEDA_OK, "a set");
    expect_finished(rank == 0 ? send(session, values, 1, "w") : recv(session, values, 0, "w"));
    expect_code(rueda_process_set_add(session, 2, both.data(), "after", &after), RUEDA_OK, "a set");
    expect(after == before + 1, "the sets' numbers");
    expect_code(rueda_process_set_add(session, 2, both.data(), "rueda.send.1.0", &other), RUEDA_INVALID_ARGUMENT,
                "a set named as the library's own");
    expect_code(rueda_process_set_add(session, 2, both.data(), "\xff", &other), RUEDA_INVALID_ARGUMENT,
                "a name that is no text");
    const std::vector<int32_t> many(1000, 0);
    expect_code(rueda_process_set_add(session, many.size(), many.data(), nullptr, &other), RUEDA_INVALID_ARGUMENT,
                "more ranks than there are");
    rueda_op_options options = named("x");
    options.process_set = 1 << 30;  // what the library calls that of its own
    const CTensor tensor(values, RUEDA_F32);
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle),
                RUEDA_INVALID_ARGUMENT, "an all-reduce there");
    expect_code(rueda_process_set_remove(session, 1 << 30), RUEDA_INVALID_ARGUMENT, "to remove it");
    expect_usable(session, "all of it");
  });
}

}  // namespace rueda::test
