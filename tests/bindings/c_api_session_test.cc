// Sessions: queries, calls without one, many in a row, several at once, shutdown at awkward moments.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/leftovers.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

// Sets a variable for a scope, while no other thread of the test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string init_failure(const rueda_init_options& options, int32_t expected) {
  rueda_session* session = reinterpret_cast<rueda_session*>(8);
  const int32_t code = rueda_init(&options, &session);
  std::string sentence = rueda_last_error();
  CHECK(code == expected);
  CHECK(session == nullptr);
  return sentence;
}

rueda_init_options sized() {
  rueda_init_options options{};
  options.struct_size = sizeof options;
  return options;
}

}  // namespace

TEST_CASE("every call without a session, or after its shutdown, says that there is none") {
  rueda_session* ended = nullptr;
  REQUIRE(rueda_init(nullptr, &ended) == RUEDA_OK);
  REQUIRE(rueda_shutdown(ended) == RUEDA_OK);
  for (rueda_session* const none : {static_cast<rueda_session*>(nullptr), ended}) {
    std::vector<float> values = {1};
    const CTensor tensor(values, RUEDA_F32);
    const rueda_tensor* const t = tensor.get();
    rueda_handle handle = 3;
    const auto refused = [&](int32_t code) {
      CHECK(code == RUEDA_NOT_INITIALIZED);
      CHECK(rueda_last_error_code() == RUEDA_NOT_INITIALIZED);
      CHECK(std::strlen(rueda_last_error()) > 0);
    };
    refused(rueda_allreduce_async(none, t, t, RUEDA_SUM, nullptr, &handle));
    CHECK(handle == 0);
    refused(rueda_grouped_allreduce_async(none, 1, t, t, nullptr, RUEDA_SUM, nullptr, &handle));
    refused(rueda_broadcast_async(none, t, t, 0, nullptr, &handle));
    refused(rueda_barrier_async(none, nullptr, &handle));
    refused(rueda_allreduce(none, t, t, RUEDA_SUM, nullptr));
    refused(rueda_grouped_allreduce(none, 1, t, t, nullptr, RUEDA_SUM, nullptr));
    refused(rueda_broadcast(none, t, t, 0, nullptr));
    refused(rueda_barrier(none, nullptr));
    refused(rueda_session_status(none));
    using Query = int32_t (*)(const rueda_session*);
    for (const Query query : {rueda_rank, rueda_size, rueda_local_rank, rueda_local_size, rueda_cross_rank,
                              rueda_cross_size, rueda_is_homogeneous}) {
      CHECK(query(none) == -1);
      CHECK(rueda_last_error_code() == RUEDA_NOT_INITIALIZED);
    }
  }
  CHECK(rueda_shutdown(nullptr) == RUEDA_OK);
  CHECK(rueda_shutdown(ended) == RUEDA_NOT_INITIALIZED);
}

TEST_CASE("a process that finds nothing in its environment is a job of one rank") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  CHECK(rueda_rank(session) == 0);
  CHECK(rueda_size(session) == 1);
  CHECK(rueda_local_size(session) == 1);
  CHECK(rueda_is_homogeneous(session) == 1);
  std::vector<float> values = {5};
  CHECK(sum(session, values, "w") == RUEDA_OK);
  CHECK(values[0] == 5);
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("every rank knows its place") {
  run_ranks(3, [](rueda_session* session, int rank) {
    expect(rueda_rank(session) == rank && rueda_size(session) == 3, "rank or size");
    expect(rueda_local_rank(session) == rank && rueda_local_size(session) == 3, "local rank or size");
    expect(rueda_cross_rank(session) == 0 && rueda_cross_size(session) == 1, "cross rank or size");
    expect(rueda_is_homogeneous(session) == 1, "homogeneous");
    expect_code(rueda_session_status(session), RUEDA_OK, "status");
    expect_usable(session, "before anybody leaves");
  });
}

