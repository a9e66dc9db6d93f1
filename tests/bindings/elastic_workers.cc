// The test writes "NUMBER COMMAND" to a worker and reads "NUMBER ANSWER".
#include "tests/bindings/elastic_workers.h"

#include <poll.h>
#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/bindings/operations.h"

namespace rueda::test {
namespace {

constexpr char kBody[] = "rank: a worker that does what it is told";
constexpr size_t kLarge = 100'000;

std::string said(int32_t code) {
  return code == RUEDA_OK ? "OK" : std::string(rueda_error_name(code)) + " " + rueda_last_error();
}

size_t entries(const char* folder) {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Entries(folder), Entries()));
}

/// One worker process: its session, and what it has in flight.
class Worker {
 public:
  Worker() {
    rank_report("begun");
    rueda_init_options options{};
    options.struct_size = sizeof options;
    options.wait_outside = std::getenv("TEST_WAITS") != nullptr ? 1 : 0;
    // Sets of the first plan's ranks, if the test wants some.
    const std::vector<int32_t> low = {0, 1};
    const std::vector<int32_t> high = {1, 2};
    const rueda_process_set sets[] = {{sizeof(rueda_process_set), low.data(), 2},
                                      {sizeof(rueda_process_set), high.data(), 2}};
    if (std::getenv("TEST_SETS") != nullptr) {
      options.process_sets = sets;
      options.process_set_count = 2;
    }
    const int32_t code = rueda_init(&options, &session_);
    rank_report("joined " + (code == RUEDA_OK ? place() : said(code)));
  }

  /// Does what it is told until the test has no more to say.
  void run() {
    for (std::string line = rank_await(); !line.empty(); line = rank_await()) {
      const size_t blank = line.find(' ');
      rank_report(line.substr(0, blank) + " " + obey(line.substr(blank + 1)));
    }
  }

 private:
  std::string obey(const std::string& command) {
    if (command == "sum") return sums();
    if (command == "reset") return reset();
    if (command.starts_with("reset to ")) return reset_to(std::stoll(command.substr(9)));
    if (command == "place") return place();
    if (command == "resources") {
      return std::to_string(entries("/proc/self/fd")) + " " + std::to_string(entries("/proc/self/task"));
    }
    if (command == "enqueue") return enqueue();
    if (command == "wait") return wait();
    if (command == "abort") return said(rueda_abort(session_, "the loss is\na NaN"));
    if (command == "membership") return membership();
    if (command == "readable") return readable();
    if (command == "sets") return sum_in(1) + ", " + sum_in(2);
    if (command == "reset twice") return reset_twice();
    if (command == "reset in a callback") return reset_in_callback();
    if (command == "names") return names();
    if (command == "memory") return memory();
    if (command == "over") return over();
    if (command == "storm") return storm();
    if (command == "succeed") return await_success();
    if (command == "calm") return calm();
    if (command == "recover") return recover();
    if (command == "bye") return said(rueda_shutdown(session_));
    return "unknown command " + command;
  }

  /// "plan 2 rank 0 of 3 worker 1 state 1", and " waits" if it does
  std::string place() const {
    rueda_membership_info info{};
    info.struct_size = sizeof info;
    const int32_t code = rueda_membership(session_, &info);
    if (code != RUEDA_OK) return said(code);
    if (rueda_local_rank(session_) != rueda_worker_id(session_)) return "another local rank";
    return "plan " + std::to_string(info.plan) + " rank " + std::to_string(rueda_rank(session_)) + " of " +
           std::to_string(rueda_size(session_)) + " worker " + std::to_string(rueda_worker_id(session_)) + " state " +
           std::to_string(info.holds_state) + (info.waits != 0 ? " waits" : "");
  }

  std::string sums() {
    for (const size_t count : {size_t{1}, kLarge}) {
      std::vector<float> values(count, static_cast<float>(rueda_worker_id(session_)));
      const int32_t code = sum(session_, values, count == 1 ? "small" : "large");
      if (code != RUEDA_OK) return said(code);
      if (values.front() != values.back()) return "an uneven sum";
      result_ = values.front();
    }
    return "sum " + std::to_string(static_cast<int>(result_));
  }

  std::string sum_in(int32_t set) {
    std::vector<float> values = {static_cast<float>(rueda_worker_id(session_))};
    rueda_op_options options = named("in a set");
    options.process_set = set;
    const CTensor tensor(values, RUEDA_F32);
    const int32_t code = rueda_allreduce(session_, tensor.get(), tensor.get(), RUEDA_SUM, &options);
    return code == RUEDA_OK ? std::to_string(static_cast<int>(values[0])) : said(code);
  }

  std::string reset() {
    const int32_t code = rueda_reset(session_, nullptr);
    return code == RUEDA_OK ? place() : said(code);
  }

