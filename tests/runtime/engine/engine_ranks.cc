#include "tests/runtime/engine/engine_ranks.h"

#include <stdexcept>
#include <thread>

#include "ops/data_plane.h"

namespace rueda::test {
namespace {

using namespace core;

constexpr std::chrono::minutes kPatience{3};

Identity identity_of(const EngineRanks::Options& options, int rank) {
  Identity identity;
  identity.rank = rank;
  identity.size = options.size;
  identity.local_size = options.size;
  identity.host = options.hosts.empty() ? "a" : options.hosts[static_cast<size_t>(rank)];
  identity.job = options.job;
  identity.key.present = true;
  identity.key.bytes.fill(7);
  identity.worker =
      options.workers.empty() ? "worker" + std::to_string(rank) : options.workers[static_cast<size_t>(rank)];
  return identity;
}

/// Keeps what was thrown first.
class FirstFailure {
 public:
  template <typename Body>
  void guard(Body&& body) {
    try {
      body();
    } catch (...) {
      const MutexLock lock(mutex_);
      if (first_ == nullptr) first_ = std::current_exception();
    }
  }
  void rethrow() {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  Mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

void require(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

void require_failure(const Status& status, Code code, const std::string& text) {
  require(status.code() == code,
          std::string("expected ") + code_name(code) + ", got " + code_name(status.code()) + ": " + status.sentence());
  require(status.sentence().find(text) != std::string::npos, "no \"" + text + "\" in: " + status.sentence());
}

std::shared_ptr<Engine> start_engine(const EngineRanks::Options& options, MemoryStore& store, int rank) {
  Settings settings = options.settings;
  if (options.of_rank) options.of_rank(rank, settings);
  auto formation = form_epoch(identity_of(options, rank), &store, settings, Deadline::after(kPatience));
  require(formation.ok(), formation.status().sentence());
  auto executor = make_executor(formation.value().plan.settings);
  auto verdicts = options.launcher ? options.launcher(rank) : nullptr;
  return Engine::start(std::move(formation).value(), std::move(executor), std::move(verdicts)).value();
}

void EngineRanks::run(const Options& options, const Body& body) {
  MemoryStore own_store;
  MemoryStore& store = options.store != nullptr ? *options.store : own_store;
  FirstFailure failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.size; ++rank) {
    threads.emplace_back([&, rank] {
      failure.guard([&] {
        const std::shared_ptr<Engine> engine = start_engine(options, store, rank);
        failure.guard([&] { body(*engine, rank); });
        engine->shutdown(Deadline::after(kPatience));
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();
}

std::shared_ptr<Operation> make_sum(Engine& engine, const Sum& sum) {
  OperationSpec spec;
  spec.callback = sum.callback;
  spec.announce = sum.announce;
  spec.allocate = sum.allocate;
  spec.more = sum.more;
  spec.timeout = sum.timeout;
  auto operation = std::make_shared<Operation>(Engine::operation_home(engine.shared_from_this()), std::move(spec),
                                               sum.tensors.size());
  for (size_t i = 0; i < sum.tensors.size(); ++i) {
    TensorPart& tensor = operation->tensors()[i];
    tensor.request.name = sum.tensors.size() > 1 ? sum.name + "." + std::to_string(i) : sum.name;
    tensor.request.set = sum.set;
    tensor.request.group = sum.tensors.size() > 1 ? 1 : 0;
    tensor.request.metadata.shape = {static_cast<int64_t>(sum.tensors[i]->size())};
    auto* data = reinterpret_cast<std::byte*>(sum.tensors[i]->data());
    tensor.slice = {data, sum.allocate ? nullptr : data, static_cast<int64_t>(sum.tensors[i]->size())};
  }
  return operation;
}

std::shared_ptr<Operation> start_sum(Engine& engine, const Sum& sum) {
  auto operation = make_sum(engine, sum);
  const Status entered = engine.submit(operation);
  require(entered.ok(), sum.name + " was refused: " + entered.sentence());
  return operation;
}

Status sum_now(Engine& engine, const std::string& name, std::vector<float>& values) {
  Status entered;
  return engine.submit_and_wait(make_sum(engine, {name, {&values}}), entered);
}

Status finish(Engine& engine, Operation& operation) { return engine.wait(operation, Deadline::never()); }

void require_usable(Engine& engine, const std::string& name) {
  std::vector<float> values = {static_cast<float>(engine.plan().rank)};
  const Status status = sum_now(engine, name, values);
  require(status.ok(), name + ": " + status.sentence());
  const int size = engine.plan().size;
  require(values[0] == static_cast<float>(size * (size - 1)) / 2, name + " gave " + std::to_string(values[0]));
}

}  // namespace rueda::test