TEST_CASE("options that cannot be are refused with their values, and a good init follows") {
  rueda_init_options options = sized();
  options.struct_size = 1;
  CHECK(init_failure(options, RUEDA_INVALID_ARGUMENT).find("struct_size") != std::string::npos);
  options = sized();
  options.has_rank = 1;
  options.rank = 7;
  options.size = 4;
  CHECK(init_failure(options, RUEDA_INVALID_ARGUMENT).find('7') != std::string::npos);
  options.rank = 0;
  options.size = 0;
  CHECK(init_failure(options, RUEDA_INVALID_ARGUMENT).find('0') != std::string::npos);
  options = sized();
  options.job_key = "short";
  options.job_key_bytes = 5;
  CHECK(init_failure(options, RUEDA_INVALID_ARGUMENT).find("16") != std::string::npos);
  CHECK(rueda_init(nullptr, nullptr) == RUEDA_INVALID_ARGUMENT);
  run_ranks(2, [](rueda_session* session, int) { expect_usable(session, "after failed inits"); });
}

TEST_CASE("settings that do not parse are refused with variable and value") {
  const std::pair<const char*, const char*> cases[] = {{"RUEDA_FUSION_THRESHOLD", "64 bananas"},
                                                       {"RUEDA_NUM_LANES", "-3"},
                                                       {"RUEDA_COMPRESSION", "gzip"},
                                                       {"RUEDA_DETERMINISTIC", "perhaps"},
                                                       {"RUEDA_TIMEOUT_SECONDS", "1h"},
                                                       {"RUEDA_ALLREDUCE_ALGORITHM", "carousel"},
                                                       {"RUEDA_LOG_LEVEL", "loud"},

                                                       {"HOROVOD_FUSION_THRESHOLD", "lots"}};
  for (const auto& [name, value] : cases) {
    const Variable variable(name, value);
    const std::string sentence = init_failure(sized(), RUEDA_INVALID_ARGUMENT);
    INFO(sentence);
    CHECK(sentence.find(name) != std::string::npos);
    CHECK(sentence.find(value) != std::string::npos);
  }
  run_ranks(1, [](rueda_session* session, int) { expect_usable(session, "after failed inits"); });
}

TEST_CASE("settings that ask for what this process does not have are refused with variable, value and remedy") {
  const Variable nowhere("RUEDA_MPI_PLUGIN", "/nowhere/librueda_mpi.so");
  for (const char* name : {"RUEDA_CONTROLLER", "RUEDA_CPU_OPERATIONS", "HOROVOD_CPU_OPERATIONS"}) {
    const Variable variable(name, "mpi");
    const std::string sentence = init_failure(sized(), RUEDA_UNSUPPORTED);
    INFO(sentence);
    CHECK(sentence.find(std::string(name) + " is \"mpi\"") == 0);
    CHECK(sentence.find("librueda_mpi.so does not exist") != std::string::npos);
  }
  const Variable cores("RUEDA_THREAD_AFFINITY", "1023");
  const std::string sentence = init_failure(sized(), RUEDA_INVALID_ARGUMENT);
  INFO(sentence);
  CHECK(sentence.find("RUEDA_THREAD_AFFINITY: \"1023\" names core 1023, but this process may use 0") == 0);
}

TEST_CASE("variables without an effect are reported at the level that this init was told") {
  std::vector<std::string> lines;
  rueda_set_log_callback([](void* context, int32_t,
                            const char* line) { static_cast<std::vector<std::string>*>(context)->emplace_back(line); },
                         &lines);
  const auto count = [&](const char* name) {
    lines.clear();
    run_ranks(1, [](rueda_session* session, int) { expect_usable(session, "w"); });
    return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.find(name) != line.npos; });
  };
  const Variable horovod("HOROVOD_CYCLE_TIME", "1");
  const Variable ours("RUEDA_XYLOPHONE", "1");
  {
    const Variable level("RUEDA_LOG_LEVEL", "info");
    CHECK(count("HOROVOD_CYCLE_TIME") == 1);
    CHECK(count("RUEDA_XYLOPHONE") == 1);
  }
  {
    const Variable level("RUEDA_LOG_LEVEL", "error");
    CHECK(count("HOROVOD_CYCLE_TIME") == 0);
    CHECK(count("RUEDA_XYLOPHONE") == 0);
  }
  CHECK(count("HOROVOD_CYCLE_TIME") == 0);
  CHECK(count("RUEDA_XYLOPHONE") == 1);
  rueda_set_log_callback(nullptr, nullptr);
}