  /// Resets until it is in a plan with this number or a later one.
  std::string reset_to(int64_t plan) {
    rueda_membership_info info{};
    info.struct_size = sizeof info;
    do {
      const int32_t code = rueda_reset(session_, nullptr);
      if (code != RUEDA_OK) return said(code);
      expect_code(rueda_membership(session_, &info), RUEDA_OK, "membership");
    } while (info.plan < plan);
    return place();
  }

  /// Waits for what is in flight, resets, and adds once. Says when each was done, in microseconds of the machine's
  /// clock.
  std::string recover() {
    const auto now = [] {
      const auto since = core::SteadyClock::now().time_since_epoch();
      return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
    };
    static_cast<void>(wait());
    const std::string ended = now();
    const int32_t code = rueda_reset(session_, nullptr);
    if (code != RUEDA_OK) return said(code);
    const std::string joined = now();
    std::vector<float> value = {1};
    const int32_t added = sum(session_, value, "first");
    return added == RUEDA_OK ? ended + " " + joined + " " + now() : said(added);
  }

  /// Threads that submit, wait and ask without a pause, whatever comes of it.
  std::string storm() {
    for (int i = 0; i < 4; ++i) {
      threads_.emplace_back([this, i] {
        const std::string name = "storm" + std::to_string(i);
        for (int turn = 0; !calm_.load() || rueda_session_status(session_) == RUEDA_OK; ++turn) {
          std::vector<float> values(turn % 8 == 7 ? kLarge : 3, 1.0f);
          const rueda_handle handle = start_sum(session_, values, name.c_str());
          static_cast<void>(rueda_size(session_));
          if (handle == 0) continue;
          if (finish(handle).code == RUEDA_OK) done_.fetch_add(1);
        }
      });
    }
    return "OK";
  }

  /// Waits until one of the threads' operations succeeds.
  std::string await_success() {
    const int before = done_.load();
    const core::Deadline deadline = patience();
    while (done_.load() == before && !deadline.passed()) std::this_thread::yield();
    return done_.load() > before ? "OK" : "none succeeded";
  }

  /// The threads stop once the plan is over. Returns how many of their operations succeeded.
  std::string calm() {
    calm_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return done_.load() > 0 ? "some succeeded" : "none succeeded";
  }

  /// Waits until the session takes no more operations.
  std::string over() {
    const core::Deadline deadline = patience();
    while (rueda_session_status(session_) == RUEDA_OK && !deadline.passed()) std::this_thread::yield();
    return said(rueda_session_status(session_));
  }

  std::string enqueue() {
    auto values = std::make_unique<std::vector<float>>(4, 1.0f);
    const std::string name = "flying" + std::to_string(flying_.size());
    const rueda_handle handle = start_sum(session_, *values, name.c_str());
    if (handle == 0) return said(rueda_last_error_code());
    flying_[handle] = std::move(values);
    return "OK";
  }

  /// Ends of all that was enqueued, each once.
  std::string wait() {
    std::string ends;
    for (const auto& [handle, values] : flying_) {
      const Ending ending = finish(handle);
      ends += std::string(ends.empty() ? "" : " | ") + rueda_error_name(ending.code) + " " + ending.sentence;
    }
    flying_.clear();
    return ends;
  }

  std::string membership() {
    rueda_membership_info info{};
    info.struct_size = sizeof info;
    const int32_t code = rueda_membership(session_, &info);
    if (code != RUEDA_OK) return said(code);
    return "notices " + std::to_string(info.notices) + " plan " + std::to_string(info.pending_plan) + " changes " +
           std::to_string(info.pending) + " newcomers " + std::to_string(info.newcomers) + " removal " +
           (info.removal_seconds > 0 ? "coming" : "none");
  }

