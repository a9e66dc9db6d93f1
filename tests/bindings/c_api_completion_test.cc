// Ends of operations as an event loop of the caller's takes them: a descriptor and rueda_drain.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

int descriptor(rueda_session* session) {
  int32_t fd = -1;
  expect_code(rueda_completion_fd(session, &fd), RUEDA_OK, "completion_fd");
  expect(fd >= 0, "the descriptor is " + std::to_string(fd));
  return fd;
}

bool readable(int fd, int milliseconds) {
  pollfd source{fd, POLLIN, 0};
  return poll(&source, 1, milliseconds) == 1;
}

std::vector<rueda_completion> drain(rueda_session* session, size_t capacity) {
  std::vector<rueda_completion> out(capacity);
  size_t count = 99;
  expect_code(rueda_drain(session, out.data(), capacity, &count), RUEDA_OK, "drain");
  expect(count <= capacity, "more were drained than there is room for");
  out.resize(count);
  return out;
}

// Polls and drains as a loop does until `count` have come.
std::vector<rueda_completion> await_completions(rueda_session* session, size_t count) {
  std::vector<rueda_completion> all;
  while (all.size() < count) {
    expect(readable(descriptor(session), 120'000), "nothing came for two minutes");
    const auto some = drain(session, 3);
    expect(!some.empty(), "the descriptor was readable and there was nothing to drain");
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

rueda_op_options drained(const char* name, void* context = nullptr) {
  rueda_op_options options = named(name);
  options.drain = 1;
  options.drain_context = context;
  return options;
}

}  // namespace

TEST_CASE("each drained operation is told once, with its handle, its context and its code, and its output is there") {
  run_ranks(3, [](rueda_session* session, int rank) {
    constexpr size_t kOperations = 40;
    std::vector<std::vector<float>> values(kOperations, std::vector<float>(5, static_cast<float>(rank)));
    std::vector<rueda_handle> handles;
    for (size_t i = 0; i < kOperations; ++i) {
      handles.push_back(start_sum(session, values[i], drained(("w" + std::to_string(i)).c_str(), &values[i])));
    }
    std::vector<int> told(kOperations);
    for (const rueda_completion& each : await_completions(session, kOperations)) {
      const auto index = static_cast<size_t>(static_cast<std::vector<float>*>(each.context) - values.data());
      expect(index < kOperations && handles[index] == each.handle, "handle and context belong to different operations");
      expect(each.code == RUEDA_OK && rueda_poll(each.handle) == 1 && values[index][4] == 3,
             "it has not finished well");
      ++told[index];
      expect_code(rueda_release(each.handle), RUEDA_OK, "release");
    }
    expect(told == std::vector<int>(kOperations, 1), "an operation was told another number of times than once");
    expect(drain(session, 9).empty() && !readable(descriptor(session), 0), "something is left");
  });
}

TEST_CASE("the descriptor stays readable until all is drained") {
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> a = {1}, b = {1};
    const rueda_handle first = start_sum(session, a, drained("a"));
    const rueda_handle second = start_sum(session, b, drained("b"));
    expect_code(rueda_wait(second, -1), RUEDA_OK, "wait");
    expect_code(rueda_wait(first, -1), RUEDA_OK, "wait");
    const int fd = descriptor(session);  // asked for only now
    expect(readable(fd, 120'000) && readable(fd, 0), "not readable");
    expect(drain(session, 0).empty() && readable(fd, 0), "a drain of nothing took something");
    std::vector<rueda_completion> all = await_completions(session, 1);
    while (all.size() < 2) all.push_back(await_completions(session, 1).front());
    expect(!readable(fd, 0), "readable with nothing left");
    for (const rueda_handle handle : {first, second}) expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
}

TEST_CASE("a failed operation is told with its code, and its sentence is the handle's") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(static_cast<size_t>(rank) + 1);
    const rueda_handle handle = start_sum(session, values, drained("w"));
    const rueda_completion told = await_completions(session, 1).front();
    expect(told.handle == handle && told.code == RUEDA_MISMATCH, "told " + std::to_string(told.code));
    expect(std::string(rueda_handle_error(handle)).find("[2]") != std::string::npos, "no sentence");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
    expect_usable(session, "after a mismatch");
  });
}

TEST_CASE("an empty group is told too, and operations that did not ask are not") {
  run_ranks(1, [](rueda_session* session, int) {
    rueda_handle handle = 0;
    const rueda_op_options options = drained("nobody");
    expect_code(rueda_grouped_allreduce_async(session, 0, nullptr, nullptr, nullptr, RUEDA_SUM, &options, &handle),
                RUEDA_OK, "group");
    expect(await_completions(session, 1).front().handle == handle, "another handle");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
    std::vector<float> values = {1};
    expect(finish(start_sum(session, values, "quiet")).code == RUEDA_OK, "the sum failed");
    const rueda_op_options blocking = drained("blocking");
    expect_code(rueda_barrier(session, &blocking), RUEDA_OK, "barrier");
    expect(drain(session, 4).empty(), "an operation that did not ask was told");
  });
}

TEST_CASE("a released handle is not told, and never drained completions do not pile up behind released handles") {
  run_ranks(2, [](rueda_session* session, int rank) {
    const int fd = descriptor(session);
    std::vector<float> values(4);
    for (int i = 0; i < 500; ++i) {
      const rueda_handle handle = start_sum(session, values, drained("w"));
      if (i % 2 == 0) expect_code(rueda_wait(handle, -1), RUEDA_OK, "wait");
      if (i % 2 == 1) expect_code(rueda_abandon(handle, 60), rueda_wait(handle, -1), "abandon");
      expect_code(rueda_release(handle), RUEDA_OK, "release");
    }
    std::vector<float> early(4);
    const rueda_handle in_flight = rank == 0 ? start_sum(session, early, drained("early")) : 0;
    if (rank == 0) expect_code(rueda_release(in_flight), RUEDA_OK, "release in flight");
    expect_usable(session, "both have come");
    if (rank == 1) expect(finish(start_sum(session, early, "early")).code == RUEDA_OK, "the other half");
    expect_usable(session, "after the release");
    expect(drain(session, 9).empty() && !readable(fd, 0), "a released handle was told");
  });
}

TEST_CASE("an operation with a callback and a drain gets both, and a callback may drain") {
  run_ranks(2, [](rueda_session* session, int) {
    struct Both {
      rueda_session* session;
      std::promise<size_t> drained;
    } both{session, {}};
    rueda_op_options options = drained("w");
    options.callback_context = &both;
    options.callback = [](void* context, rueda_handle, int32_t) {
      auto* self = static_cast<Both*>(context);
      rueda_completion out[2];
      size_t count = 0;
      if (rueda_drain(self->session, out, 2, &count) != RUEDA_OK) count = 99;
      self->drained.set_value(count);
    };
    std::vector<float> values = {1};
    const rueda_handle handle = start_sum(session, values, options);
    expect(both.drained.get_future().get() == 1, "the callback found another number of ends");
    expect(finish(handle).code == RUEDA_OK, "the sum failed");
  });
}

TEST_CASE("shutdown drops what was not drained, and its handles keep their results") {
  const CallbackStore store;
  rueda_session* const session = join(store, 0, 1);
  std::vector<float> values = {1};
  const int fd = descriptor(session);
  const rueda_handle handle = start_sum(session, values, drained("w"));
  CHECK(readable(fd, 120'000));
  REQUIRE(rueda_shutdown(session) == RUEDA_OK);
  CHECK(fcntl(fd, F_GETFD) == -1);
  size_t count = 99;
  rueda_completion out{};
  CHECK(rueda_drain(session, &out, 1, &count) == RUEDA_NOT_INITIALIZED);
  CHECK(count == 0);
  CHECK(rueda_wait(handle, -1) == RUEDA_OK);
  CHECK(rueda_release(handle) == RUEDA_OK);
}

TEST_CASE("completions are refused without a session and without a place for the answer") {
  int32_t fd = 0;
  size_t count = 0;
  rueda_completion out{};
  CHECK(rueda_completion_fd(nullptr, &fd) == RUEDA_NOT_INITIALIZED);
  CHECK(fd == -1);
  CHECK(rueda_drain(nullptr, &out, 1, &count) == RUEDA_NOT_INITIALIZED);
  CHECK(rueda_completion_fd(nullptr, nullptr) == RUEDA_INVALID_ARGUMENT);
  CHECK(rueda_drain(nullptr, &out, 1, nullptr) == RUEDA_INVALID_ARGUMENT);
  CHECK(rueda_drain(nullptr, nullptr, 1, &count) == RUEDA_INVALID_ARGUMENT);
}

}  // namespace rueda::test