TEST_CASE("init's timeout may be as long as a double can say, and is a number from 0") {
  for (const double wrong : {-1.0, -std::numeric_limits<double>::infinity(), std::nan("")}) {
    rueda_init_options options = sized();
    options.timeout_seconds = wrong;
    const std::string sentence = init_failure(options, RUEDA_INVALID_ARGUMENT);
    INFO(sentence);
    CHECK(sentence.find("timeout_seconds is " + std::to_string(wrong)) == 0);
  }
  for (const double endless : {std::numeric_limits<double>::infinity(), 1e300, 1e10}) {
    const CallbackStore store;
    on_threads(2, [&](int rank) {
      rueda_init_options options = sized();
      options.has_rank = 1;
      options.rank = rank;
      options.size = 2;
      options.store = store.c_store();
      options.timeout_seconds = endless;
      rueda_session* session = nullptr;
      expect_code(rueda_init(&options, &session), RUEDA_OK, "an init that may take for ever");
      expect_usable(session, "w");
      expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
    });
  }
}

TEST_CASE("ranks with different keys over one store are told so at once") {
  const CallbackStore store;
  on_threads(2, [&](int rank) {
    const std::string key(32, static_cast<char>('k' + rank));
    rueda_init_options options = sized();
    options.has_rank = 1;
    options.rank = rank;
    options.size = 2;
    options.store = store.c_store();
    options.job_key = key.data();
    options.job_key_bytes = key.size();
    options.timeout_seconds = 100;
    rueda_session* session = nullptr;
    expect_code(rueda_init(&options, &session), RUEDA_MISMATCH, "init with another key");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("mark of the job key: ") != std::string::npos, sentence);
  });
}

TEST_CASE("a rank that never comes is named when init's time is up, and a good init follows") {
  const CallbackStore store;
  std::vector<std::string> sentences(2);
  on_threads(2, [&](int rank) {
    rueda_init_options options = sized();
    options.has_rank = 1;
    options.rank = rank;
    options.size = 3;
    options.store = store.c_store();
    const std::string key(32, 'k');
    options.job_key = key.data();
    options.job_key_bytes = key.size();
    options.timeout_seconds = 1;
    rueda_session* session = nullptr;
    expect_code(rueda_init(&options, &session), RUEDA_TIMEOUT, "init of rank " + std::to_string(rank));
    sentences[static_cast<size_t>(rank)] = rueda_last_error();
  });
  INFO(sentences[0] + " / " + sentences[1]);
  CHECK(sentences[0].find("rank 2") != std::string::npos);
  on_threads(3, [&](int rank) {
    rueda_session* const session = join(store, rank, 3);
    expect_usable(session, "after an init that timed out");
    expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
  });
}

TEST_CASE("a store that fails makes init fail with its code") {
  rueda_store broken{};
  broken.struct_size = sizeof broken;
  broken.set = [](void*, const char*, const void*, size_t) -> int32_t { return RUEDA_SYSTEM; };
  broken.get = [](void*, const char*, void*, size_t, size_t*, double) -> int32_t { return RUEDA_SYSTEM; };
  broken.add = [](void*, const char*, int64_t, int64_t*) -> int32_t { return RUEDA_SYSTEM; };
  rueda_init_options options = sized();
  options.has_rank = 1;
  options.size = 2;
  options.store = &broken;
  const std::string key(32, 'k');
  options.job_key = key.data();
  options.job_key_bytes = key.size();
  options.timeout_seconds = 5;
  CHECK_FALSE(init_failure(options, RUEDA_SYSTEM).empty());
}

