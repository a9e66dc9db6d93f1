// Plug-ins through librueda.so: a row that a setting names, and a device whose streams run when the test lets them.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <latch>
#include <map>

#include "tests/bindings/submission.h"
#include "tests/support/plugins/fake_device.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

const std::string kFolder = RUEDA_TEST_PLUGINS;
const std::string kTestPlugin = kFolder + "/test_plugin.so";

using Values = std::map<std::string, std::string>;

/// Sets variables for a test case, before it has threads.
class Variables {
 public:
  explicit Variables(const Values& values) {
    for (const auto& [name, value] : values) {
      ::setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~Variables() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::string> names_;
};

FakeDevice& fake_device() {
  void* library = ::dlopen(kTestPlugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto function = reinterpret_cast<FakeDevice* (*)()>(::dlsym(library, "rueda_test_fake_device"));
  return *function();
}

/// A stream of the fake device for a scope.
class FakeStream {
 public:
  FakeStream() : stream_(fake_device().make_stream()) {}
  ~FakeStream() { fake_device().end_stream(stream_); }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  void* get() const { return stream_; }

 private:
  void* stream_;
};

std::string init_failure() {
  const CallbackStore store;
  int32_t code = RUEDA_OK;
  CHECK(join(store, 0, 1, &code) == nullptr);
  CHECK(code == RUEDA_UNSUPPORTED);
  return rueda_last_error();
}

std::vector<float> numbers(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<size_t>(rank) * 1000 + i % 97);
  return values;
}

float sum_of_numbers(int size, size_t i) {
  return static_cast<float>(size * (size - 1) / 2 * 1000) + static_cast<float>(size) * static_cast<float>(i % 97);
}

void expect_sums(const std::vector<float>& values, int size, const std::string& what) {
  for (size_t i = 0; i < values.size(); ++i) {
    expect(values[i] == sum_of_numbers(size, i), what + ": element " + std::to_string(i) + " is " +
                                                     std::to_string(values[i]) + ", expected " +
                                                     std::to_string(sum_of_numbers(size, i)));
  }
}

TEST_CASE("a plug-in's row serves what a setting sends to it") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}, {"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
  const size_t count = GENERATE(size_t{0}, size_t{1}, size_t{100'003});
  run_ranks(3, [count](rueda_session* session, int rank) {
    std::vector<float> values = numbers(rank, count);
    expect_code(sum(session, values, "w"), RUEDA_OK, "all-reduce by test_star");
    expect_sums(values, 3, "test_star");
  });
}

TEST_CASE("a plug-in's row scales as the caller says") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}, {"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values = {static_cast<float>(rank + 1)};
    rueda_op_options options = named("scaled");
    options.has_scale = 1;
    options.prescale = 4;
    options.postscale = 0.5;
    const CTensor tensor(values, RUEDA_F32);
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "scaled");
    expect(values[0] == 6.0f, "4 * (1 + 2) / 2 gave " + std::to_string(values[0]));
  });
}

TEST_CASE("what a forced plug-in row cannot serve fails with its name, and the session goes on") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}, {"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<double> values = {1};
    const CTensor tensor(values, RUEDA_F64);
    const rueda_op_options options = named("d");
    expect(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options) != RUEDA_OK, "f64 was taken");
    expect(std::string(rueda_last_error()).find("test_star") != std::string::npos, rueda_last_error());
    expect_usable(session, "after");
  });
}

TEST_CASE("a plug-in that RUEDA_PLUGINS names and that cannot be loaded fails init") {
  const std::string file = GENERATE("other_build.so", "other_abi.so", "other_size.so", "no_plugin.so", "absent.so");
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin + ":" + kFolder + "/" + file}});
  CHECK_THAT(init_failure(), Contains("RUEDA_PLUGINS: plug-in " + kFolder + "/" + file));
}

TEST_CASE("a plug-in named twice fails init, because its kinds are taken") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin + ":" + kTestPlugin}});
  CHECK_THAT(init_failure(), Contains("device \"fake\" has kind 77, which \"fake\" already has"));
}

TEST_CASE("a session without the plug-in knows neither its row nor its device") {
  {
    const Variables variables(Values{{"RUEDA_ALLREDUCE_ALGORITHM", "test_star"}});
    const CallbackStore store;
    int32_t code = RUEDA_OK;
    CHECK(join(store, 0, 1, &code) == nullptr);
    CHECK(code == RUEDA_INVALID_ARGUMENT);
    CHECK_THAT(rueda_last_error(), Contains("test_star"));
  }
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> values = {1};
    CTensor tensor(values, RUEDA_F32);
    tensor->device = kFakeDevice;
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                "device");
    expect(std::string(rueda_last_error()).find("no plug-in serves it") != std::string::npos, rueda_last_error());
  });
}