  /// Waits for the descriptor of notices.
  std::string readable() {
    int32_t fd = -1;
    const int32_t code = rueda_membership_fd(session_, &fd);
    if (code != RUEDA_OK) return said(code);
    pollfd notice{fd, POLLIN, 0};
    return ::poll(&notice, 1, 120'000) == 1 ? "readable" : "silent";
  }

  std::string reset_twice() {
    int32_t codes[2] = {};
    std::string sentences[2];
    const auto one = [&](int i) {
      codes[i] = rueda_reset(session_, nullptr);
      sentences[i] = said(codes[i]);
    };
    std::thread other(one, 1);
    one(0);
    other.join();
    // One of them may have come after the other was done, and waited for a plan that the test has published as well.
    return sentences[0] + " | " + sentences[1];
  }

  std::string reset_in_callback() {
    struct Told {
      rueda_session* session;
      std::string sentence;
    } told{session_, {}};
    std::vector<float> values = {1};
    rueda_op_options options = named("calls back");
    options.callback_context = &told;
    options.callback = [](void* context, rueda_handle, int32_t) {
      auto* const self = static_cast<Told*>(context);
      self->sentence = said(rueda_reset(self->session, nullptr));
    };
    const rueda_handle handle = start_sum(session_, values, options);
    if (handle == 0) return said(rueda_last_error_code());
    static_cast<void>(finish(handle));
    static_cast<void>(rueda_shutdown(session_));  // after it, the callback has run
    return told.sentence;
  }

  /// A sum by a number that was drawn before the first reset.
  std::string names() {
    if (name_ == 0) {
      int64_t other = 0;
      for (int i = 0; i < static_cast<int>(rueda_worker_id(session_)); ++i) {
        expect_code(rueda_intern(session_, ("unused" + std::to_string(i)).c_str(), &other), RUEDA_OK, "intern");
      }
      expect_code(rueda_intern(session_, "kept", &name_), RUEDA_OK, "intern");
    }
    std::vector<float> values = {1};
    rueda_op_options options = named(nullptr);
    options.name_id = name_;
    const CTensor tensor(values, RUEDA_F32);
    const int32_t code = rueda_allreduce(session_, tensor.get(), tensor.get(), RUEDA_SUM, &options);
    return code == RUEDA_OK ? std::to_string(static_cast<int>(values[0])) : said(code);
  }

  /// A sum in memory that was allocated before the first reset.
  std::string memory() {
    if (memory_.data == nullptr) {
      memory_.struct_size = sizeof memory_;
      expect_code(rueda_memory_allocate(session_, kLarge * sizeof(float), &memory_), RUEDA_OK, "allocate");
    }
    auto* const values = static_cast<float*>(memory_.data);
    std::fill(values, values + kLarge, 1.0f);
    const CTensor tensor(values, RUEDA_F32, {static_cast<int64_t>(kLarge)});
    const rueda_op_options options = named("in shared memory");
    const int32_t code = rueda_allreduce(session_, tensor.get(), tensor.get(), RUEDA_SUM, &options);
    if (code != RUEDA_OK) return said(code);
    return std::to_string(static_cast<int>(values[0])) + " " + std::to_string(static_cast<int>(values[kLarge - 1]));
  }

  rueda_session* session_ = nullptr;
  float result_ = 0;
  int64_t name_ = 0;
  rueda_memory memory_{};
  std::map<rueda_handle, std::unique_ptr<std::vector<float>>> flying_;
  std::vector<std::thread> threads_;
  std::atomic<bool> calm_{false};
  std::atomic<int> done_{0};
};

}  // namespace

ElasticWorkers::ElasticWorkers(int count, RankProcesses::Variables variables)
    : variables_(std::move(variables)), count_(count), processes_([&] {
        RankProcesses::Options all = options(0, count);
        all.size = count;
        all.of_rank = [this, count](int id) { return launcher_.variables(id, count); };
        return all;
      }()) {}

RankProcesses::Options ElasticWorkers::options(int id, int size) const {
  RankProcesses::Options options;
  options.size = 1;
  options.body = kBody;
  options.variables = variables_;
  options.key = launcher_.key();
  options.of_rank = [this, id, size](int) { return launcher_.variables(id, size); };
  return options;
}

int ElasticWorkers::start_newcomer() {
  processes_.start_another(options(count_, static_cast<int>(count_) + 1));
  return count_++;
}

void ElasticWorkers::await_joined(const std::vector<int>& ids) {
  for (const int id : ids) {
    const std::string where = processes_.await(id, "joined");
    INFO("worker " << id << ": " << where);
    REQUIRE(where.rfind("plan ", 0) == 0);
  }
}

int ElasticWorkers::begin(int id, const std::string& what) {
  processes_.tell(id, std::to_string(++asked_) + " " + what);
  return asked_;
}

std::string ElasticWorkers::answer(int id, int number) { return processes_.await(id, std::to_string(number)); }

std::vector<std::string> ElasticWorkers::all(const std::vector<int>& ids, const std::string& what) {
  std::vector<int> numbers;
  for (const int id : ids) numbers.push_back(begin(id, what));
  std::vector<std::string> answers;
  for (size_t i = 0; i < ids.size(); ++i) answers.push_back(answer(ids[i], numbers[i]));
  return answers;
}

void ElasticWorkers::kill(int id) { processes_.signal(id, SIGKILL); }

void ElasticWorkers::expect_sums(const std::vector<int>& ids) {
  const int sum = std::accumulate(ids.begin(), ids.end(), 0);
  for (const std::string& said : all(ids, "sum")) CHECK(said == "sum " + std::to_string(sum));
}

void ElasticWorkers::expect_good_end(const std::vector<int>& ids, const std::vector<int>& killed) {
  for (const std::string& said : all(ids, "bye")) CHECK(said == "OK");
  for (const int id : ids) processes_.tell(id, "");
  const std::vector<RankOutcome> outcomes = processes_.finish();
  for (size_t id = 0; id < outcomes.size(); ++id) {
    const bool dead = std::find(killed.begin(), killed.end(), static_cast<int>(id)) != killed.end();
    INFO("worker " << id << ": " << outcomes[id].output);
    CHECK(outcomes[id].signal == (dead ? SIGKILL : 0));
    if (!dead) CHECK(outcomes[id].exit_code == 0);
  }
}

}  // namespace rueda::test

TEST_CASE("rank: a worker that does what it is told", "[.]") { rueda::test::Worker().run(); }