TEST_CASE("two jobs live in one process without meeting") {
  const CallbackStore left_store;
  const CallbackStore right_store;
  on_threads(2, [&](int rank) {
    rueda_session* const left = join(left_store, rank, 2);
    rueda_session* const right = join(right_store, rank, 2);
    std::vector<float> a = {1};
    std::vector<float> b = {10};
    // The same name in both, waited for crosswise.
    const rueda_handle first = start_sum(left, a, "w");
    const rueda_handle second = start_sum(right, b, "w");
    expect(finish(second).code == RUEDA_OK && b[0] == 20, "the right job");
    expect(finish(first).code == RUEDA_OK && a[0] == 2, "the left job");
    expect_code(rueda_shutdown(left), RUEDA_OK, "shutdown of the left job");
    expect_usable(right, "after the left job has ended");
    expect_code(rueda_shutdown(right), RUEDA_OK, "shutdown of the right job");
  });
}

TEST_CASE("init and shutdown, two hundred times, leave descriptors, threads and memory as they were") {
  constexpr int kRounds = core::kThorough ? 200 : 50;
  constexpr int kWarmUp = kRounds / 5;
  const CallbackStore store;
  Holdings before;
  Holdings after;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kWarmUp) before = holdings();
    on_threads(2, [&](int rank) {
      rueda_session* const session = join(store, rank, 2);
      expect_usable(session, "w");
      expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
    });
  }
  after = holdings();
  for (const std::string& leak : leaks(before, after)) FAIL_CHECK(leak);
  // Sanitizers keep what was freed for a while, so only growth by the round counts: 64 KiB would be one ring.
  CHECK(after.resident_kib < before.resident_kib + (kRounds - kWarmUp) * 64);
  CHECK(named_files().empty());
}

TEST_CASE("one rank may shut down in the steady state, and the others' operations say so") {
  run_ranks(3, [](rueda_session* session, int rank) {
    std::vector<float> values(10);
    for (int i = 0; i < 20; ++i) expect_code(sum(session, values, "w"), RUEDA_OK, "cached sum");
    if (rank == 1) return;
    const rueda_handle handle = start_sum(session, values, "w");
    if (handle == 0) return expect_code(rueda_last_error_code(), RUEDA_SHUT_DOWN, "enqueue after a goodbye");
    const Ending ending = finish(handle);
    expect(ending.code == RUEDA_SHUT_DOWN, std::string(rueda_error_name(ending.code)) + ": " + ending.sentence);
    expect(ending.sentence.find("rank 1") != std::string::npos, "'" + ending.sentence + "' does not name rank 1");
  });
}

TEST_CASE("a rank that leaves as soon as its operations have run lets the others finish theirs") {
  constexpr int kTensors = 30;
  std::vector<std::vector<std::vector<float>>> memory(3);  // lent until the sessions have shut down
  run_ranks(3, [&](rueda_session* session, int rank) {
    auto& values = memory[static_cast<size_t>(rank)];
    values.assign(kTensors, std::vector<float>(1000, static_cast<float>(rank + 1)));
    std::vector<rueda_handle> handles;
    for (size_t i = 0; i < kTensors; ++i) {
      handles.push_back(start_sum(session, values[i], ("w" + std::to_string(i)).c_str()));
      expect(handles.back() != 0, rueda_last_error());
    }
    if (rank == 2) {  // its peers may still be in the middle of what it has finished
      expect_code(rueda_wait(handles.back(), -1), RUEDA_OK, "the last operation");
      for (const rueda_handle handle : handles) expect_code(rueda_release(handle), RUEDA_OK, "release");
      return;
    }
    for (size_t i = 0; i < kTensors; ++i) {
      const Ending ending = finish(handles[i]);
      expect(ending.code == RUEDA_OK && values[i][999] == 6, "tensor " + std::to_string(i) + ": " + ending.sentence);
    }
  });
}

TEST_CASE("the library's texts are there without a session") {
  CHECK(std::string(rueda_version()) == "1.0.0");
  const std::string build = rueda_build_info();
  for (const char* word : {"version", "build", "compiler", "protocol"}) CHECK(build.find(word) != std::string::npos);
  CHECK(std::string(rueda_error_name(RUEDA_PEER_LOST)) == "PEER_LOST");
  CHECK(std::string(rueda_error_name(RUEDA_OK)) == "OK");
  CHECK(std::string(rueda_error_name(12345)) == "?");
}

}  // namespace rueda::test