TEST_CASE("a batch reads a device tensor only after its mark, and marks the stream after the output is written") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}});
  FakeDevice& device = fake_device();
  const FakeDeviceCounts before = device.counts();
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::vector<float> input(1000, -1.0f);
    std::vector<float> output(1000);
    std::latch go(1);
    device.enqueue(stream.get(), [&] {
      go.wait();
      std::ranges::copy(numbers(rank, 1000), input.begin());  // in place: the buffer is lent
    });
    device.watch_completion(stream.get(), [&output] { return static_cast<double>(output[999]); });
    CTensor from(input, RUEDA_F32);
    CTensor to(output, RUEDA_F32);
    from->device = to->device = kFakeDevice;
    rueda_op_options options = named("on device");
    options.stream = stream.get();
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    device.await_early_polls(before.polls_too_early + 1);
    expect(rueda_poll(handle) == 0, "the operation finished before its input was there");
    expect_code(rueda_wait(handle, 0.0), RUEDA_TIMEOUT, "wait before the input is there");
    go.count_down();
    expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    expect_sums(output, 2, "device tensor");
    expect(device.seen_at_completion(stream.get()) == static_cast<double>(sum_of_numbers(2, 999)),
           "the stream was marked before the output was written");
    rueda_tensor placed{};
    placed.struct_size = sizeof placed;
    expect_code(rueda_output(handle, 0, &placed), RUEDA_OK, "output");
    expect(placed.device == kFakeDevice && placed.data == output.data(), "the output is described as another");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
  const FakeDeviceCounts after = device.counts();
  CHECK(after.marks_at_enqueue - before.marks_at_enqueue == 2);
  CHECK(after.orders - before.orders == 2);
  CHECK(after.marks_at_completion - before.marks_at_completion == 2);
  CHECK(after.marks_alive == before.marks_alive);
}

TEST_CASE("outputs without a place are allocated on the device and freed with the handle") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}});
  FakeDevice& device = fake_device();
  const FakeDeviceCounts before = device.counts();
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::vector<float> input = numbers(rank, 10);
    CTensor from(input, RUEDA_F32);
    CTensor to(nullptr, RUEDA_F32, {10});
    from->device = to->device = kFakeDevice;
    rueda_op_options options = named("library's place");
    options.stream = stream.get();
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    expect_code(rueda_wait(handle, -1.0), RUEDA_OK, "wait");
    rueda_tensor placed{};
    placed.struct_size = sizeof placed;
    expect_code(rueda_output(handle, 0, &placed), RUEDA_OK, "output");
    const auto* sums = static_cast<const float*>(placed.data);
    expect_sums({sums, sums + 10}, 2, "library's place");
    expect(device.counts().memory_alive > before.memory_alive, "the output is not the device's memory");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
  CHECK(device.counts().memory_alive == before.memory_alive);
  CHECK(device.counts().marks_alive == before.marks_alive);
}

TEST_CASE("the caller's allocation callback is told the device, and without memory a sink on it stands in") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}});
  FakeDevice& device = fake_device();
  const FakeDeviceCounts before = device.counts();
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::vector<float> input = numbers(rank, 10);
    std::vector<float> place(10);
    struct Asked {
      float* place;
      int32_t device = -1;
    } asked{rank == 0 ? place.data() : nullptr};
    CTensor from(input, RUEDA_F32);
    CTensor to(nullptr, RUEDA_F32, {10});
    from->device = to->device = kFakeDevice;
    rueda_op_options options = named("caller's place");
    options.stream = stream.get();
    options.allocate_context = &asked;
    options.allocate = [](void* context, size_t, int32_t kind, int32_t, void*) {
      static_cast<Asked*>(context)->device = kind;
      return static_cast<void*>(static_cast<Asked*>(context)->place);
    };
    rueda_handle handle = 0;
    expect_code(rueda_allreduce_async(session, from.get(), to.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    expect_code(rueda_wait(handle, -1.0), rank == 0 ? RUEDA_OK : RUEDA_SYSTEM, "wait");
    expect(asked.device == kFakeDevice, "the callback was told another device");
    if (rank == 0) expect_sums(place, 2, "caller's place");
    expect_code(rueda_release(handle), RUEDA_OK, "release");
  });
  CHECK(device.counts().memory_alive == before.memory_alive);
  CHECK(device.counts().marks_alive == before.marks_alive);
}

TEST_CASE("input and output, and the members of a group, lie on one device") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}});
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> a = {1};
    std::vector<float> b = {2};
    const CTensor host(a, RUEDA_F32);
    CTensor on_device(b, RUEDA_F32);
    on_device->device = kFakeDevice;
    expect_code(rueda_allreduce(session, host.get(), on_device.get(), RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                "pair");
    const rueda_tensor group[2] = {*host.get(), *on_device.get()};
    expect_code(rueda_grouped_allreduce(session, 2, group, group, nullptr, RUEDA_SUM, nullptr), RUEDA_INVALID_ARGUMENT,
                "group");
  });
}

TEST_CASE("ranks whose tensors lie on different devices get one sentence, of every collective, cached and uncached") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}});
  std::vector<std::vector<std::string>> sentences(2);
  run_ranks(2, [&](rueda_session* session, int rank) {
    for (const Submission::Kind kind : kAllKinds) {
      if (kind == Submission::Kind::kBarrier) continue;
      const Submission usual{.kind = kind};
      Submission odd = usual;
      odd.device = kFakeDevice;
      const FakeStream stream;
      rueda_op_options options = named(name_of(kind));
      if (rank == 1) options.stream = stream.get();
      for (int i = 0; i < 2; ++i) {
        std::vector<double> memory(16, 1.0);
        rueda_handle handle = 0;
        expect_code(enqueue(session, rank == 1 ? odd : usual, memory.data(), options, &handle), RUEDA_OK, "enqueue");
        const Ending ending = finish(handle);
        expect(ending.code == RUEDA_MISMATCH, std::string(name_of(kind)) + ": " + ending.sentence);
        expect(ending.sentence.find("device differs: rank 0 (host") != std::string::npos &&
                   ending.sentence.find("sent device kind") != std::string::npos,
               ending.sentence);
        sentences[static_cast<size_t>(rank)].push_back(ending.sentence);
        const Ending again = run(session, usual, name_of(kind));  // and the next one goes by number
        expect(again.code == RUEDA_OK, again.sentence);
      }
    }
    expect_usable(session, "at the end");
  });
  CHECK(sentences[0].size() == 2 * (kAllKinds.size() - 1));
  CHECK(sentences[0] == sentences[1]);
}

TEST_CASE("a device mark whose operation was refused is freed") {
  const Variables variables(Values{{"RUEDA_PLUGINS", kTestPlugin}});
  FakeDevice& device = fake_device();
  const FakeDeviceCounts before = device.counts();
  run_ranks(2, [&](rueda_session* session, int rank) {
    const FakeStream stream;
    std::latch go(1);
    device.enqueue(stream.get(), [&go] { go.wait(); });
    std::vector<float> values = numbers(rank, 4);
    std::vector<float> again = values;
    CTensor tensor(values, RUEDA_F32);
    CTensor second(again, RUEDA_F32);
    tensor->device = second->device = kFakeDevice;
    rueda_op_options options = named("twice");
    options.stream = stream.get();
    rueda_handle handle = 0;
    rueda_handle refused = 0;
    expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
                "enqueue");
    expect_code(rueda_allreduce_async(session, second.get(), second.get(), RUEDA_SUM, &options, &refused),
                RUEDA_INVALID_ARGUMENT, "the name in flight");
    go.count_down();
    expect(finish(handle).code == RUEDA_OK, "the first one failed");
    expect_sums(values, 2, "the first one");
  });
  CHECK(device.counts().marks_alive == before.marks_alive);
}

TEST_CASE("rank: joins with the plug-ins of its environment", "[.]") {
  rueda_session* session = nullptr;
  const int32_t code = rueda_init(nullptr, &session);
  std::string sentence = rueda_last_error();
  std::ranges::replace(sentence, '\n', ' ');
  rank_report(std::string("init ") + rueda_error_name(code) + " " + sentence);
  rank_await();  // rank 0 serves the store: nobody leaves before all have heard
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("ranks with different plug-ins do not start, and are told who has which") {
  RankProcesses ranks({.size = 2, .body = "rank: joins with the plug-ins of its environment", .of_rank = [](int rank) {
                         return RankProcesses::Variables{{"RUEDA_PLUGINS", rank == 0 ? kTestPlugin : ""}};
                       }});
  for (int rank = 0; rank < 2; ++rank) {
    CHECK_THAT(ranks.await(rank, "init"), Contains("MISMATCH") && Contains("+test\" on rank 0"));
  }
  for (int rank = 0; rank < 2; ++rank) ranks.tell(rank, "go on");
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("the build's description says which plug-ins were found and why others were not") {
  const Variables variables(Values{{"RUEDA_MPI_PLUGIN", "/nowhere/librueda_mpi.so"}});
  const std::string text = rueda_build_info();
  CHECK_THAT(text, Contains("\"plugins\":[") && Contains("librueda_mpi.so does not exist"));
}

}  // namespace
}  // namespace rueda::test
